//! `manifests/model-<id>.json`: one model, as it can be created on another gateway.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    manifest::{ManifestError, known},
    path::PackagePath,
};

/// Largest file of one model that is read, in bytes.
pub const LARGEST_MODEL: u64 = 1 << 20;

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelManifest {
    /// Version of the format of packages.
    pub format_version: u32,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// Version of the gateway that wrote it.
    pub gateway_version: String,
    /// Its id on that gateway.
    pub id: i64,
    /// Its fields, as `POST /admin/models` takes them, without secrets.
    pub model: Map<String, Value>,
    /// Fields whose secrets were left out: `hub_token`, `extra_env.NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
    /// The image that it ran in; `None` for a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Files and folders of the package that hold its weights; empty if they are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<PackagePath>,
}

impl ModelManifest {
    /// Returns the name of the file.
    pub fn file_name(id: i64) -> String {
        format!("model-{id}.json")
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is malformed, newer, too large or has unknown fields.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        if text.len() as u64 > LARGEST_MODEL {
            return Err(ManifestError::TooLarge);
        }
        let Version { format_version } = serde_json::from_slice(text)?;
        known(format_version)?;
        Ok(serde_json::from_slice(text)?)
    }

    /// Returns its text.
    ///
    /// # Errors
    /// None that its fields can cause.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}
