//! The interface to a container runtime, and the types that cross it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture, stream::BoxStream};
use gantry_domain::{
    LogWindow, ModelId, Timestamp,
    engine::Launch,
    listeners::Listeners,
    model::lifecycle::{Instance, InstanceId, InstanceNumber},
    runtime::Traits,
};

use crate::RuntimeResult;

/// The gateway that containers belong to: several gateways may share one container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Id (a UUID) of this gateway's database; the label `gantry.instance`.
    pub instance: String,
}

/// A container to make. The runtime itself knows what is the same for all containers.
#[derive(Debug, Clone, Copy)]
pub struct ContainerSpec<'a> {
    /// `primary-model-7`; see [`EngineKind::instance_name`](gantry_domain::model::EngineKind::instance_name).
    pub name: &'a str,
    pub model_id: ModelId,
    /// Which of the model's instances it is.
    pub number: InstanceNumber,
    /// Number of the command that asked for it, by which a later look can distinguish an old container from a new one.
    pub generation: i64,
    pub launch: &'a Launch,
    /// The host's directory that becomes `/models`, read-only. Must exist.
    pub models_dir: &'a Path,
    /// The host's directory that becomes `/hub-cache`, writable, if the launch mounts it. Must exist then.
    pub hub_cache_dir: &'a Path,
    pub key_fingerprint: &'a str,
}

/// A container of ours, as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub model_id: ModelId,
    /// Which of the model's instances it is. The first, if an older version of the gateway made it.
    pub number: InstanceNumber,
    pub name: String,
    pub instance: Instance,
    /// [`Launch::spec_hash`] of the launch that it was made from.
    pub spec_hash: String,
    pub key_fingerprint: String,
    /// `None` if it was never started; [`Runtime::list`] may leave it out.
    pub started_at: Option<Timestamp>,
}

/// An image on the machine of the container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// Content id; changes when a tag moves.
    pub id: String,
    /// Digest of its configuration, `sha256:…`. `None` if the runtime does not tell it: Docker with the containerd image store
    /// has ids of its own.
    pub config: Option<String>,
    /// Digests of its layers without compression (diff ids), lowest first, `sha256:…`. Empty if it has no layers.
    pub layers: Vec<String>,
    /// As in Go: `amd64`, `arm64`.
    pub architecture: String,
    pub size_bytes: i64,
    /// RFC 3339.
    pub created: Option<String>,
    /// Label `org.opencontainers.image.version`.
    pub version_label: Option<String>,
    /// Gantry's engine simulator (label `gantry.simulator` is `true`), not a real engine.
    pub simulator: bool,
}

/// The architecture of this program, as images call it.
pub(crate) const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

impl ImageInfo {
    /// Returns whether this is the image whose configuration has the digest `config` and whose layers have these diff ids. If
    /// the runtime does not tell the configuration's digest, the layers decide.
    pub fn is(&self, config: &str, layers: &[String]) -> bool {
        match &self.config {
            Some(own) => own == config,
            None => !layers.is_empty() && self.layers == layers,
        }
    }
}

/// A program of an image to run, for what it prints.
#[derive(Debug, Clone, Copy)]
pub struct ImageProbe<'a> {
    pub image: &'a str,
    /// Replaces the image's entry point.
    pub entrypoint: Option<&'a [&'a str]>,
    pub args: &'a [&'a str],
}

/// Which container runtime answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeInfo {
    pub name: &'static str,
    pub version: String,
    /// Version of its interface, if it has one.
    pub api_version: Option<String>,
}

