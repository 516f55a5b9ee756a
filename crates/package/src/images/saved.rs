//! The documents in an archive of `docker save`: `manifest.json`, which says what the other entries are, and the
//! configurations of its images.

use serde::{Deserialize, Serialize};

/// Name of the list of images in the archive.
pub(super) const MANIFEST: &str = "manifest.json";

/// One image of `manifest.json`. Further fields, such as `LayerSources`, are left out.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    /// Name of the entry with its configuration.
    pub(super) config: String,
    /// `None` if it has no name.
    pub(super) repo_tags: Option<Vec<String>>,
    /// Names of the entries with its layers, lowest first.
    pub(super) layers: Option<Vec<String>>,
}

/// What is needed of the configuration of an image
/// ([OCI image specification 1.0](https://github.com/opencontainers/image-spec/blob/main/config.md)).
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    pub(super) architecture: String,
    rootfs: RootFs,
    #[serde(rename = "config")]
    run: Option<RunConfig>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RunConfig {
    #[serde(rename = "Labels")]
    labels: Option<Labels>,
}

#[derive(Debug, Deserialize)]
struct Labels {
    #[serde(rename = "org.opencontainers.image.version")]
    version: Option<String>,
}

impl Config {
    /// Digests of its layers without compression, lowest first.
    pub(super) fn diff_ids(&self) -> &[String] {
        self.rootfs.diff_ids.as_deref().unwrap_or_default()
    }

    /// The label with its version.
    pub(super) fn version(&self) -> Option<&str> {
        self.run.as_ref()?.labels.as_ref()?.version.as_deref()
    }
}
