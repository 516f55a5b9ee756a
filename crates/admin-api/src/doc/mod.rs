//! `/openapi.json`: made from the route table, from what each operation declares (`operation/`), and from the table of
//! inference endpoints. Who may call a route, how large its body may be, and the errors that follow from that come from its
//! policy. Tests in `tests/schema` send what the document allows and what it forbids, and check every answer against it.

mod document;
pub(crate) mod inference;

pub use document::document;
pub(crate) use gantry_domain::schema;

pub(crate) use crate::operation::{Doc, JSON, Param, Reply};
