//! Plain requests and answers.

use gantry_domain::{KeyId, OrgId, UserId, endpoint::Endpoint, usage::Outcome};

use crate::{
    client::post,
    engine::{Engine, chunk, json, with_status},
    gateway::{Gateway, KEY},
};

const CHAT: &str = "/v1/chat/completions";
const USAGE: &str = r#""usage":{"prompt_tokens":12,"total_tokens":18,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":4}}"#;

#[tokio::test]
async fn bytes_pass_unchanged_and_are_metered() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let body = r#"{ "unknown": 1e400, "model":"m", "temperature":0.10 , "messages":[{"role":"user","content":"h\u00e9"}]}"#;
    let extra = "x-request-id: my-id.1\r\ncookie: a=b\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nx-forwarded-for: 9.9.9.9\r\naccept-encoding: gzip\r\n";
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, extra, body)).await;
    let call = engine.call().await;
    assert_eq!(String::from_utf8_lossy(&call.body), body);
    assert!(call.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", call.head);
    let mut names: Vec<_> = call.head.lines().skip(1).filter_map(|it| Some(it.split_once(':')?.0)).collect();
    names.sort_unstable();
    let passed =
        ["authorization", "content-length", "content-type", "host", "traceparent", "via", "x-request-id"];
    assert_eq!(names, [&["accept-encoding"], &passed[..]].concat());
    assert_eq!(call.header("accept-encoding"), Some("identity"), "the client's own is for the gateway");
    assert_eq!(call.header("authorization"), Some("Bearer internal"));
    assert_eq!(call.header("x-request-id"), Some("my-id.1"));

    let answer = format!(r#"{{"choices":[{{"message":{{"content":"ok"}}}}], {USAGE} }}"#);
    call.send(&json(&answer));
    let got = client.answer().await;
    assert_eq!((got.status, got.body.as_str()), (200, answer.as_str()));
    assert_eq!(got.header("x-request-id"), Some("my-id.1"));
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert_eq!((got.header("server"), got.header("access-control-allow-origin")), (None, None));

    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome, row.endpoint), (200, Outcome::Ok, Endpoint::ChatCompletions));
    assert_eq!((row.prompt_tokens, row.completion_tokens, row.cached_tokens), (12, 6, Some(4)));
    assert_eq!((row.req_id.as_str(), row.model_name.as_str(), row.estimated), ("my-id.1", "m", false));
    assert_eq!((row.key_id, row.user_id, row.org_id), (Some(KeyId(1)), Some(UserId(3)), Some(OrgId(2))));
    assert_eq!((row.stream, row.ttft_ms, row.id.get_version_num()), (false, None, 7));
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", r#"{"model":"m"}"#);
    let (begun, kept) = engine.keeps(&mut client, &request).await;
    for n in 0..3 {
        client.send(&request).await;
        let call = engine.call().await;
        assert_eq!(call.connection, kept);
        // Chunked and with a length, in one piece and in two.
        match n {
            0 => call.send(&json("{}")),
            1 => call.send(&format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
                chunk("{}")
            )),
            _ => {
                call.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{");
                call.send("}");
            }
        }
        let got = client.answer().await;
        assert_eq!((got.status, got.body.as_str()), (200, "{}"));
    }
    let rows = gateway.rows(begun + 3).await;
    assert!(rows.iter().all(|it| it.estimated && it.outcome == Outcome::Ok));
}

#[tokio::test]
async fn a_large_body_and_a_large_answer_pass() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let body = format!(r#"{{"input":"{}","model":"e"}}"#, "x".repeat(3 << 20));
    client.send(&post("/v1/embeddings", KEY, "", &body)).await;
    let call = engine.call().await;
    assert!(call.body == body.as_bytes());
    let answer = format!(
        r#"{{"data":[{}1],"usage":{{"prompt_tokens":7,"total_tokens":7}}}}"#,
        "0.123,".repeat(1 << 19)
    );
    call.send(&json(&answer));
    assert!(client.answer().await.body == answer);
    let row = gateway.row().await;
    assert_eq!((row.prompt_tokens, row.completion_tokens, row.estimated), (7, 0, false));
}

#[tokio::test]
async fn an_engine_s_error_is_reshaped_and_keeps_its_status() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", r#"{"model":"m"}"#);
    let (begun, kept) = engine.keeps(&mut client, &request).await;
    let mut ask = async |answer: String| {
        client.send(&request).await;
        let call = engine.call().await;
        assert_eq!(call.connection, kept, "the connection is used again");
        call.send(&answer);
        client.answer().await
    };
    let got = ask(with_status(
        "400 Bad Request",
        r#"{"error":{"message":"bad","type":"BadRequestError","param":null,"code":400}}"#,
    ))
    .await;
    assert_eq!(
        (got.status, got.code().as_str(), got.header("x-should-retry")),
        (400, "invalid_request", Some("false"))
    );
    assert_eq!(got.json()["error"]["message"], "bad");
    let got = ask(with_status("401 Unauthorized", r#"{"error":"Unauthorized"}"#)).await;
    assert_eq!((got.status, got.code().as_str()), (502, "engine_key_mismatch"));
    let got = ask(with_status("404 Not Found", r#"{"detail":"Not Found"}"#)).await;
    assert_eq!((got.status, got.code().as_str()), (404, "unsupported_by_engine"));
    let got = ask(with_status(
        "503 Service Unavailable",
        r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
    ))
    .await;
    assert_eq!(
        (got.status, got.code().as_str(), got.header("retry-after")),
        (503, "model_not_running", Some("2"))
    );
    assert_eq!(got.header("x-should-retry"), Some("true"));
    let rows = gateway.rows(begun + 4).await;
    let ends: Vec<_> = rows[begun..].iter().map(|it| (it.status_code, it.outcome)).collect();
    assert_eq!(
        ends,
        [
            (400, Outcome::ClientError),
            (502, Outcome::UpstreamError),
            (404, Outcome::ClientError),
            (503, Outcome::Rejected)
        ]
    );
}

#[tokio::test]
async fn two_hundred_at_once_have_two_hundred_rows() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(
        crate::gateway::catalog(engine.addr, vec![(KEY, crate::gateway::key_entry(1))]),
        |config| config.threads = 2,
    );
    engine.always(&json(&format!("{{{USAGE}}}")));
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..200 {
        let (addr, tell) = (gateway.addr, tell.clone());
        crate::engine::spawn(async move {
            let mut client = crate::client::Client::connect(addr).await;
            tell.send(client.ask(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await.status).unwrap();
        });
    }
    for _ in 0..200 {
        assert_eq!(told.recv().await, Some(200));
    }
    let rows = gateway.rows(200).await;
    assert!(rows.iter().all(|it| it.prompt_tokens == 12));
    let ids: std::collections::HashSet<_> = rows.iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), 200);
}
