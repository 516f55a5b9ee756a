//! Errors of engines, brought into the gateway's shape. Each engine has several shapes of its own (facts/engines §2):
//! vLLM `{"error":{…,"code":400}}`, `{"error":"Unauthorized"}`, `{"detail":…}`, flat `{"object":"error",…}` before
//! 0.10.1; llama-server `{"error":{"code":400,"message":…,"type":…}}`.

use bytes::Bytes;
use gantry_domain::{ApiError, ErrorCode, diagnosis, endpoint::Endpoint, model::EngineKind};
use serde_json::{Map, Value, json};

use crate::upstream::breaker::Verdict;

/// What the client gets.
#[derive(Debug, PartialEq)]
pub(crate) enum Shaped {
    /// One of the gateway's own errors.
    Own(ApiError),
    /// The engine's, with its status.
    Engine(Bytes),
}

/// Shapes an answer that is not a success. `status` is the engine's; `managed` is the engine if the gateway started it; `typed`
/// adds `"type": "error"`.
pub(crate) fn shape(
    status: u16,
    body: &Bytes,
    request_id: &str,
    managed: Option<EngineKind>,
    typed: bool,
) -> Shaped {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let message = parsed.as_ref().and_then(message);
    match (status, message.as_deref()) {
        (401, _) => Shaped::Own(ApiError::new(
            ErrorCode::EngineKeyMismatch,
            if managed.is_some() {
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
            let message = message.map(|it| with_fields(it, managed));
            let mut shaped = reshaped(status, parsed.as_ref(), message, request_id);
            if typed {
                shaped["type"] = "error".into();
            }
            Shaped::Engine(shaped.to_string().into())
        }
    }
}

/// Returns the status that an engine's refusal should have had, and what it says about the engine. llama-server b11434
/// answers some requests that can never succeed with 500, as if it were broken (each text was provoked there): the
/// client has to fix them. The list is never complete. This is why well-formed 500s of one caller don't keep other
/// callers from the engine ([`crate::upstream::breaker`]).
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

/// Returns whether the same request may be answered better later.
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

/// Returns the message of an error, in any of the shapes.
pub(crate) fn message(body: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let candidates = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    // A list under `detail` is pydantic's; its text is better than none.
    candidates.into_iter().find_map(text).or_else(|| body.get("detail").map(Value::to_string))
}

/// Adds which fields of the model set what the engine requires. Engines name their own arguments, which nobody types who
/// lets the gateway start them.
fn with_fields(message: String, managed: Option<EngineKind>) -> String {
    let fields = managed.map(|engine| diagnosis::required_fields(&message, engine)).unwrap_or_default();
    if fields.is_empty() {
        return message;
    }
    let fields: Vec<_> = fields.iter().map(|it| format!("`{it}`")).collect();
    format!("{message}. An operator sets {} of the model, and applies it", fields.join(" and "))
}

fn reshaped(status: u16, body: Option<&Value>, message: Option<String>, request_id: &str) -> Value {
    let empty = Map::new();
    // The members stand in the outermost object or under `error`; others (`n_ctx`, …) are kept.
    let source = body.map(|it| if it["error"].is_object() { &it["error"] } else { it });
    let source = source.and_then(Value::as_object).unwrap_or(&empty);
    let word = |key: &str| source.get(key).and_then(Value::as_str).filter(|it| is_word(it));
    let engines = word("code").or_else(|| word("type"));
    let code = code(status, engines, message.as_deref());
    let mut error = Map::new();
    error.insert("message".into(), message.unwrap_or_else(|| format!("the engine answered {status}")).into());
    error.insert("type".into(), kind(status).into());
    error
        .insert("param".into(), source.get("param").filter(|it| it.is_string()).cloned().unwrap_or_default());
    error.insert("code".into(), code.as_str().into());
    // The engine's word is added if it fits. If the status was changed by [`meant`], `server_error` does not.
    if let Some(word) = engines.filter(|it| *it != code.as_str() && (status >= 500 || *it != "server_error"))
    {
        error.insert("engine_code".into(), word.into());
    }
    for (key, value) in source {
        if !["message", "type", "param", "code", "error", "detail", "object"].contains(&key.as_str()) {
            error.insert(key.clone(), value.clone());
        }
    }
    json!({"error": error, "request_id": request_id})
}

/// Returns whether a program can branch on the text: it is not a class name or a phrase.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

/// Returns the gateway's code for the error. It is the same for every engine, because clients branch on it; the
/// engines' own codes differ.
fn code(status: u16, engines: Option<&str>, message: Option<&str>) -> ErrorCode {
    // vLLM 0.10 to 0.32 has no code for a prompt that is too long (its `code` is the status), but its message says so.
    let is_too_long = |it: &str| it.contains("maximum context length") || it.contains("maximum model length");
    match status {
        400 if engines == Some("exceed_context_size_error") => ErrorCode::ContextLengthExceeded,
        400 if engines == Some(ErrorCode::ContextLengthExceeded.as_str()) => ErrorCode::ContextLengthExceeded,
        400 if message.is_some_and(is_too_long) => ErrorCode::ContextLengthExceeded,
        403 => ErrorCode::Forbidden,
        404 => ErrorCode::NotFound,
        408 => ErrorCode::RequestTimeout,
        413 => ErrorCode::RequestTooLarge,
        422 => ErrorCode::ValidationError,
        429 => ErrorCode::RateLimitExceeded,
        503 => ErrorCode::ModelUnavailable,
        500.. => ErrorCode::EngineError,
        _ => ErrorCode::InvalidRequest,
    }
}

/// OpenAI `type`.
fn kind(status: u16) -> &'static str {
    match status {
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        503 => "service_unavailable_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(status: u16, body: &str) -> Value {
        match shape(status, &Bytes::from(body.to_owned()), "r", Some(EngineKind::Vllm), false) {
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
                "code": "context_length_exceeded", "engine_code": "exceed_context_size_error", "n_prompt_tokens": 12016, "n_ctx": 2048}, "request_id": "r"})
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
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 512 tokens.","type":"BadRequestError","code":400}}"#,
                "This model's maximum context length is 512 tokens.",
                "context_length_exceeded",
            ),
            (500, "<html>oops", "the engine answered 500", "engine_error"),
            (500, r#"{"error":{"code":500,"message":"x","type":"server_error"}}"#, "x", "engine_error"),
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
            let Shaped::Engine(bytes) = shape(400, &body, "r", None, false) else { panic!() };
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
        assert_eq!(shape(400, &body, "r", None, false), Shaped::Engine(body.clone()));
    }

    #[test]
    fn clients_of_messages_are_told_the_type_too() {
        for body in [
            r#"{"type":"error","error":{"type":"BadRequestError","message":"m"}}"#,
            r#"{"error":{"message":"m","type":"t","param":null,"code":"c"}}"#,
        ] {
            let Shaped::Engine(bytes) = shape(400, &Bytes::from(body.to_owned()), "r", None, true) else {
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
