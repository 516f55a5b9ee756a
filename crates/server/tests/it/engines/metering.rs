//! What a real llama-server used, in every form in which it can be asked for several answers: its own `usage` covers one.

use gantry_testkit::Managed;
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, Engine, image, llama};

const COMPLETIONS: &str = "/v1/completions";
/// Length of each answer, in tokens.
const LENGTH: i64 = 7;

impl Engine {
    /// The row of a request with these members.
    async fn row_of(&self, model: &Managed, path: &str, members: &Value, stream: bool) -> Value {
        let mut body =
            json!({ "model": model.served_name, "max_tokens": LENGTH, "ignore_eos": true, "stream": stream });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = self.client.send(self.client.request(Method::POST, path).json(&body)).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text);
        self.owner.usage_of(answer.header("x-request-id").unwrap()).await
    }
}

#[tokio::test]
async fn every_answer_of_llamacpp_is_counted() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: metering of llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    engine.add("gguf/tiny-llama-F16.gguf");
    let mut body = llama("m", "tiny-llama-F16.gguf");
    body["parallel_slots"] = json!(4);
    let model = engine.run(&body, gantry_testkit::PATIENCE).await;
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let one = engine.row_of(&model, COMPLETIONS, &json!({ "prompt": "hello world" }), false).await;
    let prompt = one["prompt_tokens"].as_i64().unwrap();
    assert!(prompt > 0 && one["estimated"] == false, "{one}");
    let chat = engine.row_of(&model, CHAT, &json!({ "messages": messages }), false).await["prompt_tokens"]
        .as_i64()
        .unwrap();

    let many = vec!["hello world"; 100];
    let tokens = json!([[1, 2, 3, 4], [5, 6, 7, 8]]);
    // Members, prompt tokens, and answers.
    let cases = [
        (COMPLETIONS, json!({ "prompt": "hello world", "n": 4 }), prompt, 4),
        (COMPLETIONS, json!({ "prompt": "hello world", "n_cmpl": 3 }), prompt, 3),
        (COMPLETIONS, json!({ "prompt": [1, 2, 3, 4] }), 4, 1),
        (COMPLETIONS, json!({ "prompt": many }), 100 * prompt, 100),
        (COMPLETIONS, json!({ "prompt": ["hello world", "hello world"], "n": 2 }), 2 * prompt, 4),
        (COMPLETIONS, json!({ "prompt": tokens }), 8, 2),
        (CHAT, json!({ "messages": messages, "n": 4 }), chat, 4),
        (CHAT, json!({ "messages": messages, "n_cmpl": 2 }), chat, 2),
    ];
    for (path, members, prompt, answers) in cases {
        for stream in [false, true] {
            let row = engine.row_of(&model, path, &members, stream).await;
            let (read, written) = (&row["prompt_tokens"], row["completion_tokens"].as_i64().unwrap());
            println!("{path} {answers} stream={stream}: {read} + {written}, estimated: {}", row["estimated"]);
            let several = members["prompt"].as_array().is_some_and(|it| !it[0].is_number());
            if several && !stream {
                // Its texts are all there is to estimate by.
                assert_eq!(row["estimated"], true, "{row}");
                assert!((answers * LENGTH * 3 / 4..=answers * LENGTH).contains(&written), "{row}");
                assert!(read.as_i64() >= Some(prompt * 3 / 4), "{row}");
            } else {
                let seen = (read.as_i64(), written, &row["estimated"]);
                assert_eq!(seen, (Some(prompt), answers * LENGTH, &json!(false)), "{members}: {row}");
            }
        }
    }
    // What it counts itself.
    let tokenized = json!({ "model": "m", "content": "hello world" });
    let answer = engine.client.post("/tokenize", &tokenized).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    let n = answer.expect(200)["tokens"].as_array().unwrap().len();
    let row = engine.owner.usage_of(&id).await;
    assert_eq!((&row["prompt_tokens"], &row["estimated"]), (&json!(n), &json!(false)), "{row}");
    engine.stop(&model).await;
}
