//! Engines: their logs, tests, metrics, and what a start would make.

use futures_util::{future::BoxFuture, stream::BoxStream};
use gantry_domain::{
    ApiError, LogWindow, ModelId, Timestamp,
    diagnosis::Watch,
    engine::{EngineVersion, LaunchWarning},
    engine_metrics::EngineMetrics,
    model::Model,
    schema::{anything, time, words},
    view,
};
use serde::Serialize;

/// What the admin API asks of engines, and of the control plane that starts them.
pub trait Engines: Send + Sync + 'static {
    /// Returns log lines of the model's engine, and how the engine ended.
    fn logs(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<EngineLog, ApiError>>;
    /// Returns the end of the log of the model's run before the current one; `None` if there was none.
    fn previous_log(&self, model: ModelId) -> BoxFuture<'static, Result<Option<PreviousLog>, ApiError>>;
    /// Returns a stream of log lines: those that are there, and each new one as it comes.
    fn follow(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<LogStream, ApiError>>;
    /// Sends one small request straight to the engine.
    fn test(&self, model: &Model) -> BoxFuture<'static, TestReport>;
    /// Returns the metrics of a running model's engine. The error is one line for an operator. Takes 2 s at most.
    fn metrics(&self, model: &Model) -> BoxFuture<'static, Result<EngineMetrics, String>>;
    /// Returns what a start of the model would do now.
    fn preview(&self, model: &Model) -> BoxFuture<'static, Preview>;
    /// Whether the model runs on the simulator instead of an engine: its record or a setting names it.
    fn is_simulated(&self, model: &Model) -> bool;
    /// What is known of a model right now.
    fn live(&self, model: ModelId) -> Live;
}

/// Lines of an engine's log as they come.
pub type LogStream = BoxStream<'static, String>;

/// An engine's log. All fields are empty if the model has no container.
#[derive(Debug, Clone, Default)]
pub struct EngineLog {
    pub text: String,
    /// `None` while it runs.
    pub exit_code: Option<i64>,
    /// Whether the kernel killed the engine for its use of memory.
    pub out_of_memory: bool,
    /// Whether the log is from a container of an earlier command, because the last command made none, or none yet.
    pub earlier: bool,
    pub watch: Watch,
}

/// The end of the log of a run that is over.
#[derive(Debug, Clone)]
pub struct PreviousLog {
    pub text: String,
    /// When its engine was removed.
    pub until: Timestamp,
}

/// Why a running engine differs from what a start would make now, although the model's record was not edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Settings of the gateway, or the engine's image, changed.
    Launch,
    /// The internal key changed: the engine refuses the gateway.
    InternalKey,
}

impl Drift {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Launch => "the gateway's settings or the engine's image changed since it was started",
            Self::InternalKey => "the internal engine key was changed since it was started",
        }
    }
}

/// What is known of a model while this process runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Live {
    /// Why a running engine differs from what a start would make now, although the model's record was not edited.
    pub drift: Option<Drift>,
    /// An image that is being pulled: bytes done and bytes known so far.
    pub pull: Option<(u64, u64)>,
}

/// The container that a start would make.
#[derive(Debug, Clone)]
pub struct Preview {
    pub image: String,
    /// Whether the image is on the machine; `None` if the container runtime does not answer.
    pub image_cached: Option<bool>,
    /// Why a missing image would not be fetched.
    pub image_refused: Option<&'static str>,
    /// Whether the image names Gantry's simulator.
    pub simulator: bool,
    /// The engine's version, as far as the image shows it.
    pub version: EngineVersion,
    /// Whether the image is being asked for its version right now.
    pub version_pending: bool,
    /// Entry point (where we set it) and arguments.
    pub command: Vec<String>,
    /// Environment variables with secrets in clear text: redact them before they are shown.
    pub env: Vec<(String, String)>,
    /// Settings that are not used as they are.
    pub unsupported: Vec<LaunchWarning>,
    /// Whether the engine is a program of this machine, so that there are no images.
    pub is_process: bool,
    /// An environment variable because of which a start is refused.
    pub refused_variable: Option<String>,
    /// Number of GPUs of the machine; 0 also if the gateway can't see them.
    pub known_gpus: usize,
    /// Indexes of the GPUs that the container is given.
    pub gpus: Vec<u32>,
}

/// What a test of a model sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestType {
    Chat,
    Completion,
    Embedding,
    Rerank,
}

impl TestType {
    const ALL: [Self; 4] = [Self::Chat, Self::Completion, Self::Embedding, Self::Rerank];
}

view! {
    /// Answer of `POST /admin/models/{id}/test`.
    #[derive(Debug, Clone)]
    pub struct TestReport {
        pub success: bool,
        pub test_type: TestType as words(&TestType::ALL),
        pub request: serde_json::Value,
        pub response: Option<serde_json::Value> as anything(),
        pub error: Option<String>,
        pub latency_ms: u64,
        /// RFC 3339.
        pub timestamp: String as time(),
    }
}
