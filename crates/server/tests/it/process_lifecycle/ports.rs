//! Somebody else on an engine's port gets neither a key nor a prompt.

use std::{
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use gantry_testkit::{Gateway, Managed, Options, PATIENCE, eventually, kill_process, simulated};
use serde_json::json;

use super::{process, program, supervisor};
use crate::support::start;

/// Answers like an engine that is ready, and prints what it is sent.
const SQUATTER: &str = r#"use IO::Socket::INET; $| = 1; $SIG{PIPE} = "IGNORE";
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 9, ReuseAddr => 1) or exit 1;
print "bound\n";
while (my $c = $s->accept) {
  my $head = ""; sysread($c, $head, 65536); $head =~ s/\s+/ /g; print "got [$head]\n";
  my $body = '{"object":"list","data":[{"id":"m"}],"choices":[{"message":{"content":"mine"}}]}';
  print $c "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " . length($body) . "\r\n\r\n$body";
  close $c;
}"#;

/// A program of another user that listens on a port.
struct Squatter {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Squatter {
    async fn on(port: i64) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "perl", "-e", SQUATTER]);
        command.arg(port.to_string()).current_dir("/").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&said);
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|it| to.lock().unwrap().push(it)));
        let it = Self { child, said };
        eventually("the port is taken", PATIENCE, async || it.said().first().map(drop)).await;
        it
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// It was connected to, and nothing was sent.
    fn learnt_nothing(&self) {
        let said = self.said();
        assert!(said.iter().skip(1).all(|it| it == "got []"), "{said:?}");
    }
}

impl Drop for Squatter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether there can be a program of another user.
fn can(test: &str) -> bool {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let there = |it: &str| Command::new(it).arg("--version").output().is_ok();
    if root && there("setpriv") && there("perl") {
        return true;
    }
    gantry_testkit::skip(test, "only root can start programs of other users (with `setpriv` and `perl`)");
    false
}

fn port(gateway: &Gateway, model: &Managed) -> i64 {
    gateway.engine_state(&model.container).unwrap()["port"].as_i64().unwrap()
}

#[tokio::test]
async fn a_port_that_is_taken_before_the_engine_listens_is_sent_nothing() {
    if !can("process_lifecycle: a port that is taken before the engine listens") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Engines import libraries for many seconds before they listen.
    let engine =
        program(&dir, "vllm", "case \"$*\" in *--version*) echo 0.32.0; exit;; esac; exec sleep 600");
    let gateway = start(Options::processes().env("PRIMARY_ENGINE_COMMAND", engine.to_str().unwrap())).await;
    let owner = gateway.owner().await;
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "device": "cpu" });
    let model = Managed::create(&owner, &body).await;
    model.start(&owner).await;
    model.reaches(&owner, "loading").await;
    let squatter = Squatter::on(port(&gateway, &model)).await;
    // Several probes.
    eventually("it is probed", PATIENCE, async || (squatter.said().len() > 3).then_some(())).await;
    squatter.learnt_nothing();
    assert_eq!(model.record(&owner).await["state"], "loading");
    let log = gateway.log();
    assert!(log.contains("another user's program is at an engine's port"), "{log}");
}

#[tokio::test]
async fn a_port_that_is_taken_after_the_engine_died_is_sent_nothing() {
    if !can("process_lifecycle: a port that is taken after the engine died") {
        return;
    }
    let quiet = Options::processes().env("HEALTH_POLL_SEC", "3600").env("MODEL_RECONCILE_SEC", "3600");
    let gateway = start(quiet).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    assert_eq!(owner.chat("m").await.status, 200);
    let (engine, shim, port) =
        (process(&gateway, &model).0, supervisor(&gateway, &model), port(&gateway, &model));
    // The supervisor, which would notice the engine's end, is suspended (SIGSTOP). Meanwhile the gateway takes the
    // model for running.
    let signal = |name: &str| Command::new("kill").args([name, &shim.to_string()]).status().unwrap();
    assert!(signal("-STOP").success());
    kill_process(engine);
    let squatter = Squatter::on(port).await;
    let answer = owner.chat("m").await;
    assert_eq!((answer.status, answer.code()), (502, "model_unavailable"), "{answer:?}");
    let tested = owner.post(&model.path("test"), &json!({})).await;
    assert!(!tested.text.contains("mine"), "{tested:?}");
    eventually("it was connected to", PATIENCE, async || (squatter.said().len() > 1).then_some(())).await;
    squatter.learnt_nothing();
    assert!(signal("-CONT").success());
}
