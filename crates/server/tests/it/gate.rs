//! An engine whose streams end when the test says so: what happens to a request in progress can be looked at without a
//! race against its end.

use std::{convert::Infallible, sync::Arc};

use axum::{Json, Router, body::Body, http::header::CONTENT_TYPE, response::Response, routing};
use futures_util::{StreamExt, stream};
use gantry_testkit::{Client, EventStream, chat};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore};

/// What each of its streams says that it used.
pub(crate) const TOKENS: i64 = 12;

/// The begin of an answer that has no end yet, on the client's side.
pub(crate) struct Begun(EventStream);

/// Ends streams.
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    /// Starts the engine and routes `served_name` to it.
    pub(crate) async fn open(owner: &Client, served_name: &str) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let gate = Arc::clone(&permits);
        let models = json!({ "object": "list", "data": [{ "id": served_name, "object": "model" }] });
        let app = Router::new()
            .route("/health", routing::get(async || ""))
            .route("/v1/models", routing::get(async || Json(models)))
            .route("/v1/chat/completions", routing::post(async move || answer(gate)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
        drop(tokio::spawn(async { axum::serve(listener, app).await }));
        let entry = json!({ "served_name": served_name, "url": url });
        owner.post("/admin/models/registry", &entry).await.expect(201);
        Self(permits)
    }

    /// Lets one stream end.
    pub(crate) fn end_one(&self) {
        self.0.add_permits(1);
    }
}

impl Begun {
    /// Asks for a stream, and waits for its first word.
    pub(crate) async fn of(client: &Client, served_name: &str) -> Self {
        let mut body = chat(served_name);
        body["stream"] = json!(true);
        let mut stream = client.stream("/v1/chat/completions", &body).await;
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.contains("begin"), "{first}");
        Self(stream)
    }

    /// The rest is one error with this code, before the engine had ended it.
    pub(crate) async fn ends(self, code: &str) {
        let rest = self.0.rest().await.unwrap();
        assert_eq!(rest.len(), 1, "{rest:?}");
        let error: Value = serde_json::from_str(&rest[0]).unwrap();
        assert_eq!(error["error"]["code"], code, "{error}");
    }

    /// The rest is as it should be, to the last event.
    pub(crate) async fn ends_well(self) {
        let rest = self.0.rest().await.unwrap();
        assert!(rest[0].contains("end") && rest.last().is_some_and(|it| it == "[DONE]"), "{rest:?}");
    }
}

fn answer(gate: Arc<Semaphore>) -> Response {
    let begin = stream::once(async { Ok::<_, Infallible>(format!("data: {}\n\n", chunk("begin"))) });
    let end = stream::once(async move {
        gate.acquire().await.unwrap().forget();
        let usage = json!({ "prompt_tokens": 7, "completion_tokens": 5, "total_tokens": TOKENS });
        let last = json!({ "object": "chat.completion.chunk", "choices": [], "usage": usage });
        Ok(format!("data: {}\n\ndata: {last}\n\ndata: [DONE]\n\n", chunk("end")))
    });
    let mut response = Response::new(Body::from_stream(begin.chain(end)));
    response.headers_mut().insert(CONTENT_TYPE, "text/event-stream".parse().unwrap());
    response
}

fn chunk(word: &str) -> Value {
    let choice = json!({ "index": 0, "delta": { "content": word }, "finish_reason": null });
    json!({ "id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice] })
}
