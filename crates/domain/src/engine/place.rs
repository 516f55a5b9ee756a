//! Where an engine runs, as the engine sees it: in a container of its own, or as a process of this machine.

use std::path::Path;

use super::{HUB_CACHE_MOUNT, MODELS_MOUNT, PORT};

/// How an engine sees the models, the hub cache and its own address. A value, so that commands are made in one way for
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
    /// Stands for a port that is chosen when the process starts. A word of its own, so that the identity of a command
    /// ([`super::Launch::spec_hash`]) does not change with each start.
    pub const CHOSEN_PORT: &'static str = "$PORT";

    /// Inside a container: fixed mounts, a fixed port, published by the container runtime.
    pub fn container() -> Self {
        Self {
            models: MODELS_MOUNT.to_owned(),
            hub_cache: HUB_CACHE_MOUNT.to_owned(),
            host: "0.0.0.0",
            port: PORT.to_string(),
        }
    }

    /// A process of this machine: the real directories, and a port on loopback.
    pub fn process(models_dir: &Path, hub_cache_dir: &Path) -> Self {
        Self {
            models: models_dir.to_string_lossy().trim_end_matches('/').to_owned(),
            hub_cache: hub_cache_dir.to_string_lossy().into_owned(),
            host: "127.0.0.1",
            port: Self::CHOSEN_PORT.to_owned(),
        }
    }

    /// Where the engine finds a path that may be written as a container sees it, below `/models/`; anything else is no
    /// path of ours and stays.
    pub fn seen_below_models(&self, text: &str) -> String {
        match text.strip_prefix(MODELS_MOUNT).and_then(|it| it.strip_prefix('/')) {
            Some(path) => self.model(path),
            None => text.to_owned(),
        }
    }

    /// Where the engine finds a path below the models base directory.
    pub fn model(&self, path: &str) -> String {
        format!("{}/{}", self.models, path.trim_end_matches('/'))
    }
}