/// Called with (bytes done, bytes known so far) during a pull, summed over all layers.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// A container runtime. Every call but the streams has a deadline, and every call may be repeated.
///
/// An image that is named by a digest is looked for under
/// [`tag_of_digest`](gantry_domain::image::tag_of_digest), too: that is its name if it came out of an archive.
pub trait Runtime: Send + Sync + 'static {
    /// Returns what it is and can do.
    fn traits(&self) -> Traits;

    /// Returns which runtime this is. Fails if it does not answer.
    fn info(&self) -> BoxFuture<'_, RuntimeResult<RuntimeInfo>>;

    /// Identifies the containers that it sees: two gateways get the same text if they see and act on the same
    /// containers. Fails if the runtime does not answer.
    fn identity(&self) -> BoxFuture<'_, RuntimeResult<String>>;

    /// Returns the accounts whose programs may listen on the ports of its engines; `None` if that can't be known.
    fn listeners(&self) -> Option<Listeners>;

    /// Returns the containers that carry our label, running or not.
    fn list(&self) -> BoxFuture<'_, RuntimeResult<Vec<Found>>>;

    /// Returns our container of this name; `None` if there is none or it is not ours.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, RuntimeResult<Option<Found>>>;

    /// Removes a leftover of ours of the same name, then makes and starts the container. A start that fails removes
    /// what was made. A container of that name that is not ours is never touched.
    ///
    /// # Errors
    /// [`NameInUse`](crate::RuntimeError::NameInUse), [`ImageMissing`](crate::RuntimeError::ImageMissing) and
    /// [`GpuUnavailable`](crate::RuntimeError::GpuUnavailable) beside the general ones. After
    /// [`Timeout`](crate::RuntimeError::Timeout) the container may exist all the same: look again.
    fn launch<'a>(&'a self, spec: &'a ContainerSpec<'a>) -> BoxFuture<'a, RuntimeResult<InstanceId>>;

    /// Returns the first variable of `launch` that its engines may not be given, because of which a start fails.
    fn refused_variable<'a>(&self, launch: &'a Launch) -> Option<&'a str>;

    /// Asks the engine to end (SIGTERM), and kills it (SIGKILL) after `grace`. Succeeds if it is stopped already, or
    /// gone.
    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, RuntimeResult<()>>;

    /// Removes the container, running or not. Succeeds if it is gone.
    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, RuntimeResult<()>>;

    /// Returns the lines of stdout and stderr that `window` selects, in the order they came: without escape sequences,
    /// a progress bar's `\r` ends a line, at most 4 KiB a line and 8 MiB in all. A container that is gone has no lines.
    fn logs<'a>(&'a self, id: &'a InstanceId, window: LogWindow) -> BoxFuture<'a, RuntimeResult<String>>;

    /// Streams the same lines, then new ones. Ends with the container or the connection.
    fn follow_logs<'a>(
        &'a self,
        id: &'a InstanceId,
        window: LogWindow,
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, String>>>;

    /// Returns what is known of an image; `None` if it is not on the machine.
    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, RuntimeResult<Option<ImageInfo>>>;

    /// Pulls an image. Dropping the future cancels the pull.
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'a, RuntimeResult<()>>;

    /// Streams one archive of these images, as `docker save` writes it. Dropping the stream ends the save; an error ends the
    /// stream. An archive that the runtime itself could not complete may end without an error, but never with its end mark.
    ///
    /// # Errors
    /// [`ImageMissing`](crate::RuntimeError::ImageMissing) beside the general ones.
    fn save<'a>(
        &'a self,
        references: &'a [String],
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, RuntimeResult<Bytes>>>>;

    /// Returns the folder in which it keeps images, as it says, for one that keeps any. It may be on another machine.
    fn storage(&self) -> BoxFuture<'_, RuntimeResult<Option<PathBuf>>> {
        async { Ok(None) }.boxed()
    }

    /// Loads the images of an archive as `docker save` writes it (which the runtime also takes compressed). Returns
    /// their references, or ids if they have none. Dropping the future cancels the load.
    ///
    /// # Errors
    /// [`Archive`](crate::RuntimeError::Archive) if `archive` has an error, and then nothing is loaded; beside the general
    /// ones.
    fn load(
        &self,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> BoxFuture<'_, RuntimeResult<Vec<String>>>;

    /// Runs a program of an image without network, mounts and devices. Returns what it printed on stdout and stderr,
    /// whatever its exit code. Nothing of it is left, even if it takes longer than `limit` or the future is dropped.
    /// Only one runs at a time: a second one ends the first.
    ///
    /// # Errors
    /// [`ImageMissing`](crate::RuntimeError::ImageMissing) and [`Timeout`](crate::RuntimeError::Timeout) beside the
    /// general ones.
    fn probe<'a>(
        &'a self,
        probe: &'a ImageProbe<'a>,
        limit: Duration,
    ) -> BoxFuture<'a, RuntimeResult<String>>;

    /// Streams hints that something happened to a container of ours. They carry no state, may repeat and may be lost:
    /// look with [`Runtime::find`]. Ends when the connection does.
    fn events(&self) -> BoxFuture<'_, RuntimeResult<BoxStream<'static, ModelId>>>;
}

// The control plane holds it as `Arc<dyn Runtime>`.
const _: fn(&dyn Runtime) = |_| {};
