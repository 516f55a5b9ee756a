//! The readers from outside: golden values, every broken fixture, hostile input, folders.

mod build;
mod corpus;
mod fixtures;
mod folder;
mod gguf;
mod hf;
mod hostile;
mod paths;
mod safetensors;
