//! Usage as an administrator sees it: pages, sums, series, percentiles and the export of the same rows say the same,
//! and nobody sees another organisation's.

use std::collections::BTreeMap;

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    audit::{Action, Actor, AuditEntry, Origin},
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::Store;
use gantry_testkit::{Client, Database, Gateway, Options, eventually, now};
use serde_json::{Value, json};

use crate::{
    support::{assert_invalid, column, gateway, start},
    team::{Team, make_key},
};

const SUMS: [&str; 5] = ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens"];

async fn get(client: &Client, path: &str) -> Value {
    client.get(&format!("/admin/usage{path}")).await.expect(200)
}

/// Sums of a list of objects.
fn total(list: &Value) -> BTreeMap<&'static str, i64> {
    let sum = |field| column(list, field).iter().map(|it| it.as_i64().unwrap()).sum();
    SUMS.into_iter().map(|field| (field, sum(field))).collect()
}

/// Returns the same sums, from the rows themselves.
fn total_of_rows(rows: &Value) -> BTreeMap<&'static str, i64> {
    let rows = rows.as_array().unwrap();
    let sum = |field: &str| rows.iter().map(|it| it[field].as_i64().unwrap()).sum();
    let errors = rows.iter().filter(|it| it["status_code"].as_i64().unwrap() >= 400).count() as i64;
    SUMS.into_iter()
        .map(|field| match field {
            "requests" => (field, rows.len() as i64),
            "errors" => (field, errors),
            _ => (field, sum(field)),
        })
        .collect()
}

/// Records of RFC 4180.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    let mut quoted = false;
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(char),
        }
    }
    assert!(record.is_empty() && field.is_empty() && !quoted, "the last line ends with a line break");
    records
}

