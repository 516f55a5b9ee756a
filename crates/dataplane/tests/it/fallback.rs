//! Chats without a chat template, and a model's request defaults.

use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};

use gantry_dataplane::{Catalog, RequestDefaults, Route, RouteTarget, Upstream};
use gantry_domain::{
    endpoint::Endpoint,
    model::{EngineKind, Task},
    usage::Outcome,
};
use serde_json::{Value, json};

use crate::{
    client::post,
    engine::{self, Engine, SSE_HEAD, chunk, with_status},
    gateway::{Gateway, KEY, catalog, key_entry, route, upstream},
    transcripts::transcript,
};

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = r#"{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}],"temperature":0.10}"#;
const STREAM: &str = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true}"#;
const PROMPT: &str = "System: Be brief.\n\nUser: Hi\n\nAssistant:";

fn with_route(engine: &Engine, change: impl FnOnce(&mut Route)) -> (Catalog, Arc<Upstream>) {
    let upstream = upstream(engine.addr);
    let mut catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let mut route = route("m", Task::Generate, RouteTarget::Up(Arc::clone(&upstream)));
    change(&mut route);
    catalog.routes.insert("m".into(), Arc::new(route));
    (catalog, upstream)
}

fn vllm(engine: &Engine) -> (Gateway, Arc<Upstream>) {
    let (catalog, upstream) = with_route(engine, |it| it.engine = Some(EngineKind::Vllm));
    (Gateway::with(catalog, |_| {}), upstream)
}

fn body(call: &engine::Call) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

#[tokio::test]
async fn a_chat_without_a_template_is_a_completion_and_that_is_remembered() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = vllm(&engine);
    let mut client = gateway.client().await;
    let completion = transcript("vllm-0.32.0-notemplate/completion");

    client.send(&post(CHAT, KEY, "", PLAIN)).await;
    let call = engine.call().await;
    assert!(call.head.starts_with("POST /v1/chat/completions "), "{}", call.head);
    assert_eq!(call.body, PLAIN.as_bytes());
    call.send(&transcript("vllm-0.32.0-notemplate/chat").answer());
    for n in 0..2 {
        if n == 1 {
            assert!(upstream.lacks_chat_template.load(Relaxed));
            client.send(&post(CHAT, KEY, "", PLAIN)).await;
        }
        let call = engine.call().await;
        assert!(call.head.starts_with("POST /v1/completions "), "{}", call.head);
        assert_eq!(
            body(&call),
            json!({"model": "m", "temperature": 0.1, "max_tokens": null, "prompt": PROMPT})
        );
        call.send(&completion.answer());
        let got = client.answer().await;
        assert_eq!((got.status, got.header("content-type")), (200, Some("application/json")));
        let (got, old) = (got.json(), serde_json::from_str::<Value>(&completion.body).unwrap());
        assert_eq!((&got["object"], &got["id"]), (&"chat.completion".into(), &old["id"]));
        assert_eq!(got["choices"][0]["message"]["content"], old["choices"][0]["text"]);
    }
    for row in gateway.rows(2).await {
        assert_eq!(
            (row.endpoint, row.status_code, row.outcome),
            (Endpoint::ChatCompletions, 200, Outcome::Ok)
        );
        assert_eq!((row.prompt_tokens, row.completion_tokens, row.estimated), (2, 6, false));
        assert_eq!((row.stream, row.ttft_ms), (false, None));
    }
}

