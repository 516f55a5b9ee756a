//! Answers that the gateway writes into chats of the playground: they go on without the client that asked.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing,
};
use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc},
};

use crate::{
    events::Stream,
    support::{assert_error, gateway, start},
    team::Team,
};

const CHATS: &str = "/v1/chat/sessions";

/// An engine that says what a test tells it to, when it does.
struct Engine {
    url: String,
    say: mpsc::Sender<Bytes>,
    /// The last request's body.
    asked: Arc<Mutex<Value>>,
}

#[derive(Clone)]
struct Script {
    lines: Arc<Mutex<mpsc::Receiver<Bytes>>>,
    asked: Arc<Mutex<Value>>,
}

async fn complete(State(script): State<Script>, Json(request): Json<Value>) -> Response {
    let refuse = request["messages"][0]["content"] == "refuse";
    *script.asked.lock().await = request;
    if refuse {
        let error =
            json!({ "error": { "message": "no such thing", "type": "BadRequestError", "code": 400 } });
        return (http::StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let lines = Arc::clone(&script.lines);
    let body = futures_util::stream::unfold(lines, async |lines| {
        let next = lines.lock().await.recv().await.filter(|it| !it.is_empty())?;
        Some((Ok::<_, Infallible>(next), lines))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

impl Engine {
    async fn start() -> Self {
        let (say, lines) = mpsc::channel(64);
        let asked = Arc::default();
        let script = Script { lines: Arc::new(Mutex::new(lines)), asked: Arc::clone(&asked) };
        let app = Router::new()
            .route("/v1/chat/completions", routing::post(complete))
            .route("/v1/models", routing::get(async || Json(json!({ "object": "list", "data": [] }))))
            .route("/health", routing::get(async || "ok"))
            .with_state(script);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
        drop(tokio::spawn(async { axum::serve(listener, app).await }));
        Self { url, say, asked }
    }

    async fn raw(&self, text: String) {
        self.say.send(text.into()).await.unwrap();
    }

    async fn delta(&self, delta: Value) {
        self.raw(format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta }] }))).await;
    }

    async fn text(&self, text: &str) {
        self.delta(json!({ "content": text })).await;
    }

    /// Ends the answer as engines do, with their counts.
    async fn done(&self) {
        let last = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        let usage = json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8 } });
        self.raw(format!("data: {last}\n\ndata: {usage}\n\ndata: [DONE]\n\n")).await;
        self.hang_up().await;
    }

    /// Ends the answer without a word.
    async fn hang_up(&self) {
        self.say.send(Bytes::new()).await.unwrap();
    }
}

struct Chat {
    gateway: Gateway,
    engine: Engine,
    owner: Client,
    path: String,
}

impl Chat {
    async fn on(gateway: Gateway) -> Self {
        let (engine, owner) = (Engine::start().await, gateway.owner().await);
        let entry = json!({ "served_name": "m", "url": engine.url });
        owner.post("/admin/models/registry", &entry).await.expect(201);
        let path = begin(&owner).await;
        Self { gateway, engine, owner, path }
    }

    async fn start() -> Self {
        Self::on(start(Options::default()).await).await
    }

    /// Asks, and returns the events of the answer.
    async fn ask(&self, body: &Value) -> Stream {
        let request = self.owner.request(Method::POST, &format!("{}/completions", self.path));
        Stream::of(request.json(body).send().await.unwrap())
    }

    async fn follow(&self) -> Stream {
        let request = self.owner.request(Method::GET, &format!("{}/completions/current", self.path));
        Stream::of(request.send().await.unwrap())
    }

