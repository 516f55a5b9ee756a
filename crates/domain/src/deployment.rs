//! Deployment packages as the admin API and the control plane speak of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{ModelId, Timestamp, view};

/// Free space that an export needs, as a multiple of what it is estimated to write.
pub const DISK_MARGIN: f64 = 1.2;

/// What goes into a package, and where the package goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the request")]
pub struct ExportRequest {
    /// The package's folder: absolute, in one of the export folders.
    pub dir: PathBuf,
    /// Only this model; `None` for the whole installation.
    pub model: Option<ModelId>,
    pub include_images: bool,
    pub include_db: bool,
    pub include_configs: bool,
    pub include_models_manifest: bool,
    /// Whether weights are in it.
    pub include_weights: bool,
    pub include_hub_cache: bool,
    /// Whether values of environment variables of models are in it, except those that look like secrets.
    pub include_env: bool,
    /// Whether an image that is not on the machine is pulled; otherwise the export fails.
    pub allow_pull_images: bool,
    /// Size of parts, in bytes; `None` for files as they are.
    pub part_size: Option<u64>,
    /// The package, or the manifest of one, to make the difference to: absolute, in one of the export folders.
    pub since: Option<PathBuf>,
}

/// How much an export would write, and whether there is room for it. All sizes are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    pub images: Option<u64>,
    pub database: Option<u64>,
    pub models: Option<u64>,
    pub hub_cache: Option<u64>,
    /// The gateway's own program.
    pub gateway: u64,
    /// Free space where the package would go.
    pub available: u64,
    /// Images that are not on the machine, so that their size is not known.
    pub missing_images: Vec<String>,
}

impl Estimate {
    /// Returns the bytes of everything together.
    pub fn total(&self) -> u64 {
        let parts = [self.images, self.database, self.models, self.hub_cache, Some(self.gateway)];
        parts.into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// Returns the free space that is needed.
    pub fn required(&self) -> u64 {
        (self.total() as f64 * DISK_MARGIN).ceil() as u64
    }

    /// Whether there is room for it.
    pub fn is_sufficient(&self) -> bool {
        self.available >= self.required()
    }
}

/// What of a package is taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct ImportRequest {
    /// The package's folder: absolute, in one of the export folders.
    pub dir: PathBuf,
    /// The folder of its base, for a difference.
    pub base: Option<PathBuf>,
    /// Only what this model needs, by the name of its file in `manifests`; `None` for everything.
    pub manifest_file: Option<String>,
    pub include_images: bool,
    pub include_weights: bool,
    pub include_hub_cache: bool,
    /// Whether names of images of this machine may move to other images of the package.
    pub replace_images: bool,
}

view! {
    /// What an import would do with images and files.
    #[derive(Debug, Clone, Default)]
    pub struct ImportPlan {
        /// Images that would be loaded.
        pub load_images: Vec<String>,
        /// Those of them whose name another image of this machine has now. That one stays, without the name.
        pub replaced_images: Vec<String>,
        /// Images that are there already.
        pub present_images: Vec<String>,
        /// Images that models need, and that are neither in the package nor on this machine.
        pub missing_images: Vec<String>,
        /// Files of weights that would be put in place.
        pub new_files: u64,
        /// Their bytes.
        pub new_bytes: u64,
        /// Files that are there with the same size. They are compared before anything is put in place, and left as they are.
        pub present_files: u64,
        /// Files that are there with another size: the import is refused.
        pub conflicting_files: Vec<String>,
        /// Free bytes where weights would go.
        pub available_bytes: u64,
        /// What the package itself lacks, such as a base that was not named.
        pub problems: Vec<String>,
    }
}

impl ImportPlan {
    /// Whether an import could do its work now.
    pub fn is_possible(&self) -> bool {
        self.conflicting_files.is_empty()
            && self.problems.is_empty()
            && self.new_bytes <= self.available_bytes
    }
}

/// Which dump a restore reads, and what it does before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRequest {
    /// The package's folder: absolute, in one of the export folders.
    pub dir: PathBuf,
    /// The folder of the package's base, for a difference.
    pub base: Option<PathBuf>,
    /// The dump, inside `dir`. That of a difference need not be there: the package and its base have its pieces.
    pub file: PathBuf,
    /// Whether the database as it is is written into the package's folder first.
    pub backup_first: bool,
    /// Whether what is in the database may be replaced.
    pub drop_existing: bool,
}

/// A restore drill: the newest backup was restored into a scratch file and proven, or that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drill {
    pub at: Timestamp,
    /// The backup, package or dump; `None` if there was none.
    pub backup: Option<String>,
    /// Why it failed; `None` if the backup is proven.
    pub error: Option<String>,
    /// When a drill succeeded last; `None` if none has.
    pub proven_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_wants_a_fifth_more_than_it_writes() {
        let estimate = Estimate { images: Some(70), models: Some(25), gateway: 5, ..Estimate::default() };
        assert_eq!((estimate.total(), estimate.required(), estimate.is_sufficient()), (100, 120, false));
        assert!(Estimate { available: 120, ..estimate }.is_sufficient());
    }
}
