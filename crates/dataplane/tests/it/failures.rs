//! Engines that are away, slow or broken.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures_util::future::join_all;
use gantry_dataplane::{
    Catalog, Retry, RouteTarget, Upstream,
    breaker::{self, Breaker},
};
use gantry_domain::{model::Task, usage::Outcome};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    client::{Client, post},
    engine::{Engine, SSE_HEAD, chunk, json, spawn, with_status},
    gateway::{Gateway, KEY, catalog, key_entry, route},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

#[tokio::test]
async fn an_engine_that_is_away_is_a_502() {
    let gateway = Gateway::start(nobody());
    let got = gateway.client().await.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!(
        (got.status, got.code().as_str(), got.header("x-should-retry")),
        (502, "model_unavailable", Some("true"))
    );
    assert!(got.header("retry-after").is_some());
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError));
}

#[tokio::test]
async fn a_new_connection_that_closes_without_an_answer_is_not_tried_again() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.close();
    assert_eq!(client.answer().await.code(), "model_unavailable");
    assert!(engine.was_not_called());
    assert_eq!(gateway.row().await.status_code, 502);
}

#[tokio::test]
async fn a_request_that_was_written_is_not_sent_again() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(1 << 20));
    let request = post("/v1/completions", KEY, "", &body);
    for begun in ["", "HTTP/1.1 20"] {
        engine.serves(&mut client, &request).await;
        // The connection is used again, and the engine closes it once it has read the request.
        client.send(&request).await;
        let call = engine.call().await;
        assert_eq!(call.body.len(), body.len());
        call.send(begun);
        call.close();
        let got = client.answer().await;
        assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
        assert!(got.body.contains("may have begun"), "{}", got.body);
        assert!(engine.was_not_called());
    }
    assert_eq!(retries(&gateway), [0, 0, 0]);
    gateway.rows(4).await;
}

#[tokio::test]
async fn an_idle_connection_that_the_engine_has_closed_costs_no_request() {
    const ROUNDS: usize = 200;
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", BODY);
    for round in 0..ROUNDS {
        client.send(&request).await;
        let call = engine.call().await;
        assert_eq!(call.connection, round);
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200);
        call.close();
        call.closed().await;
    }
    gateway.rows(ROUNDS).await;
}

#[tokio::test]
async fn five_failures_in_a_row_open_the_breaker_also_if_a_kept_connection_was_the_first() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", BODY);
    let (begun, kept) = engine.keeps(&mut client, &request).await;
    let failures = breaker::Settings::default().failures as usize;
    for n in 0..failures {
        client.send(&request).await;
        let call = engine.call().await;
        assert_eq!(call.connection == kept, n == 0);
        call.close();
        assert_eq!(client.answer().await.code(), "model_unavailable");
    }
    assert_eq!(client.ask(&request).await.code(), "model_unavailable");
    assert!(engine.was_not_called());
    gateway.rows(begun + failures + 1).await;
}

/// Serves as llama-server does behind Docker's port proxy: it announces that it keeps its connections, and closes each after its
/// answer, which is seen a moment later. A request that is written meanwhile is lost.
fn closes_after_each(listener: TcpListener, answer: String) {
    spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            spawn(async move {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0);
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _lost = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut buffer)).await;
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_closes_after_each_answer_costs_no_request() {
    const CLIENTS: usize = 32;
    const ROUNDS: usize = 20;
    let stream = format!("{SSE_HEAD}{}{}0\r\n\r\n", chunk("data: {}\n\n"), chunk("data: [DONE]\n\n"));
    for answer in [json("{}"), stream] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        closes_after_each(listener, answer);
        let gateway = Gateway::start(addr);
        let client = async || {
            let mut client = gateway.client().await;
            for _ in 0..ROUNDS {
                let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
                assert_eq!(got.status, 200, "{}", got.body);
            }
        };
        join_all((0..CLIENTS).map(|_| client())).await;
        gateway.rows(CLIENTS * ROUNDS).await;
    }
}

#[tokio::test]
async fn an_engine_that_is_away_is_asked_twice_and_the_cause_is_counted() {
    let gateway = Gateway::start(nobody());
    assert_eq!(gateway.client().await.ask(&post(CHAT, KEY, "", BODY)).await.status, 502);
    assert_eq!(retries(&gateway), [1, 0, 0]);
}

