//! What `/openapi.json` says about each route. The route table has a column for it, so that a route without
//! documentation does not compile; who may call a route, how large its body may be, and the errors that follow from
//! that are added from its policy.
//!
//! Written by hand rather than derived: bodies are read field by field, with every problem found, so that there is no
//! type that a derive could read. Tests keep these pages true: those in `tests/schema` send what the document allows
//! and what it forbids, and check every answer against it.

mod document;
mod inference;
pub(crate) mod system;

pub(crate) use crate::operation::{Doc, JSON, Param, Reply};
pub use document::document;
pub(crate) use gantry_domain::schema;
