//! Budgets: what they count, from when on they warn, and where they stop.

use gantry_domain::limit::period::Period;

use gantry_testkit::{Client, Database, Options, eventually, now};
use serde_json::{Value, json};

use super::parts::{SOON, engine, number};
use crate::{
    gate::{Begun, Gate, TOKENS},
    support::{assert_error, start},
    team::id,
};

async fn used(owner: &Client, path: &str, period: &str) -> Value {
    let list = owner.get(path).await.expect(200);
    list[0]["budget"][period]["used"].clone()
}

#[tokio::test]
async fn budgets_count_what_the_database_knows_and_stop() {
    for database in Database::all("budgets_count_what_the_database_knows_and_stop") {
        let mut gateway = start(Options::default().on(database).away_from_midnight().await).await;
        let owner = gateway.owner().await;
        engine(&owner, "m", "").await;
        let (key, client) = owner.new_key(&json!({ "name": "spender" })).await;
        let first = client.chat("m").await;
        let each = first.json["usage"]["total_tokens"].as_i64().unwrap();
        owner.usage_of(first.header("x-request-id").unwrap()).await;
        // A budget counts what was spent before it was set.
        let path = format!("/admin/keys/{}", id(&key));
        let limits = json!({ "budget_tokens_day": 3 * each, "budget_tokens_month": 100 * each });
        owner.patch(&path, &limits).await.expect(200);
        eventually("the budget knows of the past", SOON, async || {
            (used(&owner, "/admin/keys?q=spender", "day").await == each).then_some(())
        })
        .await;
        // Counting is free.
        let tokenize = json!({ "model": "m", "prompt": "some words" });
        client.post("/tokenize", &tokenize).await.expect(200);
        let second = client.chat("m").await;
        assert_eq!((second.status, second.header("x-gantry-budget-warning")), (200, None));
        assert_eq!(used(&owner, "/admin/keys?q=spender", "month").await, 2 * each);
        owner.usage_of(second.header("x-request-id").unwrap()).await;
        // Neither a restart nor records that the spool still held make it forget.
        gateway.kill_and_restart().await;
        let (owner, client) = (gateway.owner().await, client.at(&gateway.url));
        assert_eq!(used(&owner, "/admin/keys?q=spender", "day").await, 2 * each);
        assert_eq!(client.chat("m").await.status, 200);
        let spent = client.chat("m").await;
        assert_error(&spent, 429, "budget_exceeded");
        assert_eq!(spent.header("x-gantry-budget-warning"), Some("key day 100%"));
        let seconds = number(&spent, "retry-after");
        assert!((1..=24 * 3600).contains(&seconds), "{seconds}");
        let budget = &owner.get("/admin/keys?q=spender").await.json[0]["budget"]["day"];
        let shown = json!({ "limit": 3 * each, "used": 3 * each, "pct": 100, "warning": true });
        assert_eq!(budget, &shown);
        assert!(gateway.log().contains("a budget of tokens is used up"));
        // More of it, and it goes on.
        let more = json!({ "budget_tokens_day": 1000 * each, "budget_tokens_month": 1000 * each });
        owner.patch(&path, &more).await.expect(200);
        assert_eq!(client.chat("m").await.status, 200);
        // The organisation's budget counts its keys together, and those who are signed in.
        let org = owner.get("/auth/me").await.json["user"]["org_id"].as_i64().unwrap();
        let org = format!("/admin/orgs/{org}");
        owner.patch(&org, &json!({ "budget_tokens_month": 4 * each })).await.expect(200);
        eventually("the organisation's budget is used up", SOON, async || {
            (owner.chat("m").await.code() == "budget_exceeded").then_some(())
        })
        .await;
        assert_error(&client.chat("m").await, 429, "budget_exceeded");
    }
}

