//! What refusals cost: a key that is refused as fast as it can ask writes few rows, which say how many requests they are,
//! and takes nothing from anybody else.

use std::{fs, io::Write as _, time::Instant};

use futures_util::future::join_all;
use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, SmallDisk, eventually, root_with};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    monitoring,
    simulator::Simulator,
    support::{gateway, start},
    team::Team,
};

/// Makes a body by its number.
type Body<'a> = &'a dyn Fn(usize) -> String;

/// What a flood was answered.
struct Flood {
    /// Each status once.
    statuses: Vec<u16>,
    /// Answers that ended their connections.
    n_closed: usize,
}

/// Sends `n` requests at once; `body` returns the body for each number.
async fn flood(client: &Client, n: usize, body: impl Fn(usize) -> String) -> Flood {
    let all = (0..n).map(async |n| {
        let request = client.request(Method::POST, "/v1/chat/completions");
        client.send(request.header("content-type", "application/json").body(body(n))).await
    });
    let answers = join_all(all).await;
    let mut statuses: Vec<_> = answers.iter().map(|it| it.status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let n_closed = answers.iter().filter(|it| it.header("connection") == Some("close")).count();
    Flood { statuses, n_closed }
}

/// Waits until the sums, the rows and the CSV all show `n` requests of a key. Returns the number of rows.
async fn rows_of(owner: &Client, key: &Value, n: i64) -> usize {
    let id = key["id"].as_i64().unwrap();
    let sum = |list: &Value| -> i64 {
        list.as_array().unwrap().iter().map(|it| it["requests"].as_i64().unwrap()).sum()
    };
    eventually("all requests are counted", PATIENCE, async || {
        let groups = owner.get(&format!("/admin/usage/aggregate?group_by=key&key_id={id}")).await;
        (sum(&groups.expect(200)) == n).then_some(())
    })
    .await;
    let filter = format!("hours=2&key_id={id}");
    for bucket in ["minute", "hour"] {
        let series = owner.get(&format!("/admin/usage/series?bucket={bucket}&{filter}")).await.expect(200);
        assert_eq!(sum(&series), n, "{bucket}");
    }
    let listed = owner.get(&format!("/admin/usage?limit=1000&{filter}")).await;
    let total: usize = listed.header("x-total-count").unwrap().parse().unwrap();
    let rows = listed.expect(200);
    assert_eq!((sum(&rows), rows.as_array().unwrap().len()), (n, total));
    let csv = owner.get(&format!("/admin/usage/export?{filter}")).await.text;
    let last = |line: &str| line.rsplit(',').next().unwrap().parse::<i64>().unwrap();
    assert_eq!(csv.lines().skip(1).map(last).sum::<i64>(), n);
    total
}

#[tokio::test]
async fn a_refused_key_writes_few_rows_that_tell_all_its_requests() {
    const N: usize = 300;
    for database in Database::one("refusals share rows") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let simulator = Simulator::start("").await;
        let served = simulator.join(&gateway).await;
        let chat = |model: &str| {
            json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] }).to_string()
        };
        let whole = |_: usize| chat("m");
        let made_up = |n: usize| chat(&format!("there is no model {n}"));
        let broken = |_: usize| r#"{"model":"m","messages":"#.to_owned();
        let kinds: [(Value, &[u16], Body<'_>); 6] = [
            (json!({ "rpm_limit": 1 }), &[200, 429], &whole),
            (json!({ "ip_allowlist": ["192.0.2.1"] }), &[403], &whole),
            (json!({ "scopes": ["embeddings"] }), &[403], &whole),
            (json!({ "models": ["another"] }), &[403], &whole),
            (json!({}), &[400], &broken),
            (json!({}), &[404], &made_up),
        ];
        for (settings, expected, body) in kinds {
            let (key, client) = owner.new_key(&settings).await;
            let begun = Instant::now();
            assert_eq!(flood(&client, N, body).await.statuses, expected, "{settings}");
            let took = begun.elapsed().as_secs() as usize + 1;
            let rows = rows_of(&owner, &key, N as i64).await;
            assert!(rows <= 50 * took.min(2) + 5 * took, "{settings}: {rows} rows in {took} s");
            println!("{settings}: {N} requests, {rows} rows, {took} s");
        }
        // Callers that are not refused notice nothing.
        let answer = served.chat("m").await;
        assert_eq!(answer.status, 200);
        let integrity = owner.get("/admin/usage/integrity").await.expect(200);
        assert_eq!(integrity["ok"], true, "{integrity}");
    }
}

