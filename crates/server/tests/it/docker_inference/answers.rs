//! Every endpoint of both engines, as it is and as it is metered.

use gantry_testkit::{Answer, Client, Managed, events, simulated, simulator};
use reqwest::Method;
use serde_json::{Value, json};

use super::{GANTRY, gateway};

/// What was sent, and what the engine said it used.
struct Sent {
    id: String,
    path: &'static str,
    body: Value,
    usage: Value,
}

/// A program with a key.
struct App {
    owner: Client,
    client: Client,
    key: Value,
    user: Value,
    sent: Vec<Sent>,
}

impl App {
    async fn new(owner: Client) -> Self {
        let user = owner.get("/auth/me").await.expect(200)["user"].clone();
        let (key, client) = owner.new_key(&json!({ "name": "app", "user_id": user["id"] })).await;
        Self { owner, client, key, user, sent: Vec::new() }
    }

    async fn send(&self, id: &str, path: &str, body: &Value) -> Answer {
        let request = self.client.request(Method::POST, path).header("x-request-id", id);
        let answer = self.client.send(request.json(body)).await;
        assert_eq!(answer.header("x-request-id"), Some(id));
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text);
        answer
    }

    /// An answer in one piece, whose usage is known from now on.
    async fn send_whole(&mut self, id: String, path: &'static str, body: Value) -> Value {
        let answer = self.send(&id, path, &body).await.json;
        self.sent.push(Sent { id, path, body, usage: answer["usage"].clone() });
        answer
    }

    /// In one piece, streamed, and streamed with usage: the same text and the same usage.
    async fn generate(&mut self, engine: &str, kind: &Kind) {
        let path = kind.path;
        let id = |how: &str| format!("{engine}{}.{how}", path.replace('/', "."));
        let mut body = kind.ask.clone();
        body["model"] = json!(format!("{engine}-generate"));
        body["max_tokens"] = json!(12);
        let whole = self.send_whole(id("whole"), path, body.clone()).await;
        let usage = &whole["usage"];
        assert_eq!(usage["completion_tokens"], 12, "{whole}");
        let text = whole.pointer(kind.whole).unwrap().as_str().unwrap();
        assert!(text.starts_with("This is simulated text"), "{text}");

        body["stream"] = json!(true);
        for wants_usage in [false, true] {
            if wants_usage {
                body["stream_options"] = json!({ "include_usage": true });
            }
            let id = id(if wants_usage { "stream-usage" } else { "stream" });
            let answer = self.send(&id, path, &body).await;
            let mut all = events(&answer.text);
            assert_eq!(all.pop().as_deref(), Some("[DONE]"), "{}", answer.text);
            let chunks: Vec<Value> = all.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
            let pieces = chunks.iter().filter_map(|it| it.pointer(kind.chunk)?.as_str());
            assert_eq!(pieces.collect::<String>(), text);
            let told: Vec<_> = chunks.iter().map(|it| &it["usage"]).filter(|it| it.is_object()).collect();
            let empty = chunks.iter().filter(|it| it["choices"] == json!([])).count();
            // llama-server reports usage in the last chunk of a completion, requested or not: the gateway adds
            // nothing.
            let always = engine == "llamacpp" && path == "/v1/completions";
            assert_eq!(told.len(), usize::from(wants_usage || always), "{chunks:?}");
            assert_eq!(empty, usize::from(wants_usage && !always), "{chunks:?}");
            assert!(told.iter().all(|it| it["total_tokens"] == usage["total_tokens"]), "{told:?}");
            self.sent.push(Sent { id, path, body: body.clone(), usage: usage.clone() });
        }
    }

    async fn check_row(&self, sent: &Sent) {
        let Sent { id, path, body, usage } = sent;
        let row = self.owner.usage_of(id).await;
        let completion = usage["completion_tokens"].as_i64().unwrap_or(0);
        assert_eq!(row["prompt_tokens"], usage["prompt_tokens"], "{id}: {row}");
        assert_eq!(row["completion_tokens"], completion, "{id}: {row}");
        assert_eq!(row["total_tokens"], row["prompt_tokens"].as_i64().unwrap() + completion);
        assert_eq!((&row["estimated"], &row["outcome"]), (&json!(false), &json!("ok")), "{row}");
        assert_eq!((&row["endpoint"], &row["model_name"]), (&json!(path), &body["model"]));
        let task = if *path == "/v1/embeddings" { "embed" } else { "generate" };
        assert_eq!((&row["task"], &row["status_code"]), (&json!(task), &json!(200)));
        assert_eq!((&row["key_id"], &row["key_prefix"]), (&self.key["id"], &self.key["prefix"]));
        assert_eq!((&row["user_id"], &row["org_id"]), (&self.user["id"], &self.user["org_id"]));
        let streamed = body["stream"] == true;
        assert_eq!((&row["stream"], row["ttft_ms"].is_i64()), (&json!(streamed), streamed), "{row}");
        assert!(row["latency_ms"].as_i64().unwrap() >= row["ttft_ms"].as_i64().unwrap_or(0), "{row}");
    }
}

