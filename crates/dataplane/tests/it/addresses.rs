//! Routes of the registry: several addresses for one served name, and a name of the engine's own.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gantry_dataplane::{
    Catalog, Retry, RouteTarget, Upstream,
    breaker::{self, Breaker},
};
use gantry_domain::{model::Task, usage::Outcome};

use crate::{
    client::post,
    engine::{Engine, json, with_status},
    failures::nobody,
    gateway::{Gateway, KEY, catalog, key_entry, route},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

/// `m` at these addresses, each with a breaker that opens at the second failure, for an hour.
fn at(addresses: &[SocketAddr]) -> Catalog {
    let settings = breaker::Settings { failures: 2, cooldown: Duration::from_hours(1) };
    let upstream = |(n, addr): (usize, &SocketAddr)| {
        let breaker = Arc::new(Breaker::new(settings));
        Arc::new(Upstream::new(10 + n as u64, &format!("http://{addr}"), None, breaker).unwrap())
    };
    let all = addresses.iter().enumerate().map(upstream).collect();
    let mut catalog = catalog(addresses[0], vec![(KEY, key_entry(1))]);
    catalog.routes.insert("m".into(), Arc::new(route("m", Task::Generate, RouteTarget::AnyOf(all))));
    catalog
}

#[tokio::test]
async fn a_request_goes_to_the_address_with_the_fewest_at_work() {
    let (mut one, mut two) = (Engine::start().await, Engine::start().await);
    let gateway = Gateway::with(at(&[one.addr, two.addr]), |_| {});
    let (mut first, mut second) = (gateway.client().await, gateway.client().await);
    for _ in 0..5 {
        first.send(&post(CHAT, KEY, "", BODY)).await;
        let (call, other) = tokio::select! {
            call = one.call() => (call, &mut two),
            call = two.call() => (call, &mut one),
        };
        // While that one works, the other address gets the next.
        second.send(&post(CHAT, KEY, "", BODY)).await;
        other.call().await.send(&json("{}"));
        assert_eq!(second.answer().await.status, 200);
        call.send(&json("{}"));
        assert_eq!(first.answer().await.status, 200);
        while at_work(&gateway) > 0 {
            tokio::task::yield_now().await;
        }
    }
    gateway.rows(10).await;
}

fn at_work(gateway: &Gateway) -> u32 {
    let catalog = gateway.shared.catalog.load();
    catalog.routes["m"].target.upstreams().iter().map(|it| it.in_flight.load(Relaxed)).sum()
}

#[tokio::test]
async fn requests_spread_over_addresses_that_are_as_busy() {
    let (one, two) = (Engine::start().await, Engine::start().await);
    let gateway = Gateway::with(at(&[one.addr, two.addr]), |_| {});
    one.always(&json("\"one\""));
    two.always(&json("\"two\""));
    let mut client = gateway.client().await;
    let mut seen = [0, 0];
    for _ in 0..64 {
        let got = client.ask(&post(CHAT, KEY, "", BODY)).await;
        seen[usize::from(got.body.contains("two"))] += 1;
    }
    // By chance alone, one is left out once in 2^64 runs.
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[tokio::test]
async fn an_address_that_cant_be_reached_costs_no_request_and_is_soon_left_alone() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(at(&[nobody(), engine.addr, nobody()]), |_| {});
    engine.always(&json("{}"));
    let mut client = gateway.client().await;
    for _ in 0..64 {
        assert_eq!(client.ask(&post(CHAT, KEY, "", BODY)).await.status, 200);
    }
    // Each of the two fails twice, and is open then.
    let elsewhere = &gateway.shared.counters.upstream_retries[Retry::Elsewhere as usize];
    assert_eq!(elsewhere.load(Relaxed), 4);
    let rows = gateway.rows(64).await;
    assert!(rows.iter().all(|it| it.outcome == Outcome::Ok));
}

#[tokio::test]
async fn where_no_address_can_be_reached_the_answer_is_a_502_with_one_row() {
    let gateway = Gateway::with(at(&[nobody(), nobody()]), |_| {});
    let got = gateway.client().await.ask(&post(CHAT, KEY, "", BODY)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError));
}

