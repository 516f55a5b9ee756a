//! Spans of requests, as a collector gets them: what they say, whose children they are, and that a collector that is away
//! or slow costs nothing but spans.
#![cfg(feature = "otlp")]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use gantry_testkit::{Client, Gateway, Options, eventually, skip};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
    },
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cli::tls,
    monitoring::{page, value},
    support::start,
    system::{Engine, chat, with_engine},
};

const CHAT: &str = "/v1/chat/completions";
const SOON: Duration = gantry_testkit::PATIENCE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Takes,
    /// Rejects this number of spans of each request.
    Rejects(i64),
    Answers(u16),
    /// 503, and come back at once.
    Busy,
    Silent,
}

#[derive(Default)]
struct Got {
    heads: Vec<String>,
    bodies: Vec<Vec<u8>>,
}

struct State {
    mood: Mutex<Mood>,
    changed: Condvar,
    got: Mutex<Got>,
    tries: AtomicUsize,
}

/// A receiver of OTLP over HTTP. Notes what it takes.
struct Collector {
    addr: SocketAddr,
    state: Arc<State>,
}

impl Collector {
    fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            mood: Mutex::new(mood),
            changed: Condvar::new(),
            got: Mutex::default(),
            tries: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { addr, state }
    }

    fn set(&self, mood: Mood) {
        *self.state.mood.lock().unwrap() = mood;
        self.state.changed.notify_all();
    }

    fn options(&self) -> Options {
        Options::default().env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}/base/", self.addr))
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let got = self.state.got.lock().unwrap();
        got.bodies.iter().map(|it| ExportTraceServiceRequest::decode(it.as_slice()).unwrap()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|it| it.resource_spans);
        resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }

    /// All of them, once there are `n`.
    async fn until(&self, n: usize) -> Vec<Span> {
        eventually(&format!("{n} spans arrive"), SOON, async || {
            let spans = self.spans();
            (spans.len() >= n).then_some(spans)
        })
        .await
    }
}

fn serve(stream: TcpStream, state: &State) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length =
            head.lines().find_map(|it| it.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        state.tries.fetch_add(1, SeqCst);
        let guard = state.mood.lock().unwrap();
        let mood = *state.changed.wait_while(guard, |it| *it == Mood::Silent).unwrap();
        let (status, answer) = match mood {
            Mood::Answers(status) => (status, Vec::new()),
            Mood::Busy => (503, Vec::new()),
            Mood::Rejects(n) => {
                let partial = ExportTracePartialSuccess { rejected_spans: n, error_message: "no".into() };
                (200, ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec())
            }
            Mood::Takes | Mood::Silent => (200, Vec::new()),
        };
        if status == 200 {
            let mut got = state.got.lock().unwrap();
            got.heads.push(head);
            got.bodies.push(body);
        }
        let more = if mood == Mood::Busy { "retry-after: 0\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} X\r\n{more}content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if writer.write_all(&[head.into_bytes(), answer].concat()).is_err() {
            return;
        }
    }
}

fn plain(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |it: &KeyValue| match it.value.clone().unwrap().value.unwrap() {
        Any::StringValue(it) => json!(it),
        Any::BoolValue(it) => json!(it),
        Any::IntValue(it) => json!(it),
        Any::DoubleValue(it) => json!(it),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|it| (it.key.clone(), value(it))).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|it| [it >> 4, it & 15]);
    digits.map(|it| char::from_digit(it.into(), 16).unwrap()).collect()
}

/// The span of the request that had this id.
fn of<'a>(spans: &'a [Span], request_id: &str) -> (&'a Span, BTreeMap<String, Value>) {
    let mut all = spans.iter().map(|it| (it, plain(&it.attributes)));
    all.find(|(_, it)| it["gantry.request_id"] == request_id)
        .unwrap_or_else(|| panic!("{request_id}: {spans:#?}"))
}

async fn ask(client: &Client, id: &str, body: &Value, headers: &[(&str, &str)]) -> u16 {
    let mut request = client.request(reqwest::Method::POST, CHAT).header("x-request-id", id).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request).await.status
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// `traceparent` of the request that reached the engine with this id.
fn sent_to(engine: &Engine, request_id: &str) -> String {
    let heads = engine.heads(CHAT);
    let head = heads.iter().find(|it| it.contains(&format!("x-request-id: {request_id}\r\n"))).unwrap();
    head.lines().find_map(|it| it.strip_prefix("traceparent: ")).unwrap().to_owned()
}

