//! The documentation of one operation, as the `OpenAPI` document needs it.

use gantry_domain::{
    ErrorCode,
    schema::{self, Components},
};
use serde_json::{Value, json};

/// The documentation of one route.
pub(crate) struct Doc {
    /// `operationId`: unique, for generated clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) about: &'static str,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Option<Value>,
    /// Whether the body may be left out.
    pub(crate) body_optional: bool,
    pub(crate) answers: Vec<Reply>,
    pub(crate) errors: Vec<ErrorCode>,
    /// Codes that come with an engine's status instead of their own.
    pub(crate) with_status: &'static [(u16, ErrorCode)],
    /// Named schemas that these refer to.
    pub(crate) components: Components,
}

/// One parameter of the query string, or a header.
pub(crate) struct Param {
    pub(crate) place: &'static str,
    pub(crate) name: &'static str,
    pub(crate) schema: Value,
    pub(crate) required: bool,
    pub(crate) about: String,
}

/// One answer that is no error.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) about: &'static str,
    /// Media types with their schemas.
    pub(crate) content: Vec<(&'static str, Value)>,
    /// Whether the answer has `X-Total-Count`.
    pub(crate) counted: bool,
}

pub(crate) const JSON: &str = "application/json";

impl Doc {
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
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
            components: Components::new(),
        }
    }

    pub(crate) fn about(mut self, text: &'static str) -> Self {
        self.about = text;
        self
    }

    /// Whether it has parameters of the query string.
    pub(crate) fn has_query(&self) -> bool {
        self.params.iter().any(|it| it.place == "query")
    }

    pub(crate) fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self
    }

    pub(crate) fn answer(mut self, status: u16, about: &'static str, schema: Value) -> Self {
        self.answers.push(Reply { status, about, content: vec![(JSON, schema)], counted: false });
        self
    }

    pub(crate) fn ok(self, schema: Value) -> Self {
        self.answer(200, "OK.", schema)
    }

    /// Adds another media type to the last answer.
    pub(crate) fn or(mut self, media_type: &'static str, schema: Value) -> Self {
        if let Some(reply) = self.answers.last_mut() {
            reply.content.push((media_type, schema));
        }
        self
    }

    /// Adds errors of the route itself, besides those that its policy and its parameters bring.
    pub(crate) fn errors(mut self, codes: &[ErrorCode]) -> Self {
        self.errors.extend(codes);
        self
    }

    pub(crate) fn with_status(self, codes: &'static [(u16, ErrorCode)]) -> Self {
        Self { with_status: codes, ..self }
    }

    /// Adds an answer that is no error.
    pub(crate) fn answered(&mut self, status: u16, about: &'static str, schema: Value) {
        self.answered_as(JSON, status, about, schema);
    }

    /// Adds an answer of another media type. If there are two with one status, either may come.
    pub(crate) fn answered_as(
        &mut self,
        media_type: &'static str,
        status: u16,
        about: &'static str,
        schema: Value,
    ) {
        let same = self.answers.iter_mut().filter(|it| it.status == status).flat_map(|it| &mut it.content);
        if let Some((_, other)) = same.into_iter().find(|it| it.0 == media_type) {
            *other = json!({ "anyOf": [other.take(), schema] });
            return;
        }
        self.answers.push(Reply { status, about, content: vec![(media_type, schema)], counted: false });
    }

    /// Adds an answer that is no JSON.
    pub(crate) fn answered_with(&mut self, media_type: &'static str, about: &'static str, schema: Value) {
        let content = vec![(media_type, schema)];
        self.answers.push(Reply { status: 200, about, content, counted: false });
    }

    /// Adds an answer without a body.
    pub(crate) fn answered_empty(&mut self, status: u16, about: &'static str) {
        self.answers.push(Reply { status, about, content: Vec::new(), counted: false });
    }

    /// Adds a window of a list, with the length of the whole in `X-Total-Count`.
    pub(crate) fn listed(&mut self, entry: Value) {
        let content = vec![(JSON, schema::list(entry))];
        self.answers.push(Reply { status: 200, about: "A window of the list.", content, counted: true });
    }

    /// Adds a parameter of the query string.
    pub(crate) fn parameter(&mut self, name: &'static str, schema: Value, required: bool, about: &str) {
        self.params.push(Param { place: "query", name, schema, required, about: about.to_owned() });
    }
}
