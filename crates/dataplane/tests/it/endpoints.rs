//! Tests of the engines' other endpoints, with recorded answers of real engines.

use gantry_dataplane::KeyEntry;
use gantry_domain::{
    endpoint::Endpoint,
    key::Scopes,
    model::Task,
    usage::{Outcome, UsageRow},
};

use crate::{
    client::{Answer, post},
    engine::{Engine, SSE_HEAD, chunk, json},
    gateway::{Gateway, KEY, catalog, key_entry},
    transcripts::transcript,
};

/// Sends the recorded request and the recorded answer through a gateway.
async fn replay(endpoint: Endpoint, name: &str) -> (Answer, UsageRow) {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let recorded = transcript(name);
    let model = if endpoint.task() == Some(Task::Embed) { "e" } else { "m" };
    let request = recorded.request_to(model);
    let mut client = gateway.client().await;
    client.send(&post(endpoint.path(), KEY, "", &request)).await;
    let call = engine.call().await;
    assert_eq!(String::from_utf8_lossy(&call.body), request, "{name}: nothing is added");
    assert!(call.head.starts_with(&format!("POST {} HTTP/1.1\r\n", endpoint.path())), "{}", call.head);
    call.send(&recorded.answer());
    let got = client.answer().await;
    if got.status == 200 {
        assert_eq!(got.body, recorded.body, "{name}");
    }
    let row = gateway.row().await;
    assert_eq!((row.endpoint, row.status_code), (endpoint, got.status), "{name}");
    (got, row)
}

#[tokio::test]
async fn each_says_its_counts_in_its_own_way() {
    use Endpoint::{CountTokens, Messages, Rerank, Responses, Score, Tokenize};
    let cases = [
        (Responses, "vllm-0.32.0/responses", (12, 6, Some(0))),
        (Responses, "llama-b11434/responses", (17, 6, Some(16))),
        (Messages, "vllm-0.32.0/messages", (12, 6, None)),
        // It reports 1 token that was not cached and 16 that were.
        (Messages, "llama-b11434/messages", (17, 6, Some(16))),
        (CountTokens, "vllm-0.32.0/messages-count-tokens", (12, 0, None)),
        (CountTokens, "llama-b11434/messages-count-tokens", (17, 0, None)),
        (Rerank, "vllm-0.32.0-embed/rerank", (11, 0, None)),
        (Rerank, "llama-b11434-rerank/rerank", (11, 0, None)),
        (Score, "vllm-0.32.0-embed/score", (11, 0, None)),
        (Tokenize, "vllm-0.32.0/tokenize-vllm", (2, 0, None)),
        // It reports no number: the gateway counts.
        (Tokenize, "llama-b11434/tokenize-llama", (2, 0, None)),
        (Responses, "vllm-0.32.0/responses-stream", (12, 4, Some(0))),
        (Responses, "llama-b11434/responses-stream", (17, 4, Some(16))),
        (Messages, "vllm-0.32.0/messages-stream", (12, 4, None)),
        (Messages, "llama-b11434/messages-stream", (17, 4, Some(16))),
    ];
    for (endpoint, name, counts) in cases {
        let (_, row) = replay(endpoint, name).await;
        assert_eq!((row.prompt_tokens, row.completion_tokens, row.cached_tokens), counts, "{name}");
        assert_eq!((row.outcome, row.estimated), (Outcome::Ok, false), "{name}");
        let streams = name.ends_with("-stream");
        assert_eq!((row.stream, row.ttft_ms.is_some()), (streams, streams), "{name}");
        let embeds = matches!(endpoint, Rerank | Score);
        assert_eq!(row.task == Task::Embed, embeds, "{name}");
    }
}

#[tokio::test]
async fn an_engine_without_it_is_said_to_lack_it() {
    for (endpoint, name) in [
        (Endpoint::Rerank, "vllm-0.32.0/rerank"),
        (Endpoint::Rerank, "llama-b11434/rerank"),
        (Endpoint::Score, "llama-b11434/score"),
    ] {
        let (got, row) = replay(endpoint, name).await;
        assert_eq!((got.status, got.code().as_str()), (404, "unsupported_by_engine"), "{name}");
        assert_eq!((row.outcome, row.prompt_tokens), (Outcome::ClientError, 0), "{name}");
    }
}

