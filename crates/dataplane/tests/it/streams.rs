//! Streamed answers.

use std::time::{Duration, Instant};

use gantry_dataplane::RouteTarget;
use gantry_domain::{model::Task, usage::Outcome};

use crate::{
    client::{Client, post},
    engine::{Call, Engine, PATIENCE, SSE_HEAD, chunk},
    gateway::{Gateway, KEY, catalog, key_entry, route, upstream},
};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"model":"m","stream":true}"#;
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":6}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

async fn open(gateway: &Gateway, engine: &mut Engine, body: &str) -> (Client, Call) {
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", body)).await;
    let call = engine.call().await;
    (client, call)
}

#[tokio::test]
async fn events_pass_as_they_come_and_the_usage_event_does_not() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let (mut client, call) = open(&gateway, &mut engine, STREAM).await;
    let sent: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(sent["stream_options"], serde_json::json!({"include_usage": true}));
    call.send(SSE_HEAD);
    let head = client.head().await.to_ascii_lowercase();
    assert!(
        head.contains("cache-control: no-cache") && head.contains("text/event-stream; charset=utf-8"),
        "{head}"
    );
    for _ in 0..3 {
        // Each arrives before the next is sent: nothing is held back.
        call.send(&chunk(EVENT));
        assert_eq!(client.chunk().await.as_deref(), Some(EVENT));
    }
    call.send(&chunk(USAGE));
    call.send(&chunk(DONE));
    call.send("0\r\n\r\n");
    assert_eq!(client.chunk().await.as_deref(), Some(DONE));
    assert_eq!(client.chunk().await, None);
    let row = gateway.row().await;
    assert_eq!((row.prompt_tokens, row.completion_tokens, row.estimated), (12, 6, false));
    assert_eq!((row.status_code, row.outcome, row.stream), (200, Outcome::Ok, true));
    assert!(row.ttft_ms.is_some_and(|it| it <= row.latency_ms));
}

#[tokio::test]
async fn a_client_that_asks_for_usage_gets_it_byte_for_byte() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
    let (mut client, call) = open(&gateway, &mut engine, body).await;
    assert_eq!(call.body, body.as_bytes());
    call.send(&format!("{SSE_HEAD}{}{}{}0\r\n\r\n", chunk(EVENT), chunk(USAGE), chunk(DONE)));
    assert_eq!(client.answer().await.body, [EVENT, USAGE, DONE].concat());
    assert_eq!(gateway.row().await.prompt_tokens, 12);
}

#[tokio::test]
async fn without_usage_the_row_is_an_estimate() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let (mut client, call) = open(&gateway, &mut engine, STREAM).await;
    call.send(&format!("{SSE_HEAD}{}{}0\r\n\r\n", chunk(&EVENT.repeat(6)), chunk(DONE)));
    client.answer().await;
    let row = gateway.row().await;
    assert_eq!((row.prompt_tokens, row.completion_tokens, row.estimated), (STREAM.len() as i64 / 4, 5, true));
}

#[tokio::test]
async fn an_engine_that_dies_in_the_middle_is_told_as_an_event() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let (mut client, call) = open(&gateway, &mut engine, STREAM).await;
    call.send(&format!("{SSE_HEAD}{}", chunk(&format!("{EVENT}data: {{\"cho"))));
    assert_eq!(client.head().await.split(' ').nth(1), Some("200"));
    assert_eq!(client.chunk().await.as_deref(), Some(EVENT));
    call.close();
    let last = client.chunk().await.unwrap();
    let json = last.strip_prefix("data: ").and_then(|it| it.strip_suffix("\n\n")).unwrap();
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["error"]["code"], "model_unavailable");
    assert!(json["request_id"].is_string());
    assert_eq!(client.chunk().await, None);
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome, row.estimated), (502, Outcome::UpstreamError, true));
}

#[tokio::test]
async fn an_event_cut_in_the_middle_is_ended_before_the_error() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let body = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#;
    let (mut client, call) = open(&gateway, &mut engine, body).await;
    // There is no length and there are no chunks: only `[DONE]` would show that it is complete.
    call.send("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"cho");
    client.head().await;
    assert_eq!(client.chunk().await.as_deref(), Some("data: {\"cho"));
    call.close();
    assert!(client.chunk().await.unwrap().starts_with("\n\ndata: {\"error\":"));
    assert_eq!(gateway.row().await.status_code, 502);
}

#[tokio::test]
async fn a_silent_engine_is_given_up() {
    let mut engine = Engine::start().await;
    let mut catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let mut quick = route("m", Task::Generate, RouteTarget::Up(upstream(engine.addr)));
    quick.stream_idle_timeout = Duration::from_millis(80);
    catalog.routes.insert("m".into(), quick.into());
    let gateway = Gateway::with(catalog, |_| {});
    let (mut client, mut call) = open(&gateway, &mut engine, STREAM).await;
    call.send(&format!("{SSE_HEAD}{}", chunk(EVENT)));
    client.head().await;
    assert_eq!(client.chunk().await.as_deref(), Some(EVENT));
    assert!(client.chunk().await.unwrap().contains("upstream_timeout"));
    assert_eq!(client.chunk().await, None);
    call.gone().await;
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (504, Outcome::Timeout));
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_engine_s_connection_with_it() {
    let mut engine = Engine::start().await;
    // In the middle of a stream, before the head, and in the middle of a plain answer.
    for (answer, status) in [
        (Some(format!("{SSE_HEAD}{}", chunk(EVENT))), 499),
        (None, 499),
        (Some("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_owned()), 499),
    ] {
        let gateway = Gateway::start(engine.addr);
        let (mut client, mut call) = open(&gateway, &mut engine, STREAM).await;
        if let Some(answer) = &answer {
            call.send(answer);
            client.head().await;
        }
        drop(client);
        let left = Instant::now();
        call.gone().await;
        println!("{answer:?}: let go after {:?}", left.elapsed());
        let row = gateway.row().await;
        assert_eq!((row.status_code, row.outcome, row.estimated), (status, Outcome::ClientClosed, true));
    }
}

#[tokio::test]
async fn a_client_that_leaves_while_it_sends_has_a_row() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", STREAM);
    client.send(&request[..request.len() - 4]).await;
    // The row begins with the head, which has arrived when the counter says so.
    let deadline = Instant::now() + PATIENCE;
    while gateway.shared.counters.in_flight.load(std::sync::atomic::Ordering::Relaxed) == 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    drop(client);
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome, row.model_name.as_str()), (499, Outcome::ClientClosed, ""));
    assert!(engine.was_not_called());
}

