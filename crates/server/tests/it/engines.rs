//! The real engines, from their files to their usage: llama.cpp's server, and vLLM where its image is at hand.

mod broken;
mod connections;
mod diagnosed;
mod docker_failures;
mod llama_parser;
mod llama_version;
mod llamacpp_failures;
mod metering;
mod records;
mod refusals;
mod surface;
mod vllm_failures;
mod vllm_parser;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gantry_testkit::{Client, Gateway, Managed, Options, copy, docker, events, skip};
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use diagnosed::Case;

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");
const CHAT: &str = "/v1/chat/completions";

/// The image that the environment names for tests; skips `test` without.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
pub(crate) fn image(variable: &str, test: &str) -> Option<String> {
    let image = std::env::var(variable).ok().filter(|it| !it.is_empty());
    if image.is_none() {
        skip(test, &format!("{variable} is not set"));
    }
    image.filter(|_| docker(test))
}

/// Tiny models; the weights are random, so what they say is gibberish.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

struct Engine {
    gateway: Gateway,
    owner: Client,
    client: Client,
}

impl Engine {
    async fn start(setting: &str, image: &str) -> Self {
        Self::with(Options::containers().env(setting, image)).await
    }

    async fn with(options: Options) -> Self {
        let gateway = Gateway::start(GANTRY, options).await;
        let owner = gateway.owner().await;
        let (_, client) = owner.new_key(&json!({})).await;
        Self { gateway, owner, client }
    }

    fn add(&self, name: &str) {
        let file = fixture(name);
        copy(&file, &self.gateway.models_dir().join(file.file_name().unwrap()));
    }

    async fn run(&self, body: &Value, limit: Duration) -> Managed {
        let started = Instant::now();
        let model = Managed::create(&self.owner, body).await;
        model.start(&self.owner).await;
        model.reaches_within(&self.owner, "running", limit).await;
        println!("{}: ready after {:?}", model.served_name, started.elapsed());
        model
    }

    /// Straight to the engine, past the gateway.
    fn direct(&self, model: &Managed) -> Client {
        let internal = fs::read_to_string(self.gateway.data_dir().join("secrets/engine-key")).unwrap();
        let generation = &model.inspect().unwrap()["Config"]["Labels"]["gantry.generation"];
        let generation = generation.as_str().unwrap().parse().unwrap();
        let key = gantry_domain::engine::instance_key(
            &internal.into(),
            gantry_domain::ModelId(model.id),
            generation,
        );
        model.engine().with_key(key.expose_secret())
    }

    /// The request through the gateway and straight to the engine: the same usage, which is also what the row says.
    async fn same_usage(&self, model: &Managed, path: &str, body: &Value) -> Value {
        let ours = self.client.post(path, body).await;
        let id = ours.header("x-request-id").unwrap().to_owned();
        let ours = ours.expect(200);
        let engines = self.direct(model).post(path, body).await.expect(200);
        for field in ["prompt_tokens", "completion_tokens", "total_tokens"] {
            assert_eq!(ours["usage"][field], engines["usage"][field], "{path} {field}");
        }
        self.check_row(&id, &ours["usage"]).await;
        ours
    }

    async fn check_row(&self, id: &str, usage: &Value) {
        let row = self.owner.usage_of(id).await;
        assert_eq!(row["prompt_tokens"], usage["prompt_tokens"], "{row}");
        assert_eq!(row["completion_tokens"], usage["completion_tokens"].as_i64().unwrap_or(0), "{row}");
        assert_eq!((&row["estimated"], &row["outcome"]), (&json!(false), &json!("ok")), "{row}");
    }

