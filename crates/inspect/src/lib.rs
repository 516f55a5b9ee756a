//! Readers of model files: they turn untrusted bytes into facts.
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

mod base;
mod cache;
mod concern;
mod known;
mod licence;

pub mod chat;
pub mod folder;
pub mod gguf;
pub mod hf;
pub mod hub;
pub mod json;
pub mod safetensors;

use std::io;

pub use cache::Cache;
pub use concern::{About, Concern, LLAMACPP_LISTED};
use gantry_domain::schema::{self, Components, Shape};
pub use licence::licence;
use serde::Serialize;
use serde_json::Value;

/// The task of a model, as far as its files show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskHint {
    Generate,
    Embed,
    /// A cross-encoder that scores pairs, or another classifier.
    Rerank,
}

impl TaskHint {
    const ALL: [Self; 3] = [Self::Generate, Self::Embed, Self::Rerank];
}

impl Shape for TaskHint {
    fn schema(_: &mut Components) -> Value {
        schema::words(&Self::ALL)
    }
}

/// First line of the three-line text that git-lfs leaves in place of a file that it has not fetched (git-lfs
/// `docs/spec.md`, "The Pointer").
pub(crate) const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";

/// Says why a file can't be read, for a sentence that begins with the file.
pub(crate) fn unread(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "can't be read: the gateway's user has no permission (`chmod a+r`)"
        }
        _ => "can't be read",
    }
}

/// Returns the first 200 characters of a text from a file, for messages and answers.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}
