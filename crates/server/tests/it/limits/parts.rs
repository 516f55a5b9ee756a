//! What these tests stand on: an engine without a container, a Redis of their own, and the metrics.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use gantry_sim::Config;
use gantry_testkit::{Answer, Client, Gateway, Options, eventually, skip};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longest time for something that happens in the background.
pub(super) const SOON: Duration = gantry_testkit::PATIENCE;

/// For a gateway with the Redis at `url`. A machine that is busy is no outage.
pub(super) fn with_redis(url: &str) -> Options {
    Options::default().env("REDIS_URL", url).env("REDIS_TIMEOUT_MS", "20000")
}

/// A simulated engine in this process, routed to as `served_name`.
pub(super) async fn engine(owner: &Client, served_name: &str, options: &str) {
    let arguments = format!("sim:m --served-model-name {served_name} {options}");
    let words: Vec<_> = arguments.split_whitespace().map(str::to_owned).collect();
    let config = Config::parse(&words, &gantry_sim::Env::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    drop(tokio::spawn(gantry_sim::serve(listener, config, CancellationToken::new())));
    let entry = json!({ "served_name": served_name, "url": url });
    owner.post("/admin/models/registry", &entry).await.expect(201);
}

pub(super) fn number(answer: &Answer, header: &str) -> i64 {
    let value = answer.header(header).unwrap_or_else(|| panic!("no {header}: {answer:?}"));
    value.parse().unwrap()
}

/// A value of `/metrics`, 0 while there is none.
pub(super) async fn metric(gateway: &Gateway, name: &str) -> i64 {
    let log = gateway.log();
    // The last one, after a restart.
    let addr = log.lines().filter_map(|line| line.split_once("metrics addr=")).next_back();
    let addr = addr.expect("the log says where the metrics are").1.trim().to_owned();
    let text = Client::new(&format!("http://{addr}")).get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |it| it.parse().unwrap())
}

/// Waits until the metric is `value`.
pub(super) async fn metric_is(gateway: &Gateway, name: &str, value: i64) {
    eventually(&format!("{name} {value}"), SOON, async || {
        (metric(gateway, name).await == value).then_some(())
    })
    .await;
}

/// A Redis server of one test, on a socket in a folder; ends with this value.
pub(super) struct Redis {
    dir: TempDir,
    child: Child,
    arguments: Vec<String>,
}

impl Redis {
    /// `None` is noted as skipped.
    pub(super) async fn start(test: &str) -> Option<Self> {
        Self::start_in(TempDir::new().unwrap(), &[], test).await
    }

    /// With more arguments, in a folder that may hold what they name.
    pub(super) async fn start_in(dir: TempDir, arguments: &[&str], test: &str) -> Option<Self> {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let Some(child) = spawn(&dir, &arguments) else {
            skip(test, "redis-server is not installed");
            return None;
        };
        let redis = Self { dir, child, arguments };
        redis.ready().await;
        Some(redis)
    }

    /// What it answers to commands, one a line, in the form of its protocol.
    pub(super) fn tell(&self, commands: &[&str]) -> Vec<String> {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
        let answer = |command: &&str| {
            stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
            answers.next().unwrap().unwrap()
        };
        commands.iter().map(answer).collect()
    }

    pub(super) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    async fn ready(&self) {
        let path = self.socket();
        eventually("Redis listens", SOON, async || UnixStream::connect(&path).ok()).await;
    }

    /// SIGSTOP: it accepts connections, and says nothing any more.
    pub(super) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(super) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts again, empty.
    pub(super) async fn restart(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        self.child = spawn(&self.dir, &self.arguments).unwrap();
        self.ready().await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &TempDir, arguments: &[String]) -> Option<Child> {
    Command::new("redis-server")
        .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"])
        .args(arguments)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}
