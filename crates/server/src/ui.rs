//! The web pages, embedded: set-up, sign-in, and an overview of models and recent requests. Plain files without a
//! build step; the full interface takes their place.

use gantry_admin_api::Asset;

const HTML: &str = "text/html; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// The files of the pages.
pub(crate) const ASSETS: &[Asset] = &[
    Asset::redirect("/", "/ui/"),
    Asset::moved("/ui", "/ui/"),
    Asset::file("/ui/", HTML, include_str!("ui/index.html")),
    Asset::file("/ui/app.js", JAVASCRIPT, include_str!("ui/app.js")),
    Asset::file("/ui/style.css", CSS, include_str!("ui/style.css")),
];
