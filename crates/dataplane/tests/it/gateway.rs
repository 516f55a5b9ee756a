//! A data plane with a catalog, and the rows that it wrote.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt;
use gantry_dataplane::{
    Catalog, Config, DataPlane, KeyEntry, Route, RouteTarget, SessionEntry, Shared, Upstream,
    breaker::{self, Breaker},
    limits::{KeyState, Refusals},
    spool::Reader,
};
use gantry_domain::{
    Clock, KeyId, OrgId, Timestamp, UserId,
    key::{self, Scopes},
    model::{State, Task},
    net::IpList,
    usage::UsageRow,
    web::Web,
};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use tempfile::TempDir;

use crate::{client::Client, engine::PATIENCE};

pub(crate) const KEY: &str = "gty_full";
/// Cookie of user 5, see [`session`].
pub(crate) const COOKIE: &str = "svc_session=abc.good";

pub(crate) struct Gateway {
    pub(crate) plane: Option<DataPlane>,
    pub(crate) addr: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    dir: TempDir,
}

pub(crate) fn key_entry(id: i64) -> KeyEntry {
    KeyEntry {
        id: KeyId(id),
        prefix: "gty_abcdefgh".into(),
        user_id: Some(UserId(3)),
        org_id: OrgId(2),
        scopes: Scopes::ALL,
        models: None,
        ip_allowlist: IpList::default(),
        expires_at: None,
        charges: None,
        refusals: Refusals::default(),
        state: Arc::new(KeyState::new(KeyId(id))),
    }
}

pub(crate) fn route(name: &str, task: Task, target: RouteTarget) -> Route {
    Route {
        served_name: name.into(),
        task,
        engine: None,
        upstream_model: None,
        simulator: false,
        target,
        request_timeout: Duration::from_mins(10),
        stream_idle_timeout: Duration::from_mins(5),
        created: Timestamp(1_700_000_000_000),
        adapter_of: None,
        max_model_len: Some(4096),
        request_defaults: None,
        stats: Arc::default(),
    }
}

pub(crate) fn upstream(addr: SocketAddr) -> Arc<Upstream> {
    let breaker = Breaker::new(breaker::Settings { failures: 5, cooldown: Duration::from_secs(30) });
    Arc::new(Upstream::new(1, &format!("http://{addr}"), Some("internal"), Arc::new(breaker)).unwrap())
}

/// Models `m` (up), `e` (embeddings, up), `down`, `loading`, `failed`; keys by their token.
pub(crate) fn catalog(engine: SocketAddr, keys: Vec<(&str, KeyEntry)>) -> Catalog {
    let up = upstream(engine);
    let down = |state| RouteTarget::Down { state };
    let routes = [
        route("m", Task::Generate, RouteTarget::Up(Arc::clone(&up))),
        route("org/m", Task::Generate, RouteTarget::Up(Arc::clone(&up))),
        route("e", Task::Embed, RouteTarget::Up(up)),
        route("down", Task::Generate, down(State::Stopped)),
        route("loading", Task::Generate, down(State::Loading)),
        route("failed", Task::Generate, down(State::Failed)),
    ];
    let hashed = |(token, entry): (&str, KeyEntry)| (key::hash(token.as_bytes()), Arc::new(entry));
    let session = SessionEntry {
        refusals: Refusals::default(),
        models: None,
        user_id: UserId(5),
        org_id: OrgId(2),
        created_at: Timestamp(0),
        expires_at: Timestamp(i64::MAX),
        charges: None,
        ended: Arc::default(),
    };
    Catalog {
        keys: keys.into_iter().map(hashed).collect(),
        sessions: HashMap::from([([7; 32], Arc::new(session))]),
        routes: routes.into_iter().map(|it| (it.served_name.clone(), Arc::new(it))).collect(),
        ..Catalog::default()
    }
}

