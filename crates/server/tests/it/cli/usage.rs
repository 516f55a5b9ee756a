//! `usage` and `images`: what is asked of the gateway, and what becomes of the answer.

use std::{process::Command, time::Duration};

use gantry_domain::{
    KeyId, Role, Timestamp,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome as RowOutcome, UsageRow, id_at},
};
use gantry_store::{NewUser, Store};
use gantry_testkit::{Database, now};
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::{Ran, Shell};
use crate::support::gateway;

/// Milliseconds since 1970 of the Monday, 00:00, that was last in the zone `tz`, as GNU date knows it.
fn monday(tz: &str) -> i64 {
    let script = "date -d \"$(date +%F) -$(($(date +%u) - 1)) days\" +%s";
    let output = Command::new("sh").args(["-c", script]).env("TZ", tz).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse::<i64>().unwrap() * 1000
}

/// A week that begins during a test would begin with no rows: waits for it if it is near. The clocks of this test, of `date`, of
/// the command line and of the gateway must be the same, so none is set.
async fn no_monday_is_near() {
    const WEEK: i64 = 7 * 24 * 3_600_000;
    for zone in ["UTC", INDIA] {
        let rest = monday(zone) + WEEK - now().0;
        if rest < 180_000 {
            tokio::time::sleep(Duration::from_millis(rest.max(0).unsigned_abs())).await;
        }
    }
}

/// Users and their tokens since `from`, summed from the single rows by the database itself.
async fn by_sql(url: &str, org: &str, from: i64) -> Vec<(String, i64)> {
    const SQL: &str =
        "SELECT u.username, CAST(SUM(g.prompt_tokens + g.completion_tokens) AS BIGINT) AS tokens
        FROM usage g JOIN users u ON u.id = g.user_id JOIN orgs o ON o.id = g.org_id
        WHERE o.name = $1 AND g.created_at >= $2 GROUP BY u.username ORDER BY tokens DESC LIMIT 5";
    if url.starts_with("postgres") {
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query_as(SQL).bind(org).bind(from).fetch_all(&mut conn).await.unwrap()
    } else {
        let mut conn = sqlx::SqliteConnection::connect(url).await.unwrap();
        sqlx::query_as(SQL).bind(org).bind(from).fetch_all(&mut conn).await.unwrap()
    }
}

const ORGS: [&str; 3] = ["Acme & Co", "Globex", "Initech"];
const INDIA: &str = "IST-5:30";

