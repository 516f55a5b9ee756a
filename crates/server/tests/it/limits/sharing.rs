//! Several gateways on one database, with the limits in common; and what becomes of them without Redis.

use std::time::{Duration, Instant};

use gantry_testkit::{Client, Database, Gateway, Options, eventually};
use serde_json::json;

use super::parts::{Redis, SOON, engine, metric, metric_is, number, with_redis};
use crate::support::{assert_error, start};

/// No request may take longer, whatever Redis does. Each of them takes some milliseconds; one that waited for a frozen
/// server would take for ever. (A client gives up after two minutes.)
const BOUND: Duration = SOON;

/// Two gateways on one Postgres.
async fn on_one_postgres(test: &str, options: Options) -> Option<(Gateway, Gateway)> {
    if !Database::all(test).contains(&Database::Postgres) {
        return None;
    }
    let one = start(options.clone().on(Database::Postgres)).await;
    let database = one.database_url().unwrap();
    let two = start(options.env("DATABASE_URL", &database)).await;
    Some((one, two))
}

/// Two gateways on one Postgres and one Redis that know of each other.
async fn pair(test: &str, redis: &Redis) -> Option<(Gateway, Gateway)> {
    let (one, two) = on_one_postgres(test, with_redis(&redis.url())).await?;
    for gateway in [&one, &two] {
        metric_is(gateway, "gantry_limit_gateways", 2).await;
    }
    Some((one, two))
}

/// Returns clients of the same key on both gateways, once the second gateway knows the key.
async fn both(client: Client, two: &Gateway) -> [Client; 2] {
    let other = client.at(&two.url);
    eventually("the other gateway knows the key", SOON, async || {
        (other.get("/v1/models").await.status == 200).then_some(())
    })
    .await;
    [client, other]
}

/// Waits until the gateway has exchanged limits since now: an exchange may have begun before.
async fn exchanges(gateway: &Gateway) {
    let count = async || metric(gateway, "gantry_limit_redis_exchanges_total").await;
    let before = count().await;
    eventually("limits are exchanged", SOON, async || (count().await >= before + 2).then_some(())).await;
}

#[tokio::test]
async fn two_gateways_share_one_limit() {
    let test = "limits: two gateways share one limit";
    let Some(redis) = Redis::start(test).await else { return };
    let Some((one, two)) = pair(test, &redis).await else { return };
    let owner = one.owner().await;
    engine(&owner, "m", "").await;
    engine(&owner, "slow", "--sim-hang-after-tokens 2").await;

    let (_, client) = owner.new_key(&json!({ "rpm_limit": 20 })).await;
    let clients = both(client, &two).await;
    let (mut admitted, begun) = (0, Instant::now());
    let mut ask = async |gateway: usize, requests: usize| {
        for _ in 0..requests {
            let answer = clients[gateway].chat("m").await;
            admitted += i32::from(answer.status == 200);
            assert!(answer.status == 200 || answer.code() == "rate_limit_exceeded", "{}", answer.text);
        }
    };
    // One tells what it has admitted before the other one is asked for more than is left.
    ask(0, 10).await;
    exchanges(&one).await;
    exchanges(&two).await;
    ask(1, 20).await;
    exchanges(&two).await;
    exchanges(&one).await;
    ask(0, 20).await;
    // Each for itself would have admitted 40. One is earned back every 3 s.
    let earned = 20 + i32::try_from(begun.elapsed().as_secs() / 3).unwrap();
    assert!((20..=earned + 3).contains(&admitted), "{admitted}, and {earned} is right");
    let remaining = number(&clients[0].chat("m").await, "x-ratelimit-remaining-requests");
    assert!(remaining <= 1, "{remaining}");

    let (_, client) = owner.new_key(&json!({ "max_concurrency": 1 })).await;
    let clients = both(client, &two).await;
    let body = json!({
        "model": "slow", "stream": true, "messages": [{ "role": "user", "content": "hi" }],
    });
    let mut stream = clients[0].stream("/v1/chat/completions", &body).await;
    assert!(stream.next().await.unwrap().is_some());
    let refused = eventually("the other one hears of it", SOON, async || {
        let answer = clients[1].chat("m").await;
        (answer.status != 200).then_some(answer)
    });
    assert_error(&refused.await, 429, "rate_limit_exceeded");
    drop(stream);
    eventually("and of its end", SOON, async || (clients[1].chat("m").await.status == 200).then_some(()))
        .await;
    assert_eq!(metric(&one, "gantry_limit_fallback_total").await, 0);

    // One that stops is no longer counted, so that a share would be the whole limit.
    let mut two = two;
    assert!(two.terminate());
    metric_is(&one, "gantry_limit_gateways", 1).await;
}

