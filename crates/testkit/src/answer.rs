//! What a gateway or an engine answered.

use reqwest::{Response, header::HeaderMap};
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
    /// Returns `error.code` of an error.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    /// Returns a header of the answer, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|it| it.to_str().ok())
    }

    /// Fails the test unless the status is `status`; returns the body.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// Reads a response to its end.
    pub(crate) async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = match response.url().path() {
            // These streams do not end by themselves, so their first chunk is taken as the whole body.
            "/admin/events" | "/auth/events" if status == 200 => {
                let mut response = response;
                let first = response.chunk().await.unwrap().unwrap_or_default();
                String::from_utf8_lossy(&first).into_owned()
            }
            _ => response.text().await.unwrap(),
        };
        Self { status, headers, json: serde_json::from_str(&text).unwrap_or_default(), text }
    }
}
