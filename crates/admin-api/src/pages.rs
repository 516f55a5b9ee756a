//! `/openapi.json`, and `/docs`: a page that shows it. Everything is embedded and comes from this gateway, so that it
//! works without internet and under a content security policy without exceptions.

use std::sync::OnceLock;

use axum::{
    Extension,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
};
use bytes::Bytes;
use gantry_domain::schema;
use serde_json::{Value, json};

use crate::{
    assets::{Asset, text_file},
    error::Outcome,
    operation::{Doc, Operation, Output, Written},
};

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// The other files that the page needs.
pub(crate) const ASSETS: &[Asset] = &[
    Asset::file("/docs/docs.js", JAVASCRIPT, include_str!("pages/docs.js")),
    Asset::file("/docs/docs.css", CSS, include_str!("pages/docs.css")),
];

/// Makes the document. The router hands it in, because the document is made from the routes, of which these are some.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Document(pub(crate) fn() -> &'static Value);

/// The document as an answer.
pub(crate) struct OpenApi;

impl Output for OpenApi {
    fn describe(doc: &mut Doc) {
        doc.answered(200, "OK.", json!({ "type": "object" }));
    }
}

pub(crate) const OPENAPI: Operation = Operation::new("getOpenApi", "This document");

pub(crate) async fn openapi(Extension(Document(document)): Extension<Document>) -> Outcome<Written<OpenApi>> {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string().into()).clone();
    Ok(Written::new(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], text)))
}

/// The page as an answer.
pub(crate) struct Page;

impl Output for Page {
    fn describe(doc: &mut Doc) {
        doc.answered_as("text/html", 200, "The page.", schema::text());
    }
}

pub(crate) const DOCS: Operation = Operation::new("getDocs", "This document as a page")
    .about("The page needs nothing from elsewhere, so that it works without internet.");

pub(crate) async fn docs() -> Outcome<Written<Page>> {
    Ok(Written::new(text_file("text/html; charset=utf-8", include_str!("pages/docs.html"))))
}
