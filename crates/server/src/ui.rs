//! The web pages, embedded: set-up, sign-in, and an overview of models and recent requests. Plain files without a
//! build step; the full interface takes their place.

use axum::{
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Redirect},
    routing::{MethodRouter, get},
};

/// Returns the paths of the pages with their handlers.
pub(crate) fn files() -> Vec<(&'static str, MethodRouter)> {
    vec![
        ("/", get(async || Redirect::temporary("/ui/"))),
        ("/ui", get(async || Redirect::permanent("/ui/"))),
        ("/ui/", get(async || file("text/html; charset=utf-8", include_str!("ui/index.html")))),
        ("/ui/app.js", get(async || file("text/javascript; charset=utf-8", include_str!("ui/app.js")))),
        ("/ui/style.css", get(async || file("text/css; charset=utf-8", include_str!("ui/style.css")))),
    ]
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text)
}
