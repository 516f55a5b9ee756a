//! Readers of model files: untrusted bytes in, facts out.
//!
//! Three layers, each usable alone: [`gguf`] and [`safetensors`] read the header of one file, [`hf`] reads a
//! hub checkpoint's folder, [`folder`] looks at a folder below the models directory and answers
//! `GET /admin/models/inspect-folder`.
//!
//! # Bounds
//! Nothing here panics on any input, reads tensor data, or allocates in proportion to what a file *claims*:
//! every length is checked against the file's size and a cap before memory is taken, and what is kept is
//! charged to a budget. One file costs at most 64 MiB of memory while it is read (the caps sit beside the
//! readers; `tests/memory.rs` measures it). No path leaves the base directory, symbolic links included.
//!
//! # Use
//! Blocking I/O throughout: call from `spawn_blocking`.

mod cache;
mod concern;
mod known;

pub mod chat;
pub mod folder;
pub mod gguf;
pub mod hf;
pub mod hub;
pub mod json;
pub mod safetensors;

pub use cache::Cache;
pub use concern::{About, Concern, LLAMACPP_LISTED};
use serde::Serialize;

/// What a model is for, as far as its files tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskHint {
    Generate,
    Embed,
    /// A cross-encoder that scores pairs, or another classifier.
    Rerank,
}

/// Starts the three-line text that git-lfs leaves in place of a file it has not fetched
/// (git-lfs `docs/spec.md`, "The Pointer").
pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";

/// Text from a file, for messages and answers: its first 200 characters.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}
