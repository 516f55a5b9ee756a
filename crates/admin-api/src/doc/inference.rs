//! The endpoints that the data plane answers: inference, the list of models, and the probes.

use gantry_domain::{
    ErrorCode,
    endpoint::{Counted, Endpoint, Input},
};
use serde_json::{Value, json};

use super::{
    Doc, JSON,
    schema::{
        constant, count, described, event, flag, list, named, nullable, object, object_but, text, time,
    },
};

/// What an endpoint of the data plane asks of its callers.
pub(super) enum Caller {
    Anybody,
    /// A key, or a signed-in user.
    Key,
    /// A key with the scope of this endpoint, or a signed-in user.
    Scoped(Endpoint),
}

/// One operation outside of the route table.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) caller: Caller,
    pub(super) doc: Doc,
}

pub(super) fn operations() -> Vec<Operation> {
    let get = |path, caller, doc| Operation { method: "get", path, caller, doc };
    let health = || object([("status", constant("ok")), ("version", text())]);
    let model = || {
        let simulator = "There, and true, where Gantry's simulator runs instead of an engine: what it answers means nothing. \
                         Its answers carry the header `x-gantry-simulator: true`.";
        object_but(
            &["simulator"],
            [
                ("id", text()),
                ("object", constant("model")),
                ("created", described(count(), "Seconds since 1970.")),
                ("owned_by", constant("gantry")),
                ("task", named("Task")),
                ("max_model_len", nullable(count())),
                ("type", described(constant("base"), "As Mistral's clients expect it.")),
                ("capabilities", object([("completion_chat", flag())])),
                ("simulator", described(flag(), simulator)),
            ],
        )
    };
    let models = object([("object", constant("list")), ("data", list(model()))]);
    let anthropic_model = || {
        object([
            ("type", constant("model")),
            ("id", text()),
            ("display_name", text()),
            ("created_at", time()),
            ("task", named("Task")),
            ("max_model_len", nullable(count())),
        ])
    };
    let anthropic_models = object([
        ("data", list(anthropic_model())),
        ("has_more", flag()),
        ("first_id", nullable(text())),
        ("last_id", nullable(text())),
    ]);
    let any_of = |one: Value, other: Value| json!({ "anyOf": [one, other] });
    let mut all = vec![
        get("/health", Caller::Anybody, Doc::new("getHealth", "Whether the gateway answers").ok(health())),
        get("/livez", Caller::Anybody, Doc::new("getLiveness", "The same as `/health`").ok(health())),
        get(
            "/v1/models",
            Caller::Key,
            Doc::new("listCallableModels", "Models that run and that the caller may call")
                .about(STYLES)
                .ok(any_of(models, anthropic_models)),
        ),
        get(
            "/v1/models/{model}",
            Caller::Key,
            Doc::new("getCallableModel", "One of them")
                .about("The name may contain slashes. The answer has two forms, as that of the list.")
                .ok(any_of(model(), anthropic_model()))
                .errors(&[ErrorCode::ModelNotFound]),
        ),
    ];
    all.extend(Endpoint::ALL.into_iter().map(|it| Operation {
        method: "post",
        path: it.path(),
        caller: Caller::Scoped(it),
        doc: inference(it),
    }));
    all
}

fn inference(endpoint: Endpoint) -> Doc {
    let facts = endpoint.facts();
    let doc = Doc::new(facts.operation_id, facts.summary).about(
        "The body goes to the engine unchanged, and so does its answer come back: what it takes besides `model` and \
         `stream` is the engine's to say, errors with a status that is not listed here included.",
    );
    let doc = doc.body(body(endpoint)).answer(200, "The engine's answer.", answer(endpoint));
    let doc =
        if endpoint.streams() { doc.or("text/event-stream", event(described(text(), DATA))) } else { doc };
    doc.with_status(ENGINES).errors(ERRORS)
}

