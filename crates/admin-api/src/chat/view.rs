//! Chats and their messages as the API shows them.

use gantry_domain::{
    chat::{ChatMessage, ChatRole, ChatSession},
    model::EngineKind,
    schema, view,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers::Answers;

view! {
    /// What all views of a chat begin with.
    #[derive(Debug)]
    pub(crate) struct ChatHead {
        pub(crate) id: Uuid,
        title: String,
        model_name: String,
        engine_type: Option<EngineKind>,
        constraints: Map<String, Value> as json!({ "type": "object" }),
        created_at: i64 as schema::epoch_ms(),
        updated_at: i64 as schema::epoch_ms(),
        /// A model is answering now: `GET /v1/chat/sessions/{id}/completions/current`.
        answering: bool,
        /// The list shows it before chats that are not pinned.
        pinned: bool,
    }
}

impl ChatHead {
    pub(crate) fn of(chat: ChatSession, answers: &Answers) -> Self {
        Self {
            id: chat.id,
            title: chat.own_title.unwrap_or(chat.title),
            model_name: chat.model_name,
            engine_type: chat.engine,
            constraints: chat.constraints,
            created_at: chat.created_at.0,
            updated_at: chat.updated_at.0,
            answering: answers.is_answering(chat.id),
            pinned: chat.pinned,
        }
    }
}

view! {
    /// A chat as a list shows it. Lists with messages write them while they are read, so they are not here.
    #[derive(Debug)]
    pub(crate) struct ChatSummary: "ChatSummary" {
        pub(crate) head: ChatHead => part,
        pub(crate) message_count: i64,
        pub(crate) messages: Option<Vec<MessageView>> => optional,
    }
}

impl ChatSummary {
    /// `stored` is the number of its messages in the database, those of an answer that has not ended among them.
    pub(crate) fn of(chat: ChatSession, stored: i64, answers: &Answers) -> Self {
        let message_count = (stored - answers.unfinished(chat.id).len() as i64).max(0);
        Self { head: ChatHead::of(chat, answers), message_count, messages: None }
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct ChatView: "Chat" {
        pub(crate) head: ChatHead => part,
        pub(crate) messages: Vec<MessageView>,
    }
}

view! {
    /// A message as the API shows it.
    #[derive(Debug)]
    pub(crate) struct MessageView: "ChatMessage" {
        id: i64 as schema::id(),
        role: ChatRole,
        content: String,
        metrics: Option<Map<String, Value>> as json!({ "type": ["object", "null"] }),
        timestamp: i64 as schema::epoch_ms(),
    }
}

impl MessageView {
    pub(crate) fn of(message: ChatMessage) -> Self {
        let ChatMessage { id, role, content, metrics, created_at } = message;
        Self { id, role, content, metrics, timestamp: created_at.0 }
    }
}
