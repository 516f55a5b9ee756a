//! The columns of a model record that are not settings of an engine, as bodies name them. The reader of bodies and their
//! schema both use this list.

use serde_json::{Value, json};

use super::{EngineKind, Task};
use crate::schema::{self, Components, Shape};

/// Most characters of a name, and of a served name.
pub const MAX_NAME: usize = 200;
/// Most bytes of an access token.
pub const MAX_TOKEN: usize = 500;

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    /// Another word for it that bodies may use.
    pub alias: Option<&'static str>,
    pub kind: Kind,
    pub help: &'static str,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name of at most [`MAX_NAME`] characters.
    Name,
    Task,
    Engine,
    /// An access token of at most [`MAX_TOKEN`] printable characters.
    Token,
    Flag,
}

/// Every column.
pub const COLUMNS: &[Column] = &[
    Column::new("name", Kind::Name, "For people; without it, the served name."),
    Column {
        alias: Some("served_model_name"),
        ..Column::new(
            "served_name",
            Kind::Name,
            "What clients send in `model`; unique among models that are not archived. May also be sent as \
             `served_model_name`.",
        )
    },
    Column::new("task", Kind::Task, "What the model is for."),
    Column::new("engine_type", Kind::Engine, "The engine that serves the model. It can't be changed later."),
    Column::new(
        "hub_token",
        Kind::Token,
        "Access token of the model hub. Never shown. An empty text leaves it as it is.",
    ),
    Column::new("archived", Kind::Flag, "An archived model can't be started, and its served name is free."),
];

/// Whether bodies name a column by this word.
pub fn is_column(word: &str) -> bool {
    COLUMNS.iter().any(|it| it.name == word || it.alias == Some(word))
}

impl Column {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, alias: None, kind, help }
    }

    /// Returns what the reader of this column takes.
    pub fn schema(&self, all: &mut Components) -> Value {
        match self.kind {
            Kind::Name => schema::name(MAX_NAME),
            Kind::Task => Task::schema(all),
            Kind::Engine => {
                let words: Vec<&str> =
                    EngineKind::ALL.iter().flat_map(|it| [it.as_str(), it.rank()]).collect();
                schema::one_of(&words)
            }
            Kind::Token => schema::nullable(schema::secret(
                json!({ "type": "string", "maxLength": MAX_TOKEN, "pattern": "^[!-~]*$" }),
            )),
            Kind::Flag => schema::flag(),
        }
    }
}
