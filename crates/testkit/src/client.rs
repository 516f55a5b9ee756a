//! An HTTP client with one gateway, one cookie jar and one key.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, header::HeaderMap};
use serde_json::Value;

/// A complete answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// `Null` if the body is not JSON.
    pub json: Value,
    pub text: String,
}

impl Answer {
    /// `error.code` of an error.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// Fails unless the status is `status`; then gives the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        Self { status, headers, json: serde_json::from_str(&text).unwrap_or_default(), text }
    }
}

/// Cheap to clone; clones share cookies.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    pub url: String,
    key: Option<String>,
}

impl Client {
    pub fn new(url: &str) -> Self {
        let http = reqwest::Client::builder()
            .cookie_store(true)
            .timeout(Duration::from_secs(120))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .unwrap();
        Self { http, url: url.to_owned(), key: None }
    }

    /// The same gateway with an API key and without cookies.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..Self::new(&self.url) }
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub async fn send(&self, request: RequestBuilder) -> Answer {
        Answer::read(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// A `POST` without a body, as commands are.
    pub async fn command(&self, path: &str) -> Answer {
        self.send(self.request(Method::POST, path)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }
}
