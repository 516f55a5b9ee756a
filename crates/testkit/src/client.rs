//! An HTTP client for one gateway, with one cookie jar and one key.

use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{EventStream, PATIENCE, answer::Answer, contract, eventually, patient};

/// Longest time from an answer to its usage row. The gateway writes rows within 2 s; a busy machine takes longer.
const METERED: Duration = PATIENCE;

/// A client for a gateway or an engine. Cheap to clone; clones share cookies.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Address without a path, as in `http://127.0.0.1:8080`.
    pub url: String,
    key: Option<String>,
    /// Whether this is a gateway. A gateway's answers are checked against its `OpenAPI` document.
    gateway: bool,
}

impl Client {
    /// Returns a client without a key for the gateway at this address.
    pub fn new(url: &str) -> Self {
        let http = reqwest::Client::builder()
            .cookie_store(true)
            .timeout(Duration::from_mins(2))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        Self { http, url: url.to_owned(), key: None, gateway: true }
    }

    /// Returns a client for an engine itself, without a gateway between.
    pub fn of_engine(url: &str) -> Self {
        Self { gateway: false, ..Self::new(url) }
    }

    /// Returns a client for the same gateway with an API key and without cookies.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::new(&self.url) }
    }

    /// Returns a client with the same key for the gateway's new address after a restart.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self { key: self.key.clone(), ..Self::new(url) }
    }

    /// Returns a client with the same session or key for another gateway of this machine: cookies belong to a host,
    /// whatever its port.
    #[must_use]
    pub fn moved(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Begins a request with the client's key, for [`Client::send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends the request. Fails the test if the answer does not match the operation in `openapi.json`.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let (http, request) = request.build_split();
        let mut request = request.unwrap();
        patient::lead(&mut request).await;
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let answer = Answer::read(http.execute(request).await.unwrap()).await;
        if self.gateway {
            contract::check(&method, &path, &answer);
        }
        answer
    }

    /// Sends a `GET`; see [`Client::send`].
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a `POST` with a JSON body; see [`Client::send`].
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// Sends a `POST` without a body, as commands are.
    pub async fn command(&self, path: &str) -> Answer {
        self.send(self.request(Method::POST, path)).await
    }

    /// Sends a `PATCH` with a JSON body; see [`Client::send`].
    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(body)).await
    }

    /// Sends a `PUT` with a JSON body; see [`Client::send`].
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(body)).await
    }

    /// Sends a `DELETE`; see [`Client::send`].
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Creates an API key. Returns its record, and a client that uses it.
    pub async fn new_key(&self, settings: &Value) -> (Value, Self) {
        let record = self.post("/admin/keys", settings).await.expect(201);
        let client = self.with_key(record["token"].as_str().unwrap());
        (record, client)
    }

    /// Sends one short chat.
    pub async fn chat(&self, model: &str) -> Answer {
        self.post("/v1/chat/completions", &chat(model)).await
    }

    /// Sends a `POST` whose answer is a stream of events.
    pub async fn stream(&self, path: &str, body: &Value) -> EventStream {
        EventStream::new(self.request(Method::POST, path).json(body).send().await.unwrap())
    }

    /// Waits for the usage row of a request, which appears a moment after the answer. The client must be allowed to see
    /// all usage.
    pub async fn usage_of(&self, request_id: &str) -> Value {
        eventually(&format!("a usage row of {request_id}"), METERED, async || {
            let rows = self.get(&format!("/admin/usage?req_id={request_id}")).await.expect(200);
            let rows = rows.as_array().unwrap();
            assert!(rows.len() <= 1, "one row for {request_id}");
            rows.first().cloned()
        })
        .await
    }
}

/// The body of a short chat.
pub fn chat(model: &str) -> Value {
    json!({ "model": model, "max_tokens": 8, "messages": [{ "role": "user", "content": "Hello there" }] })
}
