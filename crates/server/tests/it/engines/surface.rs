//! What llama-server can do beside chats: a split model with a draft model, an adapter and a template of its own, and the
//! whole of its inference surface, with the tokens of each answer in its row.

use std::{fs, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, Engine, image, llama};
use build::Gguf;
use gantry_testkit::{Managed, events};

#[path = "../../../../inspect/tests/it/build.rs"]
#[expect(dead_code, reason = "the reader's tests use the rest")]
mod build;

const LIMIT: Duration = gantry_testkit::PATIENCE;
const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}<assistant>";
/// What the template makes of [`HELLO`].
const PROMPT: &str = "<user> hello world\n<assistant>";
const HELLO: &str = "hello world";

/// An adapter for the queries of the first layer of tiny-llama, strong enough to change what it says.
fn adapter() -> Vec<u8> {
    let (width, rank) = (64, 4);
    let bytes = width * rank * 4;
    let built = Gguf::new()
        .str("general.type", "adapter")
        .str("general.architecture", "llama")
        .str("adapter.type", "lora")
        .raw("adapter.lora.alpha", 6, &64_f32.to_le_bytes())
        .tensor("blk.0.attn_q.weight.lora_a", &[width, rank], 0, bytes)
        .tensor("blk.0.attn_q.weight.lora_b", &[rank, width], 0, bytes);
    let (mut file, size) = built.finish();
    let numbers = (0..width * rank * 2).map(|it| ((it * 37 % 11) as f32 - 5.0) / 4.0);
    file.extend(numbers.flat_map(f32::to_le_bytes));
    assert_eq!(file.len() as u64, size);
    file
}

#[track_caller]
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Tokens of the prompt and of the answer, as this usage object of any of the three APIs says them.
fn tokens(usage: &Value) -> (i64, i64) {
    let prompt = usage.get("prompt_tokens").or(usage.get("input_tokens")).unwrap_or(&Value::Null);
    let answer = usage.get("completion_tokens").or(usage.get("output_tokens")).unwrap_or(&Value::Null);
    // Anthropic's API counts what the cache had apart.
    let cached = usage.get("cache_read_input_tokens").map_or(0, number);
    (number(prompt) + cached, number(answer))
}

impl Engine {
    /// The answer, and what its row says: tokens of prompt and answer.
    async fn asked(&self, path: &str, body: &Value) -> (Value, (i64, i64)) {
        let answer = self.client.post(path, body).await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        (answer.expect(200), self.row(&id, path).await)
    }

    /// All data of the answer's events, and what its row says.
    async fn streamed(&self, path: &str, body: &Value) -> (Vec<Value>, (i64, i64)) {
        let id = format!("stream{}", path.replace('/', "-"));
        let request = self.client.request(Method::POST, path).header("x-request-id", &id);
        let mut body = body.clone();
        body["stream"] = json!(true);
        let answer = self.client.send(request.json(&body)).await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text);
        let all = events(&answer.text);
        let all = all.iter().filter(|it| *it != "[DONE]").map(|it| serde_json::from_str(it).unwrap());
        (all.collect(), self.row(&id, path).await)
    }

    async fn row(&self, id: &str, path: &str) -> (i64, i64) {
        let row = self.owner.usage_of(id).await;
        let outcome = (&row["endpoint"], &row["outcome"], &row["estimated"]);
        assert_eq!(outcome, (&json!(path), &json!("ok"), &json!(false)), "{row}");
        // An endpoint that counts no tokens has zero.
        let count = |name: &str| row[name].as_i64().unwrap_or(0);
        (count("prompt_tokens"), count("completion_tokens"))
    }

    /// What it says at temperature 0.
    async fn says(&self, model: &Managed) -> (String, Value) {
        let body = json!({
            "model": model.served_name, "max_tokens": 24, "temperature": 0,
            "messages": [{ "role": "user", "content": HELLO }],
        });
        let answer = self.client.post(CHAT, &body).await.expect(200);
        (answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned(), answer)
    }
}

