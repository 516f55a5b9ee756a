//! Tests of the readers through their public API: golden values, every broken fixture, hostile input, folders.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

mod build;
mod cache;
mod corpus;
mod fixtures;
mod folder;
mod gguf;
mod hf;
mod hostile;
mod measured;
mod paths;
mod safetensors;
