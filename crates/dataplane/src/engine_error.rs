//! Errors of engines, brought into the gateway's shape. Each engine has several shapes of its own (facts/engines §2):
//! vLLM `{"error":{…,"code":400}}`, `{"error":"Unauthorized"}`, `{"detail":…}`, flat `{"object":"error",…}` before
//! 0.10.1; llama-server `{"error":{"code":400,"message":…,"type":…}}`.

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, endpoint::Endpoint};
use serde_json::{Map, Value, json};

use crate::breaker::Verdict;

/// What the client gets.
#[derive(Debug, PartialEq)]
pub(crate) enum Shaped {
    /// One of the gateway's own errors.
    Own(ApiError),
    /// The engine's, with its status.
    Engine(Bytes),
}

/// Shapes an answer that is not a success. `status` is the engine's; `managed` says whether the gateway started it; `typed`
/// adds `"type": "error"`.
pub(crate) fn shape(status: u16, body: &Bytes, request_id: &str, managed: bool, typed: bool) -> Shaped {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(message);
    match (status, message.as_deref()) {
        (401, _) => Shaped::Own(ApiError::new(
            ErrorCode::EngineKeyMismatch,
            if managed {
                "the engine refuses the gateway's key: an operator has to apply the model"
            } else {
                "the engine refuses the key that the registry has for it: an operator has to enter another `api_key`"
            },
        )),
        (404, Some("Not Found" | "File Not Found")) | (501, _) => Shaped::Own(ApiError::new(
            ErrorCode::UnsupportedByEngine,
            "the engine behind this model has no such endpoint",
        )),
        (503, Some("Loading model")) => Shaped::Own(
            ApiError::new(ErrorCode::ModelNotRunning, "the model is loading").retry_after(2).retryable(true),
        ),
        _ if parsed.as_ref().is_some_and(|it| is_shaped(it) && (!typed || it["type"] == "error")) => {
            Shaped::Engine(body.clone())
        }
        _ => {
            let mut shaped = reshaped(status, parsed.as_ref(), message, request_id);
            if typed {
                shaped["type"] = "error".into();
            }
            Shaped::Engine(shaped.to_string().into())
        }
    }
}

/// The status that an engine's refusal should have had, and what it says about the engine. llama-server b11434 answers some
/// requests that can never succeed with 500, as if it were broken (each text was provoked there): they are the client's to
/// mend. The list is never complete, which is why no well-formed 500 of one caller takes the engine from another
/// ([`crate::breaker`]).
pub(crate) fn meant(status: u16, body: &Bytes, endpoint: Endpoint) -> (u16, Verdict) {
    match status {
        500 => match serde_json::from_slice(body).ok().and_then(|it| message(&it)) {
            Some(text) if is_clients_fault(&text, endpoint) => (400, Verdict::Success),
            Some(_) => (status, Verdict::Error),
            None => (status, Verdict::Failure),
        },
        502 | 504 => (status, Verdict::Failure),
        _ => (status, Verdict::Success),
    }
}

fn is_clients_fault(text: &str, endpoint: Endpoint) -> bool {
    const BEGINNINGS: &[&str] = &[
        "Failed to parse messages: ",
        "Failed to parse tools: ",
        "Unknown reasoning format: ",
        "Cannot use both ",
        "Cannot use custom grammar constraints ",
        "'messages' is required",
        "Multimodal data provided",
    ];
    BEGINNINGS.iter().any(|it| text.starts_with(it))
        || text.contains(" input is not supported - hint: ")
        || text.contains(" is too large to process. increase the physical batch size ")
        || match endpoint {
            Endpoint::Detokenize => text.starts_with("vector::_M_range_check: "),
            Endpoint::Rerank => text.starts_with("vector::_M_default_append"),
            _ => false,
        }
}

