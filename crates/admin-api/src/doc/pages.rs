//! `/openapi.json` and `/docs` themselves.

use serde_json::json;

use super::Doc;

pub(crate) fn openapi() -> Doc {
    Doc::new("getOpenApi", "This document").ok(json!({ "type": "object" }))
}

pub(crate) fn docs() -> Doc {
    Doc::new("getDocs", "This document as a page")
        .about("Needs nothing from elsewhere, so that it works without internet.")
        .text("text/html", "The page.")
}