/// By cause, in the order of [`Retry::ALL`].
fn retries(gateway: &Gateway) -> [u64; Retry::ALL.len()] {
    gateway.shared.counters.upstream_retries.each_ref().map(|it| it.load(Relaxed))
}

/// Returns an address at which no program listens.
pub(crate) fn nobody() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn an_engine_that_does_not_answer_in_time_is_a_504() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::with(
        with_upstream(&engine, breaker::Settings::default(), Duration::from_millis(100)),
        |_| {},
    );
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    let mut call = engine.call().await;
    let got = client.answer().await;
    assert_eq!((got.status, got.code().as_str()), (504, "upstream_timeout"));
    call.gone().await;
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome, row.estimated), (504, Outcome::Timeout, true));
}

/// Timeout that is long enough for a busy machine.
const LONG: Duration = Duration::from_mins(1);

/// `m` with this request timeout.
fn with_upstream(engine: &Engine, settings: breaker::Settings, request_timeout: Duration) -> Catalog {
    let mut catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let upstream =
        Upstream::new(9, &format!("http://{}", engine.addr), None, Arc::new(Breaker::new(settings))).unwrap();
    let mut route = route("m", Task::Generate, RouteTarget::Up(Arc::new(upstream)));
    route.request_timeout = request_timeout;
    catalog.routes.insert("m".into(), route.into());
    catalog
}

/// Starts a gateway whose `m` gets no requests for `cooldown`, because it failed often enough to open its breaker.
async fn failed(cooldown: Duration) -> (Engine, Gateway, Client) {
    let mut engine = Engine::start().await;
    let settings = breaker::Settings { failures: 2, cooldown };
    let gateway = Gateway::with(with_upstream(&engine, settings, LONG), |_| {});
    let mut client = gateway.client().await;
    // Refusals and being busy are not failures.
    for status in ["400 Bad Request", "429 Too Many Requests", "503 Service Unavailable"] {
        client.send(&post(CHAT, KEY, "", BODY)).await;
        engine.call().await.send(&with_status(status, "{}"));
        client.answer().await;
    }
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.send(&with_status("500 Internal Server Error", "{}"));
    assert_eq!(client.answer().await.status, 500);
    // A stream that breaks counts, although its head was good.
    client.send(&post(CHAT, KEY, "", r#"{"model":"m","stream":true}"#)).await;
    let call = engine.call().await;
    call.send(SSE_HEAD);
    call.close();
    assert!(client.answer().await.body.contains("model_unavailable"));
    (engine, gateway, client)
}

#[tokio::test]
async fn a_failing_engine_is_left_alone_and_tried_once() {
    let (mut engine, _gateway, mut client) = failed(Duration::from_hours(1)).await;
    let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
    let seconds: u64 = got.header("retry-after").unwrap().parse().unwrap();
    assert!((3000..=3600).contains(&seconds), "what is left of the hour: {seconds}");
    assert!(engine.was_not_called());
    // After the pause one request may try; while it does, others may not.
    let (mut engine, gateway, mut client) = failed(Duration::from_millis(150)).await;
    let mut trial = gateway.client().await;
    loop {
        trial.send(&post(CHAT, KEY, "", BODY)).await;
        tokio::select! {
            call = engine.call() => {
                let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
                assert_eq!((got.status, got.header("retry-after")), (502, Some("1")));
                call.send(&json("{}"));
                break;
            }
            answer = trial.answer() => assert_eq!(answer.status, 502),
        }
    }
    assert_eq!(trial.answer().await.status, 200);
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_a_502_and_counts() {
    let settings = breaker::Settings { failures: 3, cooldown: Duration::from_hours(1) };
    for nonsense in ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "\0\0\0\0\r\n\r\n", "HTTP/1.1 999999 What\r\n\r\n"] {
        let mut engine = Engine::start().await;
        let gateway = Gateway::with(with_upstream(&engine, settings, LONG), |_| {});
        let mut client = gateway.client().await;
        for _ in 0..3 {
            client.send(&post(CHAT, KEY, "", BODY)).await;
            engine.call().await.send(nonsense);
            let got = client.answer().await;
            assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"), "{nonsense:?}");
        }
        let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
        assert!(got.body.contains("failed repeatedly"), "{nonsense:?}: {}", got.body);
        assert!(engine.was_not_called());
        gateway.rows(4).await;
    }
}
