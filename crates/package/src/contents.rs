//! What the files of a package are: a part of the manifest, for people and for the import.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{checksums::Sha256Sum, path::PackagePath};

/// Name of the database dump in the package.
pub const DUMP: &str = "db/dump.sql";
/// Name, in a difference, of the file with the pieces of the dump that the base lacks.
pub const DUMP_PIECES: &str = "db/dump.pieces";
/// Where a restore puts its backup of the database as it was before. What lies there does not belong to the package.
pub const RESTORE_BACKUPS: &str = "db/pre_restore_backup";
/// Name of the program in the package.
pub const PROGRAM: &str = "bin/gantry";
/// Name of the settings in the package.
pub const SETTINGS: &str = "manifests/settings.json";
/// Name of the bill of materials in the package.
pub const SBOM: &str = "sbom.cdx.json";
/// Folder of model weights: what follows is their path below the models base directory.
pub const MODELS: &str = "models";
/// Folder of the hub cache: what follows is the path below `HUB_CACHE_DIR`.
pub const HUB_CACHE: &str = "hub-cache";
/// Folder of container images, an OCI image layout.
pub const IMAGES: &str = "images";

/// What is in a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Model>,
    /// Engines that are programs and not images. They are not in the package: the other side has to install them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
    /// Whether the hub cache is in the package.
    #[serde(default)]
    pub hub_cache: bool,
    /// Whether the settings are in the package.
    #[serde(default)]
    pub settings: bool,
}

/// The database dump and what a restore of it must give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Version of the schema.
    pub schema_version: i64,
    /// `sqlite` or `postgres`: where it came from.
    pub kind: String,
    /// Number of rows by table.
    pub rows: BTreeMap<String, u64>,
    /// Sums over all usage rows.
    pub requests: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// SHA-256 of the last row of the audit log, 64 hexadecimal digits.
    pub audit_head: String,
}

/// A container image. Its blobs are in [`IMAGES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The name by which models ask for it.
    pub reference: String,
    /// Digest of its configuration, `sha256:…`: what Docker calls the image id.
    pub config: String,
    /// Digests of its layers, lowest first, `sha256:…`.
    pub layers: Vec<String>,
    /// Digest of its OCI manifest, which is a blob too, and the bytes of that.
    pub manifest: Sha256Sum,
    pub manifest_size: u64,
    /// Bytes of the configuration and all layers.
    pub size: u64,
    /// Label `org.opencontainers.image.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// As in Go: `amd64`, `arm64`.
    pub architecture: String,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its id on the gateway that wrote the package.
    pub id: i64,
    pub name: String,
    pub served_name: String,
    /// The file with its settings.
    pub manifest: PackagePath,
    /// Reference of the image that it runs in; `None` for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files and folders of the package that hold its weights; empty if they are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<PackagePath>,
}

/// An engine that runs as a program of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// `vllm` or `llamacpp`.
    pub engine: String,
    /// The command as the settings have it.
    pub command: String,
    /// What it says of its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// The gateway's program in the package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    pub version: String,
    /// Operating system and architecture: `linux-x86_64`.
    pub platform: String,
}