/// A way to have text generated, and where it stands in the answer.
struct Kind {
    path: &'static str,
    ask: Value,
    whole: &'static str,
    chunk: &'static str,
}

fn kinds() -> [Kind; 2] {
    [
        Kind {
            path: "/v1/chat/completions",
            ask: json!({ "messages": [{ "role": "user", "content": "Tell me a story" }] }),
            whole: "/choices/0/message/content",
            chunk: "/choices/0/delta/content",
        },
        Kind {
            path: "/v1/completions",
            ask: json!({ "prompt": "Once upon a time" }),
            whole: "/choices/0/text",
            chunk: "/choices/0/text",
        },
    ]
}

#[tokio::test]
async fn both_engines_answer_on_every_endpoint_and_are_metered_exactly() {
    if !simulator(GANTRY, "docker_inference: answers and metering") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let mut models = Vec::new();
    for engine in ["vllm", "llamacpp"] {
        for task in ["generate", "embed"] {
            let mut body = simulated(engine, &format!("{engine}-{task}"), &[]);
            body["task"] = json!(task);
            let model = Managed::create(&owner, &body).await;
            model.start(&owner).await;
            models.push(model);
        }
    }
    for model in &models {
        model.reaches(&owner, "running").await;
    }
    let mut app = App::new(owner).await;
    let listed = app.client.get("/v1/models").await.expect(200);
    let listed = listed["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap());
    let expected = ["llamacpp-embed", "llamacpp-generate", "vllm-embed", "vllm-generate"];
    assert_eq!(listed.collect::<Vec<_>>(), expected);

    for engine in ["vllm", "llamacpp"] {
        for kind in &kinds() {
            app.generate(engine, kind).await;
        }
        let body = json!({ "model": format!("{engine}-embed"), "input": ["one two three", "four"] });
        let answer = app.send_whole(format!("{engine}.embeddings"), "/v1/embeddings", body).await;
        assert_eq!(answer["data"].as_array().unwrap().len(), 2, "{answer}");
    }
    for sent in &app.sent {
        app.check_row(sent).await;
    }
    let rows = app.owner.get("/admin/usage?limit=1000").await;
    assert_eq!(rows.header("x-total-count"), Some("14"), "{}", rows.text);
}

#[tokio::test]
async fn a_signed_in_user_may_chat_from_the_gateways_own_pages_only() {
    if !simulator(GANTRY, "docker_inference: sessions") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let me = owner.get("/auth/me").await.expect(200);
    let chat = |id: &str| {
        let request = owner.request(Method::POST, super::CHAT).json(&gantry_testkit::chat("m"));
        request.header("x-request-id", id)
    };
    owner.send(chat("program")).await.expect(200);
    owner.send(chat("own-page").header("sec-fetch-site", "same-origin")).await.expect(200);
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "http://evil.example")]
    {
        let refused = owner.send(chat("foreign-page").header(name, value)).await;
        assert_eq!((refused.status, refused.code()), (403, "cross_site_request"), "{name}: {value}");
    }
    for id in ["program", "own-page"] {
        let row = owner.usage_of(id).await;
        assert_eq!((&row["key_id"], &row["key_prefix"]), (&Value::Null, &Value::Null));
        assert_eq!((&row["user_id"], &row["org_id"]), (&me["user"]["id"], &me["user"]["org_id"]));
    }
    owner.command("/auth/logout").await.expect(200);
    assert_eq!(owner.chat("m").await.code(), "invalid_api_key");
    let again = gateway.owner().await;
    let rows = again.get("/admin/usage").await.expect(200);
    assert_eq!(rows.as_array().unwrap().len(), 2, "what was refused unknown is not metered");
}