    /// Waits until the database has messages of these texts.
    async fn stores(&self, texts: &[&str]) {
        let url = format!("sqlite://{}", self.gateway.data_dir().join("gantry.db").display());
        let id = self.path.rsplit('/').next().unwrap().parse().unwrap();
        let store = gantry_store::Store::open(&url).await.unwrap();
        eventually("what has come is stored", PATIENCE, async || {
            let messages = store.read().await.unwrap().chat_messages(id, 0, 10).await.unwrap();
            messages.iter().map(|it| it.content.as_str()).eq(texts.iter().copied()).then_some(())
        })
        .await;
        store.close().await;
    }

    async fn shown(&self) -> Value {
        self.owner.get(&self.path).await.expect(200)
    }

    /// The messages of the chat, once nothing is written into it any more.
    async fn settled(&self) -> Vec<Value> {
        eventually("the answer has ended", PATIENCE, async || {
            let chat = self.shown().await;
            (chat["answering"] == false).then(|| chat["messages"].as_array().unwrap().clone())
        })
        .await
    }
}

async fn begin(client: &Client) -> String {
    let chat = client.post(CHATS, &json!({ "model_name": "m", "engine_type": null })).await.expect(201);
    format!("{CHATS}/{}", chat["id"].as_str().unwrap())
}

fn question() -> Value {
    json!({ "request": { "messages": [{ "role": "user", "content": "Hi" }], "temperature": 0.5 } })
}

/// Reads until this much of the answer has come, and returns the last event of it.
async fn until(stream: &mut Stream, text: &str) -> Value {
    let mut all = String::new();
    loop {
        let data = stream.next_of("delta").await.data;
        all += data["text"].as_str().unwrap_or_default();
        if all == text {
            return data;
        }
        assert!(text.starts_with(&all), "{all:?} instead of {text:?}");
    }
}

#[tokio::test]
async fn an_answer_goes_on_without_its_client_and_is_stored_when_it_ends() {
    for database in Database::one("chat_answers: goes on") {
        let chat = Chat::on(gateway(database).await).await;
        let said = json!({ "role": "user", "content": "Hi" });
        let said = chat.owner.post(&format!("{}/messages", chat.path), &said).await.expect(201);
        let mut first = chat.ask(&question()).await;
        let begun = first.next_of("begin").await.data;
        assert_eq!(
            (&begun["parent"], &begun["continues"], &begun["model"]),
            (&said["id"], &json!(false), &json!("m"))
        );
        chat.engine.delta(json!({ "reasoning_content": "Hm." })).await;
        let thought = first.next_of("delta").await.data;
        assert_eq!((&thought["reasoning"], thought.get("text")), (&json!("Hm."), None));
        assert!(thought["ttft_ms"].is_u64());
        chat.engine.text("Hel").await;
        assert!(until(&mut first, "Hel").await["reasoning_ms"].is_u64());
        // The page is loaded again.
        drop(first);
        let shown = chat.shown().await;
        assert_eq!((&shown["answering"], shown["messages"].as_array().unwrap().len()), (&json!(true), 1));
        assert_eq!(
            chat.owner.get(&format!("{CHATS}?messages=false")).await.expect(200)[0]["answering"],
            true
        );
        chat.engine.text("lo").await;
        let (mut second, mut third) = (chat.follow().await, chat.follow().await);
        for stream in [&mut second, &mut third] {
            assert_eq!(stream.next_of("begin").await.data, begun);
            until(stream, "Hello").await;
        }
        chat.engine.done().await;
        let ended = second.next_of("end").await.data;
        assert_eq!((&ended["error"], &ended["content"]), (&Value::Null, &Value::Null));
        assert_eq!(third.next_of("end").await.data, ended);
        second.ends().await;

        let messages = chat.settled().await;
        assert_eq!(messages.len(), 2);
        assert_eq!(ended["messages"], json!([messages[1]]), "as the chat shows it");
        assert_eq!(messages[1]["content"], "<think>\nHm.\n</think>\n\nHello");
        let metrics = &messages[1]["metrics"];
        assert_eq!(
            (&metrics["ending"], &metrics["model"], &metrics["parent"]),
            (&json!("stop"), &json!("m"), &said["id"])
        );
        assert_eq!((&metrics["prompt_tokens"], &metrics["completion_tokens"]), (&json!(5), &json!(3)));
        assert_eq!((metrics.get("estimated"), metrics.get("error")), (None, None));
        for name in ["ttft_ms", "total_ms", "reasoning_ms"] {
            assert!(metrics[name].is_u64(), "{name}: {metrics}");
        }
        // It was a request like any other: with the engine's own counts, the user's, and one row.
        let asked = chat.engine.asked.lock().await.clone();
        assert_eq!(
            (&asked["stream"], &asked["stream_options"]["include_usage"]),
            (&json!(true), &json!(true))
        );
        assert_eq!((&asked["temperature"], &asked["model"]), (&json!(0.5), &json!("m")));
        let row = chat.owner.usage_of(metrics["request_id"].as_str().unwrap()).await;
        assert_eq!((&row["completion_tokens"], &row["key_id"]), (&json!(3), &Value::Null));
        let over = chat.owner.get(&format!("{}/completions/current", chat.path)).await;
        assert_eq!((over.status, over.text.as_str()), (204, ""));
    }
}

