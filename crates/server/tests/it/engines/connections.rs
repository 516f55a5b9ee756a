//! What a real llama-server in a container does with its connections costs no request. It announces that it keeps them and closes
//! each after a stream, which Docker's port proxy passes on a moment later.

use futures_util::future::join_all;
use serde_json::json;

use super::{CHAT, Engine, image, llama};

/// Streams for each number of clients, unless `GANTRY_STREAMS` says another number.
const STREAMS: usize = 100;

#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
fn streams() -> usize {
    std::env::var("GANTRY_STREAMS").map_or(STREAMS, |it| it.parse().unwrap())
}

#[tokio::test]
async fn streams_of_llamacpp_in_docker_are_all_answered() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: connections of llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    engine.add("gguf/tiny-llama-F16.gguf");
    let mut body = llama("m", "tiny-llama-F16.gguf");
    body["parallel_slots"] = json!(4);
    let model = engine.run(&body, gantry_testkit::PATIENCE).await;
    let body = json!({
        "model": "m", "max_tokens": 3, "ignore_eos": true, "stream": true,
        "messages": [{ "role": "user", "content": "hello" }],
    });
    let whole = json!({ "model": "m", "max_tokens": 1, "prompt": "hello" });
    for clients in [1, 5, 50] {
        let one = async || {
            for _ in 0..streams().div_ceil(clients) {
                let answer = engine.client.post(CHAT, &body).await;
                assert_eq!(answer.status, 200, "{clients} clients: {}", answer.text);
                assert!(answer.text.contains("[DONE]"), "{clients} clients: {}", answer.text);
                let answer = engine.client.post("/v1/completions", &whole).await;
                assert_eq!(answer.status, 200, "{clients} clients: {}", answer.text);
            }
        };
        join_all((0..clients).map(|_| one())).await;
    }
    engine.stop(&model).await;
}
