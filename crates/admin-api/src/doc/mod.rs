//! What `/openapi.json` says about each route. The route table has a column for it, so that a route without
//! documentation does not compile; who may call a route, how large its body may be, and the errors that follow from
//! that are added from its policy.
//!
//! Written by hand rather than derived: bodies are read field by field, with every problem found, so that there is no
//! type that a derive could read. Tests keep these pages true: those in `tests/schema` send what the document allows
//! and what it forbids, and check every answer against it.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod chat;
mod document;
pub(crate) mod host;
mod inference;
pub(crate) mod keys;
pub(crate) mod models;
pub(crate) mod pages;
pub(crate) mod people;
pub(crate) mod registry;
mod schema;
pub(crate) mod system;
pub(crate) mod tokens;
pub(crate) mod usage;

use gantry_domain::ErrorCode;
use serde_json::Value;

pub use document::document;
pub(crate) use schema::field as field_schema;

/// The documentation of one route.
pub struct Doc {
    /// `operationId`: unique, for generated clients.
    id: &'static str,
    summary: &'static str,
    about: &'static str,
    params: Vec<Param>,
    body: Option<Value>,
    /// Whether the body may be left out.
    body_optional: bool,
    answers: Vec<Reply>,
    errors: Vec<ErrorCode>,
    /// Codes that come with an engine's status instead of their own.
    with_status: &'static [(u16, ErrorCode)],
}

/// One parameter of the query string, or a header.
struct Param {
    place: &'static str,
    name: &'static str,
    schema: Value,
    required: bool,
    about: String,
}

/// One answer that is no error.
struct Reply {
    status: u16,
    about: &'static str,
    /// Media types with their schemas.
    content: Vec<(&'static str, Value)>,
    /// Whether the answer has `X-Total-Count`.
    counted: bool,
}

const JSON: &str = "application/json";

impl Doc {
    fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            about: "",
            params: Vec::new(),
            body: None,
            body_optional: false,
            answers: Vec::new(),
            errors: Vec::new(),
            with_status: &[],
        }
    }

    /// One line for people.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }

    /// Adds an optional parameter of the query string.
    fn query(mut self, name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        self.params.push(Param { place: "query", name, schema, required: false, about: about.into() });
        self
    }

    /// Whether it has parameters of the query string.
    pub(crate) fn has_query(&self) -> bool {
        self.params.iter().any(|it| it.place == "query")
    }

    /// Adds a required parameter of the query string.
    fn needs(mut self, name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        self.params.push(Param { place: "query", name, schema, required: true, about: about.into() });
        self
    }

    fn header(mut self, name: &'static str, schema: Value, about: impl Into<String>) -> Self {
        self.params.push(Param { place: "header", name, schema, required: false, about: about.into() });
        self
    }

    /// Adds the parameters `limit` and `offset`.
    fn paged(self) -> Self {
        self.query("limit", schema::defaulted(schema::whole(1, 1000), 100), "At most so many entries.").query(
            "offset",
            schema::defaulted(schema::whole(0, 1_000_000_000), 0),
            "Entries to leave out first.",
        )
    }

    /// `sort`: one of the columns, with `-` in front or `:asc` or `:desc` behind; `default` where it is not there.
    fn sorted(self, columns: &[&str], default: &str) -> Self {
        let words: Vec<String> = columns
            .iter()
            .flat_map(|it| [(*it).to_owned(), format!("-{it}"), format!("{it}:asc"), format!("{it}:desc")])
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.query(
            "sort",
            schema::defaulted(schema::one_of(&words), default),
            "The column to sort by; with `-` in front or `:desc` behind, the largest first.",
        )
    }

    fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self
    }

    fn or_without_body(mut self) -> Self {
        self.body_optional = true;
        self
    }

    fn answer(mut self, status: u16, about: &'static str, schema: Value) -> Self {
        self.answers.push(Reply { status, about, content: vec![(JSON, schema)], counted: false });
        self
    }

    fn ok(self, schema: Value) -> Self {
        self.answer(200, "OK.", schema)
    }

    fn created(self, schema: Value) -> Self {
        self.answer(201, "Created.", schema)
    }

    fn accepted(self, schema: Value) -> Self {
        self.answer(202, "It is recorded; the effect comes later.", schema)
    }

    /// A window of a list, with the length of the whole in `X-Total-Count`.
    fn list(mut self, entry: Value) -> Self {
        let content = vec![(JSON, schema::list(entry))];
        self.answers.push(Reply { status: 200, about: "A window of the list.", content, counted: true });
        self
    }

    /// Adds another media type to the last answer.
    fn or(mut self, media_type: &'static str, schema: Value) -> Self {
        if let Some(reply) = self.answers.last_mut() {
            reply.content.push((media_type, schema));
        }
        self
    }

    /// An answer that is no JSON.
    fn text(self, media_type: &'static str, about: &'static str) -> Self {
        self.other(media_type, about, schema::text())
    }

    fn other(mut self, media_type: &'static str, about: &'static str, schema: Value) -> Self {
        let content = vec![(media_type, schema)];
        self.answers.push(Reply { status: 200, about, content, counted: false });
        self
    }

    /// Adds errors of the route itself, besides those that its policy and its parameters bring.
    fn errors(mut self, codes: &[ErrorCode]) -> Self {
        self.errors.extend(codes);
        self
    }

    fn with_status(self, codes: &'static [(u16, ErrorCode)]) -> Self {
        Self { with_status: codes, ..self }
    }
}