#[tokio::test]
async fn a_stream_becomes_a_chat_s_as_it_comes() {
    let mut engine = Engine::start().await;
    let (gateway, _) = vllm(&engine);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", STREAM)).await;
    engine.call().await.send(&transcript("vllm-0.32.0-notemplate/chat-stream").answer());
    let call = engine.call().await;
    assert_eq!(
        (&body(&call)["stream"], &body(&call)["prompt"]),
        (&true.into(), &"User: Hi\n\nAssistant:".into())
    );
    assert_eq!(body(&call)["stream_options"], json!({"include_usage": true}));
    // This is much later than the answer that was refused.
    tokio::time::sleep(Duration::from_millis(30)).await;
    call.send(SSE_HEAD);
    client.head().await;
    let text = |text: &str| {
        format!(
            "data: {{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"finish_reason\":null}}]}}\n\n"
        )
    };
    for (n, word) in ["a", "b"].into_iter().enumerate() {
        call.send(&chunk(&text(word)));
        let got = client.chunk().await.unwrap();
        let got: Value = serde_json::from_str(got.strip_prefix("data: ").unwrap()).unwrap();
        let delta =
            if n == 0 { json!({"role": "assistant", "content": "a"}) } else { json!({"content": "b"}) };
        assert_eq!(
            got,
            json!({"id": "cmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        );
    }
    call.send(&chunk("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n"));
    call.send(&chunk("data: [DONE]\n\n"));
    call.send("0\r\n\r\n");
    assert_eq!(client.chunk().await.as_deref(), Some("data: [DONE]\n\n"));
    assert_eq!(client.chunk().await, None);
    let row = gateway.row().await;
    assert_eq!((row.endpoint, row.stream, row.estimated), (Endpoint::ChatCompletions, true, false));
    assert_eq!((row.prompt_tokens, row.completion_tokens), (3, 2));
    assert!(row.ttft_ms.is_some_and(|it| (30..=row.latency_ms).contains(&it)), "{row:?}");
}

#[tokio::test]
async fn a_recorded_stream_with_usage_passes_whole_and_a_death_is_told() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = vllm(&engine);
    upstream.lacks_chat_template.store(true, Relaxed);
    let mut client = gateway.client().await;
    let asked =
        STREAM.replace("\"stream\":true", "\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    client.send(&post(CHAT, KEY, "", &asked)).await;
    let recorded = transcript("vllm-0.32.0-notemplate/completion-stream-usage");
    engine.call().await.send(&recorded.answer());
    let got = client.answer().await.body;
    assert_eq!(got.matches("chat.completion.chunk").count(), 5, "{got}");
    assert!(
        got.contains("\"usage\":{\"prompt_tokens\":1") && got.trim_end().ends_with("data: [DONE]"),
        "{got}"
    );

    client.send(&post(CHAT, KEY, "", &asked)).await;
    let call = engine.call().await;
    let event = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
    call.send(&format!("{SSE_HEAD}{}", chunk(&format!("{event}data: {{\"choi"))));
    client.head().await;
    assert!(client.chunk().await.unwrap().contains("assistant"));
    call.close();
    assert!(client.chunk().await.unwrap().starts_with("data: {\"error\":"));
    let rows = gateway.rows(2).await;
    assert_eq!((rows[0].prompt_tokens, rows[0].completion_tokens), (1, 4));
    assert_eq!((rows[1].status_code, rows[1].completion_tokens, rows[1].estimated), (502, 1, true));
}

#[tokio::test]
async fn the_completion_s_own_failures_are_told() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = vllm(&engine);
    upstream.lacks_chat_template.store(true, Relaxed);
    let mut client = gateway.client().await;
    let mut ask = async |answer: &str| {
        client.send(&post(CHAT, KEY, "", PLAIN)).await;
        engine.call().await.send(answer);
        let got = client.answer().await;
        (got.status, got.code())
    };
    let long = with_status("400 Bad Request", r#"{"error":{"message":"too long","type":"BadRequestError"}}"#);
    assert_eq!(ask(&long).await, (400, "invalid_request".into()));
    // It is not tried a second time.
    let refusal = transcript("vllm-0.32.0-notemplate/chat").answer();
    assert_eq!(ask(&refusal).await, (400, "invalid_request".into()));
    assert_eq!(ask(&engine::json("[]")).await, (502, "bad_upstream".into()));
    // A chat that can't be written as text goes to the chat endpoint, and gets its answer.
    let image = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#;
    client.send(&post(CHAT, KEY, "", image)).await;
    let call = engine.call().await;
    assert!(call.head.starts_with("POST /v1/chat/completions "));
    call.send(&refusal);
    assert_eq!(client.answer().await.status, 400);
    gateway.rows(4).await;
}

#[tokio::test]
async fn no_client_can_make_it_be_remembered() {
    let mut engine = Engine::start().await;
    let (gateway, upstream) = vllm(&engine);
    let mut client = gateway.client().await;
    let quoting = "1 validation error: {'input': 'default chat template is no longer allowed'}";
    client.send(&post(CHAT, KEY, "", PLAIN)).await;
    engine
        .call()
        .await
        .send(&with_status("400 Bad Request", &json!({"error": {"message": quoting}}).to_string()));
    let call = engine.call().await;
    assert!(call.head.starts_with("POST /v1/completions "));
    call.send(&with_status("400 Bad Request", &json!({"error": {"message": "bad"}}).to_string()));
    assert_eq!(client.answer().await.status, 400);
    assert!(!upstream.lacks_chat_template.load(Relaxed));
    gateway.rows(1).await;
}

#[tokio::test]
async fn only_chats_with_vllm_fall_back() {
    let mut engine = Engine::start().await;
    let refusal = transcript("vllm-0.32.0-notemplate/chat").answer();
    for (kind, path) in
        [(Some(EngineKind::Llamacpp), CHAT), (None, CHAT), (Some(EngineKind::Vllm), "/v1/responses")]
    {
        let (catalog, upstream) = with_route(&engine, |it| it.engine = kind);
        let gateway = Gateway::with(catalog, |_| {});
        let mut client = gateway.client().await;
        client.send(&post(path, KEY, "", PLAIN)).await;
        engine.call().await.send(&refusal);
        assert_eq!(client.answer().await.status, 400);
        assert!(!upstream.lacks_chat_template.load(Relaxed) && engine.was_not_called());
        gateway.rows(1).await;
    }
}

#[tokio::test]
async fn defaults_are_put_where_they_lack() {
    let mut engine = Engine::start().await;
    let given = json!({"temperature": 0.2, "top_k": 40, "model": "other"});
    let (catalog, _) = with_route(&engine, |it| {
        it.request_defaults = RequestDefaults::new(given.as_object().unwrap()).map(Arc::new);
    });
    let gateway = Gateway::with(catalog, |_| {});
    let mut client = gateway.client().await;
    let mut sent = async |path: &str, body: &str| {
        client.send(&post(path, KEY, "", body)).await;
        let call = engine.call().await;
        call.send(&engine::json("{}"));
        client.answer().await;
        String::from_utf8(call.body).unwrap()
    };
    let own = r#" {"model":"m", "temperature" : 1e0}"#;
    assert_eq!(sent(CHAT, own).await, r#" {"top_k":40,"model":"m", "temperature" : 1e0}"#);
    let stream = r#"{"model":"m","stream":true}"#;
    assert_eq!(
        sent("/v1/completions", stream).await,
        r#"{"temperature":0.2,"top_k":40,"stream_options":{"include_usage":true},"model":"m","stream":true}"#
    );
    assert_eq!(
        sent("/v1/responses", stream).await,
        r#"{"temperature":0.2,"top_k":40,"model":"m","stream":true}"#
    );
    for path in ["/tokenize", "/v1/messages", "/v1/messages/count_tokens"] {
        assert_eq!(sent(path, own).await, own);
    }
    gateway.rows(6).await;
}
