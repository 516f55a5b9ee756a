//! Limits and budgets of keys and organisations, and what answers say about them.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use gantry_dataplane::{
    KeyEntry, Shared,
    limits::{Account, AccountState, Charges, KeyState, LimitKind, Subject},
};
use gantry_domain::{
    Clock, KeyId, OrgId, Timestamp,
    limit::{LimitMode, Limits, period::Period},
    usage::Outcome,
};

use crate::{
    client::{Answer, Client, get, post},
    engine::{Engine, SSE_HEAD, chunk, json},
    gateway::{COOKIE, Gateway, catalog, key_entry},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m","max_tokens":2}"#;
const STREAM: &str = r#"{"model":"m","max_tokens":2,"stream":true}"#;
/// 18 tokens.
const USED: &str = r#"{"usage":{"prompt_tokens":12,"completion_tokens":6}}"#;
const NONE: Limits = Limits {
    rpm_limit: None,
    tpm_limit: None,
    max_concurrency: None,
    max_streams: None,
    budget_tokens_day: None,
    budget_tokens_month: None,
};

fn account(holder: Subject, limits: Limits, mode: LimitMode, now: Timestamp) -> Arc<Account> {
    let state = Arc::new(AccountState::new(holder));
    state.spendings.track(true, now);
    Account::new(holder, limits, mode, &state).unwrap()
}

pub(crate) fn limited(id: i64, limits: Limits) -> KeyEntry {
    let account = account(Subject::Key(KeyId(id)), limits, LimitMode::Enforce, Timestamp(1));
    KeyEntry { charges: Charges::new([Some(&account), None, None]), ..key_entry(id) }
}

async fn ask(client: &mut Client, engine: &mut Engine, key: &str) -> Answer {
    client.send(&post(CHAT, key, "", BODY)).await;
    engine.call().await.send(&json(USED));
    client.answer().await
}

fn number(answer: &Answer, header: &str) -> u64 {
    answer.header(header).expect(header).parse().unwrap()
}

/// Whether a refusal says when to come again, in all three forms.
fn wait_of(answer: &Answer, code: &str) -> u64 {
    assert_eq!((answer.status, answer.code().as_str()), (429, code), "{}", answer.body);
    let (ms, seconds) = (number(answer, "retry-after-ms"), number(answer, "retry-after"));
    assert_eq!(seconds, ms.div_ceil(1000).max(1));
    seconds
}

fn count(shared: &Shared, kind: LimitKind) -> (u64, u64, u64) {
    let counters = &shared.limiter.counters;
    let [allowed, refused, shadow] =
        [&counters.allowed, &counters.refused, &counters.shadow].map(|it| it[kind as usize].load(Relaxed));
    (allowed, refused, shadow)
}

#[tokio::test]
async fn requests_a_minute_are_told_and_kept() {
    let mut engine = Engine::start().await;
    let keys = vec![("two", limited(1, Limits { rpm_limit: Some(2), ..NONE })), ("free", key_entry(2))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    let mut client = gateway.client().await;
    let got = ask(&mut client, &mut engine, "free").await;
    assert!(!got.head.contains("ratelimit"), "{}", got.head);
    let got = ask(&mut client, &mut engine, "two").await;
    assert_eq!(number(&got, "x-ratelimit-limit-requests"), 2);
    assert_eq!(number(&got, "x-ratelimit-remaining-requests"), 1);
    let reset = got.header("x-ratelimit-reset-requests").unwrap();
    let seconds: f64 = reset.strip_suffix('s').unwrap().parse().unwrap();
    assert!(15.0 < seconds && seconds <= 30.0, "{reset}");
    assert!(!got.head.contains("tokens") && !got.head.contains("retry-after"), "{}", got.head);
    // A request refused for another reason costs nothing, and its answer shows the limits all the same.
    let got = client.ask(&post("/v1/embeddings", "two", "", r#"{"model":"m","input":"x"}"#)).await;
    assert_eq!((got.status, number(&got, "x-ratelimit-remaining-requests")), (400, 1), "{}", got.body);
    let got = client.ask(&get("/v1/models", "authorization: Bearer two\r\n")).await;
    assert_eq!((got.status, number(&got, "x-ratelimit-remaining-requests")), (200, 1));

    assert_eq!(ask(&mut client, &mut engine, "two").await.status, 200);
    let got = client.ask(&post(CHAT, "two", "", BODY)).await;
    assert!((15..=30).contains(&wait_of(&got, "rate_limit_exceeded")), "{}", got.head);
    assert_eq!(number(&got, "x-ratelimit-remaining-requests"), 0);
    assert_eq!(got.header("x-should-retry"), Some("true"));
    assert!(got.body.contains("this key's limit of requests a minute"), "{}", got.body);
    assert!(engine.was_not_called());
    assert_eq!(count(&gateway.shared, LimitKind::Requests), (2, 1, 0));
    let rows = gateway.rows(5).await;
    assert_eq!((rows[4].status_code, rows[4].outcome, rows[4].prompt_tokens), (429, Outcome::Rejected, 0));
}

#[tokio::test]
async fn names_that_nobody_serves_cost_a_request_and_no_tokens() {
    let mut engine = Engine::start().await;
    let limits = Limits { rpm_limit: Some(3), tpm_limit: Some(600), max_concurrency: Some(1), ..NONE };
    let gateway = Gateway::with(catalog(engine.addr, vec![("k", limited(1, limits))]), |_| {});
    let mut client = gateway.client().await;
    for left in [2, 1] {
        let got = client.ask(&post(CHAT, "k", "", r#"{"model":"made up"}"#)).await;
        assert_eq!((got.status, number(&got, "x-ratelimit-remaining-requests")), (404, left));
        assert_eq!(number(&got, "x-ratelimit-remaining-tokens"), 600);
    }
    assert_eq!(ask(&mut client, &mut engine, "k").await.status, 200, "its place is free again");
    let got = client.ask(&post(CHAT, "k", "", r#"{"model":"made up"}"#)).await;
    wait_of(&got, "rate_limit_exceeded");
    let rows = gateway.rows(4).await;
    let seen: Vec<_> = rows.iter().map(|it| (it.status_code, it.model_name.as_str())).collect();
    assert_eq!(seen, [(404, "made up"), (404, "made up"), (200, "m"), (429, "made up")]);
}

#[tokio::test]
async fn tokens_are_reserved_and_settled_by_the_engine_s_count() {
    let mut engine = Engine::start().await;
    let keys = vec![("t", limited(1, Limits { tpm_limit: Some(600), ..NONE }))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    let long = r#"{"model":"m","max_tokens":400}"#;
    let mut first = gateway.client().await;
    first.send(&post(CHAT, "t", "", long)).await;
    let call = engine.call().await;
    let mut second = gateway.client().await;
    let got = second.ask(&post(CHAT, "t", "", long)).await;
    let wait = wait_of(&got, "rate_limit_exceeded");
    assert!((15..=22).contains(&wait), "2 × 407 of 600 at 10 a second: {wait}");
    assert!((190..=290).contains(&number(&got, "x-ratelimit-remaining-tokens")), "{}", got.head);
    // The first one used 18: what it had reserved comes back.
    call.send(&json(USED));
    assert_eq!(first.answer().await.status, 200);
    second.send(&post(CHAT, "t", "", long)).await;
    let call = engine.call().await;
    // The request of a client that leaves is settled too: by then nothing was generated.
    drop(second);
    let mut call = call;
    call.gone().await;
    let mut client = gateway.client().await;
    // Counting tokens is free, and says how many are left.
    client.send(&post("/tokenize", "t", "", r#"{"model":"m","prompt":"hi"}"#)).await;
    engine.call().await.send(&json(r#"{"count":300}"#));
    let got = client.answer().await;
    assert_eq!((got.status, number(&got, "x-ratelimit-limit-tokens")), (200, 600));
    let left = number(&got, "x-ratelimit-remaining-tokens");
    assert!((560..=600).contains(&left), "18 and an estimate of 7 of 600: {left}");
    // The request used more than it reserved, and more than there is: a debt.
    client.send(&post(CHAT, "t", "", BODY)).await;
    engine.call().await.send(&json(r#"{"usage":{"prompt_tokens":900,"completion_tokens":0}}"#));
    assert_eq!(client.answer().await.status, 200);
    let got = client.ask(&post(CHAT, "t", "", BODY)).await;
    let wait = wait_of(&got, "rate_limit_exceeded");
    assert!((25..=37).contains(&wait), "some 330 tokens of debt at 10 a second: {wait}");
    assert_eq!(number(&got, "x-ratelimit-remaining-tokens"), 0);
    let reset = got.header("x-ratelimit-reset-tokens").unwrap();
    assert!(reset.starts_with("1m"), "{reset}");
    gateway.rows(6).await;
}

#[tokio::test]
async fn running_requests_and_streams_are_limited_and_their_places_come_back() {
    let mut engine = Engine::start().await;
    let keys = vec![
        ("single", limited(1, Limits { max_concurrency: Some(1), ..NONE })),
        ("stream", limited(2, Limits { max_streams: Some(1), ..NONE })),
    ];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    let mut second = gateway.client().await;

    let mut first = gateway.client().await;
    first.send(&post(CHAT, "single", "", BODY)).await;
    let call = engine.call().await;
    let got = second.ask(&post(CHAT, "single", "", BODY)).await;
    assert_eq!(wait_of(&got, "rate_limit_exceeded"), 1);
    call.send(&json(USED));
    assert_eq!(first.answer().await.status, 200);
    assert_eq!(ask(&mut second, &mut engine, "single").await.status, 200);

    first.send(&post(CHAT, "stream", "", STREAM)).await;
    let mut call = engine.call().await;
    call.send(SSE_HEAD);
    call.send(&chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"));
    first.head().await;
    let got = second.ask(&post(CHAT, "stream", "", STREAM)).await;
    assert!(got.body.contains("streams at the same time"), "{}", got.body);
    // Answers in one piece are no streams.
    assert_eq!(ask(&mut second, &mut engine, "stream").await.status, 200);
    // The client leaves in the middle.
    drop(first);
    call.gone().await;
    second.send(&post(CHAT, "stream", "", STREAM)).await;
    let call = engine.call().await;
    call.send(SSE_HEAD);
    call.send(&chunk("data: [DONE]\n\n"));
    call.send("0\r\n\r\n");
    assert_eq!(second.answer().await.status, 200);
    let states: Vec<Arc<KeyState>> =
        gateway.shared.catalog.load().keys.values().map(|it| Arc::clone(&it.state)).collect();
    assert_eq!(count(&gateway.shared, LimitKind::Streams), (2, 1, 0));
    gateway.rows(7).await;
    assert!(states.iter().all(|it| it.account.running() == 0));
}

#[tokio::test]
async fn an_organisation_caps_its_keys_and_its_sessions() {
    let mut engine = Engine::start().await;
    let now = Timestamp(1);
    let org = account(
        Subject::Org(OrgId(2)),
        Limits { rpm_limit: Some(3), max_concurrency: Some(9), ..NONE },
        LimitMode::Enforce,
        now,
    );
    let own =
        account(Subject::Key(KeyId(1)), Limits { rpm_limit: Some(100), ..NONE }, LimitMode::Enforce, now);
    let keys = vec![
        ("a", KeyEntry { charges: Charges::new([Some(&own), None, Some(&org)]), ..key_entry(1) }),
        ("b", KeyEntry { charges: Charges::new([None, None, Some(&org)]), ..key_entry(2) }),
    ];
    let mut catalog = catalog(engine.addr, keys);
    let session = catalog.sessions.values_mut().next().unwrap();
    Arc::get_mut(session).unwrap().charges = Charges::new([None, None, Some(&org)]);
    let gateway = Gateway::with(catalog, |_| {});
    let mut client = gateway.client().await;
    let got = ask(&mut client, &mut engine, "a").await;
    // The limit that has less left is shown.
    assert_eq!(number(&got, "x-ratelimit-limit-requests"), 3);
    assert_eq!(ask(&mut client, &mut engine, "b").await.status, 200);
    let cookie = format!("cookie: {COOKIE}\r\nsec-fetch-site: same-origin\r\n");
    let request = post(CHAT, "", &cookie, BODY).replace("authorization: Bearer \r\n", "");
    client.send(&request).await;
    engine.call().await.send(&json(USED));
    assert_eq!(number(&client.answer().await, "x-ratelimit-remaining-requests"), 0);
    for request in [&request, &post(CHAT, "a", "", BODY), &post(CHAT, "b", "", BODY)] {
        let got = client.ask(request).await;
        let wait = wait_of(&got, "rate_limit_exceeded");
        assert!((5..=20).contains(&wait), "{wait}");
        assert!(got.body.contains("this organisation's limit"), "{}", got.body);
    }
    // A refusal by the organisation's limit did not cost the key anything, nor a place.
    let left = 100 - 1;
    let shared = Arc::clone(&gateway.shared);
    let got = client.ask(&get("/v1/models", "authorization: Bearer a\r\n")).await;
    assert_eq!(number(&got, "x-ratelimit-remaining-requests"), 0);
    assert_eq!(org.state.running(), 0);
    let mut alone = crate::gateway::catalog(
        engine.addr,
        vec![("a", KeyEntry { charges: Charges::new([Some(&own), None, None]), ..key_entry(1) })],
    );
    alone.sessions.clear();
    shared.catalog.store(Arc::new(alone));
    let got = client.ask(&get("/v1/models", "authorization: Bearer a\r\n")).await;
    assert!((left..=100).contains(&number(&got, "x-ratelimit-remaining-requests")), "{}", got.head);
    gateway.rows(6).await;
}

#[tokio::test]
async fn shadow_limits_count_and_let_through() {
    let mut engine = Engine::start().await;
    let limits = Limits {
        rpm_limit: Some(1),
        tpm_limit: Some(1),
        max_concurrency: Some(1),
        budget_tokens_day: Some(20),
        ..NONE
    };
    let shadow = account(Subject::Key(KeyId(1)), limits, LimitMode::Shadow, Timestamp(1));
    let key = KeyEntry { charges: Charges::new([Some(&shadow), None, None]), ..key_entry(1) };
    let gateway = Gateway::with(catalog(engine.addr, vec![("s", key)]), |_| {});
    let mut client = gateway.client().await;
    for _ in 0..4 {
        let got = ask(&mut client, &mut engine, "s").await;
        assert_eq!(got.status, 200);
        assert!(!got.head.contains("ratelimit") && !got.head.contains("budget"), "{}", got.head);
    }
    // 18 tokens each: the second is over the rate, the third and fourth over the budget.
    assert_eq!(count(&gateway.shared, LimitKind::Tokens), (1, 0, 1));
    assert_eq!(count(&gateway.shared, LimitKind::Budget), (2, 0, 2));
    assert_eq!(count(&gateway.shared, LimitKind::Concurrency), (4, 0, 0));
    assert_eq!(shadow.state.running(), 0);
    gateway.rows(4).await;
}

#[tokio::test]
async fn a_budget_warns_then_stops_and_the_next_day_begins_anew() {
    let mut engine = Engine::start().await;
    let noon = Timestamp::parse_rfc3339("2026-11-30T12:00:00Z").unwrap();
    let now = Arc::new(AtomicI64::new(noon.0));
    let clock = {
        let now = Arc::clone(&now);
        Clock::new(move || Timestamp(now.load(Relaxed)))
    };
    let limits = Limits { budget_tokens_day: Some(40), budget_tokens_month: Some(1000), ..NONE };
    let budget = account(Subject::Key(KeyId(1)), limits, LimitMode::Enforce, noon);
    let key = KeyEntry { charges: Charges::new([Some(&budget), None, None]), ..key_entry(1) };
    let gateway = Gateway::at(clock, catalog(engine.addr, vec![("b", key)]), |_| {});
    let mut client = gateway.client().await;
    let warning = "x-gantry-budget-warning";
    assert_eq!(ask(&mut client, &mut engine, "b").await.header(warning), None);
    // Used are 36 of 40 when its answer is complete, but its head left before: the next answer has the warning.
    assert_eq!(ask(&mut client, &mut engine, "b").await.status, 200);
    let got = ask(&mut client, &mut engine, "b").await;
    assert_eq!((got.status, got.header(warning)), (200, Some("key day 90%")));
    let got = client.ask(&post(CHAT, "b", "", BODY)).await;
    assert_eq!(wait_of(&got, "budget_exceeded"), 12 * 3600);
    assert_eq!((got.header(warning), got.header("x-should-retry")), (Some("key day 135%"), Some("false")));
    assert!(got.body.contains("this key's budget of tokens for today"), "{}", got.body);
    // What only counts tokens stays free.
    client.send(&post("/v1/messages/count_tokens", "b", "", BODY)).await;
    engine.call().await.send(&json(r#"{"input_tokens":7}"#));
    assert_eq!(client.answer().await.status, 200);

    now.store(noon.0 + 12 * 3_600_000, Relaxed);
    let got = ask(&mut client, &mut engine, "b").await;
    assert_eq!((got.status, got.header(warning)), (200, None), "a new day and a new month");
    let spent = |at: i64| Period::ALL.map(|period| budget.state.spendings.spent(period, Timestamp(at)));
    assert_eq!(spent(noon.0 + 12 * 3_600_000), [18, 18]);
    assert_eq!(count(&gateway.shared, LimitKind::Budget), (4, 1, 0));
    gateway.rows(6).await;
}
