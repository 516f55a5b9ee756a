//! The form in which a command prints: for people, for programs, or names alone.

use clap::ArgMatches;
use serde_json::Value;

use crate::{
    options::{has, text},
    text::{cell, clean},
};

/// What `--output` and `--json` choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people that fits the terminal.
    Text,
    /// Text for people that may be wider than the terminal: no column is left out, and nothing is cut off.
    Wide,
    /// The names alone, one a line.
    Name,
    /// JSON for programs.
    Json,
}

impl Form {
    /// Values of `--output`.
    pub(crate) const WORDS: [&str; 3] = ["json", "wide", "name"];

    pub(crate) fn of(matches: &ArgMatches) -> Self {
        match text(matches, "output") {
            Some("wide") => Self::Wide,
            Some("name") => Self::Name,
            Some(_) => Self::Json,
            None if has(matches, "json") => Self::Json,
            None => Self::Text,
        }
    }
}

/// Fields that hold the name of a record. Only the first that a record has counts: a key without a name also has the
/// `username` of its holder.
const NAMES: [&str; 5] = ["served_name", "name", "username", "path", "image"];
/// Fields that hold the id of a record.
const IDS: [&str; 2] = ["id", "seq"];

/// Returns the name of a record of the API, or its id if it has no name.
pub(crate) fn name_of(record: &Value) -> Option<String> {
    let name = NAMES.iter().find_map(|it| record.get(*it)).and_then(Value::as_str);
    let id = || IDS.iter().find_map(|it| record.get(*it)).filter(|it| it.is_string() || it.is_number());
    name.filter(|it| !it.is_empty()).map(clean).or_else(|| id().map(cell))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_named_by_its_own_name_or_its_id() {
        for (record, name) in [
            (json!({ "id": 3, "name": "Qwen", "served_name": "qwen" }), Some("qwen")),
            (json!({ "id": 7, "name": "ci", "username": "ada" }), Some("ci")),
            (json!({ "id": 7, "name": null, "username": "ada" }), Some("7")),
            (json!({ "id": "deploy-3" }), Some("deploy-3")),
            (json!({ "name": "a\u{1b}b" }), Some("a b")),
            (json!({ "user": {}, "keys": [] }), None),
        ] {
            assert_eq!(name_of(&record).as_deref(), name, "{record}");
        }
    }
}
