//! The machine, engines and the gateway's own work, as an administrator sees them; the access log and traces.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use gantry_testkit::{Client, Database, Gateway, Options, eventually};
use serde_json::{Value, json};

use crate::support::{assert_error, assert_invalid, gateway, start};

/// An engine entered by hand, that notes the heads of its requests.
pub(crate) struct Engine {
    pub(crate) addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Engine {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let noted = Arc::clone(&noted);
                std::thread::spawn(move || serve(stream, &noted));
            }
        });
        Self { addr, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn heads(&self, path: &str) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().filter(|it| it.split(' ').nth(1) == Some(path)).cloned().collect()
    }
}

fn serve(stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "))
            .map_or(0, |it| it.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let streams = String::from_utf8_lossy(&body).contains("\"stream\":true");
        let (kind, text) = match head.split(' ').nth(1).unwrap() {
            "/v1/models" => {
                ("application/json", json!({ "data": [{ "id": "far" }, { "id": "more" }] }).to_string())
            }
            _ if streams => {
                let piece = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
                let end = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n";
                ("text/event-stream", format!("{}{end}", piece.repeat(3)))
            }
            _ => {
                let usage = json!({ "prompt_tokens": 5, "completion_tokens": 11, "total_tokens": 16 });
                (
                    "application/json",
                    json!({ "object": "chat.completion", "choices": [], "usage": usage }).to_string(),
                )
            }
        };
        heads.lock().unwrap().push(head);
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

pub(crate) fn chat(model: &str, streams: bool) -> Value {
    json!({ "model": model, "stream": streams, "messages": [{ "role": "user", "content": "confidential-words" }] })
}

/// A gateway, its owner, the engine `far` and a key.
pub(crate) async fn with_engine(options: Options) -> (Gateway, Client, Engine, Client) {
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    let engine = Engine::start();
    let entry = json!({ "served_name": "far", "url": engine.url(), "api_key": "their-own-key" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let (_, key) = owner.new_key(&json!({})).await;
    (gateway, owner, engine, key)
}

#[tokio::test]
async fn the_machine_is_measured_and_what_was_not_sampled_is_not_there() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let host = owner.get("/admin/system/host/summary").await.expect(200);
    let kernel = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: u64 = kernel.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(host["mem_total_mb"].as_u64().unwrap() <= total / 1024, "{host}");
    assert!(host["gateway"]["rss_mb"].as_u64().unwrap() > 1, "{host}");
    assert!(host["disks"][0]["holds"].as_array().unwrap().contains(&json!("data")), "{host}");
    let summary = owner.get("/admin/system/summary").await.expect(200);
    assert_eq!(summary["memory"]["total_mb"], host["mem_total_mb"]);

    // The first sample is taken at the start; a minute of it is one point at most every ten seconds.
    let trends = eventually("a sample is there", gantry_testkit::PATIENCE, async || {
        let trends = owner.get("/admin/system/host/trends?minutes=1440").await.expect(200);
        (!trends["mem_used_mb"].as_array().unwrap().is_empty()).then_some(trends)
    })
    .await;
    assert_eq!(trends["interval_sec"], 120);
    assert!(trends["mem_used_mb"].as_array().unwrap().len() <= 2, "a day is not made up: {trends}");
    for bad in ["minutes=0", "minutes=1441", "minutes=x"] {
        assert_invalid(&owner.get(&format!("/admin/system/host/trends?{bad}")).await, &["minutes"]);
    }

    let found = owner.get("/admin/system/capabilities").await.expect(200);
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(found["os"]["kernel"], release.trim());
    assert!(found["cpu"]["usable"].as_u64().unwrap() >= 1, "{found}");
    for provider in found["monitoring"].as_array().unwrap() {
        assert!(!provider["detail"].as_str().unwrap().is_empty(), "there, or why not: {provider}");
    }
    if !found["container_runtime"]["available"].as_bool().unwrap() {
        assert!(!found["container_runtime"]["detail"].as_str().unwrap().is_empty(), "{found}");
    }
}

#[tokio::test]
async fn settings_are_shown_with_where_they_come_from_and_without_secrets() {
    let options =
        Options::default().env("STOP_TIMEOUT_SEC", "7").env("SESSION_SECRET", "a-long-secret-canary");
    let gateway = start(options).await;
    let answer = gateway.owner().await.get("/admin/system/settings").await;
    assert!(!answer.text.contains("secret-canary"), "{}", answer.text);
    let all = answer.expect(200);
    let of = |name: &str| all.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    let stop = of("STOP_TIMEOUT_SEC");
    assert_eq!((&stop["value"], &stop["source"]), (&json!("7"), &json!("environment")), "{stop}");
    assert_eq!(of("OFFLINE_MODE")["source"], "default");
    assert_eq!(of("SECRETS_KEY")["value"], "***");
    assert!(all.as_array().unwrap().iter().all(|it| !it["doc"].as_str().unwrap().is_empty()));
}

#[tokio::test]
async fn throughput_is_what_went_through() {
    let (_gateway, owner, _engine, key) = with_engine(Options::default()).await;
    let quiet = owner.get("/admin/system/throughput").await.expect(200);
    assert_eq!((&quiet["latency_p50_ms"], &quiet["ttft_p95_ms"]), (&Value::Null, &Value::Null), "{quiet}");
    for _ in 0..4 {
        key.post("/v1/chat/completions", &chat("far", false)).await.expect(200);
        assert_eq!(key.post("/v1/chat/completions", &chat("far", true)).await.status, 200);
    }
    // A request is over for its client a moment before it is for the gateway.
    let busy = eventually("all of them are over", gantry_testkit::PATIENCE, async || {
        let seen = owner.get("/admin/system/throughput").await.expect(200);
        (seen["active_requests"] == 0).then_some(seen)
    });
    let busy = busy.await;
    let total = |rate: &str| (busy[rate].as_f64().unwrap() * busy["window_sec"].as_f64().unwrap()).round();
    assert!((total("req_per_sec") - 8.0).abs() <= 1.0, "{busy}");
    assert!((total("prompt_tokens_per_sec") - 48.0).abs() <= 3.0, "{busy}");
    assert!((total("generation_tokens_per_sec") - 56.0).abs() <= 3.0, "{busy}");
    assert!(busy["latency_p95_ms"].as_f64() >= busy["latency_p50_ms"].as_f64(), "{busy}");
    assert!(busy["ttft_p50_ms"].as_f64().unwrap() > 0.0, "{busy}");
    assert_eq!((&busy["active_requests"], &busy["active_streams"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn a_refused_request_is_counted_without_a_latency() {
    let (_gateway, owner, _engine, key) = with_engine(Options::default()).await;
    assert_eq!(key.post("/v1/chat/completions", &chat("nobody", false)).await.status, 404);
    let counted = eventually("the refused request is counted", gantry_testkit::PATIENCE, async || {
        let seen = owner.get("/admin/system/throughput").await.expect(200);
        (seen["req_per_sec"].as_f64() > Some(0.0)).then_some(seen)
    });
    assert_eq!(counted.await["latency_p50_ms"], Value::Null, "it waited for no engine");
}

#[tokio::test]
async fn engines_are_probed_with_their_own_key_and_their_past_is_kept() {
    let (gateway, owner, engine, _key) = with_engine(Options::default().env("HEALTH_POLL_SEC", "3600")).await;
    owner
        .post("/admin/models/registry", &json!({ "served_name": "gone", "url": "http://127.0.0.1:9" }))
        .await
        .expect(201);
    let refresh = async |body: Value| owner.post("/admin/upstreams/refresh-health", &body).await;
    let far = refresh(json!({ "served_names": ["far"] })).await.expect(200);
    assert_eq!(far.as_array().unwrap().len(), 1);
    let far = &far[0];
    assert_eq!(
        (&far["healthy"], &far["source"], &far["models"]),
        (&json!(true), &json!("manual"), &json!(["far", "more"]))
    );
    assert!(far["latency_ms"].as_f64().unwrap() > 0.0 && far["last_ok_at"].is_string(), "{far}");
    let closed = json!({ "state": "closed", "keeps_away": null, "cooldown_remaining_sec": 0.0 });
    assert_eq!(far["breaker"], closed);
    let internal = std::fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap();
    for head in engine.heads("/v1/models") {
        assert!(head.contains("authorization: bearer their-own-key"), "{head}");
        assert!(!head.contains(&internal.trim().to_lowercase()), "the internal key left the machine");
    }
    for _ in 0..2 {
        refresh(json!({})).await.expect(200);
    }
    let all = owner.get("/admin/upstreams").await.expect(200);
    let names: Vec<_> =
        all.as_array().unwrap().iter().map(|it| it["served_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["far", "gone"]);
    let gone = &all[1];
    assert_eq!(
        (&gone["healthy"], &gone["consecutive_failures"], &gone["last_ok_at"]),
        (&json!(false), &json!(3), &Value::Null)
    );
    assert_eq!(gone["last_error"], "connection refused");
    // The first probe was when it was entered.
    assert_eq!(gone["history"].as_array().unwrap().len(), 3, "{gone}");
    for _ in 0..70 {
        refresh(json!({ "served_names": ["gone"] })).await.expect(200);
    }
    let gone = &owner.get("/admin/upstreams").await.expect(200)[1];
    assert_eq!((&gone["consecutive_failures"], gone["history"].as_array().unwrap().len()), (&json!(73), 60));

    assert_invalid(&refresh(json!({ "served_names": ["far", "nobody"] })).await, &["served_names"]);
    // All of them also without a body.
    let path = "/admin/upstreams/refresh-health";
    let bare = owner.command(path).await.expect(200);
    let json = owner.request(reqwest::Method::POST, path).header("content-type", "application/json");
    let empty = owner.send(json.body("")).await.expect(200);
    assert_eq!((bare.as_array().unwrap().len(), empty.as_array().unwrap().len()), (2, 2));
    assert_eq!(empty[1]["consecutive_failures"], 75);
    let text = owner.send(owner.request(reqwest::Method::POST, path).body("{}")).await;
    assert_error(&text, 415, "unsupported_media_type");
    let (_, key) = owner.new_key(&json!({})).await;
    assert_error(&key.get("/admin/upstreams").await, 401, "unauthenticated");
}

/// Lines of the access log about `/v1`, once there are `n`.
pub(crate) async fn lines(gateway: &Gateway, n: usize) -> Vec<String> {
    eventually("the access log is written", gantry_testkit::PATIENCE, async || {
        let log = gateway.log();
        let about = |it: &&str| it.contains("gantry::access") && it.contains("/v1/");
        let lines: Vec<String> = log.lines().filter(about).map(str::to_owned).collect();
        (lines.len() >= n).then_some(lines)
    })
    .await
}

#[tokio::test]
async fn each_request_has_one_line_without_its_content() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    for format in ["text", "json"] {
        let (gateway, _owner, engine, key) = with_engine(Options::default().env("LOG_FORMAT", format)).await;
        let post = |model: &str, streams: bool| {
            key.request(reqwest::Method::POST, "/v1/chat/completions").json(&chat(model, streams))
        };
        let traced = post("far", true).header("x-request-id", "mine-1").header("traceparent", &parent);
        assert_eq!(key.send(traced.header("tracestate", "a=1")).await.status, 200);
        let invalid = post("far", false).header("traceparent", "00-xyz").header("tracestate", "a=1");
        assert_eq!(key.send(invalid).await.status, 200);
        assert_eq!(key.send(post("nobody", false)).await.status, 404);
        let stranger = gateway.client().with_key("gty_wrong");
        assert_eq!(stranger.post("/v1/chat/completions", &chat("far", false)).await.status, 401);
        assert_eq!(key.get("/v1/models?secret=abc").await.status, 200);

        let lines = lines(&gateway, 5).await;
        assert_eq!(lines.len(), 5, "one for each: {lines:#?}");
        for secret in ["confidential-words", "their-own-key", "secret=abc", "gty_wrong"] {
            assert!(!gateway.log().contains(secret), "{secret}");
        }
        let first = lines.iter().find(|it| it.contains("mine-1")).unwrap();
        assert!(first.contains(TRACE), "{first}");
        if format == "json" {
            let first: Value = serde_json::from_str(first).unwrap();
            let says = |name: &str| first[name].clone();
            assert_eq!([says("model"), says("outcome"), says("client")], ["far", "ok", "127.0.0.1"]);
            assert_eq!([says("status"), says("prompt_tokens"), says("completion_tokens")], [200, 7, 3]);
            assert!(says("ttft_ms").is_number() && says("ms").is_number(), "{first}");
            assert!(says("key").as_str().unwrap().starts_with("gty_"), "{first}");
        } else {
            for part in
                ["POST /v1/chat/completions status=200", "model=\"far\"", "outcome=ok", "client=127.0.0.1"]
            {
                assert!(first.contains(part), "{part}: {first}");
            }
        }
        // A valid trace is passed on as it is, an invalid one is begun anew, without what belonged to it.
        let heads = engine.heads("/v1/chat/completions");
        assert!(heads[0].contains(&format!("traceparent: {parent}\r\n")), "{}", heads[0]);
        assert!(heads[0].contains("tracestate: a=1"), "{}", heads[0]);
        let fresh = heads[1].lines().find_map(|it| it.strip_prefix("traceparent: ")).unwrap();
        assert!(fresh.starts_with("00-") && fresh.ends_with("-00") && fresh.len() == 55, "{fresh}");
        assert!(!heads[1].contains("tracestate"), "{}", heads[1]);
        let id = fresh.split('-').nth(1).unwrap();
        assert!(lines.iter().any(|it| it.contains(id)), "the log has the trace that was begun: {id}");
    }
}

#[tokio::test]
async fn without_an_access_log_only_failures_are_told() {
    let options = Options::default().env("ACCESS_LOG", "off").env("TRACE_SAMPLED", "true");
    let (gateway, owner, engine, key) = with_engine(options).await;
    key.post("/v1/chat/completions", &chat("far", false)).await.expect(200);
    let fresh = engine.heads("/v1/chat/completions")[0].clone();
    assert!(fresh.lines().any(|it| it.starts_with("traceparent: 00-") && it.ends_with("-01")), "{fresh}");
    owner
        .post("/admin/models/registry", &json!({ "served_name": "gone", "url": "http://127.0.0.1:9" }))
        .await
        .expect(201);
    assert_error(&key.post("/v1/chat/completions", &chat("gone", false)).await, 502, "model_unavailable");
    let lines = lines(&gateway, 1).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("status=502"), "{lines:#?}");
}