/// The gateway's own refusals of an inference request.
pub(crate) const ERRORS: &[ErrorCode] = &[
    ErrorCode::InvalidRequest,
    ErrorCode::DuplicateKey,
    ErrorCode::ParameterNotAllowed,
    ErrorCode::ContextLengthExceeded,
    ErrorCode::TaskMismatch,
    ErrorCode::ModelNotAllowed,
    ErrorCode::ModelNotFound,
    ErrorCode::UnsupportedByEngine,
    ErrorCode::RateLimitExceeded,
    ErrorCode::BudgetExceeded,
    ErrorCode::ModelUnavailable,
    ErrorCode::EngineKeyMismatch,
    ErrorCode::BadUpstream,
    ErrorCode::ModelNotRunning,
    ErrorCode::MeteringUnavailable,
    ErrorCode::UpstreamTimeout,
    ErrorCode::RequestLoop,
];

/// The code of an engine's own refusals, by their status, which is the engine's.
pub(crate) const ENGINES: &[(u16, ErrorCode)] = &[
    (403, ErrorCode::Forbidden),
    (404, ErrorCode::NotFound),
    (422, ErrorCode::ValidationError),
    (500, ErrorCode::EngineError),
    (502, ErrorCode::EngineError),
    (503, ErrorCode::ModelUnavailable),
    (504, ErrorCode::EngineError),
];

const DATA: &str = "JSON as the engine made it. Where OpenAI's streams end with `[DONE]`, this one does, unless the engine \
failed: then the last event is an error.";

const STYLES: &str = "With the header `anthropic-version` in the form of Anthropic's API, else in that of OpenAI's. All models \
are on one page.";

/// Returns the fields that the gateway and all engines agree on. The schema is open: engines have fields of their own.
fn body(endpoint: Endpoint) -> Value {
    let texts = || json!({ "anyOf": [text(), { "type": "array", "items": text() }] });
    let one_or_more = || json!({ "anyOf": [text(), { "type": "array" }] });
    let messages = || json!({ "type": "array", "items": { "type": "object" } });
    let (mut required, mut fields) = (vec!["model"], vec![("model", described(text(), "A served name."))]);
    match endpoint.facts().input {
        Input::Messages => {
            required.push("messages");
            fields.push(("messages", messages()));
        }
        Input::Prompt => {
            required.push("prompt");
            fields.push(("prompt", one_or_more()));
        }
        Input::Input => {
            required.push("input");
            fields.push(("input", one_or_more()));
        }
        Input::Documents => {
            required.extend(["query", "documents"]);
            fields.extend([("query", text()), ("documents", one_or_more())]);
        }
        Input::Pairs => fields.extend([("text_1", texts()), ("text_2", texts())]),
        Input::Text => fields.extend([("prompt", text()), ("messages", messages())]),
        Input::Tokens => {
            required.push("tokens");
            fields.push(("tokens", json!({ "type": "array", "items": { "type": "integer" } })));
        }
    }
    if endpoint.streams() {
        fields.push(("stream", nullable(flag())));
    }
    let properties: serde_json::Map<String, Value> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": true })
}

fn answer(endpoint: Endpoint) -> Value {
    let counts = match endpoint.counted() {
        Counted::LastUsage | Counted::EveryUsage => json!({ "usage": { "type": ["object", "null"] } }),
        Counted::InputTokens => json!({ "input_tokens": count() }),
        Counted::Count => json!({ "count": count() }),
    };
    json!({ "type": "object", "properties": counts, "additionalProperties": true })
}

/// Errors of a body that the data plane reads.
pub(super) const BODY_ERRORS: &[ErrorCode] = &[
    ErrorCode::InvalidJson,
    ErrorCode::InvalidRequest,
    ErrorCode::RequestTimeout,
    ErrorCode::RequestTooLarge,
    ErrorCode::UnsupportedMediaType,
];

/// The media type of every body here.
pub(super) const BODY_TYPE: &str = JSON;