fn other(request: &http::Request<hyper::body::Incoming>) -> http::Response<gantry_dataplane::OtherBody> {
    assert_ne!(request.uri().path(), "/panic");
    let id = request.headers()["x-request-id"].clone();
    if request.uri().path() == "/follow" {
        // This is like the log of an engine: it begins, and has no end.
        let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"data: line\n\n")))]);
        let endless = StreamBody::new(first.chain(futures_util::stream::pending()));
        return http::Response::builder()
            .header("content-type", "text/event-stream")
            .body(endless.boxed_unsync())
            .unwrap();
    }
    let leaving = request.extensions().get::<gantry_dataplane::Leaving>().is_some();
    let body =
        if leaving { "leaving".to_owned() } else { format!("other {} {}", request.method(), request.uri()) };
    let mut answer =
        http::Response::new(Full::new(Bytes::from(body)).map_err(|it| match it {}).boxed_unsync());
    *answer.status_mut() = if leaving { http::StatusCode::SERVICE_UNAVAILABLE } else { http::StatusCode::OK };
    answer.headers_mut().insert("x-request-id", id);
    answer
}

impl Gateway {
    pub(crate) fn start(engine: SocketAddr) -> Self {
        Self::with(catalog(engine, vec![(KEY, key_entry(1))]), |_| {})
    }

    pub(crate) fn with(catalog: Catalog, change: impl FnOnce(&mut Config)) -> Self {
        Self::at(Clock::default(), catalog, change)
    }

    pub(crate) fn at(clock: Clock, catalog: Catalog, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            spool_dir: dir.path().to_owned(),
            version: "1.2.3".into(),
            session: Arc::new(|cookie| (cookie == "abc.good").then_some([7; 32])),
            web: Web::new(vec!["g".to_owned(), "gateway".to_owned()], Vec::new()),
            ..Config::default()
        };
        change(&mut config);
        let shared = Arc::new(Shared::new(catalog, clock));
        let others = Arc::new(|request, _| -> futures_util::future::BoxFuture<'static, _> {
            Box::pin(async move { other(&request) })
        });
        let plane = DataPlane::start(config, Arc::clone(&shared), others).unwrap();
        Self { addr: plane.addr(), plane: Some(plane), shared, dir }
    }

    pub(crate) fn spool_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.addr).await
    }

    /// Waits until `n` rows are there, then ends the gateway and returns all rows in the order in which the requests
    /// ended. More than `n` rows fail the test, as does a request that still counts as running.
    pub(crate) async fn rows(mut self, n: usize) -> Vec<UsageRow> {
        let deadline = Instant::now() + PATIENCE;
        let ended = |it: &Self| it.shared.counters.requests_total() as usize;
        while ended(&self) < n {
            assert!(Instant::now() < deadline, "only {} of {n} requests ended", ended(&self));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Counted one after the other, on another thread.
        let in_flight = || self.shared.counters.in_flight.load(std::sync::atomic::Ordering::Relaxed);
        while in_flight() > 0 {
            assert!(Instant::now() < deadline, "{} requests still count as running", in_flight());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let plane = self.plane.take().unwrap();
        plane.drain(Duration::from_secs(5)).await;
        drop(plane);
        // As the next boot would see it: intents without a final would show as rows, too.
        std::fs::write(self.dir.path().join("lock"), uuid::Uuid::nil().simple().to_string()).unwrap();
        let mut reader = Reader::open(self.dir.path()).unwrap();
        let mut rows = Vec::new();
        loop {
            let batch = reader.read_batch(100).unwrap();
            if batch.rows.is_empty() {
                break;
            }
            rows.extend(batch.rows.iter().cloned());
            reader.commit(batch).unwrap();
        }
        assert_eq!(reader.torn(), 0);
        let left: Vec<_> =
            std::fs::read_dir(self.dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert!(!left.iter().any(|it| it.to_string_lossy().ends_with(".log")), "{left:?}");
        // Refusals share rows.
        assert_eq!(rows.iter().map(|it| it.requests).sum::<i64>(), n as i64, "{rows:#?}");
        rows
    }

    pub(crate) async fn row(self) -> UsageRow {
        self.rows(1).await.remove(0)
    }
}
