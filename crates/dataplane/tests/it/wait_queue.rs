//! Requests to a model that is being applied.

use std::{sync::Arc, time::Duration};

use gantry_dataplane::{Catalog, RouteTarget};
use gantry_domain::{
    Clock, Timestamp,
    limit::Limits,
    model::{State, Task},
    usage::Outcome,
};

use crate::{
    client::{Client, post},
    engine::{Engine, PATIENCE, json},
    gateway::{Gateway, KEY, catalog, key_entry, route, upstream},
    limits::limited,
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

fn soon(after: Duration) -> RouteTarget {
    RouteTarget::Returning { until: Clock::default().now().plus(after) }
}

/// The catalog of the tests with another target for `m`; `keys` and their states stay the same.
fn with_target(before: &Catalog, target: RouteTarget) -> Catalog {
    let mut routes = before.routes.clone();
    routes.insert("m".into(), Arc::new(route("m", Task::Generate, target)));
    Catalog { keys: before.keys.clone(), sessions: before.sessions.clone(), routes, ..Catalog::default() }
}

fn away(engine: &Engine) -> Gateway {
    let catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    Gateway::with(with_target(&catalog, soon(Duration::from_mins(5))), |_| {})
}

fn retarget(gateway: &Gateway, target: RouteTarget) {
    let next = with_target(&gateway.shared.catalog.load(), target);
    gateway.shared.publish(next);
}

/// Waits until `n` requests wait for `m`.
async fn waiting(gateway: &Gateway, n: usize) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while gateway.shared.waiting("m") != n {
        assert!(std::time::Instant::now() < deadline, "{} of {n} wait", gateway.shared.waiting("m"));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn asking(gateway: &Gateway, extra: &str) -> Client {
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, extra, BODY)).await;
    client
}

#[tokio::test]
async fn requests_wait_for_a_model_that_is_being_applied() {
    let mut engine = Engine::start().await;
    let gateway = away(&engine);
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(asking(&gateway, "").await);
    }
    waiting(&gateway, 10).await;
    let models = gateway.client().await.ask(&crate::client::get("/v1/models", AUTH)).await;
    assert!(models.body.contains(r#""id":"m""#), "{}", models.body);
    // A catalog that says the same changes nothing.
    retarget(&gateway, soon(Duration::from_mins(5)));
    let arrived = std::time::Instant::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiting(&gateway, 10).await;
    assert!(engine.was_not_called());
    let waited = arrived.elapsed();
    retarget(&gateway, RouteTarget::Up(upstream(engine.addr)));
    for _ in 0..10 {
        engine.call().await.send(&json("{}"));
    }
    for client in &mut clients {
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(gateway.shared.waiting("m"), 0);
    let rows = gateway.rows(10).await;
    // The latency in a row begins with the arrival of the request.
    let waited = waited.as_millis() as i64;
    assert!(rows.iter().all(|it| it.outcome == Outcome::Ok && it.latency_ms >= waited), "{waited}: {rows:?}");
}

const AUTH: &str = "authorization: Bearer gty_full\r\n";

#[tokio::test]
async fn a_model_that_does_not_come_back_is_a_503() {
    let engine = Engine::start().await;
    let gateway = away(&engine);
    let cases = [
        (RouteTarget::Down { state: State::Failed }, "failed", "false"),
        (soon(Duration::from_millis(20)), "not back in time", "true"),
        (RouteTarget::Returning { until: Timestamp(0) }, "not back in time", "true"),
    ];
    for (target, message, retry) in cases {
        let mut client = asking(&gateway, "").await;
        waiting(&gateway, 1).await;
        retarget(&gateway, target);
        let got = client.answer().await;
        assert_eq!((got.status, got.code().as_str()), (503, "model_not_running"));
        assert!(got.body.contains(message), "{}", got.body);
        assert_eq!(got.header("x-should-retry"), Some(retry));
        assert_eq!(got.header("retry-after").is_some(), retry == "true");
        retarget(&gateway, soon(Duration::from_mins(5)));
    }
    let rows = gateway.rows(3).await;
    assert!(rows.iter().all(|it| (it.status_code, it.outcome) == (503, Outcome::Rejected)), "{rows:?}");
}

#[tokio::test]
async fn a_client_says_how_long_it_waits_and_a_route_how_long_it_may() {
    let engine = Engine::start().await;
    let gateway = away(&engine);
    let got = asking(&gateway, "prefer: wait=0\r\n").await.answer().await;
    assert_eq!((got.status, got.code().as_str()), (503, "model_not_running"));
    let mut next = with_target(&gateway.shared.catalog.load(), soon(Duration::from_mins(5)));
    let mut quick = route("m", Task::Generate, soon(Duration::from_mins(5)));
    quick.request_timeout = Duration::from_millis(30);
    next.routes.insert("m".into(), quick.into());
    gateway.shared.publish(next);
    let got = asking(&gateway, "").await.answer().await;
    assert_eq!((got.status, got.code().as_str()), (503, "model_not_running"));
    gateway.rows(2).await;
}

#[tokio::test]
async fn who_leaves_while_it_waits_has_its_row_and_gives_its_place_back() {
    let engine = Engine::start().await;
    let key = limited(1, Limits { max_concurrency: Some(1), ..Limits::default() });
    let catalog = catalog(engine.addr, vec![(KEY, key)]);
    let gateway = Gateway::with(with_target(&catalog, soon(Duration::from_mins(5))), |_| {});
    let client = asking(&gateway, "").await;
    waiting(&gateway, 1).await;
    // It counts among the key's requests.
    assert_eq!(asking(&gateway, "").await.answer().await.status, 429);
    drop(client);
    waiting(&gateway, 0).await;
    let mut next = asking(&gateway, "").await;
    waiting(&gateway, 1).await;
    retarget(&gateway, RouteTarget::Down { state: State::Stopped });
    assert_eq!(next.answer().await.status, 503);
    let rows = gateway.rows(3).await;
    let statuses: Vec<_> = rows.iter().map(|it| it.status_code).collect();
    assert_eq!(statuses, [429, 499, 503]);
    assert_eq!((rows[1].outcome, rows[1].estimated), (Outcome::ClientClosed, false));
}

#[tokio::test]
async fn a_gateway_that_ends_tells_those_who_wait() {
    let engine = Engine::start().await;
    let mut gateway = away(&engine);
    let mut client = asking(&gateway, "").await;
    waiting(&gateway, 1).await;
    let plane = gateway.plane.take().unwrap();
    assert!(!plane.drain(Duration::from_millis(30)).await);
    assert_eq!(client.answer().await.code(), "shutting_down");
    gateway.plane = Some(plane);
    assert_eq!(gateway.row().await.status_code, 503);
}

#[tokio::test]
async fn no_more_than_a_bounded_number_waits() {
    let engine = Engine::start().await;
    let gateway = away(&engine);
    let mut clients = Vec::new();
    for _ in 0..1024 {
        clients.push(asking(&gateway, "").await);
    }
    waiting(&gateway, 1024).await;
    let got = asking(&gateway, "").await.answer().await;
    assert_eq!((got.status, got.code().as_str()), (503, "model_not_running"));
    assert!(got.header("retry-after").is_some());
    retarget(&gateway, RouteTarget::Down { state: State::Stopped });
    for client in &mut clients {
        assert_eq!(client.answer().await.status, 503);
    }
    gateway.rows(1025).await;
}