#[tokio::test]
async fn an_answer_is_stopped_from_another_tab_and_what_came_is_kept() {
    let chat = Chat::start().await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    let again = chat.owner.post(&format!("{}/completions", chat.path), &question()).await;
    assert_error(&again, 409, "invalid_state");
    let current = format!("{}/completions/current", chat.path);
    assert_eq!(chat.owner.delete(&current).await.expect(200), json!({ "status": "stopped" }));
    let ended = stream.next_of("end").await.data;
    assert_eq!((&ended["messages"][0]["content"], &ended["error"]), (&json!("Hel"), &Value::Null));
    let messages = chat.settled().await;
    let metrics = &messages[0]["metrics"];
    // The engine has not said how many tokens it made.
    assert_eq!((&metrics["ending"], &metrics["estimated"]), (&json!("stopped"), &json!(true)));
    assert_error(&chat.owner.delete(&current).await, 404, "not_found");
    let row = chat.owner.usage_of(metrics["request_id"].as_str().unwrap()).await;
    assert_eq!(row["outcome"], "client_closed");
}

#[tokio::test]
async fn a_refusal_is_that_of_the_inference_api() {
    let chat = Chat::start().await;
    let post = async |body: Value| chat.owner.post(&format!("{}/completions", chat.path), &body).await;
    let of = |content: &str, model: &str| json!({ "request": { "model": model, "messages": [{ "role": "user", "content": content }] } });
    let missing = post(of("Hi", "nothing")).await;
    assert_error(&missing, 404, "model_not_found");
    let refused = post(of("refuse", "m")).await;
    assert_eq!(
        (refused.status, &refused.json["error"]["message"]),
        (400, &json!("no such thing")),
        "{}",
        refused.text
    );
    assert!(chat.settled().await.is_empty());
    // An engine that is gone.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    chat.owner
        .post("/admin/models/registry", &json!({ "served_name": "gone", "url": url }))
        .await
        .expect(201);
    assert_error(&post(of("Hi", "gone")).await, 502, "model_unavailable");
    // Limits hold as everywhere.
    let me = chat.owner.get("/auth/me").await.expect(200)["user"]["id"].clone();
    chat.owner.patch(&format!("/admin/users/{me}"), &json!({ "max_concurrency": 1 })).await.expect(200);
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("x").await;
    until(&mut stream, "x").await;
    let other = begin(&chat.owner).await;
    let second = chat.owner.post(&format!("{other}/completions"), &question()).await;
    assert_eq!(second.status, 429, "{}", second.text);
    assert!(second.header("retry-after").is_some());
    chat.engine.done().await;
}

