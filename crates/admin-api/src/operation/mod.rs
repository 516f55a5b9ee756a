//! How an operation of this API is declared.
//!
//! Its method, path and policy are a row of the route table. Its name and its texts are an [`Operation`] beside its handler.
//! Everything else comes from the types in the handler's signature ([`signature`]): query parameters from
//! [`Query`]`<Q>`, the body from [`Body`]`<F>`, the answer from [`Listed`], [`Created`] and the like. `Q` is declared by
//! [`query!`], `F` by [`form!`], and what is answered by [`gantry_domain::view!`]: each list of fields gives the type, the
//! reader or the JSON, and the schema.

mod answer;
mod body;
mod doc;
mod form;
mod if_match;
mod parameters;
mod path;
mod query;
mod signature;
mod values;

use gantry_domain::ErrorCode;

pub(crate) use answer::{Accepted, Created, Deleted, Done, Either, Listed, Written};
pub(crate) use body::{Body, OptionalBody, with_its_body};
pub(crate) use doc::{Doc, JSON, Param, Reply};
pub(crate) use form::{Change, Field, Fields, Form, form, read};
pub(crate) use if_match::IfMatch;
pub(crate) use parameters::{Choice, Number, Search, Switch};
pub(crate) use path::{Id, UuidId, id_text};
pub(crate) use query::{
    Page, Parameter, Parameters, Params, Query, QueryValue, Required, query, without_query,
};
pub(crate) use signature::{Input, Output, Signature};
pub(crate) use values::{Future, Line, Name, Text};

/// What an operation is called, and what the documents say about it beyond what its types say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    id: &'static str,
    summary: &'static str,
    about: &'static str,
    errors: &'static [ErrorCode],
}

impl Operation {
    /// `id` is the `operationId`, unique, for generated clients; `summary` is one line for people.
    pub(crate) const fn new(id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, about: "", errors: &[] }
    }

    /// One line for people.
    pub(crate) fn summary(self) -> &'static str {
        self.summary
    }

    /// What one has to know to use it, in whole sentences.
    pub(crate) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Its own errors, besides those that its policy and its types bring.
    pub(crate) const fn errors(self, errors: &'static [ErrorCode]) -> Self {
        Self { errors, ..self }
    }

    /// Returns the documentation of an operation whose handler is `H`.
    pub(crate) fn doc<H: Signature<S>, S>(self) -> Doc {
        let mut doc = Doc::new(self.id, self.summary).about(self.about).errors(self.errors);
        H::describe(&mut doc);
        doc
    }
}