/// Whether the same request may be answered better later.
pub(crate) fn should_retry(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

fn is_shaped(body: &Value) -> bool {
    let error = &body["error"];
    error["message"].is_string()
        && error["type"].is_string()
        && error["code"].is_string()
        && (error["param"].is_string() || error["param"].is_null())
}

/// What an error says, in whichever shape.
pub(crate) fn message(body: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let candidates = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    // A list under `detail` is pydantic's; its text is better than none.
    candidates.into_iter().find_map(text).or_else(|| body.get("detail").map(Value::to_string))
}

fn reshaped(status: u16, body: Option<&Value>, message: Option<String>, request_id: &str) -> Value {
    let empty = Map::new();
    // Flat, or under `error`; what else an engine says (`n_ctx`, …) is kept.
    let source = body.map(|it| if it["error"].is_object() { &it["error"] } else { it });
    let source = source.and_then(Value::as_object).unwrap_or(&empty);
    let (kind, fallback) = words(status);
    let word = |key: &str| source.get(key).and_then(Value::as_str).filter(|it| is_word(it));
    let mut error = Map::new();
    error.insert("message".into(), message.unwrap_or_else(|| format!("the engine answered {status}")).into());
    error.insert("type".into(), kind.into());
    error
        .insert("param".into(), source.get("param").filter(|it| it.is_string()).cloned().unwrap_or_default());
    // An engine that was taken at another word than its own has no fitting one.
    let own = || word("code").or_else(|| word("type")).filter(|it| status >= 500 || *it != "server_error");
    error.insert("code".into(), own().unwrap_or(fallback).into());
    for (key, value) in source {
        if !["message", "type", "param", "code", "error", "detail", "object"].contains(&key.as_str()) {
            error.insert(key.clone(), value.clone());
        }
    }
    json!({"error": error, "request_id": request_id})
}

/// Something to branch on, not a class name or a phrase.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

/// OpenAI `type` and the code for an engine that has none.
fn words(status: u16) -> (&'static str, &'static str) {
    match status {
        403 => ("permission_error", "forbidden"),
        404 => ("not_found_error", "not_found"),
        408 => ("invalid_request_error", "request_timeout"),
        413 => ("invalid_request_error", "request_too_large"),
        422 => ("invalid_request_error", "validation_error"),
        429 => ("rate_limit_error", "rate_limit_exceeded"),
        503 => ("service_unavailable_error", "model_unavailable"),
        500.. => ("server_error", "bad_upstream"),
        _ => ("invalid_request_error", "invalid_request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(status: u16, body: &str) -> Value {
        match shape(status, &Bytes::from(body.to_owned()), "r", true, false) {
            Shaped::Engine(bytes) => serde_json::from_slice(&bytes).unwrap(),
            Shaped::Own(error) => error.body("r"),
        }
    }

    #[test]
    fn every_shape_becomes_ours() {
        // Texts seen: facts/engines §2.
        let long = r#"{"error":{"code":400,"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":12016,"n_ctx":2048}}"#;
        assert_eq!(
            shaped(400, long),
            json!({"error": {"message": "too long", "type": "invalid_request_error", "param": null,
                "code": "exceed_context_size_error", "n_prompt_tokens": 12016, "n_ctx": 2048}, "request_id": "r"})
        );
        let cases = [
            (
                400,
                r#"{"error":{"message":"bad","type":"BadRequestError","param":"model","code":400}}"#,
                "bad",
                "invalid_request",
            ),
            (
                400,
                r#"{"object":"error","message":"flat","type":"BadRequestError","param":null,"code":40001}"#,
                "flat",
                "invalid_request",
            ),
            (405, r#"{"detail":"Method Not Allowed"}"#, "Method Not Allowed", "invalid_request"),
            (422, r#"{"detail":[{"loc":["body"]}]}"#, r#"[{"loc":["body"]}]"#, "validation_error"),
            (500, "<html>oops", "the engine answered 500", "bad_upstream"),
            (429, "{}", "the engine answered 429", "rate_limit_exceeded"),
        ];
        for (status, body, message, code) in cases {
            let got = shaped(status, body);
            assert_eq!(
                (&got["error"]["message"], &got["error"]["code"]),
                (&json!(message), &json!(code)),
                "{body}"
            );
            assert!(is_shaped(&got), "{body}");
        }
    }

    #[test]
    fn what_can_never_succeed_is_the_clients_to_mend() {
        let llama = |text: &str| {
            Bytes::from(json!({"error": {"code": 500, "message": text, "type": "server_error"}}).to_string())
        };
        for text in [
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "Failed to parse messages: Missing 'role' in message: {}",
            "Failed to parse tools: Expected 'tools' to be an array, got \"zz\"; tools = \"zz\"",
            "Unknown reasoning format: x",
            "'messages' is required",
            "Multimodal data provided, but model does not support multimodal requests.",
            "input (302 tokens) is too large to process. increase the physical batch size (current batch size: 32)",
        ] {
            let body = llama(text);
            assert_eq!(meant(500, &body, Endpoint::ChatCompletions), (400, Verdict::Success), "{text}");
            let Shaped::Engine(bytes) = shape(400, &body, "r", true, false) else { panic!() };
            let got: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(
                (&got["error"]["code"], &got["error"]["message"]),
                (&json!("invalid_request"), &json!(text))
            );
        }
        let range = llama("vector::_M_range_check: __n (which is 99999999) >= this->size() (which is 960)");
        assert_eq!(meant(500, &range, Endpoint::Detokenize).0, 400);
        assert_eq!(meant(500, &llama("vector::_M_default_append"), Endpoint::Rerank).0, 400);
        for (status, body, verdict) in [
            (500, range, Verdict::Error),
            (500, llama("oops"), Verdict::Error),
            (500, Bytes::from_static(b"{}"), Verdict::Failure),
            (500, Bytes::from_static(br#"{"error":{"message":"cut"#), Verdict::Failure),
            (502, llama("Failed to parse tools: "), Verdict::Failure),
        ] {
            assert_eq!(meant(status, &body, Endpoint::ChatCompletions), (status, verdict));
        }
    }

    #[test]
    fn our_own_shape_passes_as_it_is() {
        let body = Bytes::from_static(br#"{ "error": {"message":"m","type":"t","param":null,"code":"c"} }"#);
        assert_eq!(shape(400, &body, "r", true, false), Shaped::Engine(body.clone()));
    }

    #[test]
    fn clients_of_messages_are_told_the_type_too() {
        for body in [
            r#"{"type":"error","error":{"type":"BadRequestError","message":"m"}}"#,
            r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#,
        ] {
            let Shaped::Engine(bytes) = shape(400, &Bytes::from(body.to_owned()), "r", true, true) else {
                panic!()
            };
            let got: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!((&got["type"], &got["error"]["message"]), (&json!("error"), &json!("m")), "{body}");
            assert!(is_shaped(&got), "{body}");
        }
    }

    #[test]
    fn some_mean_something_else_to_the_client() {
        let cases = [
            (401, r#"{"error":"Unauthorized"}"#, "engine_key_mismatch"),
            (404, r#"{"detail":"Not Found"}"#, "unsupported_by_engine"),
            (
                404,
                r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#,
                "unsupported_by_engine",
            ),
            (
                501,
                r#"{"error":{"message":"no","type":"not_supported_error","code":501}}"#,
                "unsupported_by_engine",
            ),
            (
                503,
                r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
                "model_not_running",
            ),
        ];
        for (status, body, code) in cases {
            assert_eq!(shaped(status, body)["error"]["code"], code, "{body}");
        }
    }
}