#[tokio::test]
async fn tokens_are_counted_by_any_model_and_never_estimated() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    for (path, model, answer) in [
        ("/tokenize", "e", r#"{"count":3,"tokens":[1,2,3]}"#),
        ("/detokenize", "m", r#"{"prompt":"\"count\":9"}"#),
        ("/v1/messages/count_tokens", "m", "{}"),
    ] {
        client.send(&post(path, KEY, "", &format!(r#"{{"model":"{model}","content":"hello world"}}"#))).await;
        engine.call().await.send(&json(answer));
        assert_eq!(client.answer().await.body, answer);
    }
    let rows = gateway.rows(3).await;
    let counts: Vec<_> =
        rows.iter().map(|it| (it.prompt_tokens, it.completion_tokens, it.estimated)).collect();
    assert_eq!(counts, [(3, 0, false), (0, 0, false), (0, 0, false)]);
    let tasks: Vec<_> = rows.iter().map(|it| it.task).collect();
    assert_eq!(tasks, [Task::Embed, Task::Generate, Task::Generate]);
}

#[tokio::test]
async fn scopes_and_tasks() {
    let engine = Engine::start().await;
    let scoped = |id, scopes| KeyEntry { scopes: Scopes::parse(scopes).unwrap(), ..key_entry(id) };
    let keys = vec![("chat", scoped(1, "chat")), ("embed", scoped(2, "embeddings"))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    engine.always(&json("{}"));
    let mut client = gateway.client().await;
    let mut n = 0;
    for endpoint in Endpoint::ALL {
        if matches!(endpoint, Endpoint::ChatCompletions | Endpoint::Completions | Endpoint::Embeddings) {
            continue;
        }
        let embeds = matches!(endpoint, Endpoint::Rerank | Endpoint::Score);
        let any = matches!(endpoint, Endpoint::Tokenize | Endpoint::Detokenize);
        // Counting needs a scope for the model, but any one will do.
        let lacks = "insufficient_scope";
        for (key, model, want) in [
            ("chat", "m", if embeds { lacks } else { "" }),
            ("chat", "e", if embeds || any { lacks } else { "task_mismatch" }),
            ("embed", "e", if embeds || any { "" } else { lacks }),
            ("embed", "m", if embeds { "task_mismatch" } else { lacks }),
        ] {
            let got = client.ask(&post(endpoint.path(), key, "", &format!(r#"{{"model":"{model}"}}"#))).await;
            assert_eq!(got.code(), want, "{endpoint} {key} {model}");
            n += 1;
        }
    }
    gateway.rows(n).await;
}

#[tokio::test]
async fn errors_of_messages_say_their_type() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    for path in ["/v1/messages", "/v1/messages/count_tokens"] {
        for (key, body) in [(KEY, r#"{"model":"nope"}"#), (KEY, "{"), ("nobody", "{}")] {
            let got = client.ask(&post(path, key, "", body)).await.json();
            assert_eq!(got["type"], "error", "{path} {body}");
            assert!(got["error"]["code"].is_string() && got["request_id"].is_string(), "{path} {body}");
        }
    }
    let got = client.ask(&post("/v1/responses", KEY, "", "{")).await.json();
    assert_eq!(got.get("type"), None);
    client.send(&post("/v1/messages", KEY, "", r#"{"model":"m"}"#)).await;
    engine.call().await.send(&transcript("vllm-0.32.0-notemplate/messages").answer());
    let got = client.answer().await;
    assert_eq!((got.status, got.code().as_str()), (400, "invalid_request"));
    assert_eq!(got.json()["type"], "error");
    gateway.rows(6).await;
}

#[tokio::test]
async fn an_engine_that_dies_is_told_in_the_protocol_s_own_way() {
    let mut engine = Engine::start().await;
    for (path, event) in [
        ("/v1/messages", "event: content_block_delta\ndata: {\"type\":\"content_block_delta\"}\n\n"),
        ("/v1/responses", "event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n"),
    ] {
        let gateway = Gateway::start(engine.addr);
        let mut client = gateway.client().await;
        let body = r#"{"model":"m","stream":true}"#;
        client.send(&post(path, KEY, "", body)).await;
        let call = engine.call().await;
        assert_eq!(call.body, body.as_bytes());
        call.send(&format!("{SSE_HEAD}{}", chunk(event)));
        client.head().await;
        // Each arrives before the next is sent.
        assert_eq!(client.chunk().await.as_deref(), Some(event));
        call.send(&chunk(event));
        assert_eq!(client.chunk().await.as_deref(), Some(event));
        call.close();
        let last = client.chunk().await.unwrap();
        let data = last.strip_prefix("event: error\ndata: ").and_then(|it| it.strip_suffix("\n\n")).unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!((&data["type"], &data["error"]["code"]), (&"error".into(), &"model_unavailable".into()));
        assert_eq!(client.chunk().await, None);
        let row = gateway.row().await;
        assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError), "{path}");
        assert_eq!((row.completion_tokens, row.estimated, row.ttft_ms.is_some()), (2, true, true), "{path}");
    }
}

#[tokio::test]
async fn a_message_that_breaks_off_is_counted_as_far_as_it_came() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post("/v1/messages", KEY, "", r#"{"model":"m","stream":true}"#)).await;
    let mut call = engine.call().await;
    let recorded = transcript("llama-b11434/messages-stream").body;
    let delta = "event: content_block_delta\n";
    let begun = &recorded[..recorded.match_indices(delta).nth(3).unwrap().0];
    call.send(&format!("{SSE_HEAD}{}", chunk(begun)));
    client.head().await;
    assert_eq!(client.chunk().await.as_deref(), Some(begun));
    drop(client);
    call.gone().await;
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (499, Outcome::ClientClosed));
    assert_eq!((row.prompt_tokens, row.cached_tokens, row.completion_tokens), (17, Some(16), 3));
    assert!(row.estimated);
}

#[tokio::test]
async fn a_stream_without_a_marked_end_ends_with_its_last_event() {
    let mut engine = Engine::start().await;
    for (event, status) in [("message_stop", 200), ("ping", 502)] {
        let gateway = Gateway::start(engine.addr);
        let mut client = gateway.client().await;
        client.send(&post("/v1/messages", KEY, "", r#"{"model":"m","stream":true}"#)).await;
        let call = engine.call().await;
        call.send(&format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: {event}\ndata: {{}}\n\n"
        ));
        client.head().await;
        client.chunk().await;
        call.close();
        while client.chunk().await.is_some() {}
        assert_eq!(gateway.row().await.status_code, status, "{event}");
    }
}

#[tokio::test]
async fn an_answer_that_could_not_be_metered_is_not_asked_for() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let request = post("/v1/responses", KEY, "", r#"{"model":"m","background":true}"#);
    assert_eq!(gateway.client().await.ask(&request).await.code(), "parameter_not_allowed");
    assert!(engine.was_not_called());
    let got = gateway.client().await.ask("GET /tokenize HTTP/1.1\r\nhost: g\r\n\r\n").await;
    assert_eq!(got.status, 405);
    gateway.rows(1).await;
}