#[tokio::test]
async fn a_request_is_a_span_between_the_clients_and_the_engines() {
    let collector = Collector::start(Mood::Takes);
    let options = collector
        .options()
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20collectors-key")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=not-this")
        .env("OTEL_SERVICE_NAME", "my-gateway")
        .env("LOG_FORMAT", "json");
    let (gateway, _owner, engine, key) = with_engine(options).await;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    let passed_over = format!("00-{}-{PARENT}-00", TRACE.replace('4', "5"));
    assert_eq!(
        ask(&key, "streams", &chat("far", true), &[("traceparent", &sampled), ("tracestate", "a=1")]).await,
        200
    );
    assert_eq!(ask(&key, "begins", &chat("far", false), &[]).await, 200);
    assert_eq!(ask(&key, "passed-over", &chat("far", false), &[("traceparent", &passed_over)]).await, 200);
    assert_eq!(ask(&key, "unknown", &chat("nobody", false), &[]).await, 404);
    assert_eq!(ask(&gateway.client().with_key("gty_wrong"), "stranger", &chat("far", false), &[]).await, 401);
    let models =
        key.request(reqwest::Method::GET, "/v1/models/far?secret=abc").header("x-request-id", "models");
    assert_eq!(key.send(models).await.status, 200);
    assert_eq!(gateway.client().get("/readyz").await.status, 200);

    let spans = collector.until(5).await;
    assert_eq!(spans.len(), 5, "one each, none that the client does not record: {spans:#?}");

    let (span, says) = of(&spans, "streams");
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert_eq!((span.kind(), span.name.as_str()), (SpanKind::Server, "POST /v1/chat/completions"));
    assert_eq!((span.trace_state.as_str(), span.flags), ("a=1", 0x301));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);
    let now = gantry_testkit::now().0 as u64 * 1_000_000;
    assert!((now - span.start_time_unix_nano) < 600_000_000_000, "by the clock: {span:#?}");
    for (name, wanted) in [
        ("http.request.method", json!("POST")),
        ("http.route", json!(CHAT)),
        ("url.path", json!(CHAT)),
        ("http.response.status_code", json!(200)),
        ("client.address", json!("127.0.0.1")),
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.request.model", json!("far")),
        ("gen_ai.request.stream", json!(true)),
        ("gen_ai.usage.input_tokens", json!(7)),
        ("gen_ai.usage.output_tokens", json!(3)),
        ("gantry.outcome", json!("ok")),
    ] {
        assert_eq!(says.get(name), Some(&wanted), "{name}: {says:#?}");
    }
    assert!(says["gen_ai.response.time_to_first_chunk"].as_f64().unwrap() > 0.0);
    // The engine's span is a child of ours.
    assert_eq!(sent_to(&engine, "streams"), format!("00-{TRACE}-{}-01", hex(&span.span_id)));

    let (span, says) = of(&spans, "begins");
    assert_eq!((span.parent_span_id.len(), span.flags), (0, 0x101));
    assert_eq!(sent_to(&engine, "begins"), format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)));
    assert_eq!(
        (&says["gen_ai.usage.input_tokens"], &says["gen_ai.usage.output_tokens"]),
        (&json!(5), &json!(11))
    );
    assert_eq!(sent_to(&engine, "passed-over"), passed_over);
    let (_, says) = of(&spans, "unknown");
    assert_eq!(
        (&says["http.response.status_code"], &says["gen_ai.request.model"]),
        (&json!(404), &json!("nobody"))
    );
    let (span, says) = of(&spans, "stranger");
    assert_eq!((&says["http.response.status_code"], span.status.as_ref()), (&json!(401), None));
    let (span, says) = of(&spans, "models");
    assert_eq!((span.name.as_str(), &says["url.path"]), ("GET /v1/models/{model}", &json!("/v1/models/far")));

    assert_envelope(&collector);
    assert!(!gateway.log().contains("collectors-key"));
    let in_log = eventually("the access log is written", SOON, async || {
        gateway.log().lines().find(|it| it.contains("\"request_id\":\"begins\"")).map(str::to_owned)
    });
    let in_log: Value = serde_json::from_str(&in_log.await).unwrap();
    assert_eq!(in_log["trace_id"], hex(&of(&spans, "begins").0.trace_id), "the same in log and span");
}

