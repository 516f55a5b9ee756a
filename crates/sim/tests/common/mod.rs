//! A running simulator and a client for it.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use gantry_sim::{Config, Env, Exit};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) const KEY: &str = "sk-test";
/// Longest wait for something that takes milliseconds on an idle machine, as in `gantry_testkit`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn parse(line: &str) -> Result<Config, Exit> {
    Config::parse(&words(line), &Env::new())
}

/// A simulator on a port of its own.
pub(crate) struct Sim {
    pub(crate) address: String,
    pub(crate) stop: CancellationToken,
    served: JoinSet<i32>,
}

/// An answer read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.to_str().unwrap())
    }
}

impl Sim {
    pub(crate) async fn start(line: &str) -> Self {
        let config = parse(line).unwrap_or_else(|exit| panic!("{}", exit.stderr));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let stop = CancellationToken::new();
        let mut served = JoinSet::new();
        served.spawn(gantry_sim::serve(listener, config, stop.clone()));
        Self { address, stop, served }
    }

    /// The exit code, once the simulator ends by itself.
    pub(crate) async fn code(mut self) -> i32 {
        let ended = tokio::time::timeout(PATIENCE, self.served.join_next()).await;
        ended.unwrap_or_else(|_| panic!("it does not end by itself")).unwrap().unwrap()
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut connection = Connection::open(&self.address).await;
        connection.ask(method, path, headers, body).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("authorization", &format!("Bearer {KEY}"))], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[("authorization", &format!("Bearer {KEY}"))], &body.to_string()).await
    }

    /// The simulator's own count of `name`.
    pub(crate) async fn stat(&self, name: &str) -> u64 {
        self.get("/sim/stats").await.json()[name].as_u64().unwrap()
    }

    /// Waits until a count has a value.
    pub(crate) async fn until(&self, name: &str, wanted: u64) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.stat(name).await;
            if now == wanted {
                return;
            }
            assert!(Instant::now() < end, "`{name}` is {now}, not {wanted}");
            tokio::task::yield_now().await;
        }
    }
}

/// One client connection; dropping it closes it.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    driver: JoinSet<()>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Self { sender, driver }
    }

    pub(crate) fn request(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(path).header("host", "sim");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
    }

    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, hyper::Error> {
        let (parts, body) =
            self.sender.send_request(Self::request(method, path, headers, body)).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}