#[tokio::test]
async fn an_engine_that_breaks_off_leaves_what_came_and_says_so() {
    let chat = Chat::start().await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    let error =
        json!({ "error": { "message": "CUDA out of memory", "type": "InternalServerError", "code": 500 } });
    chat.engine.raw(format!("data: {error}\n\n")).await;
    chat.engine.hang_up().await;
    let ended = stream.next_of("end").await.data;
    let message = ended["error"]["message"].as_str().unwrap();
    assert!(message.contains("CUDA out of memory"), "{ended}");
    let metrics = &ended["messages"][0]["metrics"];
    assert_eq!((&metrics["ending"], &metrics["error"]), (&json!("error"), &json!(message)));
    assert_eq!(chat.settled().await.len(), 1);

    // Without a word.
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("x").await;
    until(&mut stream, "x").await;
    chat.engine.hang_up().await;
    let ended = stream.next_of("end").await.data;
    assert_ne!(ended["messages"][0]["metrics"]["ending"], "stop", "{ended}");
    // Nothing came: there is nothing to keep.
    let mut stream = chat.ask(&question()).await;
    stream.next_of("begin").await;
    chat.engine.hang_up().await;
    assert_eq!(stream.next_of("end").await.data["messages"], json!([]));
    assert_eq!(chat.settled().await.len(), 2);
}

#[tokio::test]
async fn an_answer_ends_with_its_chat_its_session_and_its_gateway() {
    let mut chat = Chat::on(start(Options::default().env("DRAIN_TIMEOUT_SEC", "1")).await).await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    chat.owner.delete(&chat.path).await.expect(200);
    let ended = stream.next_of("end").await.data;
    assert_eq!((&ended["messages"], &ended["error"]["code"]), (&json!([]), &json!("not_found")));
    assert_eq!(ended["content"], "Hel", "nothing is lost for the page that is open");

    chat.path = begin(&chat.owner).await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    chat.owner.command("/auth/logout").await.expect(200);
    stream.ends().await;
    chat.owner = chat.gateway.owner().await;
    let messages = chat.settled().await;
    assert_eq!((messages.len(), &messages[0]["content"]), (1, &json!("Hel")));

    let mut stream = chat.ask(&question()).await;
    chat.engine.text("lo").await;
    until(&mut stream, "lo").await;
    // The time for running requests is over before the answer is.
    chat.gateway.signal("TERM");
    let ended = stream.next_of("end").await.data;
    assert_eq!(ended["messages"][0]["metrics"]["ending"], "interrupted", "{ended}");
    assert_eq!(ended["error"]["code"], "shutting_down", "{ended}");
    chat.gateway.ended().await;
    chat.gateway.restart().await;
    chat.owner = chat.owner.moved(&chat.gateway.url);
    let messages = chat.settled().await;
    assert_eq!((messages.len(), &messages[1]["content"]), (2, &json!("lo")), "{messages:?}");
}

#[tokio::test]
async fn what_has_come_of_an_answer_survives_a_second_signal() {
    let mut chat = Chat::on(start(Options::default().env("DRAIN_TIMEOUT_SEC", "3600")).await).await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    chat.gateway.signal("TERM");
    eventually("it drains", PATIENCE, async || {
        chat.gateway.log().contains("stopping: running requests").then_some(())
    })
    .await;
    chat.engine.text("lo").await;
    chat.gateway.signal("TERM");
    chat.gateway.ended().await;
    chat.gateway.restart().await;
    chat.owner = chat.owner.moved(&chat.gateway.url);
    let messages = chat.settled().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["content"].as_str().map(|it| it.starts_with("Hel")), Some(true), "{messages:?}");
    assert_eq!(messages[0]["metrics"]["ending"], "interrupted", "{messages:?}");
}

