//! `/v1/chat/sessions`, `/v1/models/running` and `/v1/models/{model_name}/constraints`.

use gantry_domain::ErrorCode;
use serde_json::{Value, json};

use super::{
    Doc,
    schema::{
        constant, count, deleted, described, epoch_ms, flag, formatted, id, line, list, named, no_nul,
        nullable, object, object_but, one_of, query_flag_on, request, text, text_of, whole,
    },
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    let chat = || {
        [
            ("id", formatted("uuid")),
            ("title", text()),
            ("model_name", text()),
            ("engine_type", nullable(named("Engine"))),
            ("constraints", json!({ "type": "object" })),
            ("created_at", epoch_ms()),
            ("updated_at", epoch_ms()),
        ]
    };
    vec![
        ("EngineWord", one_of(&["vllm", "llamacpp", "primary", "secondary"])),
        ("Chat", object(chat().into_iter().chain([("messages", list(named("ChatMessage")))]))),
        (
            "ChatSummary",
            object_but(
                &["messages"],
                chat()
                    .into_iter()
                    .chain([("message_count", count()), ("messages", list(named("ChatMessage")))]),
            ),
        ),
        (
            "ChatMessage",
            object([
                ("id", id()),
                ("role", one_of(ROLES)),
                ("content", text()),
                ("metrics", json!({ "type": ["object", "null"] })),
                ("timestamp", epoch_ms()),
            ]),
        ),
    ]
}

const ROLES: &[&str] = &["user", "assistant"];

/// Describes an object of at most 8 KiB as JSON.
fn noted(what: &str) -> Value {
    json!({ "type": ["object", "null"], "description": format!("{what} At most 8 KiB of JSON.") })
}

pub(crate) fn list_chats() -> Doc {
    Doc::new("listChats", "List your chats")
        .about("Newest first, with their messages.")
        .paged()
        .query("messages", query_flag_on(), "`false` leaves the messages out.")
        .list(named("ChatSummary"))
}

pub(crate) fn create() -> Doc {
    Doc::new("createChat", "Begin a chat")
        .body(request(
            &["model_name", "engine_type"],
            [
                ("model_name", line(200)),
                (
                    "engine_type",
                    described(nullable(named("EngineWord")), "`null`: an engine of the registry."),
                ),
                ("constraints", noted("Limits of the model as the client saw them.")),
            ],
        ))
        .created(named("Chat"))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn clear() -> Doc {
    Doc::new("deleteAllChats", "Delete all your chats")
        .ok(object([("status", constant("cleared")), ("deleted_count", count())]))
}

pub(crate) fn show() -> Doc {
    Doc::new("getChat", "One chat with its messages").ok(named("Chat"))
}

pub(crate) fn delete() -> Doc {
    Doc::new("deleteChat", "Delete a chat").ok(deleted(formatted("uuid")))
}

pub(crate) fn add_message() -> Doc {
    Doc::new("addChatMessage", "Add a message")
        .about(
            "The first one of the user gives the chat its title. A chat has at most 2000 messages and 4 MiB, all chats \
             of a user 64 MiB; 512 bytes are added to those of each message.",
        )
        .body(request(
            &["role", "content"],
            [
                ("role", one_of(ROLES)),
                ("content", no_nul(text_of(0, 200_000))),
                ("metrics", noted("How fast the answer came, as the client measured it.")),
            ],
        ))
        .created(named("ChatMessage"))
        .errors(&[ErrorCode::InvalidState])
}

pub(crate) fn running() -> Doc {
    Doc::new("listRunningModels", "Models that can be called now")
        .about("Only those whose engine is healthy. For people; keys have `/v1/models`.")
        .paged()
        .list(object([
            ("served_model_name", text()),
            ("task", named("Task")),
            ("engine_type", described(nullable(named("Engine")), "`null`: entered by hand.")),
            ("state", constant("running")),
        ]))
}

pub(crate) fn constraints() -> Doc {
    Doc::new("getModelConstraints", "Limits of one model")
        .about(
            "In tokens. The context is what the engine reports while it runs, else what the record or the model's \
             files say. The name may contain slashes.",
        )
        .ok(object([
            ("served_model_name", text()),
            ("engine_type", described(nullable(named("Engine")), "`null`: entered by hand.")),
            ("task", named("Task")),
            ("context_size", described(nullable(count()), "Of llama.cpp; `null` for all others.")),
            (
                "max_model_len",
                described(nullable(count()), "`null` for an engine that was entered by hand and does not say."),
            ),
            ("max_tokens_default", whole(1, i64::MAX)),
            ("request_defaults", json!({ "type": ["object", "null"] })),
            ("supports_streaming", flag()),
            ("supports_system_prompt", flag()),
        ]))
        .errors(&[ErrorCode::ModelNotFound])
}
