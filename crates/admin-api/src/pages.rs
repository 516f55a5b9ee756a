//! `/openapi.json`, and `/docs`: a page that shows it. Everything is embedded and comes from this gateway, so that it
//! works without internet and under a content security policy without exceptions.

use std::sync::LazyLock;

use axum::{
    extract::State,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::IntoResponse,
    routing::{MethodRouter, get},
};
use bytes::Bytes;

use crate::{App, doc::document, error::Outcome, operation::Params};

/// This document
pub(crate) async fn openapi(_: State<App>, params: Params) -> Outcome<impl IntoResponse> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(document().to_string()));
    params.finish()?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], TEXT.clone()))
}

/// This document as a page
pub(crate) async fn docs(_: State<App>, params: Params) -> Outcome<impl IntoResponse> {
    params.finish()?;
    Ok(file("text/html; charset=utf-8", include_str!("pages/docs.html")))
}

/// Returns the other files that the page needs, with their paths.
pub(crate) fn assets() -> [(&'static str, MethodRouter); 2] {
    [
        (
            "/docs/docs.js",
            get(async || file("text/javascript; charset=utf-8", include_str!("pages/docs.js"))),
        ),
        ("/docs/docs.css", get(async || file("text/css; charset=utf-8", include_str!("pages/docs.css")))),
    ]
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text)
}