#[tokio::test]
async fn a_request_that_an_address_has_goes_to_no_other() {
    let (mut one, mut two) = (Engine::start().await, Engine::start().await);
    let gateway = Gateway::with(at(&[one.addr, two.addr]), |_| {});
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    tokio::select! {
        call = one.call() => call.close(),
        call = two.call() => call.close(),
    }
    let got = client.answer().await;
    assert_eq!((got.status, got.code().as_str()), (502, "model_unavailable"));
    assert!(one.was_not_called() && two.was_not_called());
    gateway.rows(1).await;
}

#[tokio::test]
async fn an_address_that_fails_is_skipped_and_the_others_serve_on() {
    let (bad, good) = (Engine::start().await, Engine::start().await);
    let gateway = Gateway::with(at(&[bad.addr, good.addr]), |_| {});
    bad.always(&with_status("502 Bad Gateway", "{}"));
    good.always(&json("{}"));
    let mut client = gateway.client().await;
    let mut failed = 0;
    for _ in 0..64 {
        failed += usize::from(client.ask(&post(CHAT, KEY, "", BODY)).await.status != 200);
    }
    assert_eq!(failed, 2, "as many as its breaker takes");
}

#[tokio::test]
async fn one_whose_probe_failed_is_asked_when_there_is_no_other() {
    let (mut ailing, mut well) = (Engine::start().await, Engine::start().await);
    let catalog = at(&[ailing.addr, well.addr]);
    catalog.routes["m"].target.upstreams()[0].ailing.store(true, Relaxed);
    let gateway = Gateway::with(catalog, |_| {});
    let mut client = gateway.client().await;
    for _ in 0..8 {
        well.serves(&mut client, &post(CHAT, KEY, "", BODY)).await;
    }
    assert!(ailing.was_not_called());
    for status in ["502 Bad Gateway"; 2] {
        client.send(&post(CHAT, KEY, "", BODY)).await;
        well.call().await.send(&with_status(status, "{}"));
        client.answer().await;
    }
    ailing.serves(&mut client, &post(CHAT, KEY, "", BODY)).await;
}

#[tokio::test]
async fn the_engine_s_own_name_of_the_model_replaces_the_served_name_and_nothing_else() {
    let mut engine = Engine::start().await;
    let mut catalog = at(&[engine.addr]);
    let mut route = route("m", Task::Generate, catalog.routes["m"].target.clone());
    route.upstream_model = Some("org/other \"7b\"".into());
    catalog.routes.insert("m".into(), Arc::new(route));
    let gateway = Gateway::with(catalog, |_| {});
    let mut client = gateway.client().await;
    let body = r#"{ "temperature": 1.0, "model" :"m" ,"user":"model","messages":[]}"#;
    client.send(&post(CHAT, KEY, "", body)).await;
    let call = engine.call().await;
    assert_eq!(
        String::from_utf8_lossy(&call.body),
        r#"{ "temperature": 1.0, "model" :"org/other \"7b\"" ,"user":"model","messages":[]}"#
    );
    // The answer passes as it is, with the engine's name.
    call.send(&json(r#"{"model":"org/other"}"#));
    assert_eq!(client.answer().await.body, r#"{"model":"org/other"}"#);
    // This is sent with the other change that the gateway makes.
    client.send(&post(CHAT, KEY, "", r#"{"stream":true,"model":"m"}"#)).await;
    let call = engine.call().await;
    assert_eq!(
        String::from_utf8_lossy(&call.body),
        r#"{"stream_options":{"include_usage":true},"stream":true,"model":"org/other \"7b\""}"#
    );
    call.send(&json("{}"));
    client.answer().await;
    let rows = gateway.rows(2).await;
    assert!(rows.iter().all(|it| it.model_name == "m"), "{rows:?}");
}