    /// Chat and completion, in one piece and streamed; then the engine's own test request.
    async fn check_chat(&self, model: &Managed) {
        let messages = json!([{ "role": "user", "content": "What is the weather like?" }]);
        let chat =
            json!({ "model": model.served_name, "max_tokens": 12, "temperature": 0, "messages": messages });
        let whole = self.same_usage(model, CHAT, &chat).await;
        println!("{}: {} {}", model.served_name, whole["choices"][0]["message"]["content"], whole["usage"]);
        assert!(whole["usage"]["completion_tokens"].as_i64().unwrap() > 0, "{whole}");
        let prompt =
            json!({ "model": model.served_name, "max_tokens": 5, "temperature": 0, "prompt": "The weather" });
        self.same_usage(model, "/v1/completions", &prompt).await;

        for asks_usage in [false, true] {
            let mut body = chat.clone();
            body["stream"] = json!(true);
            body["stream_options"] = json!({ "include_usage": asks_usage });
            let id = format!("stream-{asks_usage}");
            let request = self.client.request(Method::POST, CHAT).header("x-request-id", &id);
            let answer = self.client.send(request.json(&body)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            let mut all = events(&answer.text);
            assert_eq!(all.pop().as_deref(), Some("[DONE]"), "{}", answer.text);
            let chunks: Vec<Value> = all.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
            let said = chunks.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
            assert_eq!(said.collect::<String>(), whole["choices"][0]["message"]["content"]);
            let told = chunks.iter().filter(|it| it["usage"].is_object()).count();
            assert_eq!(told, usize::from(asks_usage), "{}", answer.text);
            self.check_row(&id, &whole["usage"]).await;
        }
        let tested = model.command(&self.owner, "test").await.expect(200);
        assert_eq!((&tested["success"], &tested["test_type"]), (&json!(true), &json!("chat")), "{tested}");
    }

    /// A model for each case, with these settings besides its own.
    async fn make_all(&self, cases: &[Case], common: &Value) -> Vec<Managed> {
        let mut models = Vec::new();
        for case in cases {
            let mut body = common.clone();
            body["served_name"] = json!(case.name);
            for (name, value) in case.set.as_object().unwrap() {
                body[name] = value.clone();
            }
            models.push(Managed::create(&self.owner, &body).await);
        }
        models
    }

    /// Starts them together, since each start answers when its container runs, or can't.
    async fn start_all(&self, models: &[Managed]) {
        let answers = models.iter().map(|it| it.command(&self.owner, "start"));
        for answer in futures_util::future::join_all(answers).await {
            let refused = ["image_not_available", "model_file_missing"].contains(&answer.code());
            assert!(answer.status == 202 || refused, "{}", answer.text);
        }
    }

    /// What is not as it must be of what is said about each failure.
    async fn wrong(&self, cases: &[Case], models: &[Managed], limit: Duration) -> Vec<String> {
        let mut wrong = Vec::new();
        for (case, model) in cases.iter().zip(models) {
            wrong.extend(case.check(&self.owner, model, limit).await.err());
        }
        wrong
    }

    /// Provokes each failure, several at once, and checks what the gateway says about them.
    async fn fail_all(
        &self,
        cases: &[Case],
        common: &Value,
        together: usize,
        limit: Duration,
    ) -> Vec<Managed> {
        let (mut all, mut wrong) = (Vec::new(), Vec::new());
        for group in cases.chunks(together) {
            let models = self.make_all(group, common).await;
            self.start_all(&models).await;
            wrong.extend(self.wrong(group, &models, limit).await);
            all.extend(models);
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        all
    }

    async fn stop(&self, model: &Managed) {
        model.command(&self.owner, "stop").await.expect(202);
        model.reaches(&self.owner, "stopped").await;
        assert!(model.inspect().is_none());
        let shown = self.client.get(&format!("/v1/models/{}", model.served_name)).await;
        assert_eq!((shown.status, shown.code()), (404, "model_not_found"));
    }
}

fn llama(served_name: &str, file: &str) -> Value {
    json!({ "served_name": served_name, "engine_type": "llamacpp", "local_path": file, "device": "cpu", "context_size": 2048, "force": true })
}

#[tokio::test]
async fn llamacpp_chats_embeds_and_ranks() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    for name in ["tiny-llama-F16.gguf", "tiny-bert-embed-F16.gguf", "tiny-bert-rerank-F16.gguf"] {
        engine.add(&format!("gguf/{name}"));
    }
    let limit = gantry_testkit::PATIENCE;
    let chat = engine.run(&llama("org/chat", "tiny-llama-F16.gguf"), limit).await;
    engine.check_chat(&chat).await;
    let listed = engine.client.get("/v1/models/org/chat").await.expect(200);
    assert_eq!(listed["max_model_len"], 2048, "as the engine reports it");
    // What the engine refuses comes in one shape.
    let long = json!({ "model": "org/chat", "messages": [{ "role": "user", "content": "many words ".repeat(5000) }] });
    let refused = engine.client.post(CHAT, &long).await;
    assert_eq!((refused.status, refused.code()), (400, "context_length_exceeded"), "{}", refused.text);
    assert_eq!(refused.json["error"]["n_ctx"], 2048);

    let mut body = llama("embed", "tiny-bert-embed-F16.gguf");
    body["task"] = json!("embed");
    let embed = engine.run(&body, limit).await;
    let ask = json!({ "model": "embed", "input": ["a b c", "d"] });
    let answer = engine.same_usage(&embed, "/v1/embeddings", &ask).await;
    let vectors: Vec<_> =
        answer["data"].as_array().unwrap().iter().map(|it| it["embedding"].as_array().unwrap()).collect();
    assert!(vectors.len() == 2 && vectors[0].len() == vectors[1].len() && vectors[0].len() > 8, "{answer}");
    assert_eq!(engine.client.chat("embed").await.code(), "task_mismatch");
    // An input is handled in one piece, so as much of it fits as the context holds.
    let mut body = llama("long", "tiny-llama-F16.gguf");
    body["task"] = json!("embed");
    body["pooling"] = json!("mean");
    let long = engine.run(&body, limit).await;
    let ask = json!({ "model": "long", "input": "word ".repeat(1500) });
    let answer = engine.client.post("/v1/embeddings", &ask).await.expect(200);
    assert!(answer["usage"]["prompt_tokens"].as_u64() > Some(1500), "{}", answer["usage"]);

    let mut body = llama("rank", "tiny-bert-rerank-F16.gguf");
    body["task"] = json!("embed");
    body["pooling"] = json!("rank");
    let rank = engine.run(&body, limit).await;
    let tested = rank.command(&engine.owner, "test").await.expect(200);
    assert_eq!((&tested["success"], &tested["test_type"]), (&json!(true), &json!("rerank")), "{tested}");
    assert_eq!(tested["response"]["results"].as_array().unwrap().len(), 2, "{tested}");
    for model in [chat, embed, long, rank] {
        engine.stop(&model).await;
    }
}

#[tokio::test]
async fn llamacpp_says_in_its_log_why_it_does_not_start() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: broken files for llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    let good = fs::read(fixture("gguf/tiny-llama-F16.gguf")).unwrap();
    // The name of the architecture stands behind its key, its type and its length.
    let mut unknown = good.clone();
    let key = b"general.architecture";
    let at = good.windows(key.len()).position(|it| it == key).unwrap() + key.len() + 12;
    unknown[at..at + 5].copy_from_slice(b"other");
    let cases: [(&str, &[u8], &str); 4] = [
        ("truncated", &good[..good.len() / 2], "data is not within the file bounds"),
        ("unknown", &unknown, "unknown model architecture: 'other'"),
        ("web-page", b"<html>please sign in</html>", "invalid magic characters"),
        ("empty", b"", "failed to read magic"),
    ];
    let mut models = Vec::new();
    for (name, bytes, cause) in cases {
        let file = format!("{name}.gguf");
        fs::write(engine.gateway.models_dir().join(&file), bytes).unwrap();
        let model = Managed::create(&engine.owner, &llama(name, &file)).await;
        model.start(&engine.owner).await;
        models.push((model, cause));
    }
    for (model, cause) in models {
        assert_eq!(
            model.fails(&engine.owner).await,
            "container_exited: exit code 1",
            "{}",
            model.served_name
        );
        let log = engine.owner.get(&model.path("logs")).await.expect(200);
        assert!(log["logs"].as_str().unwrap().contains(cause), "{}: {log}", model.served_name);
    }
    // What is not there at all is found out before an engine starts.
    let missing = Managed::create(&engine.owner, &llama("missing", "nowhere.gguf")).await;
    let refused = missing.command(&engine.owner, "start").await;
    assert_eq!((refused.status, refused.code()), (422, "model_file_missing"), "{refused:?}");
    let reason = missing.fails(&engine.owner).await;
    assert_eq!(
        reason,
        "start_failed: `local_path`: there is no `nowhere.gguf` below the models base directory"
    );
    assert!(missing.inspect().is_none());
}

/// Takes minutes: `ENGINES=vllm make test-engines`.
#[tokio::test]
async fn vllm_chats() {
    let Some(image) = image("GANTRY_TEST_VLLM_IMAGE", "engines: vLLM") else { return };
    let engine = Engine::start("PRIMARY_ENGINE_IMAGE", &image).await;
    engine.add("hf/tiny-llama-chat");
    let body = json!({
        "served_name": "tiny", "engine_type": "vllm", "local_path": "tiny-llama-chat", "device": "cpu",
        "dtype": "float32", "max_model_len": 512, "startup_timeout_sec": 900,
    });
    let model = engine.run(&body, Duration::from_mins(15)).await;
    engine.check_chat(&model).await;
    let listed = engine.client.get("/v1/models/tiny").await.expect(200);
    assert_eq!(listed["max_model_len"], 512);
    let unknown = json!({ "model": "tiny", "messages": "no list" });
    let refused = engine.client.post(CHAT, &unknown).await;
    assert_eq!(
        (refused.status, refused.json["error"]["type"].as_str()),
        (400, Some("invalid_request_error"))
    );
    engine.stop(&model).await;
}