#[tokio::test]
async fn budgets_are_shared_through_the_database_alone() {
    let test = "limits: budgets are shared";
    let options = Options::default().away_from_midnight().await;
    let Some((one, two)) = on_one_postgres(test, options).await else { return };
    let owner = one.owner().await;
    engine(&owner, "m", "").await;
    let (_, client) = owner.new_key(&json!({ "budget_tokens_day": 1 })).await;
    let [here, there] = both(client, &two).await;
    assert_eq!(here.chat("m").await.status, 200);
    assert_error(&here.chat("m").await, 429, "budget_exceeded");
    // Asked without spending anything: the answer's head says what is known.
    eventually("the other one hears of it", SOON, async || {
        let answer = there.get("/v1/models").await;
        answer.header("x-gantry-budget-warning").is_some().then_some(())
    })
    .await;
    assert_error(&there.chat("m").await, 429, "budget_exceeded");
}

#[tokio::test]
async fn nobody_waits_for_a_redis_that_froze_or_died() {
    let test = "limits: nobody waits for a Redis that froze or died";
    let Some(mut redis) = Redis::start(test).await else { return };
    let Some((one, two)) = pair(test, &redis).await else { return };
    let owner = one.owner().await;
    engine(&owner, "m", "").await;
    // More than is asked until the gateway notices, which may take all of REDIS_TIMEOUT_MS.
    let (_, client) = owner.new_key(&json!({ "rpm_limit": 1_000_000 })).await;
    let timed = async |client: &Client| {
        let begun = Instant::now();
        let answer = client.chat("m").await;
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
        answer
    };
    let fallbacks = async || metric(&one, "gantry_limit_fallback_total").await;
    for outage in ["frozen", "dead"] {
        assert_eq!(timed(&client).await.status, 200);
        metric_is(&one, "gantry_limit_redis_up", 1).await;
        let before = fallbacks().await;
        if outage == "frozen" {
            redis.freeze();
        } else {
            redis.kill();
        }
        eventually("the gateway notices", SOON, async || {
            assert_eq!(timed(&client).await.status, 200);
            (fallbacks().await > before).then_some(())
        })
        .await;
        assert!(metric(&one, "gantry_limit_redis_failures_total").await > 0);
        assert_eq!(metric(&one, "gantry_limit_redis_up").await, 0);
        // A limit still holds: half of it, as there are two gateways.
        let (_, few) = owner.new_key(&json!({ "rpm_limit": 4 })).await;
        let mut admitted = 0;
        for _ in 0..4 {
            admitted += i32::from(timed(&few).await.status == 200);
        }
        assert_eq!(admitted, 2, "{outage}");
        let said = "limits are not shared: this gateway goes on with its share of them";
        let n_outages = if outage == "frozen" { 1 } else { 2 };
        assert_eq!(one.log().matches(said).count(), n_outages, "once for each outage");
        if outage == "frozen" {
            redis.thaw();
        } else {
            redis.restart().await;
        }
        for gateway in [&one, &two] {
            metric_is(gateway, "gantry_limit_redis_up", 1).await;
            metric_is(gateway, "gantry_limit_gateways", 2).await;
        }
        let after = fallbacks().await;
        assert_eq!(timed(&client).await.status, 200);
        assert_eq!(fallbacks().await, after);
    }
}

#[tokio::test]
async fn a_gateway_starts_without_its_redis_and_finds_it_later() {
    let test = "limits: a gateway starts without its Redis";
    let Some(mut redis) = Redis::start(test).await else { return };
    redis.kill();
    let gateway = start(with_redis(&redis.url())).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    let (_, client) = owner.new_key(&json!({ "rpm_limit": 2 })).await;
    for status in [200, 200, 429] {
        assert_eq!(client.chat("m").await.status, status);
    }
    assert_eq!(gateway.log().matches("limits are not shared").count(), 1, "{}", gateway.log());
    redis.restart().await;
    metric_is(&gateway, "gantry_limit_redis_up", 1).await;
    // What was used meanwhile is reported to Redis, so nothing can be used twice.
    assert_error(&client.chat("m").await, 429, "rate_limit_exceeded");
}
