//! The breaker behind real requests: what counts, when, and for whom. Its own rules are tested beside it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_dataplane::{
    Catalog, KeyEntry, RouteTarget, Upstream,
    breaker::{self, Breaker, State},
};
use gantry_domain::{OrgId, UserId, model::Task};

use crate::{
    client::{Client, post},
    engine::{Call, Engine, PATIENCE, SSE_HEAD, chunk, json, with_status},
    gateway::{Gateway, KEY, catalog, key_entry, route},
};

const CHAT: &str = "/v1/chat/completions";
const OTHER: &str = "gty_other";
const BODY: &str = r#"{"model":"m"}"#;
/// A well-formed error with an unknown text.
const ERROR: &str = r#"{"error":{"code":500,"message":"std::bad_function_call","type":"server_error"}}"#;
const STREAM: &str = r#"{"model":"m","stream":true}"#;
const EVENT: &str = "data: {\"choices\":[{}]}\n\n";
const LONG: Duration = Duration::from_hours(1);

fn upstream(id: u64, engine: &Engine, cooldown: Duration) -> Arc<Upstream> {
    let breaker = Breaker::new(breaker::Settings { failures: 5, cooldown });
    Arc::new(Upstream::new(id, &format!("http://{}", engine.addr), None, Arc::new(breaker)).unwrap())
}

/// Starts a gateway whose `m` is this engine.
fn gateway(engine: &Engine, upstream: &Arc<Upstream>) -> Gateway {
    let mut catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let target = RouteTarget::Up(Arc::clone(upstream));
    catalog.routes.insert("m".into(), Arc::new(route("m", Task::Generate, target)));
    Gateway::with(catalog, |_| {})
}

fn state(upstream: &Upstream) -> (State, u32) {
    let snapshot = upstream.breaker.snapshot(Instant::now());
    (snapshot.state, snapshot.failures)
}

async fn ask(client: &mut Client, engine: &mut Engine, body: &str) -> Call {
    client.send(&post(CHAT, KEY, "", body)).await;
    engine.call().await
}

async fn fail(client: &mut Client, engine: &mut Engine, n: usize) {
    for _ in 0..n {
        ask(client, engine, BODY).await.send(&with_status("500 Internal Server Error", "{}"));
        assert_eq!(client.answer().await.status, 500);
    }
}

/// Begins a stream.
async fn begin(gateway: &Gateway, engine: &mut Engine) -> (Client, Call) {
    let mut client = gateway.client().await;
    let call = ask(&mut client, engine, STREAM).await;
    call.send(&format!("{SSE_HEAD}{}", chunk(EVENT)));
    client.head().await;
    assert_eq!(client.chunk().await.as_deref(), Some(EVENT));
    (client, call)
}

#[tokio::test]
async fn refusals_never_open_it() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &upstream);
    let mut client = gateway.client().await;
    let statuses = ["400 Bad Request", "404 Not Found", "422 Unprocessable", "429 Too Many", "503 Busy"];
    for status in statuses.iter().cycle().take(100) {
        ask(&mut client, &mut engine, BODY).await.send(&with_status(status, "{}"));
        let got = client.answer().await;
        assert_eq!(got.status.to_string(), status[..3]);
        assert_eq!(state(&upstream), (State::Closed, 0), "{status}");
    }
    gateway.rows(100).await;
}

#[tokio::test]
async fn streams_that_begin_well_and_die_open_it() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &upstream);
    for n in 1..=5 {
        let (mut client, call) = begin(&gateway, &mut engine).await;
        call.close();
        assert!(client.chunk().await.unwrap().contains("model_unavailable"));
        assert_eq!(state(&upstream), (if n < 5 { State::Closed } else { State::Open }, n));
    }
    let got = gateway.client().await.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
    assert!(engine.was_not_called());
    gateway.rows(6).await;
}

