//! Limits and budgets of one gateway, as clients meet them.

use gantry_testkit::{Options, chat, eventually};
use serde_json::json;

use super::parts::{SOON, engine, metric, number};
use crate::{
    support::{assert_error, start},
    team::{Team, id},
};

#[tokio::test]
async fn defaults_own_limits_and_the_organisation_s_hold_together() {
    let team = Team::with(Options::default().env("RATE_LIMIT_RPM", "2")).await;
    engine(&team.owner, "m", "").await;
    let (_, plain) = team.owner.new_key(&json!({ "org_id": team.tenant })).await;
    let (_, generous) = team.owner.new_key(&json!({ "org_id": team.tenant, "rpm_limit": 100 })).await;
    let first = plain.chat("m").await;
    assert_eq!((first.status, number(&first, "x-ratelimit-limit-requests")), (200, 2));
    assert_eq!(plain.chat("m").await.status, 200);
    let third = plain.chat("m").await;
    assert_error(&third, 429, "rate_limit_exceeded");
    let (ms, seconds) = (number(&third, "retry-after-ms"), number(&third, "retry-after"));
    assert!((1..=30).contains(&seconds) && (ms + 999) / 1000 == seconds, "{ms} {seconds}");
    for _ in 0..4 {
        assert_eq!(generous.chat("m").await.status, 200);
    }
    // The limit of the organisation is for all its keys, and for those who are signed in.
    let org = format!("/admin/orgs/{}", team.tenant);
    team.owner.patch(&org, &json!({ "rpm_limit": 3 })).await.expect(200);
    let playground = team.user.chat("m").await;
    assert_eq!(
        (playground.status, number(&playground, "x-ratelimit-remaining-requests")),
        (200, 1),
        "their own"
    );
    assert_eq!(generous.chat("m").await.status, 200);
    let stream = json!({
        "model": "m", "stream": true, "max_tokens": 3, "messages": [{ "role": "user", "content": "hi" }],
    });
    let streamed = generous.post("/v1/chat/completions", &stream).await;
    assert_eq!((streamed.status, number(&streamed, "x-ratelimit-remaining-requests")), (200, 0));
    for client in [&team.user, &generous] {
        let answer = client.chat("m").await;
        assert_error(&answer, 429, "rate_limit_exceeded");
        assert!(answer.text.contains("organisation"), "{}", answer.text);
        let row = team.owner.usage_of(answer.header("x-request-id").unwrap()).await;
        assert_eq!((&row["outcome"], &row["total_tokens"]), (&json!("rejected"), &json!(0)));
    }
    // Other organisations are not affected. All sessions of a user count together; each key counts by itself.
    let again = team.gateway.owner().await;
    for session in [&team.owner, &again] {
        assert_eq!(session.chat("m").await.status, 200);
    }
    let answer = team.owner.chat("m").await;
    assert_error(&answer, 429, "rate_limit_exceeded");
    assert!(answer.text.contains("this user's limit of requests a minute"), "{}", answer.text);
    let (_, key) = team.owner.new_key(&json!({})).await;
    assert_eq!(key.chat("m").await.status, 200);
    // The user gets no new limit by ending all their sessions either.
    for session in [&team.owner, &again] {
        session.post("/auth/logout", &json!({})).await.expect(200);
    }
    let answer = team.gateway.owner().await.chat("m").await;
    assert_error(&answer, 429, "rate_limit_exceeded");
    let refused = "gantry_limit_decisions_total{kind=\"requests\",result=\"refused\"}";
    assert_eq!(metric(&team.gateway, refused).await, 5);
}

#[tokio::test]
async fn tokens_are_reserved_by_what_a_request_asks_for_and_settled_by_what_it_used() {
    let gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    let (_, client) = owner.new_key(&json!({ "tpm_limit": 6000 })).await;
    let mut body = chat("m");
    let (mut total, mut left) = (0, 6000);
    for _ in 0..3 {
        let answer = client.post("/v1/chat/completions", &body).await;
        assert_eq!((answer.status, number(&answer, "x-ratelimit-limit-tokens")), (200, 6000));
        total += answer.json["usage"]["total_tokens"].as_i64().unwrap();
        left = number(&answer, "x-ratelimit-remaining-tokens");
    }
    assert!(total > 30, "{total}");
    assert!(left >= 6000 - total - 60, "only what was used is gone, and a reservation: {left}");
    // The longest answer that it may get does not fit beside another one.
    body["max_tokens"] = json!(5900);
    body["stream"] = json!(true);
    engine(&owner, "slow", "--sim-hang-after-tokens 2").await;
    body["model"] = json!("slow");
    let mut running = client.stream("/v1/chat/completions", &body).await;
    assert!(running.next().await.unwrap().is_some());
    let mut next = chat("m");
    next["max_tokens"] = json!(2000);
    let refused = client.post("/v1/chat/completions", &next).await;
    assert_error(&refused, 429, "rate_limit_exceeded");
    assert!(refused.header("x-ratelimit-reset-tokens").unwrap().ends_with('s'));
    // It leaves: what it did not use comes back.
    drop(running);
    eventually("the reservation is settled", SOON, async || {
        (client.post("/v1/chat/completions", &next).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn places_for_requests_and_streams_come_back_when_clients_leave() {
    let gateway = start(Options::default().env("MAX_CONCURRENT_REQUESTS", "2")).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    engine(&owner, "slow", "--sim-hang-after-tokens 2").await;
    let mut body = chat("slow");
    body["stream"] = json!(true);
    let path = "/v1/chat/completions";
    let (_, client) = owner.new_key(&json!({ "max_streams": 1 })).await;
    let mut first = client.stream(path, &body).await;
    assert!(first.next().await.unwrap().is_some());
    let refused = client.post(path, &body).await;
    assert_error(&refused, 429, "rate_limit_exceeded");
    assert!(refused.text.contains("streams at the same time"), "{}", refused.text);
    assert_eq!((number(&refused, "retry-after"), number(&refused, "retry-after-ms")), (1, 1000));
    // The second place is for what is no stream.
    assert_eq!(client.chat("m").await.status, 200);
    drop(first);
    let (_, other) = owner.new_key(&json!({})).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = other.stream(path, &body).await;
        assert!(stream.next().await.unwrap().is_some());
        streams.push(stream);
    }
    assert_error(&other.chat("m").await, 429, "rate_limit_exceeded");
    streams.pop();
    eventually("the places are free again", SOON, async || {
        (other.chat("m").await.status == 200 && client.chat("m").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn shadow_mode_of_a_key_and_of_the_gateway() {
    let mut gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    let shadow = "gantry_limit_shadow_total{kind=\"requests\"}";
    let (key, client) = owner.new_key(&json!({ "rpm_limit": 1, "limit_mode": "shadow" })).await;
    for _ in 0..3 {
        assert_eq!(client.chat("m").await.status, 200);
    }
    assert_eq!(metric(&gateway, shadow).await, 2);
    // What would have been refused has not cost anything: the minute has one request.
    let path = format!("/admin/keys/{}", id(&key));
    owner.patch(&path, &json!({ "limit_mode": "enforce", "rpm_limit": 2 })).await.expect(200);
    assert_error(&client.chat("m").await, 429, "rate_limit_exceeded");
    gateway.kill();
    gateway.set_env("RATE_LIMIT_MODE", "shadow");
    gateway.restart().await;
    let client = client.at(&gateway.url);
    for _ in 0..4 {
        assert_eq!(client.chat("m").await.status, 200);
    }
    assert_eq!(metric(&gateway, shadow).await, 2);
}
