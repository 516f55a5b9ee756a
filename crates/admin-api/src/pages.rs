//! `/openapi.json`, and `/docs`: a page that shows it. Everything is embedded and comes from this gateway, so that it
//! works without internet and under a content security policy without exceptions.

use std::sync::OnceLock;

use axum::{
    Extension,
    extract::State,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::IntoResponse,
};
use bytes::Bytes;
use serde_json::Value;

use crate::{
    App,
    assets::{Asset, text_file},
    error::Outcome,
    operation::Params,
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

pub(crate) async fn openapi(
    _: State<App>,
    Extension(Document(document)): Extension<Document>,
    params: Params,
) -> Outcome<impl IntoResponse> {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    params.finish()?;
    let text = TEXT.get_or_init(|| document().to_string().into()).clone();
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], text))
}

/// This document as a page
pub(crate) async fn docs(_: State<App>, params: Params) -> Outcome<impl IntoResponse> {
    params.finish()?;
    Ok(text_file("text/html; charset=utf-8", include_str!("pages/docs.html")))
}
