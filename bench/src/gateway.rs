//! Starts the gateway under test on an empty data directory, gives it a key and a route to the mock, and starts it
//! again.
//!
//! This module knows only the gateway's binary, its environment and its HTTP API.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    child::{PROXY_CORE, Placement, Running, free_addresses},
    http_client::Call,
    procfs,
    stats::median,
};

const USERNAME: &str = "bench";
const COOKIE: &str = "svc_session";

const READY_WITHIN: Duration = Duration::from_secs(30);
/// Longest wait for a route to the engine. The gateway may check the engine's health before it routes to it.
const ROUTED_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// Interval between checks at a start, short enough for one of some ten milliseconds.
const START_POLL: Duration = Duration::from_millis(1);
/// Number of timed starts on an existing database; the median counts.
const N_STARTS: usize = 3;
/// Time from the start until the memory of the idle gateway is read. No requests are sent meanwhile.
const IDLE_AFTER: Duration = Duration::from_secs(3);

/// The gateway, ready to be loaded.
pub(crate) struct Gateway {
    pub(crate) running: Running,
    pub(crate) addr: SocketAddr,
    pub(crate) key: String,
    /// Time from the start of the process on an existing database to the first `/health` 200.
    pub(crate) ready_ms: f64,
    pub(crate) idle_rss_kib: u64,
    /// How to start it again.
    pub(crate) launch: Launch,
}

/// Starts and sets up the gateway so that it can be measured.
pub(crate) async fn start(
    binary: &Path,
    dir: &Path,
    placement: Placement,
    engine: SocketAddr,
) -> Result<Gateway> {
    let launch = Launch::prepare(binary, dir, placement)?;
    let mut first = launch.spawn()?;
    Call::get(launch.addr, "/readyz")
        .wait_for_200(&mut first, READY_WITHIN, POLL)
        .await
        .context("gateway, first start")?;
    let key = provision(launch.addr, &launch.password, engine)
        .await
        .with_context(|| format!("gateway, set-up; its log ends with:\n{}", first.log_end()))?;
    wait_for_route(launch.addr, &key, &mut first).await.context("gateway, first request")?;
    first.stop().context("gateway, stop after set-up")?;

    let mut starts_ms = Vec::new();
    let mut running = launch.spawn_until_healthy(&mut starts_ms).await?;
    for _ in 1..N_STARTS {
        running.stop().context("gateway, stop after a start")?;
        running = launch.spawn_until_healthy(&mut starts_ms).await?;
    }
    sleep(IDLE_AFTER).await;
    running.check()?;
    let idle_rss_kib = procfs::rss_kib(running.pid())?;
    wait_for_route(launch.addr, &key, &mut running).await.context("gateway, request after restart")?;
    let ready_ms = median(starts_ms).context("no start was measured")?;
    Ok(Gateway { running, addr: launch.addr, key, ready_ms, idle_rss_kib, launch })
}

/// Parameters of starting the gateway in a folder; its data are in `gantry/data` there.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    binary: PathBuf,
    dir: PathBuf,
    placement: Placement,
    pub(crate) addr: SocketAddr,
    metrics: SocketAddr,
    password: String,
    /// `REDIS_URL`.
    pub(crate) redis_url: Option<String>,
    /// `DATABASE_URL`.
    pub(crate) database_url: Option<String>,
    /// The words of another program in front of the gateway's.
    pub(crate) wrapper: Vec<&'static str>,
}

impl Launch {
    pub(crate) fn prepare(binary: &Path, dir: &Path, placement: Placement) -> Result<Self> {
        let binary =
            binary.canonicalize().with_context(|| format!("no gateway at `{}`", binary.display()))?;
        let dir = dir.join("gantry");
        fs::create_dir_all(dir.join("data"))?;
        let [addr, metrics] = free_addresses()?;
        // The password has letters of both cases, a sign and digits, to meet any password rules.
        let password = format!("Bench-{:032x}", rand::random::<u128>());
        Ok(Self {
            binary,
            dir,
            placement,
            addr,
            metrics,
            password,
            redis_url: None,
            database_url: None,
            wrapper: Vec::new(),
        })
    }

    pub(crate) fn spawn(&self) -> Result<Running> {
        let program = self.wrapper.iter().map(Path::new).chain([self.binary.as_path()]);
        let words: Vec<&Path> = program.collect();
        let mut command = self.placement.command(PROXY_CORE, words[0]);
        command
            .args(&words[1..])
            .arg("serve")
            .current_dir(&self.dir)
            .env("HOME", &self.dir)
            .env("GATEWAY_LISTEN", self.addr.to_string())
            .env("METRICS_LISTEN", self.metrics.to_string())
            .env("DATA_DIR", self.dir.join("data"))
            .env("CONTAINER_RUNTIME", "docker")
            .env("ADMIN_BOOTSTRAP_USERNAME", USERNAME)
            .env("ADMIN_BOOTSTRAP_PASSWORD", &self.password)
            // One thread, because nginx has one worker.
            .env("DATAPLANE_THREADS", "1")
            .env("RUST_LOG", "warn");
        if let Some(url) = &self.redis_url {
            command.env("REDIS_URL", url);
        }
        if let Some(url) = &self.database_url {
            command.env("DATABASE_URL", url);
        }
        Running::start("gantry", &mut command, &self.dir)
    }

