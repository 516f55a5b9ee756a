//! The web pages, embedded: set-up, sign-in, and an overview of models and recent requests. Plain files without a
//! build step; the full interface takes their place.

use axum::{
    Router,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Redirect},
    routing::get,
};
use gantry_admin_api::App;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(async || Redirect::temporary("/ui/")))
        .route("/ui", get(async || Redirect::permanent("/ui/")))
        .route("/ui/", get(async || file("text/html; charset=utf-8", include_str!("ui/index.html"))))
        .route("/ui/app.js", get(async || file("text/javascript; charset=utf-8", include_str!("ui/app.js"))))
        .route("/ui/style.css", get(async || file("text/css; charset=utf-8", include_str!("ui/style.css"))))
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")], text)
}
