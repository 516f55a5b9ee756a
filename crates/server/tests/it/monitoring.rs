//! Checks of `/metrics`, and of the shipped files that read it, with the real tools of Prometheus.
#![expect(clippy::float_cmp, reason = "counts are whole numbers")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use gantry_testkit::{Client, Gateway, Options, eventually, raw, skip};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    support::start,
    system::{chat, with_engine},
};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring")
}

/// Runs `promtool`; `None` (and a note) where there is none.
fn promtool(test: &str, args: &[&str], input: &str) -> Option<(bool, String)> {
    let child = Command::new("promtool")
        .args(args)
        .current_dir(folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skip(test, "promtool is not installed (Debian's package `prometheus`)");
        return None;
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    Some((done.status.success(), said))
}

pub(crate) fn address(gateway: &Gateway) -> String {
    let log = gateway.log();
    // The address of the last start.
    let line =
        log.lines().rev().find_map(|it| it.split_once("metrics addr=")).expect("the address is logged");
    line.1.split_whitespace().next().unwrap().to_owned()
}

pub(crate) async fn page(gateway: &Gateway) -> String {
    let answer = Client::new(&format!("http://{}", address(gateway))).get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(answer.status, 200);
    answer.text
}

/// Value of the line that begins so.
#[track_caller]
pub(crate) fn value(page: &str, start: &str) -> f64 {
    let line = page.lines().find_map(|it| it.strip_prefix(start)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{start} is not in\n{page}")).parse().unwrap()
}

#[tokio::test]
async fn a_name_that_is_not_ours_is_told_no_numbers() {
    let gateway = start(Options::default().env("ALLOWED_HOSTS", "gantry.example")).await;
    let at = format!("http://{}", address(&gateway));
    let ask = async |host: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\n{host}connection: close\r\n\r\n");
        raw(&at, request.as_bytes()).await
    };
    // As a page would ask whose name leads here (DNS rebinding).
    for other in ["host: evil.example\r\n", "host: evil.example:9084\r\n", ""] {
        let answer = ask(other).await;
        assert!(answer.starts_with("HTTP/1.1 421"), "{other}: {answer}");
        assert!(!answer.contains("gantry_build_info"), "{answer}");
    }
    for own in ["127.0.0.1", "[::1]:9084", "localhost:9084", "gantry.example"] {
        let answer = ask(&format!("host: {own}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("gantry_"), "{own}: {answer}");
    }
}

#[tokio::test]
async fn who_asks_for_nothing_keeps_no_place_at_the_listener() {
    let mut gateway = start(Options::default()).await;
    let at = address(&gateway);
    // It closes the connection.
    assert_eq!(raw(&format!("http://{at}"), b"GET /metrics HT").await, "");
    let sockets = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().flatten();
        let targets = files.filter_map(|it| std::fs::read_link(it.path()).ok());
        targets.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
    };
    let before = sockets();
    let mut idle = Vec::new();
    for _ in 0..150 {
        let mut stream = TcpStream::connect(&at).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nx: ").await.unwrap();
        idle.push(stream);
    }
    let taken = eventually("it takes some of them", gantry_testkit::PATIENCE, async || {
        let taken = sockets().saturating_sub(before);
        (taken >= 50).then_some(taken)
    });
    assert!(taken.await <= 80, "and leaves the others waiting");
    drop(idle);
    page(&gateway).await;
    // One that is in the middle of its request does not hold up the end.
    let mut late = TcpStream::connect(&at).await.unwrap();
    late.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
    page(&gateway).await;
    assert!(gateway.terminate(), "{}", gateway.log());
}

#[tokio::test]
async fn requests_are_counted_by_model_and_names_that_nobody_serves_are_one() {
    let (gateway, owner, _engine, key) = with_engine(Options::default()).await;
    for streams in [false, true, true] {
        assert_eq!(key.post("/v1/chat/completions", &chat("far", streams)).await.status, 200);
    }
    for n in 0..5 {
        assert_eq!(key.post("/v1/chat/completions", &chat(&format!("made-up-{n}"), false)).await.status, 404);
    }
    let awkward = "quo\"te\\d";
    owner
        .post("/admin/models/registry", &json!({ "served_name": awkward, "url": "http://127.0.0.1:9" }))
        .await
        .expect(201);
    assert_eq!(key.post("/v1/chat/completions", &chat(awkward, false)).await.status, 502);
    let page = page(&gateway).await;
    let requests = |model: &str, class: &str| {
        let labels = format!("model=\"{model}\",endpoint=\"/v1/chat/completions\",status=\"{class}\"");
        value(&page, &format!("gantry_model_requests_total{{{labels}}}"))
    };
    assert_eq!(requests("far", "2xx"), 3.0);
    assert_eq!(requests("other", "4xx"), 5.0);
    assert_eq!(requests("quo\\\"te\\\\d", "5xx"), 1.0);
    assert!(!page.contains("made-up"), "labels of clients are not bounded");
    assert_eq!(value(&page, "gantry_tokens_total{model=\"far\",kind=\"prompt\"}"), 19.0);
    assert_eq!(value(&page, "gantry_tokens_total{model=\"far\",kind=\"completion\"}"), 17.0);
    assert_eq!(value(&page, "gantry_request_duration_seconds_count{model=\"far\"}"), 3.0);
    assert_eq!(value(&page, "gantry_time_to_first_token_seconds_count{model=\"far\"}"), 2.0);
    assert_eq!(value(&page, "gantry_breaker_state{model=\"far\",state=\"closed\"}"), 1.0);
    assert!(value(&page, "process_resident_memory_bytes") > 1e6);
    let Some((fine, said)) = promtool("what /metrics says is checked", &["check", "metrics"], &page) else {
        return;
    };
    assert!(fine, "{said}");
}

/// Names of metrics in a text, without what a histogram appends.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let ours = words.filter(|it| it.starts_with("gantry_") || it.starts_with("process_"));
    let base = |it: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|end| it.strip_suffix(end)).unwrap_or(it).to_owned()
    };
    ours.map(base).collect()
}