/// Three organisations and twenty users with rows of two weeks. Before the week in UTC, and before that in India, one
/// user each has more than all others have together: who begins the week a moment too early gets another order.
async fn fill(url: &str) {
    let (now, store) = (now(), Store::open(url).await.unwrap());
    let mut tx = store.write().await.unwrap();
    let mut orgs = Vec::new();
    for name in ORGS {
        orgs.push(tx.insert_org(name, now).await.unwrap().id);
    }
    let mut users = Vec::new();
    for n in 0..20 {
        let (org_id, username) = (orgs[n % 3], format!("user-{n:02}"));
        let user =
            NewUser { org_id, username, password_hash: "-".to_owned(), role: Role::User, enabled: true };
        users.push((tx.insert_user(&user, now).await.unwrap().id, org_id));
    }
    let mondays = [monday("UTC"), monday(INDIA)];
    let (week, later) = (mondays[0].min(mondays[1]), mondays[0].max(mondays[1]));
    let row = |n: i64, user: usize, at: i64, tokens: i64| UsageRow {
        id: id_at(Timestamp(at), n as u128),
        req_id: format!("-{n}"),
        created_at: Timestamp(at),
        key_id: Some(KeyId(1 + n % 3)),
        key_prefix: Some("gty_Ab000001".to_owned()),
        user_id: Some(users[user].0),
        org_id: Some(users[user].1),
        model_name: "qwen".to_owned(),
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: tokens,
        completion_tokens: n % 7,
        cached_tokens: None,
        estimated: false,
        latency_ms: n,
        ttft_ms: None,
        status_code: 200,
        outcome: RowOutcome::Ok,
        requests: 1,
    };
    let mut rows = Vec::new();
    for n in 0..6_000 {
        let (user, part) = ((n * 7 + n / 20) as usize % 20, n % 1_500);
        // Those who are heavy this week were light before it. Also a week that began this very moment has its rows.
        let (at, weight) = match n / 1_500 {
            0 | 1 => (week - 1 - n * 200_000, 20 - user as i64),
            2 => (week + (later - week) * part / 1_500, user as i64),
            _ => (later + (now.0 - later) * part / 1_500, user as i64),
        };
        rows.push(row(n, user, at, 10 * weight + n % 50));
    }
    rows.push(row(6_000, 0, mondays[0] - 1, 10_000_000));
    rows.push(row(6_001, 3, mondays[1] - 1, 20_000_000));
    tx.insert_usage(&rows).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn the_five_users_with_most_tokens_this_week_take_one_command() {
    for database in Database::all("cli: the_five_users_with_most_tokens_this_week") {
        no_monday_is_near().await;
        let gateway = gateway(database).await;
        let file = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
        let url = gateway.database_url().unwrap_or(file);
        fill(&url).await;
        let shell = Shell::of_owner(&gateway);
        for org in ORGS {
            for tz in ["UTC", INDIA] {
                let wanted = by_sql(&url, org, monday(tz)).await;
                assert!(wanted.len() == 5, "{wanted:?}");
                // As the README has it.
                let args = ["usage", "top", "--by", "user", "--org", org, "--week", "--limit", "5"];
                let ran = Ran::of(shell.command(&args).env("TZ", tz).output().unwrap()).ends(0);
                assert!(ran.out.starts_with("USER  "), "{}", ran.out);
                let row = |line: &str| {
                    let words: Vec<_> = line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
                    (words[0].to_owned(), words[5].parse::<i64>().unwrap())
                };
                let shown: Vec<_> = ran.out.lines().skip(1).map(row).collect();
                assert_eq!(shown, wanted, "{org} {tz}\n{}", ran.out);
                assert!(ran.err.starts_with("since "), "{}", ran.err);

                let args: Vec<_> = args.into_iter().chain(["--json"]).collect();
                let ran = Ran::of(shell.command(&args).env("TZ", tz).output().unwrap()).ends(0);
                let pair = |it: &Value| {
                    (it["group"].as_str().unwrap().to_owned(), it["total_tokens"].as_i64().unwrap())
                };
                let told: Vec<_> = ran.json().as_array().unwrap().iter().map(pair).collect();
                assert_eq!((told, ran.err.as_str()), (wanted, ""));
            }
        }
        let args = ["usage", "top", "--by", "user", "--org", ORGS[0], "--since", "week", "--utc", "--json"];
        let utc = Ran::of(shell.command(&args).env("TZ", INDIA).output().unwrap()).ends(0).json();
        let first = &by_sql(&url, ORGS[0], monday("UTC")).await[0];
        assert_eq!((&utc[0]["group"], &utc[0]["total_tokens"]), (&json!(first.0), &json!(first.1)));
        shell.run(&["users", "delete", &first.0, "--yes"]).ends(0);
        let args = ["usage", "top", "--by", "user", "--org", ORGS[0], "--since", "30d", "--limit", "100"];
        let said = shell.run(&args).ends(0).out;
        assert!(said.contains(&format!("{} (deleted)", first.0)), "{said}");
    }
}

#[tokio::test]
async fn every_view_of_usage_is_about_the_same_requests() {
    let gateway = gateway(Database::Sqlite).await;
    fill(&format!("sqlite://{}", gateway.data_dir().join("gantry.db").display())).await;
    let shell = Shell::of_owner(&gateway);
    let run = |verb: &str, more: &[&str]| {
        let args =
            ["usage", verb, "--user", "user-07", "--since", "30d"].into_iter().chain(more.iter().copied());
        shell.run(&args.collect::<Vec<_>>()).ends(0)
    };
    let top = run("top", &["--json"]).json();
    let (requests, tokens) = (&top[0]["requests"], &top[0]["total_tokens"]);
    assert!(requests.as_i64().unwrap() > 0, "{top}");
    let days = run("series", &["--by", "day", "--json"]).json();
    let sum =
        |field: &str| days.as_array().unwrap().iter().map(|it| it[field].as_i64().unwrap()).sum::<i64>();
    assert_eq!((&json!(sum("requests")), &json!(sum("total_tokens"))), (requests, tokens));
    assert_eq!(&run("latency", &["--json"]).json()["latency"]["samples"], requests);
    let csv = run("export", &[]).out;
    assert_eq!(&json!(csv.lines().count() - 1), requests);
    assert!(csv.starts_with("id,"), "{csv:.100}");
    let listed = run("list", &["--limit", "3", "--outcome", "ok"]);
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    assert!(listed.err.contains(&format!("3 of {requests} rows")), "{}", listed.err);
    for (verb, head) in [("series", "FROM"), ("latency", "TIME TO ")] {
        assert!(run(verb, &[]).out.starts_with(head), "{verb}");
    }
    let report = shell.run(&["usage", "integrity"]).ends(0).out;
    assert!(report.contains("6002"), "{report}");
}

#[tokio::test]
async fn times_that_exclude_each_other_and_odd_filters_are_refused() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    shell.run(&["usage", "list", "--week", "--today"]).ends(2);
    shell.run(&["usage", "list", "--hours", "9000"]).ends(2);
    shell.run(&["usage", "top", "--by", "colour"]).ends(2);
    let ran = shell.run(&["usage", "list", "--since", "yesterday"]).ends(6);
    assert!(ran.err.contains("  --since  `--since` must"), "{}", ran.err);
    assert_eq!(shell.run(&["usage", "list", "--month", "--json"]).ends(0).json(), json!([]));
}

#[tokio::test]
async fn images_are_listed_and_a_bad_archive_is_refused() {
    if !gantry_testkit::docker("cli: images") {
        return;
    }
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let out = shell.run(&["images"]).ends(0).out;
    assert!(out.contains("default of vllm") && out.contains("default of llamacpp"), "{out}");
    assert!(shell.run(&["images", "--json"]).ends(0).json()["engines"].is_object());
    let ran = shell.run(&["images", "load", "nothing.tar"]).ends(5);
    assert!(ran.err.contains("EXPORT_DIRS"), "{}", ran.err);
}