#[tokio::test]
async fn llamacpp_answers_on_all_endpoints_with_a_split_model_a_draft_and_an_adapter() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: all endpoints of llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    let first = "tiny-split-F16-00001-of-00002.gguf";
    for name in [first, "tiny-split-F16-00002-of-00002.gguf", "tiny-draft-F16.gguf", "tiny-llama-F16.gguf"] {
        engine.add(&format!("gguf/{name}"));
    }
    let models = engine.gateway.models_dir();
    fs::write(models.join("chat.jinja"), TEMPLATE).unwrap();
    fs::write(models.join("tuned.gguf"), adapter()).unwrap();
    // Threads that wait for each other are slow where there are more of them than idle CPUs.
    let one_thread = |name: &str, file: &str| {
        let mut body = llama(name, file);
        body["threads"] = json!(1);
        body
    };
    let mut body = one_thread("org/whole", first);
    body["draft_model_path"] = json!("tiny-draft-F16.gguf");
    // Its guesses are as random as its weights: none would be sure enough to be tried.
    body["draft_p_min"] = json!(0.0);
    body["chat_template_file"] = json!("chat.jinja");
    let preview = engine.owner.post("/admin/models/dry-run", &body).await.expect(200);
    assert_eq!(preview["valid"], true, "{preview}");
    let whole = engine.run(&body, LIMIT).await;
    let mut body = one_thread("tuned", "tiny-llama-F16.gguf");
    body["lora_adapters"] = json!(["mine=tuned.gguf"]);
    body["chat_template_file"] = json!("chat.jinja");
    let tuned = engine.run(&body, LIMIT).await;

    // Both parts make the model that the single file is, and the draft model only makes it faster.
    let (plain, answer) = engine.says(&whole).await;
    assert!(number(&answer["timings"]["draft_n"]) > 0, "the draft model is used: {answer}");
    let (other, _) = engine.says(&tuned).await;
    assert_ne!(plain, other, "the adapter changes what it says");

    // Tokens, there and back. The template is ours, so the prompt is known.
    let named = |more: Value| {
        let mut body = json!({ "model": "org/whole" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let (cut, row) =
        engine.asked("/tokenize", &named(json!({ "content": PROMPT, "add_special": true }))).await;
    let expected = i64::try_from(cut["tokens"].as_array().unwrap().len()).unwrap();
    assert!(expected > 5 && row == (expected, 0), "{cut} {row:?}");
    let (bare, _) = engine.asked("/tokenize", &named(json!({ "content": HELLO }))).await;
    let (back, _) = engine.asked("/detokenize", &named(json!({ "tokens": bare["tokens"] }))).await;
    assert_eq!(back["content"].as_str().map(str::trim_start), Some(HELLO), "{bare}");
    let messages = json!([{ "role": "user", "content": HELLO }]);
    let (count, row) =
        engine.asked("/v1/messages/count_tokens", &named(json!({ "messages": messages }))).await;
    assert_eq!((number(&count["input_tokens"]), row), (expected, (expected, 0)), "{count}");

    // The three chat APIs, in one piece and streamed: the same counts by whatever name.
    let asked = [
        (CHAT, named(json!({ "messages": messages, "max_tokens": 9, "temperature": 0 }))),
        ("/v1/responses", named(json!({ "input": HELLO, "max_output_tokens": 9, "temperature": 0 }))),
        ("/v1/messages", named(json!({ "messages": messages, "max_tokens": 9, "temperature": 0 }))),
    ];
    for (path, body) in asked {
        let (answer, row) = engine.asked(path, &body).await;
        assert_eq!((tokens(&answer["usage"]), row), ((expected, 9), (expected, 9)), "{path} {answer}");
        let begins: String = plain.chars().take(12).collect();
        assert!(answer.to_string().contains(&begins), "{path} {begins} {answer}");
        let (events, row) = engine.streamed(path, &body).await;
        assert_eq!(row, (expected, 9), "{path} {events:?}");
        let mut told = events.iter().filter_map(|it| {
            let nested = [&it["usage"], &it["response"]["usage"]];
            nested.into_iter().find_map(|it| it.get("output_tokens").and_then(Value::as_i64))
        });
        assert_eq!(told.next_back(), (path != CHAT).then_some(9), "{path} {events:?}");
    }
    for model in [whole, tuned] {
        engine.stop(&model).await;
    }
}