#[tokio::test]
async fn who_is_refused_again_and_again_waits_and_loses_the_connection() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let (_, client) = owner.new_key(&json!({ "scopes": ["embeddings"] })).await;
    let first = client.chat("m").await;
    assert_eq!((first.status, first.header("connection")), (403, None));
    let n_closed = eventually("connections are closed", PATIENCE, async || {
        let flood = flood(&client, 200, |_| "{}".to_owned()).await;
        (flood.n_closed > 0).then_some(flood.n_closed)
    })
    .await;
    assert!(n_closed <= 150, "the first ones are answered at once: {n_closed}");
    // Another one is not concerned.
    let (_, other) = owner.new_key(&json!({ "scopes": ["embeddings"] })).await;
    let answer = other.chat("m").await;
    assert_eq!((answer.status, answer.header("connection")), (403, None));
}

#[tokio::test]
async fn many_keys_of_one_user_write_no_more_rows_than_two_of_them() {
    const KEYS: usize = 20;
    let team = Team::on(Database::Sqlite).await;
    let begun = Instant::now();
    let mut clients = Vec::new();
    for n in 0..KEYS {
        let key = team.user.post("/auth/keys", &json!({ "name": format!("k{n}") })).await.expect(201);
        clients.push(team.gateway.client().with_key(key["token"].as_str().unwrap()));
    }
    let floods = clients.iter().map(|it| flood(it, 50, |_| r#"{"model":"#.to_owned()));
    for flood in join_all(floods).await {
        assert_eq!(flood.statuses, [400]);
    }
    let user = team.user.get("/auth/me").await.expect(200)["user"]["id"].as_i64().unwrap();
    let filter = format!("hours=2&user_id={user}");
    let rows = eventually("all requests are counted", PATIENCE, async || {
        let listed = team.owner.get(&format!("/admin/usage?limit=1000&{filter}")).await.expect(200);
        let rows = listed.as_array().unwrap();
        let requests: i64 = rows.iter().map(|it| it["requests"].as_i64().unwrap()).sum();
        (requests == (KEYS * 50) as i64).then_some(rows.len())
    })
    .await;
    let took = begun.elapsed().as_secs() as usize + 1;
    println!("{KEYS} keys, {rows} rows, {took} s");
    assert!(rows <= 90 + 10 * took, "{rows} rows in {took} s");
}

async fn dropped(gateway: &Gateway) -> f64 {
    monitoring::value(&monitoring::page(gateway).await, "gantry_usage_refusals_dropped_total")
}

#[tokio::test]
async fn the_last_of_a_disk_is_not_for_refusals() {
    if !root_with("refusals: the spool's disk is almost full", &["mount"]) {
        return;
    }
    let simulator = Simulator::start("").await;
    let mut gateway = start(Options::default()).await;
    simulator.join(&gateway).await;
    gateway.terminate();
    let disk = SmallDisk::mount(&gateway.data_dir().join("spool"), "16m");
    gateway.restart().await;
    let owner = gateway.owner().await;
    let (_, served) = owner.new_key(&json!({})).await;
    let (limited, refused) = owner.new_key(&json!({ "rpm_limit": 1 })).await;
    assert_eq!(refused.chat("m").await.status, 200);
    assert_eq!(refused.chat("m").await.status, 429);
    rows_of(&owner, &limited, 2).await;

    // Half a megabyte stays, three parts of a hundred, beside what the spool has allocated.
    let filler = fs::File::create(disk.path().join("filler")).unwrap();
    while (&filler).write_all(&vec![0; 64 << 10]).is_ok() {}
    filler.set_len(filler.metadata().unwrap().len() - (512 << 10)).unwrap();
    eventually("it is seen that the disk is almost full", PATIENCE, async || {
        assert_ne!(refused.chat("m").await.status, 503);
        (dropped(&gateway).await > 0.0).then_some(())
    })
    .await;
    let before = dropped(&gateway).await;
    let hi = |_| json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    assert!(!flood(&refused, 200, hi).await.statuses.contains(&503));
    for _ in 0..20 {
        let answer = served.chat("m").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    eventually("what has no row is counted", PATIENCE, async || {
        (dropped(&gateway).await >= before + 190.0).then_some(())
    })
    .await;

    disk.clear();
    eventually("refusals have rows again", PATIENCE, async || {
        let before = dropped(&gateway).await;
        refused.chat("m").await;
        (dropped(&gateway).await <= before).then_some(())
    })
    .await;
    gateway.kill();
}

#[tokio::test]
async fn lines_about_unknown_keys_are_few_and_tell_all_of_them() {
    let gateway = start(Options::default().env("LOG_FORMAT", "json")).await;
    let unknown = gateway.client().with_key("gty_nobody-s");
    for _ in 0..10 {
        assert_eq!(flood(&unknown, 100, |_| "{}".to_owned()).await.statuses, [401]);
    }
    let lines = eventually("all are told", PATIENCE, async || {
        let log = gateway.log();
        let lines = log.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let lines: Vec<_> = lines.filter(|it| it["status"] == 401).collect();
        let told: u64 = lines.iter().map(|it| it["requests"].as_u64().unwrap_or(1)).sum();
        (told == 1_000).then_some(lines.len())
    })
    .await;
    println!("1000 requests: {lines} lines");
    assert!(lines < 500, "{lines} lines");
}