#[tokio::test]
async fn a_stream_is_a_success_at_its_end_and_not_before() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &upstream);
    let mut client = gateway.client().await;
    fail(&mut client, &mut engine, 4).await;
    let (mut streaming, call) = begin(&gateway, &mut engine).await;
    assert_eq!(state(&upstream), (State::Closed, 4), "its head says nothing yet");
    call.send(&format!("{}0\r\n\r\n", chunk("data: [DONE]\n\n")));
    while streaming.chunk().await.is_some() {}
    assert_eq!(state(&upstream), (State::Closed, 0));
    // The end of a stream that began before the breaker opened does not close it.
    let (mut streaming, call) = begin(&gateway, &mut engine).await;
    fail(&mut client, &mut engine, 5).await;
    assert_eq!(state(&upstream), (State::Open, 5));
    call.send(&format!("{}0\r\n\r\n", chunk("data: [DONE]\n\n")));
    while streaming.chunk().await.is_some() {}
    assert_eq!(state(&upstream), (State::Open, 5));
    gateway.rows(11).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_the_trial_leaves_it_to_the_next() {
    let mut engine = Engine::start().await;
    // The pause is over when the trial begins, however fast this machine is.
    let upstream = upstream(9, &engine, Duration::ZERO);
    let gateway = gateway(&engine, &upstream);
    let mut client = gateway.client().await;
    fail(&mut client, &mut engine, 5).await;
    let mut leaves = gateway.client().await;
    let mut trial = ask(&mut leaves, &mut engine, STREAM).await;
    trial.send(&format!("{SSE_HEAD}{}", chunk(EVENT)));
    leaves.head().await;
    assert_eq!(state(&upstream).0, State::HalfOpen);
    assert_eq!(client.ask(&post(CHAT, KEY, "", BODY)).await.status, 502, "one at a time");
    drop(leaves);
    trial.gone().await;
    let deadline = Instant::now() + PATIENCE;
    while state(&upstream).0 == State::HalfOpen {
        assert!(Instant::now() < deadline, "the trial's place is not given back");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    ask(&mut client, &mut engine, BODY).await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(state(&upstream), (State::Closed, 0));
    gateway.rows(8).await;
}

#[tokio::test]
async fn what_an_engine_did_is_not_held_against_its_successor() {
    let mut engine = Engine::start().await;
    let old = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &old);
    let mut client = gateway.client().await;
    fail(&mut client, &mut engine, 4).await;
    let (mut streaming, call) = begin(&gateway, &mut engine).await;
    let new = upstream(10, &engine, LONG);
    let before = gateway.shared.catalog.load_full();
    let mut routes = before.routes.clone();
    let target = RouteTarget::Up(Arc::clone(&new));
    routes.insert("m".into(), Arc::new(route("m", Task::Generate, target)));
    let (keys, sessions) = (before.keys.clone(), before.sessions.clone());
    gateway.shared.publish(Catalog { keys, sessions, routes, ..Catalog::default() });
    // The old one fails for the fifth time, late.
    call.close();
    while streaming.chunk().await.is_some() {}
    // The gateway took it out of service itself, so that its end is no failure of anybody's.
    assert_eq!((state(&old), state(&new)), ((State::Closed, 4), (State::Closed, 0)));
    ask(&mut client, &mut engine, BODY).await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    gateway.rows(6).await;
}

/// One prompt that the engine always fails at must not take it from all others.
#[tokio::test]
async fn a_prompt_that_always_fails_opens_it_only_when_nothing_else_succeeds() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &upstream);
    let mut client = gateway.client().await;
    for _ in 0..20 {
        fail(&mut client, &mut engine, 4).await;
        ask(&mut client, &mut engine, BODY).await.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200);
        assert_eq!(state(&upstream), (State::Closed, 0));
    }
    fail(&mut client, &mut engine, 5).await;
    assert_eq!(state(&upstream), (State::Open, 5));
    gateway.rows(105).await;
}

