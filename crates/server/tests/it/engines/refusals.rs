//! What a real llama-server answers with 500 though the request is at fault.

use serde_json::json;

use super::{CHAT, Engine, image, llama};

#[tokio::test]
async fn requests_that_can_never_succeed_take_no_engine_away() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: llama.cpp's refusals") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    for name in ["tiny-llama-F16.gguf", "tiny-bert-embed-F16.gguf"] {
        engine.add(&format!("gguf/{name}"));
    }
    let limit = gantry_testkit::PATIENCE;
    engine.run(&llama("chat", "tiny-llama-F16.gguf"), limit).await;
    let mut body = llama("vectors", "tiny-bert-embed-F16.gguf");
    for (field, value) in [("task", json!("embed")), ("batch_size", json!(32)), ("ubatch_size", json!(32))] {
        body[field] = value;
    }
    engine.run(&body, limit).await;

    let picture =
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } });
    let sound = json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } });
    let hello = json!([{ "role": "user", "content": "hello" }]);
    let cases = [
        (
            CHAT,
            json!({ "model": "chat", "messages": [{ "role": "user", "content": [picture] }] }),
            "image input",
        ),
        (
            CHAT,
            json!({ "model": "chat", "messages": [{ "role": "user", "content": [sound] }] }),
            "audio input",
        ),
        (CHAT, json!({ "model": "chat", "messages": [{ "content": "hello" }] }), "role"),
        (CHAT, json!({ "model": "chat", "messages": hello, "tools": "zz" }), "tools"),
        (CHAT, json!({ "model": "chat", "messages": hello, "reasoning_format": "x" }), "reasoning format"),
        (
            CHAT,
            json!({ "model": "chat", "messages": hello, "json_schema": {}, "grammar": "root ::= \"a\"" }),
            "Cannot use both",
        ),
        ("/v1/messages", json!({ "model": "chat", "max_tokens": 4 }), "'messages' is required"),
        ("/v1/messages/count_tokens", json!({ "model": "chat" }), "'messages' is required"),
        (
            "/v1/embeddings",
            json!({ "model": "vectors", "input": { "prompt_string": "x", "multimodal_data": [5] } }),
            "Multimodal data provided",
        ),
        ("/detokenize", json!({ "model": "chat", "tokens": [99_999_999] }), "99999999"),
        ("/v1/embeddings", json!({ "model": "vectors", "input": "word ".repeat(200) }), "too large"),
    ];
    // More often than a breaker stands.
    for _ in 0..6 {
        for (path, body, why) in &cases {
            let answer = engine.client.post(path, body).await;
            assert_eq!((answer.status, answer.code()), (400, "invalid_request"), "{path} {}", answer.text);
            assert_eq!(answer.header("x-should-retry"), Some("false"), "{path}");
            assert!(answer.text.contains(why), "{path} {}", answer.text);
        }
    }
    assert_eq!(engine.client.chat("chat").await.status, 200);
    let input = json!({ "model": "vectors", "input": "short" });
    engine.client.post("/v1/embeddings", &input).await.expect(200);
}
