//! HTTP answers in the headers and error shapes of each engine.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::flavour::{Flavour, Version};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;
pub(crate) type Reply = Response<Body>;

/// Before this release vLLM's error object is not wrapped in `error`.
const WRAPPED_ERRORS: Version = Version(0, 10, 1);

/// A refused request: status, the engine's name for the error, and the text.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub status: u16,
    pub kind: &'static str,
    pub message: String,
    pub param: Option<String>,
    /// Further members of llama.cpp's error object.
    pub extra: Vec<(&'static str, u32)>,
}

impl Refusal {
    pub(crate) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), param: None, extra: Vec::new() }
    }

    /// Returns the refusal of an invalid request, with the engine's own error name.
    pub(crate) fn bad(flavour: Flavour, message: impl Into<String>) -> Self {
        let kind = match flavour {
            Flavour::Vllm => "BadRequestError",
            Flavour::Llamacpp => "invalid_request_error",
        };
        Self::new(400, kind, message)
    }

    pub(crate) fn param(mut self, name: &str) -> Self {
        self.param = Some(name.to_owned());
        self
    }

    /// Returns the refusal with the engine's error name for this status.
    pub(crate) fn of_status(flavour: Flavour, status: u16) -> Self {
        let kind = match (flavour, status) {
            (Flavour::Vllm, 404) => "NotFoundError",
            (Flavour::Vllm, 501) => "NotImplementedError",
            (Flavour::Vllm, 503) => "ServiceUnavailableError",
            (Flavour::Vllm, 400..=499) => "BadRequestError",
            (Flavour::Vllm, _) => "InternalServerError",
            (Flavour::Llamacpp, 401) => "authentication_error",
            (Flavour::Llamacpp, 403) => "permission_error",
            (Flavour::Llamacpp, 404) => "not_found_error",
            (Flavour::Llamacpp, 501) => "not_supported_error",
            (Flavour::Llamacpp, 503) => "unavailable_error",
            (Flavour::Llamacpp, 400..=499) => "invalid_request_error",
            (Flavour::Llamacpp, _) => "server_error",
        };
        Self::new(status, kind, format!("simulated error {status}"))
    }

    /// The error body; `/v1/messages` of vLLM has its own shape.
    pub(crate) fn body(&self, config: &Config, messages_api: bool) -> Value {
        match config.flavour {
            Flavour::Vllm if messages_api => {
                json!({"type": "error", "error": {"type": self.kind, "message": self.message}})
            }
            Flavour::Vllm if config.version < WRAPPED_ERRORS => json!({
                "object": "error", "message": self.message, "type": self.kind, "param": self.param,
                "code": self.status
            }),
            Flavour::Vllm => json!({"error": {
                "message": self.message, "type": self.kind, "param": self.param, "code": self.status
            }}),
            Flavour::Llamacpp => {
                let mut error = Map::new();
                error.insert("code".into(), json!(self.status));
                error.insert("message".into(), json!(self.message));
                error.insert("type".into(), json!(self.kind));
                error.extend(self.extra.iter().map(|(name, n)| ((*name).to_owned(), json!(n))));
                json!({"error": error})
            }
        }
    }

    pub(crate) fn reply(&self, config: &Config, messages_api: bool) -> Reply {
        json_reply(config.flavour, self.status, &self.body(config, messages_api))
    }
}

pub(crate) fn json_reply(flavour: Flavour, status: u16, value: &Value) -> Reply {
    let content_type = match flavour {
        Flavour::Vllm => "application/json",
        Flavour::Llamacpp => "application/json; charset=utf-8",
    };
    whole(flavour, status, Some(content_type), value.to_string())
}

pub(crate) fn text_reply(flavour: Flavour, content_type: &'static str, text: String) -> Reply {
    whole(flavour, 200, Some(content_type), text)
}

/// Returns a 200 without a body, as vLLM's `/health` does.
pub(crate) fn empty_reply(flavour: Flavour) -> Reply {
    whole(flavour, 200, None, String::new())
}

/// Returns vLLM's answer to a path that it does not have.
pub(crate) fn detail_reply(status: u16, detail: &str) -> Reply {
    json_reply(Flavour::Vllm, status, &json!({"detail": detail}))
}

/// Returns llama-server's answer to a path or method that it does not have.
pub(crate) fn file_not_found() -> Reply {
    let body = json!({"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}});
    json_reply(Flavour::Llamacpp, 404, &body)
}

pub(crate) fn loading() -> Reply {
    let body = json!({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}});
    json_reply(Flavour::Llamacpp, 503, &body)
}

pub(crate) fn unauthorized(flavour: Flavour) -> Reply {
    match flavour {
        Flavour::Vllm => {
            let mut reply = json_reply(flavour, 401, &json!({"error": "Unauthorized"}));
            reply.headers_mut().remove(header::VARY);
            reply
        }
        Flavour::Llamacpp => {
            let body =
                json!({"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}});
            json_reply(flavour, 401, &body)
        }
    }
}

/// Answers with server-sent events. Each item is one complete event and is written by itself.
pub(crate) fn event_reply(flavour: Flavour, events: impl Stream<Item = String> + Send + 'static) -> Reply {
    let frames = events.map(|event| Ok(Frame::data(Bytes::from(event))));
    let mut reply = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = reply.headers_mut();
    let content_type = match flavour {
        Flavour::Vllm => "text/event-stream; charset=utf-8",
        Flavour::Llamacpp => "text/event-stream",
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if flavour == Flavour::Llamacpp {
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    }
    engine_headers(flavour, &mut reply);
    reply
}

fn whole(flavour: Flavour, status: u16, content_type: Option<&'static str>, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(content_type) = content_type {
        reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    engine_headers(flavour, &mut reply);
    reply
}

fn engine_headers(flavour: Flavour, reply: &mut Reply) {
    let failed = !reply.status().is_success();
    let headers = reply.headers_mut();
    match flavour {
        Flavour::Vllm => {
            headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
            headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        }
        Flavour::Llamacpp => {
            headers.insert(header::SERVER, HeaderValue::from_static("llama.cpp"));
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static(""));
            if failed {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            } else {
                let keep_alive = HeaderValue::from_static("timeout=5, max=100");
                headers.insert(HeaderName::from_static("keep-alive"), keep_alive);
            }
        }
    }
}
