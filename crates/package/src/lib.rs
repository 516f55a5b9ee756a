//! Deployment packages: an installation in a folder, to carry over an air gap. This crate knows the format, and has no
//! network, no database and no gateway.
//!
//! A package has a [`manifest::Manifest`] with the size and the SHA-256 of every file; [`verify::verify`] compares the files
//! with it. [`checksums`] is the same for `sha256sum -c`.

pub mod checksums;
pub mod contents;
pub mod hashing;
pub mod images;
pub mod manifest;
pub mod model_manifest;
pub mod package;
#[cfg(test)]
mod page;
mod passing;
pub mod path;
pub mod sbom;
pub mod sign;
pub mod source;
pub mod stop;
pub mod unpack;
pub mod verify;
pub mod writer;
