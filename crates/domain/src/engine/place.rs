//! Paths and address as an engine sees them: in a container of its own, or as a process of this machine.

use std::path::Path;

use super::{HUB_CACHE_MOUNT, LOOPBACK, MODELS_MOUNT, PORT};

/// How an engine sees the models, the hub cache and its own address. With it, commands are made in the same way for
/// every runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The models base directory, without a slash at its end.
    models: String,
    pub hub_cache: String,
    /// Address that the engine listens on.
    pub host: &'static str,
    /// Port that it listens on, or [`Place::CHOSEN_PORT`].
    pub port: String,
}

impl Place {
    /// Placeholder for a port that is chosen when the process starts. It is fixed, so that the identity of a command
    /// ([`super::Launch::spec_hash`]) does not change with each start.
    pub const CHOSEN_PORT: &'static str = "$PORT";

    /// Returns the place of an engine in a container: fixed mounts and a fixed port, which the container runtime
    /// publishes.
    pub fn container() -> Self {
        Self {
            models: MODELS_MOUNT.to_owned(),
            hub_cache: HUB_CACHE_MOUNT.to_owned(),
            host: "0.0.0.0",
            port: PORT.to_string(),
        }
    }

    /// Returns the place of an engine that is a process of this machine: the real directories, and a port on loopback.
    pub fn process(models_dir: &Path, hub_cache_dir: &Path) -> Self {
        Self {
            models: models_dir.to_string_lossy().trim_end_matches('/').to_owned(),
            hub_cache: hub_cache_dir.to_string_lossy().into_owned(),
            host: LOOPBACK,
            port: Self::CHOSEN_PORT.to_owned(),
        }
    }

    /// Translates a path that may be written as a container sees it, below `/models/`, to where the engine finds it.
    /// Any other text is not one of our paths and stays as it is.
    pub fn seen_below_models(&self, text: &str) -> String {
        match text.strip_prefix(MODELS_MOUNT).and_then(|it| it.strip_prefix('/')) {
            Some(path) => self.model(path),
            None => text.to_owned(),
        }
    }

    /// Returns where the engine finds a path below the models base directory.
    pub fn model(&self, path: &str) -> String {
        format!("{}/{}", self.models, path.trim_end_matches('/'))
    }
}