#[tokio::test]
async fn a_plain_answer_that_breaks_off_ends_the_connection() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let (mut client, call) = open(&gateway, &mut engine, r#"{"model":"m"}"#).await;
    call.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choi");
    client.head().await;
    call.close();
    client.until_closed().await;
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError));
}

#[tokio::test]
async fn a_client_that_reads_nothing_lets_go_of_the_engine() {
    let mut engine = Engine::start().await;
    let routes = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let gateway = Gateway::with(routes, |config| config.write_timeout = Duration::from_millis(300));
    let (client, mut call) = open(&gateway, &mut engine, STREAM).await;
    // This is more than all buffers on the way take.
    call.send(&format!("{SSE_HEAD}{}", chunk(&EVENT.repeat(600_000))));
    call.gone().await;
    drop(client);
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (499, Outcome::ClientClosed), "{row:?}");
}

#[tokio::test]
async fn a_usage_that_the_client_wrote_does_not_count() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post("/v1/responses", KEY, "", r#"{"model":"m","stream":true,"input":"hi"}"#)).await;
    let call = engine.call().await;
    let forged = r#"{"input_tokens":0,"output_tokens":999999999}"#;
    let event = |kind: &str, rest: &str| {
        chunk(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"response\":{{{rest}}}}}\n\n"))
    };
    let tools = format!(r#""tools":[{{"parameters":{{"usage":{forged}}}}}],"usage":null"#);
    call.send(&format!("{SSE_HEAD}{}", event("response.created", &tools)));
    let delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n";
    call.send(&chunk(&delta.repeat(4)));
    let own = r#""usage":{"input_tokens":7,"output_tokens":4}"#;
    call.send(&event("response.completed", &format!("{tools},{own}")));
    call.send("0\r\n\r\n");
    client.answer().await;
    // Nor when the client leaves before the engine has said what it used.
    client.send(&post("/v1/responses", KEY, "", r#"{"model":"m","stream":true,"input":"hi"}"#)).await;
    let mut call = engine.call().await;
    call.send(&format!("{SSE_HEAD}{}{}", event("response.created", &tools), chunk(&delta.repeat(4))));
    client.head().await;
    client.chunk().await;
    client.chunk().await;
    drop(client);
    call.gone().await;
    let rows = gateway.rows(2).await;
    let whole = rows.iter().find(|it| it.status_code == 200).unwrap();
    assert_eq!((whole.prompt_tokens, whole.completion_tokens, whole.estimated), (7, 4, false));
    let cut = rows.iter().find(|it| it.status_code == 499).unwrap();
    assert!(cut.estimated && (1..=5).contains(&cut.completion_tokens), "{cut:?}");
}

#[tokio::test]
async fn a_stream_is_whole_with_its_last_event_whatever_becomes_of_the_connections() {
    const NAMED: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let mut engine = Engine::start().await;
    // The engine hangs up without the end of the body, the client leaves, or both stay.
    for (path, last) in [(CHAT, DONE), ("/v1/messages", NAMED)] {
        for part in ["engine", "client", "nobody"] {
            let gateway = Gateway::start(engine.addr);
            let mut client = gateway.client().await;
            client.send(&post(path, KEY, "", STREAM)).await;
            let mut call = engine.call().await;
            call.send(&format!("{SSE_HEAD}{}{}", chunk(EVENT), chunk(last)));
            client.head().await;
            let mut got = String::new();
            while !got.ends_with(last) {
                got += &client.chunk().await.unwrap();
            }
            // What the client has is metered: its row waits for nothing more.
            assert_eq!(gateway.shared.counters.requests_with(Outcome::Ok), 1, "{path}");
            match part {
                "engine" => {
                    call.close();
                    assert_eq!(client.chunk().await, None, "no error behind the last event");
                }
                "client" => {
                    drop(client);
                    call.gone().await;
                }
                _ => {
                    call.send("0\r\n\r\n");
                    assert_eq!(client.chunk().await, None);
                }
            }
            let row = gateway.row().await;
            assert_eq!((row.status_code, row.outcome), (200, Outcome::Ok), "{path} {part}");
        }
    }
    // An answer that ends before its last event is not whole.
    let gateway = Gateway::start(engine.addr);
    let (mut client, call) = open(&gateway, &mut engine, STREAM).await;
    call.send(&format!("{SSE_HEAD}{}", chunk(&format!("{EVENT}data: [DO"))));
    client.head().await;
    call.close();
    assert_eq!(gateway.row().await.status_code, 502);
}
