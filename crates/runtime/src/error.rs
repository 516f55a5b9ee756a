//! What can go wrong between the gateway and a container runtime.

/// Result of everything that a [`Runtime`](crate::Runtime) does.
pub type RuntimeResult<T> = Result<T, RuntimeError>;

/// Why the container runtime did not do what it was asked.
///
/// The text is shown to operators (`state_reason`, problem details), so it never holds a secret, nor a path of the
/// host other than the socket's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not answer, or the connection broke off. This says nothing about the containers.
    #[error("the container engine can't be reached: {detail}")]
    Unreachable { detail: String },
    /// The socket is there, but this process may not use it.
    #[error("permission denied: {detail}")]
    PermissionDenied { detail: String },
    /// The engine did not answer in time; the action may have happened nevertheless.
    #[error("the container engine did not finish `{action}` in time")]
    Timeout { action: &'static str },
    /// A container of that name exists that this gateway did not make.
    #[error("container name `{name}` is in use by another program")]
    NameInUse { name: String },
    /// The image is not on this machine.
    #[error("image `{image}` is not on this machine; pull or load it first")]
    ImageMissing { image: String },
    /// The program that runs the engine is not installed (process runtime).
    #[error(
        "the program `{program}` is not on this machine; install it, or set PRIMARY_ENGINE_COMMAND or SECONDARY_ENGINE_COMMAND"
    )]
    ProgramMissing { program: String },
    /// An engine's process could not be dealt with; `detail` names no path.
    #[error("could not {action}: {detail}")]
    Process { action: &'static str, detail: String },
    /// GPUs were asked for, and the engine can't hand them to containers.
    #[error("the container engine can't provide GPUs, is nvidia-container-toolkit installed? ({detail})")]
    GpuUnavailable { detail: String },
    /// The archive to load could not be read to its end; `detail` names no path of the host.
    #[error("the archive of images could not be read: {detail}")]
    Archive { detail: String },
    /// Nothing was done: another gateway on the same database is to do it.
    #[error("this gateway does not supervise the models (any more)")]
    NotSupervisor,
    /// The engine said no; `detail` is its message on one line.
    #[error("the container engine refused to {action}: {detail}")]
    Refused { action: &'static str, detail: String },
}

impl RuntimeError {
    /// Whether nothing was learnt about any container, so that what was known before is still the best knowledge.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::PermissionDenied { .. } | Self::Timeout { .. })
    }
}