#[tokio::test]
async fn what_nobody_counts_any_more_is_not_said_to_be_nothing() {
    for database in Database::one("what_nobody_counts_any_more") {
        let gateway = start(Options::default().on(database).away_from_midnight().await).await;
        let owner = gateway.owner().await;
        engine(&owner, "m", "").await;
        let (key, client) =
            owner.new_key(&json!({ "name": "spender", "budget_tokens_day": 1_000_000 })).await;
        let fresh = json!({ "limit": 1_000_000, "used": 0, "pct": 0, "warning": false });
        assert_eq!(key["budget"]["day"], fresh, "nothing can have been spent yet");
        let spent = client.chat("m").await.expect(200)["usage"]["total_tokens"].clone();
        assert_eq!(used(&owner, "/admin/keys?q=spender", "day").await, spent);
        owner.delete(&format!("/admin/keys/{}", id(&key))).await.expect(200);
        let listed = owner.get("/admin/keys?q=spender").await.expect(200);
        let unknown = json!({ "limit": 1_000_000, "used": null, "pct": null, "warning": false });
        assert_eq!(listed[0]["budget"]["day"], unknown);
    }
}

#[tokio::test]
async fn a_budget_warns_from_80_per_cent_on_and_ends_with_the_day_of_utc() {
    // A day begins earliest on earth there, and latest: neither counts.
    for zone in ["Pacific/Kiritimati", "Etc/GMT+12"] {
        let options = Options::default().env("TZ", zone).away_from_midnight().await;
        let ahead = options.ahead();
        let gateway = start(options).await;
        let owner = gateway.owner().await;
        engine(&owner, "m", "").await;
        let (_, measure) = owner.new_key(&json!({})).await;
        let each = measure.chat("m").await.json["usage"]["total_tokens"].as_i64().unwrap();
        let edge = each * 100 / 80;
        for (budget, warning) in [(edge + 1, None), (edge, Some("key day 80%"))] {
            let (_, client) = owner.new_key(&json!({ "budget_tokens_day": budget })).await;
            assert_eq!(client.chat("m").await.header("x-gantry-budget-warning"), None);
            let next = client.get("/v1/models").await;
            assert_eq!((next.status, next.header("x-gantry-budget-warning")), (200, warning), "{budget}");
        }
        assert_eq!(gateway.log().matches("a budget of tokens is nearly used up").count(), 1);

        for (period, field, message) in [
            (Period::Day, "budget_tokens_day", "this key's budget of tokens for today is used up"),
            (Period::Month, "budget_tokens_month", "this key's budget of tokens for this month is used up"),
        ] {
            let (_, client) = owner.new_key(&json!({ field: 1 })).await;
            client.chat("m").await.expect(200);
            let before = now().plus(ahead);
            let refused = client.chat("m").await;
            let after = now().plus(ahead);
            assert_error(&refused, 429, "budget_exceeded");
            assert_eq!(refused.json["error"]["message"], message);
            assert_eq!(refused.header("x-should-retry"), Some("false"));
            let ms = number(&refused, "retry-after-ms");
            let end = |at| period.end(at).since(at).as_millis() as i64;
            assert!(ms <= end(before) && ms >= end(after) || end(after) > end(before), "{ms}");
        }
    }
}

#[tokio::test]
async fn a_stream_in_progress_is_not_cut_by_a_budget_that_ends_meanwhile() {
    let gateway = start(Options::default().away_from_midnight().await).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    let gate = Gate::open(&owner, "gated").await;
    let (key, client) = owner.new_key(&json!({ "budget_tokens_day": 1, "name": "spender" })).await;
    let running = Begun::of(&client, "gated").await;
    let other = client.chat("m").await.expect(200)["usage"]["total_tokens"].as_i64().unwrap();
    assert_error(&client.chat("m").await, 429, "budget_exceeded");
    gate.end_one();
    running.ends_well().await;
    // It is counted all the same: what it used is above the budget.
    eventually("the stream is counted", SOON, async || {
        (used(&owner, "/admin/keys?q=spender", "day").await == other + TOKENS).then_some(())
    })
    .await;
    // And it was admitted, so it is what more budget has to pay for.
    let path = format!("/admin/keys/{}", id(&key));
    owner.patch(&path, &json!({ "budget_tokens_day": other + TOKENS })).await.expect(200);
    assert_error(&client.chat("m").await, 429, "budget_exceeded");
    owner.patch(&path, &json!({ "budget_tokens_day": other + TOKENS + 1 })).await.expect(200);
    client.chat("m").await.expect(200);
}
