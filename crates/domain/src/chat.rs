//! Chats of the playground: what a signed-in user said to a model and what it answered.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Timestamp, UserId, model::EngineKind, words};

words! {
    /// Who wrote a message.
    pub enum ChatRole {
        /// The signed-in user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// A chat without its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSession {
    pub id: Uuid,
    pub user_id: UserId,
    pub title: String,
    /// Served name.
    pub model_name: String,
    /// `None`: the model is served by an engine of the registry.
    pub engine: Option<EngineKind>,
    /// What the model allowed when the chat began, as the client noted it.
    pub constraints: Map<String, Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A message of a chat.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    pub id: i64,
    pub role: ChatRole,
    pub content: String,
    /// Timings of the answer, as the client measured them.
    pub metrics: Option<Map<String, Value>>,
    pub created_at: Timestamp,
}

/// Title of a chat before anything was said.
pub const UNTITLED: &str = "New chat";
const TITLE_CHARS: usize = 60;

/// Makes a chat's title from its first message: the first line, cut after 60 characters.
pub fn title_of(content: &str) -> String {
    let line = content.lines().map(str::trim).find(|it| !it.is_empty()).unwrap_or(UNTITLED);
    let line: String = line.chars().filter(|it| !it.is_control()).collect();
    match line.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        assert_eq!(title_of("\n  Hello there \nsecond"), "Hello there");
        assert_eq!(title_of(" \n\t"), UNTITLED);
        assert_eq!(title_of(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
        assert_eq!(title_of("a\u{1b}[31mb"), "a[31mb");
    }
}
