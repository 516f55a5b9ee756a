//! Other paths, health, and the end.

use std::time::Duration;

use gantry_dataplane::{Config, DataPlane};
use gantry_domain::usage::Outcome;

use crate::{
    client::{get, post},
    engine::{Engine, SSE_HEAD, chunk, json, spawn},
    gateway::{Gateway, KEY, catalog, key_entry},
};

const CHAT: &str = "/v1/chat/completions";
const EVENT: &str = "data: {\"choices\":[{}]}\n\n";

#[tokio::test]
async fn health_methods_and_the_other_paths() {
    let engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    for path in ["/health", "/livez"] {
        let got = client.ask(&get(path, "")).await;
        assert_eq!((got.status, got.body.as_str()), (200, r#"{"status":"ok","version":"1.2.3"}"#));
    }
    for path in ["/", "/v1/models/running", "/v1/models/a/constraints", "/admin/x?y=1", "/v1/nothing"] {
        let got = client.ask(&get(path, "x-request-id: from-me\r\n")).await;
        assert_eq!((got.status, got.body.clone()), (200, format!("other GET {path}")));
        assert_eq!(got.header("x-request-id"), Some("from-me"));
    }
    let got = client.ask(&get("/admin", "x-request-id: bad id\r\n")).await;
    assert_eq!(got.header("x-request-id").map(str::len), Some(36));
    let got = client.ask(&get("/admin", "upgrade: h2c\r\nconnection: upgrade\r\n")).await;
    assert_eq!(got.status, 200);
    let refused = [
        get(CHAT, ""),
        get("/admin", "upgrade: websocket\r\nconnection: upgrade\r\n"),
        "TRACE /health HTTP/1.1\r\nhost: g\r\n\r\n".into(),
        "DELETE /v1/models HTTP/1.1\r\nhost: g\r\n\r\n".into(),
        "POST /health HTTP/1.1\r\nhost: g\r\ncontent-length: 0\r\n\r\n".into(),
        "CONNECT a:1 HTTP/1.1\r\nhost: g\r\n\r\n".into(),
    ];
    for request in refused {
        let mut client = gateway.client().await;
        let got = client.ask(&request).await;
        assert_eq!((got.status, got.code().as_str()), (405, "method_not_allowed"), "{request}");
        assert_eq!(got.json()["request_id"].as_str(), got.header("x-request-id"));
    }
    gateway.rows(0).await;
}

#[tokio::test]
async fn running_requests_end_before_the_gateway_does() {
    let mut engine = Engine::start().await;
    let mut gateway = Gateway::start(engine.addr);
    let mut idle = gateway.client().await;
    idle.ask(&get("/health", "")).await;
    let mut busy = gateway.client().await;
    busy.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    let mut told_late = gateway.client().await;
    let mut silent = gateway.client().await;
    let told = drain(&mut gateway);
    idle.until_closed().await;
    // New clients get the answer that the process lives, and that it takes no more requests.
    let mut answers = Vec::new();
    for request in
        [get("/livez", ""), get("/readyz", ""), get("/admin", ""), post(CHAT, KEY, "", r#"{"model":"m"}"#)]
    {
        answers.push(gateway.client().await.ask(&request).await);
    }
    let seen: Vec<_> = answers.iter().map(|it| (it.status, it.header("connection"))).collect();
    assert_eq!(seen, [200, 503, 503, 503].map(|it| (it, Some("close"))));
    assert_eq!(answers[1].body, "leaving", "the last answer before the end says it");
    assert_eq!((answers[2].code(), answers[3].code()), ("shutting_down".into(), "shutting_down".into()));
    assert!(
        answers[3].header("retry-after").is_some() && answers[3].header("x-should-retry") == Some("true")
    );
    // A connection that came before is served.
    told_late.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(told_late.answer().await.status, 200);
    // A connection that never sends anything is not waited for.
    silent.until_closed().await;
    call.send(&json("{}"));
    let got = busy.answer().await;
    assert_eq!((got.status, got.header("connection")), (200, Some("close")));
    assert!(told.await.unwrap());
    assert!(tokio::net::TcpStream::connect(gateway.addr).await.is_err());
    assert_eq!(gateway.shared.counters.requests_with(Outcome::Ok), 2);
}

/// Begins to end the gateway; the receiver gets whether nothing had to be cut.
fn drain(gateway: &mut Gateway) -> tokio::sync::oneshot::Receiver<bool> {
    let plane = gateway.plane.take().unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    spawn(async move {
        let clean = plane.drain(crate::engine::PATIENCE).await;
        tell.send(clean).unwrap();
    });
    told
}

#[tokio::test]
async fn a_gateway_that_leaves_says_so_first_and_serves_on() {
    let mut engine = Engine::start().await;
    let catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let mut gateway = Gateway::with(catalog, |config| config.leave_grace = Duration::from_mins(1));
    let mut kept = gateway.client().await;
    let ready = kept.ask(&get("/readyz", "")).await;
    assert_eq!((ready.status, ready.header("connection")), (200, None));
    let mut plane = std::pin::pin!(gateway.plane.take().unwrap());
    let mut draining = Box::pin(plane.as_mut().get_mut().drain(Duration::ZERO));
    assert!(futures_util::poll!(draining.as_mut()).is_pending());
    // The threads notice it a moment later.
    loop {
        let ready = gateway.client().await.ask(&get("/readyz", "")).await;
        if ready.status == 503 {
            assert_eq!(ready.body, "leaving");
            break;
        }
    }
    for mut client in [kept, gateway.client().await] {
        client.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
        engine.call().await.send(&json("{}"));
        let got = client.answer().await;
        assert_eq!((got.status, got.header("connection")), (200, Some("close")));
        client.until_closed().await;
    }
}

#[tokio::test]
async fn a_log_that_is_followed_does_not_hold_up_the_end() {
    let engine = Engine::start().await;
    let mut gateway = Gateway::start(engine.addr);
    let mut follower = gateway.client().await;
    follower.send(&get("/follow", "")).await;
    follower.head().await;
    assert_eq!(follower.chunk().await.as_deref(), Some("data: line\n\n"));
    assert!(drain(&mut gateway).await.unwrap());
    assert_eq!(follower.chunk().await, None);
}

#[tokio::test]
async fn connections_that_wait_in_an_inherited_socket_are_left_to_the_next_gateway() {
    let mut engine = Engine::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let next = listener.try_clone().unwrap();
    let addr = engine.addr;
    let catalog = || catalog(addr, vec![(KEY, key_entry(1))]);
    let mut first = Gateway::with(catalog(), |config| config.listeners = vec![listener]);
    let mut busy = first.client().await;
    busy.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    let told = drain(&mut first);
    call.send(&json("{}"));
    assert_eq!(busy.answer().await.status, 200);
    assert!(told.await.unwrap());
    let mut late = first.client().await;
    late.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let second = Gateway::with(catalog(), |config| config.listeners = vec![next]);
    engine.call().await.send(&json("{}"));
    assert_eq!(late.answer().await.status, 200);
    second.row().await;
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut_and_told() {
    let mut engine = Engine::start().await;
    let mut gateway = Gateway::start(engine.addr);
    let mut stream = gateway.client().await;
    stream.send(&post(CHAT, KEY, "", r#"{"model":"m","stream":true}"#)).await;
    let mut streaming = engine.call().await;
    streaming.send(&format!("{SSE_HEAD}{}", chunk(EVENT)));
    stream.head().await;
    assert_eq!(stream.chunk().await.as_deref(), Some(EVENT));
    let mut plain = gateway.client().await;
    plain.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let mut waiting = engine.call().await;

    let plane = gateway.plane.take().unwrap();
    assert!(!plane.drain(Duration::from_millis(30)).await);
    assert!(stream.chunk().await.unwrap().contains("shutting_down"));
    assert_eq!(stream.chunk().await, None);
    assert_eq!(plain.answer().await.code(), "shutting_down");
    streaming.gone().await;
    waiting.gone().await;
    gateway.plane = Some(plane);
    let rows = gateway.rows(2).await;
    assert!(rows.iter().all(|it| (it.status_code, it.outcome) == (503, Outcome::UpstreamError)), "{rows:?}");
}

#[tokio::test]
async fn sockets_can_be_handed_in_and_shared() {
    let mut engine = Engine::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let gateway = Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| {
        config.listeners = vec![listener];
        config.threads = 2;
    });
    assert_eq!(gateway.addr, addr);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    gateway.row().await;
}

#[tokio::test]
async fn two_can_not_use_one_spool() {
    let engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let config = Config { spool_dir: gateway.spool_dir().to_owned(), ..Config::default() };
    let other: gantry_dataplane::Other = std::sync::Arc::new(|_, _| unreachable!("nothing is sent"));
    let error = DataPlane::start(config, std::sync::Arc::clone(&gateway.shared), other).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_panic_is_a_500_and_the_connection_goes_on() {
    let engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let got = client.ask(&get("/panic", "")).await;
    assert_eq!((got.status, got.code().as_str()), (500, "internal"));
    assert_eq!(client.ask(&get("/health", "")).await.status, 200);
    gateway.rows(0).await;
}

/// What is in the spool at any moment is what a `kill -9` at that moment would leave.
#[tokio::test]
async fn a_gateway_that_is_killed_leaves_a_row_for_each_request() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let left = || {
        let copy = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(gateway.spool_dir()).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
        std::fs::remove_file(copy.path().join("lock")).unwrap();
        let rows = gantry_dataplane::spool::Reader::open(copy.path()).unwrap().read_batch(10).unwrap().rows;
        rows.iter().map(|it| (it.status_code, it.outcome, it.estimated)).collect::<Vec<_>>()
    };
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    assert_eq!(left(), [(500, Outcome::UpstreamError, true)]);
    call.send(&json(r#"{"usage":{"prompt_tokens":1,"completion_tokens":1}}"#));
    // Not a byte less than the whole answer, and the row is there.
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(left(), [(200, Outcome::Ok, false)]);
}
