//! An answer on its way to the client: an engine's, which passes as it comes and is read for token counts, or the
//! gateway's own.

pub(crate) mod answer;
mod array_length;
mod choice_lengths;
pub(crate) mod errors;
pub(crate) mod headers;
pub(crate) mod pass;
mod passing_json;
pub(crate) mod refusal;
pub(crate) mod sse;
pub(crate) mod tap;
pub(crate) mod tokens;
mod usage_path;
