//! Tests of half-sent bodies: the memory that they may take, and what their callers may take together.

use gantry_dataplane::KeyEntry;
use gantry_domain::{OrgId, UserId, limit::Limits, usage::Outcome};

use crate::{
    client::{Client, post},
    engine::{Engine, json},
    gateway::{COOKIE, Gateway, catalog, key_entry},
    limits::limited,
    stalls::until,
};

const CHAT: &str = "/v1/chat/completions";
/// Bytes of each body that are not counted.
const FREE: usize = 64 << 10;
const LENGTH: usize = 300_000;
const SENT: usize = 200_000;

/// A request whose body has [`LENGTH`] bytes.
fn large(key: &str) -> String {
    let text = "x".repeat(LENGTH - r#"{"model":"m","x":""}"#.len());
    post(CHAT, key, "", &format!(r#"{{"model":"m","x":"{text}"}}"#))
}

/// Sends [`SENT`] bytes of the body, and returns the rest of the request.
async fn half(client: &mut Client, request: &str) -> String {
    let (begin, rest) = request.split_at(request.len() - LENGTH + SENT);
    client.send(begin).await;
    rest.to_owned()
}

#[tokio::test]
async fn bodies_in_memory_have_a_bound_together_and_one_key_gets_half() {
    let mut engine = Engine::start().await;
    let of = |n: i64, org: i64| KeyEntry { user_id: Some(UserId(n)), org_id: OrgId(org), ..key_entry(n) };
    let keys = vec![("a", of(1, 2)), ("b", of(2, 3)), ("c", of(3, 4))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        (config.max_body, config.body_memory) = (LENGTH, 400_000);
    });
    let used = |n: usize| {
        let shared = std::sync::Arc::clone(&gateway.shared);
        async move { until("so much is taken", || shared.body_memory.used() == n * (SENT - FREE)).await }
    };
    let mut first = gateway.client().await;
    let rest = half(&mut first, &large("a")).await;
    used(1).await;
    // Half of all memory is 200,000, and two times 134,464 is more.
    let mut second = gateway.client().await;
    half(&mut second, &large("a")).await;
    let got = second.answer().await;
    assert_eq!((got.status, got.code().as_str()), (503, "request_memory_full"), "{}", got.body);
    assert!(got.body.contains("this key"), "{}", got.body);
    assert_eq!((got.header("retry-after"), got.header("x-should-retry")), (Some("1"), Some("true")));
    assert_eq!(got.header("connection"), Some("close"));
    used(1).await;

    let mut other = gateway.client().await;
    half(&mut other, &large("b")).await;
    used(2).await;
    let mut last = gateway.client().await;
    half(&mut last, &large("c")).await;
    let got = last.answer().await;
    assert_eq!(got.code(), "request_memory_full");
    assert!(got.body.contains("the gateway's memory"), "{}", got.body);
    // Small bodies are still accepted.
    let mut small = gateway.client().await;
    small.send(&post(CHAT, "c", "", r#"{"model":"m"}"#)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(small.answer().await.status, 200);

    // A client that leaves makes room.
    other.reset();
    used(1).await;
    first.send(&rest).await;
    let call = engine.call().await;
    assert_eq!(call.body.len(), LENGTH);
    call.send(&json("{}"));
    assert_eq!(first.answer().await.status, 200);
    used(0).await;
    let mut outcomes: Vec<_> = gateway.rows(5).await.iter().map(|it| it.outcome.as_str()).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["client_closed", "ok", "ok", "rejected", "rejected"]);
}

#[tokio::test]
async fn a_place_among_the_running_requests_is_taken_before_the_body() {
    let mut engine = Engine::start().await;
    let limits = Limits {
        rpm_limit: Some(2),
        tpm_limit: None,
        max_concurrency: Some(1),
        max_streams: None,
        budget_tokens_day: None,
        budget_tokens_month: None,
    };
    let gateway = Gateway::with(catalog(engine.addr, vec![("k", limited(1, limits))]), |_| {});
    let mut slow = gateway.client().await;
    half(&mut slow, &large("k")).await;
    until("it is being read", || gateway.shared.body_memory.used() > 0).await;
    let mut client = gateway.client().await;
    let small = post(CHAT, "k", "", r#"{"model":"m"}"#);
    let got = client.ask(&small).await;
    assert_eq!((got.status, got.code().as_str()), (429, "rate_limit_exceeded"), "{}", got.body);
    assert!(got.body.contains("at the same time"), "{}", got.body);
    slow.reset();
    until("its place is free", || gateway.shared.body_memory.used() == 0).await;
    // Neither refusal has cost a request of the minute.
    for _ in 0..2 {
        client.send(&small).await;
        engine.call().await.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200);
    }
    let rows = gateway.rows(4).await;
    assert_eq!(rows.iter().filter(|it| it.outcome == Outcome::ClientClosed).count(), 1);
}

#[tokio::test]
async fn neither_a_session_nor_many_keys_of_one_user_or_organisation_take_all_the_room() {
    let engine = Engine::start().await;
    // The session is of user 5, the organisation is 2.
    let of = |n: i64, user: i64| KeyEntry { user_id: Some(UserId(user)), org_id: OrgId(2), ..key_entry(n) };
    let keys = vec![("a", of(1, 5)), ("b", of(2, 6)), ("c", of(3, 7))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        (config.max_body, config.body_memory) = (LENGTH, 450_000);
    });
    let taken = |n: usize| {
        let shared = std::sync::Arc::clone(&gateway.shared);
        async move { until("so much is taken", || shared.body_memory.used() == n * (SENT - FREE)).await }
    };
    let signed_in = large("-").replace("authorization: Bearer -", &format!("cookie: {COOKIE}"));
    assert!(signed_in.contains(COOKIE), "{}", &signed_in[..300]);
    let mut session = gateway.client().await;
    half(&mut session, &signed_in).await;
    taken(1).await;
    for request in [&signed_in, &large("a")] {
        let mut more = gateway.client().await;
        half(&mut more, request).await;
        let got = more.answer().await;
        assert_eq!(got.code(), "request_memory_full");
        assert!(got.body.contains("this user"), "{}", got.body);
    }
    let mut colleague = gateway.client().await;
    half(&mut colleague, &large("b")).await;
    taken(2).await;
    let mut third = gateway.client().await;
    half(&mut third, &large("c")).await;
    let got = third.answer().await;
    assert!(got.body.contains("this organisation"), "{}", got.body);
    drop((session, colleague));
    taken(0).await;
    gateway.rows(5).await;
}

/// A socket that is closed while bytes arrive answers with a reset, and that takes from the client what it has not read.
#[tokio::test]
async fn a_client_that_sends_all_of_a_refused_body_reads_the_refusal() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(catalog(engine.addr, vec![("a", key_entry(1))]), |config| {
        config.max_body = LENGTH;
    });
    // The body is longer than the buffers of both sockets together.
    let long = "x".repeat(24 << 20);
    for (key, status) in [("a", 413), ("unknown", 401)] {
        let mut client = gateway.client().await;
        client.send(&post(CHAT, key, "", &long)).await;
        let got = client.answer().await;
        assert_eq!((got.status, got.complete), (status, true), "{}", got.body);
        client.until_closed().await;
    }
}