#[tokio::test]
async fn what_has_come_of_an_answer_is_stored_while_it_comes() {
    let mut chat = Chat::on(start(Options::default()).await).await;
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    until(&mut stream, "Hel").await;
    chat.stores(&["Hel"]).await;
    chat.engine.text("lo").await;
    chat.stores(&["Hello"]).await;
    // Readers of the chat get the answer from its events until it has ended.
    let shown = chat.shown().await;
    assert_eq!((&shown["answering"], &shown["messages"]), (&json!(true), &json!([])));
    let listed = chat.owner.get(&format!("{CHATS}?messages=false")).await.expect(200);
    assert_eq!(listed[0]["message_count"], 0, "{listed}");

    chat.gateway.kill();
    chat.gateway.restart().await;
    chat.owner = chat.owner.moved(&chat.gateway.url);
    let messages = chat.settled().await;
    assert_eq!((messages.len(), &messages[0]["content"]), (1, &json!("Hello")), "{messages:?}");
    assert_eq!(messages[0]["metrics"]["ending"], "interrupted", "{messages:?}");

    // One that ends is the same message, complete.
    let mut stream = chat.ask(&question()).await;
    chat.engine.text("Hel").await;
    chat.stores(&["Hello", "Hel"]).await;
    chat.engine.text("lo").await;
    chat.engine.done().await;
    let ended = stream.next_of("end").await.data;
    let messages = chat.settled().await;
    assert_eq!((messages.len(), &messages[1]), (2, &ended["messages"][0]), "{messages:?}");
    assert_eq!(
        (&messages[1]["content"], &messages[1]["metrics"]["ending"]),
        (&json!("Hello"), &json!("stop"))
    );
}

#[tokio::test]
async fn nobody_sees_or_stops_the_answers_of_another() {
    let team = Team::with(Options::default()).await;
    let engine = Engine::start().await;
    let entry = json!({ "served_name": "m", "url": engine.url });
    team.owner.post("/admin/models/registry", &entry).await.expect(201);
    let path = begin(&team.user).await;
    let request = team.user.request(Method::POST, &format!("{path}/completions"));
    let mut stream = Stream::of(request.json(&question()).send().await.unwrap());
    engine.text("x").await;
    until(&mut stream, "x").await;
    let current = format!("{path}/completions/current");
    for other in [&team.owner, &team.admin] {
        assert_error(&other.get(&current).await, 404, "not_found");
        assert_error(&other.delete(&current).await, 404, "not_found");
        assert_error(&other.post(&format!("{path}/completions"), &question()).await, 404, "not_found");
        other.delete(CHATS).await.expect(200);
    }
    engine.done().await;
    assert_eq!(stream.next_of("end").await.data["messages"][0]["content"], "x");
}

#[tokio::test]
async fn a_long_answer_is_several_messages_and_one_too_long_for_a_chat_is_cut() {
    let chat = Chat::start().await;
    let mut stream = chat.ask(&question()).await;
    let part = "ä".repeat(50_000);
    for _ in 0..4 {
        chat.engine.text(&part).await;
    }
    chat.engine.done().await;
    let ended = stream.next_of("end").await.data;
    let messages = chat.settled().await;
    assert_eq!(messages.len(), 3);
    assert_eq!(ended["messages"], json!(messages));
    let whole: String = messages.iter().map(|it| it["content"].as_str().unwrap()).collect();
    assert_eq!(whole, part.repeat(4));
    assert_eq!(
        (&messages[1]["metrics"]["continues"], &messages[1]["metrics"]["parent"]),
        (&json!(true), &messages[0]["id"])
    );

    let other = Chat { path: begin(&chat.owner).await, ..chat };
    let mut stream = other.ask(&question()).await;
    for _ in 0..40 {
        other.engine.text(&part).await;
        tokio::task::yield_now().await;
    }
    let ended =
        tokio::time::timeout(PATIENCE + Duration::from_secs(10), stream.next_of("end")).await.unwrap().data;
    assert_eq!(ended["error"]["message"], "the answer is longer than a chat can keep");
    assert!(other.settled().await.len() > 10);
}
