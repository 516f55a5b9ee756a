//! Chats of the playground: what a signed-in user said to a model and what it answered.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{Timestamp, UserId, model::EngineKind, name::is_invisible, words};

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
    /// Made from the first message of the user.
    pub title: String,
    /// The title that the user gave; it stands in place of `title`.
    pub own_title: Option<String>,
    /// Served name.
    pub model_name: String,
    /// `None`: the model is served by an engine of the registry.
    pub engine: Option<EngineKind>,
    /// What the model allowed when the chat began, as the client noted it.
    pub constraints: Map<String, Value>,
    /// Lists show pinned chats first.
    pub pinned: bool,
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
/// Longest title that a user may give to a chat, in characters.
pub const MAX_OWN_TITLE: usize = 100;

/// Makes a chat's title from its first message: the first line that has something to see, cut after 60 characters.
/// Characters that change how others are shown, such as U+202E, are left out.
pub fn title_of(content: &str) -> String {
    let line = content.lines().find_map(own_title_of).unwrap_or_else(|| UNTITLED.to_owned());
    match line.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

/// Leaves out of a title the characters that [`title_of`] leaves out. `None` if nothing to see is left.
pub fn own_title_of(line: &str) -> Option<String> {
    let shown: String = line.chars().filter(|it| is_shown(*it)).collect();
    let title = shown.trim();
    title.chars().any(|it| !is_invisible(it)).then(|| title.to_owned())
}

/// Whether a title may have the character. Emoji and some scripts are written with joiners and variation selectors.
fn is_shown(char: char) -> bool {
    let joins = matches!(char, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    !char.is_control() && (joins || !is_invisible(char))
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
        assert_eq!(title_of("\u{202e}gpj.exe\u{2066}\u{feff}"), "gpj.exe");
        assert_eq!(title_of("\u{200b}\u{202e}\nHello"), "Hello");
        for whole in ["👩\u{200d}👩\u{200d}👧", "❤\u{fe0f}", "می\u{200c}خواهم", "e\u{301}"] {
            assert_eq!(title_of(whole), whole);
            assert_eq!(own_title_of(whole).as_deref(), Some(whole));
        }
    }

    #[test]
    fn a_title_of_the_user_s_own_has_something_to_see() {
        assert_eq!(own_title_of("\u{202e}gpj.exe\u{200b}").as_deref(), Some("gpj.exe"));
        assert_eq!(own_title_of("\u{200b}\u{202e}"), None);
        assert_eq!(own_title_of(&"x".repeat(100)), Some("x".repeat(100)));
    }
}