#[tokio::test]
async fn all_that_the_dashboard_and_the_alerts_ask_for_is_there() {
    let (gateway, _owner, _engine, key) = with_engine(Options::default()).await;
    assert_eq!(key.post("/v1/chat/completions", &chat("far", true)).await.status, 200);
    let page = page(&gateway).await;
    let told: BTreeSet<String> = page
        .lines()
        .filter_map(|it| it.strip_prefix("# TYPE ")?.split(' ').next())
        .map(str::to_owned)
        .collect();
    let table: BTreeSet<String> = gantry_domain_names();
    assert!(told.is_subset(&table), "{:?}", told.difference(&table));
    for file in ["grafana-dashboard.json", "alerts.yml", "alerts.test.yml"] {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        let asked = names(&text);
        assert!(asked.len() > 4, "{file}: {asked:?}");
        let unknown: Vec<_> = asked.difference(&told).collect();
        assert!(unknown.is_empty(), "{file} asks for {unknown:?}");
    }
    let dashboard = std::fs::read_to_string(folder().join("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

/// Returns the names on the generated page, which is made from the table.
fn gantry_domain_names() -> BTreeSet<String> {
    names(&std::fs::read_to_string(folder().join("../../docs/reference/metrics.md")).unwrap())
}

#[test]
fn the_alert_rules_fire_when_they_should() {
    let test = "the alert rules are tested";
    let checks = [&["check", "config", "prometheus.yml"][..], &["test", "rules", "alerts.test.yml"]];
    for args in checks {
        let Some((fine, said)) = promtool(test, args, "") else { return };
        assert!(fine, "{said}");
    }
}

/// Returns for each alert in a file of tests whether a test expects it, and whether a test expects its absence.
fn expected(tests: &str) -> BTreeMap<&str, (bool, bool)> {
    let mut found = BTreeMap::<&str, (bool, bool)>::new();
    for case in tests.split("- eval_time:").skip(1) {
        let name = case.lines().find_map(|it| it.trim().strip_prefix("alertname: ")).unwrap();
        let (fires, rests) = found.entry(name).or_default();
        let none = case.contains("exp_alerts: []");
        (*fires, *rests) = (*fires || !none, *rests || none);
    }
    found
}

#[test]
fn each_alert_rule_is_seen_to_fire_and_to_rest() {
    let [rules, tests] =
        ["alerts.yml", "alerts.test.yml"].map(|it| std::fs::read_to_string(folder().join(it)).unwrap());
    let expected = expected(&tests);
    let rules: Vec<_> = rules.lines().filter_map(|it| it.trim().strip_prefix("- alert: ")).collect();
    assert!(rules.len() >= 14, "{rules:?}");
    for rule in rules {
        assert_eq!(expected.get(rule), Some(&(true, true)), "{rule}: (fires, rests)");
    }
}

/// Series without their values.
fn series(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|it| !it.starts_with('#'));
    lines.map(|it| it.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

#[tokio::test]
async fn what_clients_make_up_adds_no_series() {
    const NAMES: usize = 1000;
    let (gateway, owner, engine, key) = with_engine(Options::default()).await;
    assert_eq!(key.post("/v1/chat/completions", &chat("far", true)).await.status, 200);
    let paths = [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/rerank",
        "/v1/score",
        "/tokenize",
        "/detokenize",
    ];
    for path in paths {
        assert_eq!(key.post(path, &chat("nobody", false)).await.status, 404);
    }
    // The processors' load is a difference of two looks.
    let before = eventually("all of the machine is known", gantry_testkit::PATIENCE, async || {
        let series = series(&page(&gateway).await);
        series.contains("gantry_host_cpu_utilisation_ratio").then_some(series)
    })
    .await;
    for n in 0..NAMES {
        let name = format!("made-up-{n}");
        assert_eq!(key.post(paths[n % paths.len()], &chat(&name, n % 2 == 0)).await.status, 404);
    }
    for n in 0..20 {
        assert_eq!(key.get(&format!("/v1/made-up-{n}")).await.status, 404);
        assert_eq!(key.get(&format!("/v1/models/made-up-{n}")).await.status, 404);
        let stranger = gateway.client().with_key(&format!("gty_made-up-{n}"));
        assert_eq!(stranger.post("/v1/chat/completions", &chat("far", false)).await.status, 401);
        let (_, other) = owner.new_key(&json!({})).await;
        assert_eq!(other.post("/v1/chat/completions", &chat("far", false)).await.status, 200);
        let odd = key.request(reqwest::Method::from_bytes(format!("X{n}").as_bytes()).unwrap(), "/v1/models");
        assert!(key.send(odd).await.status >= 400);
    }
    let now = page(&gateway).await;
    let after = series(&now);
    assert!(after == before, "{:#?}", after.difference(&before).collect::<Vec<_>>());
    assert!(!now.contains("made-up"));
    let others = now.lines().filter(|it| it.starts_with("gantry_model_requests_total{model=\"other\""));
    let others: f64 = others.map(|it| it.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum();
    assert_eq!(others as usize, NAMES + paths.len());

    // Models that come and go leave nothing behind either.
    for n in 0..5 {
        let name = format!("brief-{n}");
        let made = json!({ "served_name": name, "url": engine.url() });
        owner.post("/admin/models/registry", &made).await.expect(201);
        assert_eq!(key.post("/v1/chat/completions", &chat(&name, false)).await.status, 200);
        assert!(page(&gateway).await.contains(&name));
        let gone = owner.delete(&format!("/admin/models/registry/{name}")).await;
        assert!(gone.status < 300, "{}", gone.text);
    }
    let left = series(&page(&gateway).await);
    assert!(left == before, "{:#?}", left.difference(&before).collect::<Vec<_>>());
}

#[tokio::test]
async fn its_errors_look_like_all_others() {
    let gateway = start(Options::default()).await;
    let metrics = Client::new(&format!("http://{}", address(&gateway)));
    let nothing = metrics.get("/metric").await;
    crate::support::assert_error(&nothing, 404, "unknown_route");
    let method = metrics.post("/metrics", &json!({})).await;
    crate::support::assert_error(&method, 405, "method_not_allowed");
    assert_eq!(method.header("allow"), Some("GET,HEAD"));
    let request = metrics.request(reqwest::Method::GET, "/").header("x-request-id", "mine");
    assert_eq!(metrics.send(request).await.json["request_id"], "mine");
}