#[tokio::test]
async fn answers_that_are_slow_never_open_it() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let gateway = gateway(&engine, &upstream);
    for _ in 0..10 {
        let mut client = gateway.client().await;
        let call = ask(&mut client, &mut engine, BODY).await;
        // The wait is the fault that is tested; nothing here takes this long.
        tokio::time::sleep(Duration::from_millis(300)).await;
        call.send(&json("{}"));
        let got = client.answer().await;
        assert_eq!(got.status, 200, "{}", got.body);
        assert_eq!(state(&upstream), (State::Closed, 0));
    }
    let rows = gateway.rows(10).await;
    assert!(rows.iter().all(|it| it.latency_ms >= 300), "{rows:?}");
}

/// A gateway whose `m` is this engine, for keys of these users and organisations, and no others.
fn shared_gateway(upstream: &Arc<Upstream>, engine: &Engine, keys: &[(&str, i64, i64)]) -> Gateway {
    let entry = |n: usize, user: i64, org: i64| KeyEntry {
        user_id: Some(UserId(user)),
        org_id: OrgId(org),
        ..key_entry(n as i64 + 1)
    };
    let keys = keys.iter().enumerate().map(|(n, (key, user, org))| (*key, entry(n, *user, *org)));
    let mut catalog = catalog(engine.addr, keys.collect());
    catalog.sessions.clear();
    let target = RouteTarget::Up(Arc::clone(upstream));
    catalog.routes.insert("m".into(), Arc::new(route("m", Task::Generate, target)));
    Gateway::with(catalog, |_| {})
}

async fn get_errors(client: &mut Client, engine: &mut Engine, key: &str, n: usize) {
    for _ in 0..n {
        client.send(&post(CHAT, key, "", BODY)).await;
        engine.call().await.send(&with_status("500 Internal Server Error", ERROR));
        let got = client.answer().await;
        assert_eq!((got.status, got.code().as_str()), (500, "engine_error"), "{}", got.body);
    }
}

async fn refused(client: &mut Client, key: &str) -> String {
    let got = client.ask(&post(CHAT, key, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"), "{}", got.body);
    got.body
}

#[tokio::test]
async fn one_key_takes_the_model_from_no_other_by_requests_that_the_engine_answers_with_500() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    // The first two belong to one person, who may have any number of keys.
    let keys = [(KEY, 3, 2), ("gty_second", 3, 2), (OTHER, 4, 2)];
    let gateway = shared_gateway(&upstream, &engine, &keys);
    let mut client = gateway.client().await;
    for _ in 0..3 {
        get_errors(&mut client, &mut engine, KEY, 5).await;
        assert_eq!(state(&upstream).0, State::Open);
        for key in [KEY, "gty_second"] {
            let told = refused(&mut client, key).await;
            assert!(told.contains("others are not"), "{told}");
        }
        // The engine is well, as that shows.
        engine.serves(&mut client, &post(CHAT, OTHER, "", BODY)).await;
        assert_eq!(state(&upstream), (State::Closed, 0));
    }
    engine.serves(&mut client, &post(CHAT, KEY, "", BODY)).await;
    gateway.rows(25).await;
}

#[tokio::test]
async fn an_engine_that_answers_500_to_everybody_is_given_a_pause() {
    let mut engine = Engine::start().await;
    let upstream = upstream(9, &engine, LONG);
    let keys = [(KEY, 3, 2), (OTHER, 4, 2), ("gty_third", 5, 7), ("gty_idle", 6, 7)];
    let gateway = shared_gateway(&upstream, &engine, &keys);
    let mut client = gateway.client().await;
    for (key, n) in [(KEY, 5), (OTHER, 1), ("gty_third", 1)] {
        get_errors(&mut client, &mut engine, key, n).await;
        assert_eq!(state(&upstream).0, State::Open);
    }
    for (key, ..) in &keys {
        let told = refused(&mut client, key).await;
        assert!(!told.contains("others are not"), "{told}");
    }
    gateway.rows(11).await;
}