    /// Signs in as the owner and returns the cookie.
    pub(crate) async fn login(&self) -> Result<String> {
        login(self.addr, &self.password).await
    }

    /// Starts the gateway and waits for the first `/health` 200. Adds the time that took to `starts_ms`.
    async fn spawn_until_healthy(&self, starts_ms: &mut Vec<f64>) -> Result<Running> {
        let began = Instant::now();
        let mut running = self.spawn()?;
        Call::get(self.addr, "/health")
            .wait_for_200(&mut running, READY_WITHIN, START_POLL)
            .await
            .context("gateway, start on an existing database")?;
        starts_ms.push(began.elapsed().as_secs_f64() * 1e3);
        Ok(running)
    }
}

/// Logs in and returns the cookie.
async fn login(gateway: SocketAddr, password: &str) -> Result<String> {
    let credentials = json!({"username": USERNAME, "password": password});
    let login = Call::post(gateway, "/auth/login", credentials).expect_success().await.context("login")?;
    let mut cookies =
        login.headers.get_all(http::header::SET_COOKIE).iter().filter_map(|it| it.to_str().ok());
    let session = cookies.find_map(|it| it.split(';').next().filter(|pair| pair.starts_with(COOKIE)));
    Ok(session.with_context(|| format!("login set no cookie `{COOKIE}`"))?.to_owned())
}

/// Logs in, makes a key and routes model `m` to `engine`; returns the key.
async fn provision(gateway: SocketAddr, password: &str, engine: SocketAddr) -> Result<String> {
    let session = login(gateway, password).await?;
    let session = session.as_str();
    let wanted = json!({"name": "bench", "scopes": "chat,completions,embeddings"});
    let key = make_key(gateway, session, wanted).await?;

    let route = json!({"served_name": "m", "url": format!("http://{engine}"), "task": "generate"});
    let call = Call { cookie: Some(session), ..Call::post(gateway, "/admin/models/registry", route) };
    call.expect_success().await.context("register the mock engine")?;
    Ok(key)
}

/// Creates a key and returns its token.
async fn make_key(gateway: SocketAddr, session: &str, wanted: Value) -> Result<String> {
    let call = Call { cookie: Some(session), ..Call::post(gateway, "/admin/keys", wanted) };
    let created = call.expect_success().await.context("create a key")?.json()?;
    Ok(created["token"].as_str().context("create a key: the answer has no `token`")?.to_owned())
}

/// Starts a gateway in front of `engine`, with a default key and one that is made with `settings`.
pub(crate) async fn start_with_keys(
    launch: &Launch,
    engine: SocketAddr,
    settings: Value,
) -> Result<(Running, [String; 2])> {
    let mut running = launch.spawn()?;
    let ready = Call::get(launch.addr, "/readyz");
    ready.wait_for_200(&mut running, READY_WITHIN, POLL).await.context("gateway, start")?;
    let plain = provision(launch.addr, &launch.password, engine).await?;
    let session = launch.login().await?;
    let made = make_key(launch.addr, &session, settings).await?;
    for key in [&plain, &made] {
        wait_for_route(launch.addr, key, &mut running).await.context("gateway, first request")?;
    }
    Ok((running, [plain, made]))
}

/// Waits until the gateway answers a chat of this key.
pub(crate) async fn wait_for_route(gateway: SocketAddr, key: &str, running: &mut Running) -> Result<()> {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8});
    let call = Call { bearer: Some(key), ..Call::post(gateway, "/v1/chat/completions", body) };
    call.wait_for_200(running, ROUTED_WITHIN, POLL).await
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::{net::TcpListener, task::JoinSet};

    use super::*;

    /// Answers like the parts of the gateway's admin API that the set-up uses.
    async fn admin_api(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().path().to_owned();
        let has_session = request.headers().get("cookie").is_some_and(|it| it == "svc_session=abc");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let response = Response::builder();
        let (response, text) = match path.as_str() {
            "/auth/login" if body["password"] == "right" => {
                let response = response.header("set-cookie", "other=1; Path=/");
                (response.header("set-cookie", "svc_session=abc; HttpOnly; Path=/"), "{}")
            }
            "/auth/login" => (response.status(401), r#"{"detail":"bad credentials"}"#),
            "/admin/keys" if has_session => (response.status(201), r#"{"token":"key-1"}"#),
            "/admin/models/registry" if has_session && body["url"] == "http://127.0.0.1:9" => {
                (response, r#"{"status":"ok"}"#)
            }
            _ => (response.status(403), "{}"),
        };
        Ok(response.body(Full::new(Bytes::from(text))).unwrap())
    }

    async fn with_admin_api() -> (SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(admin_api));
                serving.await.ok();
            }
        });
        (addr, tasks)
    }

    #[tokio::test]
    async fn provisioning_returns_the_key() {
        let (addr, _tasks) = with_admin_api().await;
        let engine = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(provision(addr, "right", engine).await.unwrap(), "key-1");
    }

    #[tokio::test]
    async fn a_failed_step_is_named_and_quoted() {
        let (addr, _tasks) = with_admin_api().await;
        let engine = SocketAddr::from(([127, 0, 0, 1], 9));
        let told = format!("{:#}", provision(addr, "wrong", engine).await.unwrap_err());
        assert_eq!(
            told,
            r#"login: POST /auth/login answered 401 Unauthorized: {"detail":"bad credentials"}"#
        );
    }
}