/// What goes with the spans, and what does not.
fn assert_envelope(collector: &Collector) {
    let resource = collector.requests()[0].resource_spans[0].resource.clone().unwrap();
    let resource = plain(&resource.attributes);
    assert_eq!(
        (&resource["service.name"], &resource["deployment.environment.name"]),
        (&json!("my-gateway"), &json!("test"))
    );
    let got = collector.state.got.lock().unwrap();
    let head = got.heads[0].to_lowercase();
    assert!(head.starts_with("post /base/v1/traces http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    assert!(head.contains("authorization: bearer collectors-key\r\n"), "{head}");
    let bodies = got.bodies.iter().map(|it| String::from_utf8_lossy(it)).collect::<String>();
    for secret in ["confidential-words", "gty_", "their-own-key", "secret=abc"] {
        assert!(!bodies.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn an_engine_that_fails_makes_a_span_that_failed() {
    let collector = Collector::start(Mood::Takes);
    let (_gateway, owner, _engine, key) = with_engine(collector.options()).await;
    let entry = json!({ "served_name": "gone", "url": "http://127.0.0.1:9" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    assert_eq!(ask(&key, "fails", &chat("gone", false), &[]).await, 502);
    let spans = collector.until(1).await;
    let (span, says) = of(&spans, "fails");
    assert_eq!(span.status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!((&says["error.type"], &says["gantry.outcome"]), (&json!("502"), &json!("upstream_error")));
}

#[tokio::test]
async fn a_share_of_the_traces_is_the_same_share_everywhere() {
    let collector = Collector::start(Mood::Takes);
    let options =
        collector.options().env("OTEL_TRACES_SAMPLER", "traceidratio").env("OTEL_TRACES_SAMPLER_ARG", "0.5");
    let (_gateway, _owner, _engine, key) = with_engine(options).await;
    // What decides is the id, not what the client's trace says.
    let parent = |low: &str, flags: &str| format!("00-{}{low}-{PARENT}-{flags}", &TRACE[..16]);
    let cases = [
        ("low", "0fffffffffffffff", "00"),
        ("high", "f000000000000000", "01"),
        ("also", "7000000000000000", "01"),
    ];
    for (id, low, flags) in cases {
        assert_eq!(ask(&key, id, &chat("far", false), &[("traceparent", &parent(low, flags))]).await, 200);
    }
    let spans = collector.until(2).await;
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert_eq!(of(&spans, "low").0.flags & 1, 1, "it is recorded, so it is marked");
    of(&spans, "also");
}

/// Spans that were exported, rejected and dropped.
async fn counts(gateway: &Gateway) -> [u64; 3] {
    let page = page(gateway).await;
    ["exported", "rejected", "dropped"]
        .map(|it| value(&page, &format!("gantry_trace_spans_total{{result=\"{it}\"}}")) as u64)
}

#[tokio::test]
async fn what_there_is_no_room_for_is_dropped_and_counted() {
    const REQUESTS: u64 = 40;
    let collector = Collector::start(Mood::Answers(503));
    let options = collector.options().env("OTEL_BSP_MAX_QUEUE_SIZE", "5");
    let (gateway, _owner, _engine, key) = with_engine(options).await;
    for n in 0..REQUESTS {
        assert_eq!(
            ask(&key, &format!("n{n}"), &chat("far", false), &[]).await,
            200,
            "whatever the collector does"
        );
    }
    let told = "spans can't be exported";
    eventually("it is tried", SOON, async || gateway.log().contains(told).then_some(())).await;
    // A batch that is tried again and again, and as many behind it.
    eventually("the rest is dropped", SOON, async || {
        (counts(&gateway).await[2] >= REQUESTS - 10).then_some(())
    })
    .await;
    collector.set(Mood::Takes);
    let exported = eventually("the others are exported", SOON, async || {
        let [exported, _, dropped] = counts(&gateway).await;
        (exported + dropped == REQUESTS).then_some(exported)
    })
    .await;
    assert!((1..=10).contains(&exported), "{exported}");
    assert_eq!(collector.spans().len() as u64, exported);
    assert_eq!(gateway.log().matches(told).count(), 1, "said once");
    assert!(gateway.log().contains("spans are exported again"));

    collector.set(Mood::Rejects(1));
    assert_eq!(ask(&key, "unwanted", &chat("far", false), &[]).await, 200);
    let rejected = async |n| {
        eventually("it is rejected", SOON, async || (counts(&gateway).await[1] == n).then_some(())).await;
    };
    rejected(1).await;
    // An answer that no second try would change.
    collector.set(Mood::Answers(400));
    assert_eq!(ask(&key, "malformed", &chat("far", false), &[]).await, 200);
    rejected(2).await;
}

#[tokio::test]
async fn a_collector_that_wants_it_again_at_once_is_not_hammered() {
    let collector = Collector::start(Mood::Busy);
    let (_gateway, _owner, _engine, key) = with_engine(collector.options()).await;
    assert_eq!(ask(&key, "again", &chat("far", false), &[]).await, 200);
    let tries = eventually("it tries again", SOON, async || {
        let tries = collector.state.tries.load(SeqCst);
        (tries >= 3).then_some(tries)
    });
    // They wait longer each time; without a pause there are hundreds before anybody looks.
    assert!(tries.await < 8);
    collector.set(Mood::Takes);
    of(&collector.until(1).await, "again");
}

// The proxy goes on while this test waits for other programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_behind_tls_has_to_prove_its_name() {
    if Command::new("openssl").arg("version").output().is_err() {
        skip("otlp: TLS", "there is no `openssl`");
        return;
    }
    let dir = TempDir::new().unwrap();
    tls::certificates(dir.path());
    let collector = Collector::start(Mood::Takes);
    let port = tls::proxy(dir.path(), collector.addr.to_string()).await;
    let options = |host: &str, authority: &str| {
        let authority = dir.path().join(authority);
        Options::default()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("https://{host}:{port}"))
            .env("SSL_CERT_FILE", authority.to_str().unwrap())
    };
    for (host, authority) in [("127.0.0.1", "nobody.pem"), ("localhost", "ca.pem")] {
        let (gateway, _owner, _engine, key) = with_engine(options(host, authority)).await;
        assert_eq!(ask(&key, "refused", &chat("far", false), &[]).await, 200);
        eventually("it says why", SOON, async || {
            let log = gateway.log();
            log.lines()
                .any(|it| it.contains("spans can't be exported") && it.contains("certificate"))
                .then_some(())
        })
        .await;
        assert_eq!(collector.state.tries.load(SeqCst), 0, "nothing is said to a stranger");
    }
    let (_gateway, _owner, _engine, key) = with_engine(options("127.0.0.1", "ca.pem")).await;
    assert_eq!(ask(&key, "trusted", &chat("far", false), &[]).await, 200);
    of(&collector.until(1).await, "trusted");
}

#[tokio::test]
async fn the_last_spans_arrive_before_the_gateway_ends() {
    let collector = Collector::start(Mood::Takes);
    let (mut gateway, _owner, _engine, key) = with_engine(collector.options()).await;
    assert_eq!(ask(&key, "last", &chat("far", false), &[]).await, 200);
    assert!(gateway.terminate());
    of(&collector.spans(), "last");
}

#[tokio::test]
async fn a_collector_that_is_silent_does_not_hold_up_the_end() {
    let collector = Collector::start(Mood::Silent);
    let (mut gateway, _owner, _engine, key) = with_engine(collector.options()).await;
    for n in 0..3 {
        assert_eq!(ask(&key, &format!("n{n}"), &chat("far", false), &[]).await, 200);
    }
    assert!(gateway.terminate(), "{}", gateway.log());
    assert!(gateway.log().contains("spans could not be exported before the end"), "{}", gateway.log());
    assert!(gateway.log().contains("lost=3"), "{}", gateway.log());
}

#[tokio::test]
async fn without_a_collector_nothing_is_made() {
    let gateway = start(Options::default()).await;
    assert_eq!(gateway.client().get("/v1/models").await.status, 401);
    assert_eq!(counts(&gateway).await, [0, 0, 0]);
}