/// The rows of an export as the list shows them.
async fn exported(client: &Client, query: &str) -> Value {
    let answer = client.get(&format!("/admin/usage/export{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(answer.header("content-disposition").unwrap().starts_with("attachment"));
    let mut records = parse_csv(&answer.text).into_iter();
    let names = records.next().unwrap();
    let texts = ["id", "req_id", "created_at", "key_prefix", "model_name", "task", "endpoint", "outcome"];
    let value = |(name, text): (&String, String)| {
        let value = if text.is_empty() {
            Value::Null
        } else if texts.contains(&name.as_str()) {
            text.strip_prefix('\'').unwrap_or(&text).into()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        (name.clone(), value)
    };
    let row = |record: Vec<String>| {
        assert_eq!(record.len(), names.len(), "{record:?}");
        Value::Object(names.iter().zip(record).map(value).collect())
    };
    records.map(row).collect()
}

/// List, export, groups, series and durations of the same filter say the same; gives the rows.
async fn assert_agreement(client: &Client, filter: &str) -> Value {
    let rows = get(client, &format!("?limit=1000&{filter}")).await;
    assert_eq!(exported(client, &format!("?{filter}")).await, rows, "{filter}");
    let wanted = total_of_rows(&rows);
    for by in ["model", "key", "user", "org"] {
        let groups = get(client, &format!("/aggregate?limit=1000&group_by={by}&{filter}")).await;
        assert_eq!(total(&groups), wanted, "{by} {filter}");
    }
    for bucket in ["minute", "hour", "day"] {
        let series = get(client, &format!("/series?bucket={bucket}&{filter}")).await;
        assert_eq!(total(&series), wanted, "{bucket} {filter}");
    }
    let latency = get(client, &format!("/latency?{filter}")).await;
    let asked = ["outcome=", "status="].iter().any(|it| filter.contains(it));
    let is_timed = |it: &&Value| asked || it["outcome"] != "client_error" && it["outcome"] != "rejected";
    let samples = rows.as_array().unwrap().iter().filter(is_timed).map(|it| it["requests"].as_u64().unwrap());
    assert_eq!(latency["samples"], samples.sum::<u64>(), "{filter}");
    let ttft = get(client, &format!("/ttft?{filter}")).await;
    let streamed = column(&rows, "ttft_ms").into_iter().filter(|it| !it.is_null()).count();
    assert_eq!(ttft["samples"], streamed, "{filter}");
    for times in [&latency, &ttft] {
        let spread = column(&times["histogram"], "requests").into_iter().map(|it| it.as_u64().unwrap());
        assert_eq!(times["samples"], spread.sum::<u64>(), "{filter}");
    }
    rows
}

async fn wait_for_rows(client: &Client, n: usize) {
    eventually(&format!("{n} usage rows"), gantry_testkit::PATIENCE, async || {
        let rows = get(client, "?limit=1000").await;
        (rows.as_array().unwrap().len() == n).then_some(())
    })
    .await;
}

#[tokio::test]
async fn whatever_is_asked_the_same_requests_are_meant_and_only_the_own_ones() {
    for database in Database::all("whatever_is_asked_the_same_requests_are_meant") {
        let team = Team::on(database).await;
        let dead = json!({ "served_name": "dead", "url": "http://127.0.0.1:9" });
        team.owner.post("/admin/models/registry", &dead).await.expect(201);
        let of_tenant = make_key(&team.owner, &json!({ "org_id": team.tenant, "name": "ci" })).await;
        let of_home = make_key(&team.owner, &json!({ "name": "home" })).await;
        let tenant = team.gateway.client().with_key(of_tenant["token"].as_str().unwrap());
        let home = team.gateway.client().with_key(of_home["token"].as_str().unwrap());
        for name in ["dead", "dead", "no such model", "=cmd|'/C calc'!A0, \"x\""] {
            tenant.chat(name).await;
        }
        home.chat("dead").await;
        wait_for_rows(&team.owner, 5).await;

        let all = assert_agreement(&team.owner, "hours=24").await;
        assert_eq!(all.as_array().unwrap().len(), 5);
        for filter in
            ["model=dead", "status=5xx", "status=404", "outcome=client_error", "task=embed", "hours=1"]
        {
            assert_agreement(&team.owner, filter).await;
        }
        let own = assert_agreement(&team.org_admin, "hours=24").await;
        assert_eq!(own.as_array().unwrap().len(), 4);
        assert!(column(&own, "org_id").iter().all(|it| **it == team.tenant));
        let none = assert_agreement(&team.org_admin, &format!("org_id={}", team.home)).await;
        assert_eq!(none, json!([]));
        let none = assert_agreement(&team.org_admin, &format!("key_id={}", of_home["id"])).await;
        assert_eq!(none, json!([]));
        let durations = get(&team.org_admin, &format!("/latency?org_id={}", team.home)).await;
        let nothing = json!({
            "p50_ms": null, "p95_ms": null, "p99_ms": null, "avg_ms": null, "samples": 0, "histogram": [],
        });
        assert_eq!(durations, nothing);
        // A spreadsheet does not run it.
        let csv = team.owner.get("/admin/usage/export").await.text;
        assert!(csv.contains(",\"'=cmd|'/C calc'!A0, \"\"x\"\"\","), "{csv}");

        let models = get(&team.owner, "/aggregate").await;
        let dead = &models[0];
        assert_eq!(
            (&dead["group"], &dead["model_name"], &dead["requests"]),
            (&json!("dead"), &json!("dead"), &json!(3))
        );
        let keys = get(&team.owner, "/aggregate?group_by=key").await;
        let shown = format!("{} ci", of_tenant["prefix"].as_str().unwrap());
        assert_eq!((&keys[0]["group"], &keys[0]["group_id"]), (&json!(shown), &of_tenant["id"]));
        assert_eq!(keys[0]["key_prefix"], of_tenant["prefix"]);
        // A holder that is gone is still shown, by its last name.
        team.owner.delete(&format!("/admin/orgs/{}", team.tenant)).await.expect(200);
        let orgs = get(&team.owner, "/aggregate?group_by=org").await;
        let gone = json!("Tenant");
        assert_eq!(
            (&orgs[0]["group"], &orgs[0]["deleted"], &orgs[0]["requests"]),
            (&gone, &json!(true), &json!(4))
        );
        assert_eq!((&orgs[1]["group"], &orgs[1]["deleted"]), (&json!("Default"), &json!(false)));

        let integrity = get(&team.owner, "/integrity").await;
        assert_eq!(integrity["ok"], true, "{integrity}");
        assert_eq!((&integrity["rows"], &integrity["rollup_rows_sum"]), (&json!(5), &json!(5)));
        let spool = &integrity["spool"];
        assert_eq!(
            (&spool["written"], &spool["shipped"], &spool["replayed"]),
            (&json!(5), &json!(5), &json!(0))
        );
    }
}

#[tokio::test]
async fn requests_without_a_model_are_a_group_that_can_be_asked_for() {
    for database in Database::one("requests_without_a_model_are_a_group") {
        let team = Team::on(database).await;
        let (_, key) = team.owner.new_key(&json!({})).await;
        let broken = key.request(reqwest::Method::POST, "/v1/chat/completions").body("{");
        assert_eq!(key.send(broken.header("content-type", "application/json")).await.status, 400);
        key.chat("no model").await;
        wait_for_rows(&team.owner, 2).await;
        let rows = get(&team.owner, "?no_model=true").await;
        assert_eq!(column(&rows, "status_code"), [400]);
        assert_eq!(column(&rows, "model_name"), [""]);
        let csv = team.owner.get("/admin/usage/export?no_model=true").await.text;
        assert_eq!(csv.lines().count(), 2, "{csv}");
        assert_eq!(total(&get(&team.owner, "/series?no_model=true").await), total_of_rows(&rows));
        let groups = get(&team.owner, "/aggregate?no_model=true").await;
        assert_eq!(
            (&groups[0]["group"], &groups[0]["model_name"], &groups[0]["requests"]),
            (&json!("no model"), &json!(""), &json!(1))
        );
        // A name of those words is another group, and the filter by name finds it alone.
        let rows = assert_agreement(&team.owner, "model=no%20model&no_model=false").await;
        assert_eq!(column(&rows, "model_name"), ["no model"]);
        assert_eq!(get(&team.owner, "/aggregate").await.as_array().unwrap().len(), 2);
        assert_invalid(&team.owner.get("/admin/usage?model=m&no_model=true").await, &["no_model"]);
    }
}

#[tokio::test]
async fn a_request_is_found_by_the_id_of_its_error() {
    for database in Database::one("usage: by request id") {
        let team = Team::on(database).await;
        let (_, key) = team.owner.new_key(&json!({})).await;
        let failed = key.chat("nowhere").await;
        let id = failed.json["request_id"].as_str().unwrap();
        let chosen =
            key.request(reqwest::Method::POST, "/v1/chat/completions").header("x-request-id", "mine");
        assert_eq!(key.send(chosen.json(&gantry_testkit::chat("nowhere"))).await.status, 404);
        wait_for_rows(&team.owner, 2).await;
        for id in [id, "mine"] {
            let rows = get(&team.owner, &format!("?req_id={id}")).await;
            assert_eq!(
                (column(&rows, "req_id"), column(&rows, "status_code")),
                (vec![&json!(id)], vec![&json!(404)])
            );
        }
        // A range of an hour long ago: the id says when its request was.
        let long_ago = "&from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z";
        assert_eq!(get(&team.owner, &format!("?req_id={id}{long_ago}")).await.as_array().unwrap().len(), 1);
        assert_eq!(get(&team.owner, &format!("?req_id=mine{long_ago}")).await, json!([]));
        assert_eq!(get(&team.owner, "?req_id=nobody").await, json!([]));
        // It is the owner's key: for others there is no such request.
        let own = team.user.get(&format!("/auth/usage?req_id={id}")).await.expect(200);
        assert_eq!(own, json!([]));
    }
}

/// A gateway on SQLite whose ledger got rows behind its back, as another gateway would add them.
async fn with_rows(rows: &[UsageRow]) -> (Gateway, Client, Store) {
    let gateway = gateway(Database::Sqlite).await;
    let store =
        Store::open(&format!("sqlite://{}", gateway.data_dir().join("gantry.db").display())).await.unwrap();
    let mut tx = store.write().await.unwrap();
    tx.insert_usage(rows).await.unwrap();
    tx.commit().await.unwrap();
    let owner = gateway.owner().await;
    (gateway, owner, store)
}

fn row(number: i64, ago_s: i64) -> UsageRow {
    let created_at = Timestamp(now().0 - ago_s * 1000);
    UsageRow {
        id: id_at(created_at, number as u128),
        req_id: format!("-{number}"),
        created_at,
        key_id: Some(KeyId(1 + number % 3)),
        key_prefix: Some("gty_Ab000001".to_owned()),
        user_id: Some(UserId(100 + number % 7)),
        org_id: Some(OrgId(1 + number % 2)),
        model_name: "qwen".to_owned(),
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: number,
        completion_tokens: 1,
        cached_tokens: None,
        estimated: false,
        latency_ms: number,
        ttft_ms: Some(number / 10),
        status_code: 200,
        outcome: Outcome::Ok,
        requests: 1,
    }
}

#[tokio::test]
async fn an_export_has_every_row_of_many_pages() {
    let rows: Vec<_> = (0..9_000).map(|n| row(n, n % 40_000)).collect();
    let (_gateway, owner, _store) = with_rows(&rows).await;
    let found = exported(&owner, "?hours=24").await;
    let mut ids: Vec<_> = rows.iter().map(|it| it.id.to_string()).collect();
    ids.sort_by(|a, b| b.cmp(a));
    assert_eq!(column(&found, "id"), ids.iter().collect::<Vec<_>>());
    // Somewhere in the middle, as the list has it.
    let page = owner.get("/admin/usage?limit=50&offset=5000").await;
    assert_eq!(page.header("x-total-count"), Some("9000"));
    assert_eq!(page.json.as_array().unwrap()[..], found.as_array().unwrap()[5000..5050]);
}

#[tokio::test]
async fn the_heaviest_users_of_an_organisation_are_one_call_away() {
    let rows: Vec<_> = (0..2_000).map(|n| row(n, n * 250)).collect();
    let (_gateway, owner, _store) = with_rows(&rows).await;
    let top =
        owner.get("/admin/usage/aggregate?group_by=user&org_id=1&hours=168&sort=-total_tokens&limit=5").await;
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for row in rows.iter().filter(|it| it.org_id == Some(OrgId(1))) {
        *wanted.entry(row.user_id.unwrap().0).or_default() += row.prompt_tokens + row.completion_tokens;
    }
    let mut wanted: Vec<_> = wanted.into_iter().map(|(user, tokens)| (tokens, user)).collect();
    wanted.sort_by(|a, b| b.cmp(a));
    assert_eq!(top.header("x-total-count"), Some("7"));
    let pair = |it: &Value| (it["total_tokens"].as_i64().unwrap(), it["group_id"].as_i64().unwrap());
    let top = top.expect(200);
    assert_eq!(top.as_array().unwrap().iter().map(pair).collect::<Vec<_>>(), wanted[..5]);
    let least = get(&owner, "/aggregate?group_by=user&org_id=1&hours=168&sort=total_tokens&limit=1").await;
    assert_eq!(pair(&least[0]), wanted[6]);
}

#[tokio::test]
async fn percentiles_are_real_and_series_have_no_holes() {
    let rows: Vec<_> = (1..=2_000).map(|n| row(n, 60)).collect();
    let (_gateway, owner, _store) = with_rows(&rows).await;
    for (path, scale) in [("/latency", 1.0), ("/ttft", 0.1)] {
        let durations = get(&owner, path).await;
        assert_eq!(durations["samples"], 2_000);
        // From the span of 1 ms, or a tenth of it, to that of 2,000 ms, or a tenth of it, without a gap.
        let spans = durations["histogram"].as_array().unwrap();
        assert_eq!(spans.iter().map(|it| it["requests"].as_u64().unwrap()).sum::<u64>(), 2_000);
        assert!(spans.windows(2).all(|it| it[0]["to_ms"] == it[1]["from_ms"]), "{durations}");
        assert_eq!(spans[0]["from_ms"], 0);
        let last = spans.last().unwrap();
        let (from, to) = (last["from_ms"].as_f64().unwrap(), last["to_ms"].as_f64().unwrap());
        assert!(from <= 2_000.0 * scale && 2_000.0 * scale < to, "{durations}");
        // The values are spread evenly, so each span has as many as it is wide.
        let whole = spans.iter().find(|it| it["from_ms"] == 100).unwrap();
        let wide = (whole["to_ms"].as_f64().unwrap() - 100.0) / scale;
        assert!((whole["requests"].as_f64().unwrap() - wide).abs() <= wide * 0.05, "{durations}");
        for (name, exact) in [("p50_ms", 1_000.0), ("p95_ms", 1_900.0), ("p99_ms", 1_980.0)] {
            let found = durations[name].as_f64().unwrap();
            assert!((found - exact * scale).abs() <= exact * scale * 0.02, "{path} {name} {found}");
        }
    }
    assert_eq!(get(&owner, "/latency").await["avg_ms"], 1_000.5);
    let from = Timestamp(now().0 - 3 * 3_600_000);
    let hours = get(&owner, &format!("/series?bucket=hour&from={}", from.rfc3339())).await;
    let starts: Vec<_> = column(&hours, "ts").into_iter().map(|it| it.as_str().unwrap()).collect();
    let first = Timestamp(from.0 / 3_600_000 * 3_600_000);
    let wanted: Vec<_> =
        (0..starts.len() as i64).map(|n| Timestamp(first.0 + n * 3_600_000).rfc3339()).collect();
    assert_eq!(starts, wanted);
    assert_eq!(hours[0]["requests"], 0);
    assert_eq!(total(&hours)["requests"], 2_000);
    assert_eq!(get(&owner, "/series?bucket=minute&hours=48").await.as_array().unwrap().len(), 2881);
    assert_invalid(&owner.get("/admin/usage/series?bucket=minute&hours=49").await, &["bucket"]);
}

#[tokio::test]
async fn sums_that_do_not_agree_with_the_rows_are_told() {
    const HOUR: i64 = 3_600;
    let rows: Vec<_> = (0..50).map(|n| row(n, if n < 20 { 5 * HOUR } else { 60 })).collect();
    let (_gateway, owner, store) = with_rows(&rows).await;
    let integrity = get(&owner, "/integrity").await;
    assert_eq!((&integrity["ok"], &integrity["mismatches"]), (&json!(true), &json!([])));
    // Rows go for their age: that is noted, and the sums are no longer compared.
    let mut tx = store.write().await.unwrap();
    assert_eq!(tx.delete_usage_before(Timestamp(now().0 - 3 * HOUR * 1000), 100).await.unwrap(), 20);
    let noted = tx.meta_get("usage_raw_since").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let integrity = get(&owner, "/integrity").await;
    assert_eq!((&integrity["ok"], &integrity["rows"]), (&json!(true), &json!(30)));
    assert_eq!(total(&get(&owner, "/aggregate").await)["requests"], 50);
    assert_eq!(get(&owner, "").await.as_array().unwrap().len(), 30);
    // Without the note in `meta`, rows are missing.
    let mut tx = store.write().await.unwrap();
    tx.meta_set("usage_raw_since", "0").await.unwrap();
    tx.commit().await.unwrap();
    let integrity = get(&owner, "/integrity").await;
    assert_eq!((&integrity["ok"], &integrity["rows"]), (&json!(false), &json!(30)), "{noted}");
    assert_eq!(integrity["rollup_rows_sum"], 50);
    let requests = |kind: &str| -> i64 {
        let days = integrity["mismatches"].as_array().unwrap();
        days.iter().map(|it| it[kind]["requests"].as_i64().unwrap()).sum()
    };
    assert_eq!((requests("hourly") - requests("rows"), requests("daily") - requests("rows")), (20, 20));
}

#[tokio::test]
async fn rows_are_kept_for_ever_where_the_operator_says_so() {
    let mut gateway = start(Options { owner: false, ..Options::default() }).await;
    gateway.terminate();
    let database = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
    let store = Store::open(&database).await.unwrap();
    let days_ago = |days: i64| days * 24 * 3600;
    let mut tx = store.write().await.unwrap();
    tx.insert_usage(&[row(1, days_ago(3)), row(2, days_ago(40))]).await.unwrap();
    // This entry is deleted after the old usage rows, so its end shows that they are gone.
    let entry = AuditEntry::new(Actor::Anonymous, Origin::default(), Action::LoginFailed, "old");
    tx.audit(&entry, Timestamp(now().0 - days_ago(3) * 1000)).await.unwrap();
    tx.commit().await.unwrap();
    for (name, value) in [
        ("ADMIN_BOOTSTRAP_USERNAME", "owner"),
        ("ADMIN_BOOTSTRAP_PASSWORD", "owner-password"),
        ("AUDIT_RETENTION_DAYS", "1"),
        ("USAGE_RETENTION_DAYS", "0"),
    ] {
        gateway.set_env(name, value);
    }
    let n_rows = async |owner: &Client| {
        let rows = owner.get("/admin/usage?hours=8784").await;
        rows.header("x-total-count").unwrap().to_owned()
    };
    gateway.restart().await;
    let owner = gateway.owner().await;
    eventually("the old audit row is gone", gantry_testkit::PATIENCE, async || {
        let rows = owner.get("/admin/audit?limit=1000").await.expect(200);
        column(&rows, "object_id").iter().all(|it| **it != "old").then_some(())
    })
    .await;
    assert_eq!(n_rows(&owner).await, "2");

    gateway.terminate();
    gateway.set_env("USAGE_RETENTION_DAYS", "20");
    gateway.restart().await;
    let owner = gateway.owner().await;
    eventually("the older row is gone", gantry_testkit::PATIENCE, async || {
        (n_rows(&owner).await == "1").then_some(())
    })
    .await;
}
