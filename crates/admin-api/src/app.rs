//! The state that every handler can reach.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{future::BoxFuture, stream::BoxStream};
use gantry_domain::{
    ApiError, Clock, ErrorCode, KeyId, LogWindow, ModelId, ModelsDir, OrgId, UserId,
    audit::AuditEntry,
    diagnosis::Watch,
    engine::{EngineVersion, LaunchWarning},
    engine_metrics::EngineMetrics,
    host::{Capabilities, HostNow, RouteHealth, Throughput, Trends, UpstreamView},
    image::AllowedImages,
    limit::{Limits, Standing},
    machine::{Gpu, HostMemory},
    model::{EngineKind, Model, PerEngine, Phase},
    models_dir::ModelsDirRules,
    net::IpList,
    runtime::Traits,
    schema::{anything, time, words},
    view,
    web::Web,
};
use gantry_store::Store;
use secrecy::SecretString;
use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::{
    body_room::BodyRoom, cookies::Cookies, disk::Disk, feed::Feed, guesses::Guesses, long_reads::LongReads,
    password::Passwords, seats::Seats, throttle::Throttle, tokens::uses::TokenUses,
};

/// The admin API's state; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Shares `parts` among all handlers.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

/// The parts of [`App`]. This is a plain struct, so that the compiler checks how it is wired up.
pub struct Parts {
    pub store: Store,
    pub clock: Clock,
    /// The clock for measuring elapsed time: nobody can set it. It is the reconciler's clock, which stamps the phases
    /// of models.
    pub steady: Clock,
    pub passwords: Passwords,
    pub cookies: Cookies,
    pub throttle: Throttle,
    pub token_uses: TokenUses,
    pub refresh: Refresh,
    pub engines: Arc<dyn Engines>,
    pub monitor: Arc<dyn Monitor>,
    pub allowances: Arc<dyn Allowances>,
    /// Wakes the reconciler for a model. This is only a hint: if one is lost, the model waits for the reconciler's next
    /// period.
    pub wake: mpsc::Sender<ModelId>,
    /// Every phase that the reconciler stored.
    pub phases: broadcast::Sender<(ModelId, Phase)>,
    pub feed: Feed,
    pub seats: Seats,
    pub body_room: BodyRoom,
    /// Limits the reads of usage that may take long.
    pub long_reads: LongReads,
    /// Most users that an organisation may have.
    pub org_users_max: u32,
    /// The token that a bootstrap request must carry, unless it comes from the gateway's own user or root on this
    /// machine.
    pub setup_token: SecretString,
    /// What runs the engines.
    pub runtime: Traits,
    pub models_dir: ModelsDir,
    pub models_dir_rules: ModelsDirRules,
    pub headers: Headers,
    pub disk: Disk,
    /// Counts guesses at the current password in requests that change it.
    pub guesses: Guesses,
    pub hub_cache_dir: PathBuf,
    /// Which images models may name.
    pub images: AllowedImages,
    /// Whether the gateway is offline: images are never pulled then.
    pub offline: bool,
    /// Folders that packages are written to and read from.
    pub export_dirs: Vec<PathBuf>,
    pub startup_timeouts: PerEngine<Duration>,
    pub trusted_proxies: IpList,
    pub web: Web,
}

/// Headers of model files that were read before; see [`gantry_inspect::Cache`].
#[derive(Clone, Default)]
pub struct Headers(pub(crate) Arc<gantry_inspect::Cache>);

/// What the data plane knows of limits.
pub trait Allowances: Send + Sync + 'static {
    /// Returns the limits of keys that have none of their own.
    fn defaults(&self) -> Limits;
    /// Returns how much of its budgets a holder has spent. `None` if nothing is counted for it: it has no limit, can't
    /// be used, or is not known yet.
    fn spent(&self, holder: LimitHolder) -> Option<Spent>;
    /// Returns what is left of all limits of a holder, as far as this gateway knows; empty for a holder without limits.
    fn standing(&self, holder: LimitHolder) -> Standing;
}

/// An owner of limits: a key, a user or an organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitHolder {
    Key(KeyId),
    User(UserId),
    Org(OrgId),
}

/// Tokens of the current day and month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub day: u64,
    pub month: u64,
}

/// Makes the data plane see what was committed: keys, sessions, users, routes.
#[derive(Clone)]
pub struct Refresh(pub mpsc::Sender<oneshot::Sender<()>>);

impl Refresh {
    /// Returns once the data plane uses the new state, so that a client can use a new key at once. Stops waiting after
    /// one second: the publisher then publishes the state later.
    pub async fn publish(&self) {
        let (done, published) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), published).await;
        }
    }
}

/// Makes the row of the audit log for images that were loaded, from their references.
pub type LoadedImages = Box<dyn FnOnce(&[String]) -> AuditEntry + Send>;

/// Lines of an engine's log as they come.
pub type LogStream = BoxStream<'static, String>;

/// What the admin API needs from running engines. The reconciler's side implements it.
pub trait Engines: Send + Sync + 'static {
    /// Returns log lines of the model's engine, and how the engine ended.
    fn logs(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<EngineLog, ApiError>>;
    /// Returns a stream of log lines: those that are there, and each new one as it comes.
    fn follow(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<LogStream, ApiError>>;
    /// Sends one small request straight to the engine.
    fn test(&self, model: &Model) -> BoxFuture<'static, TestReport>;
    /// The machine that engines run on.
    fn machine(&self) -> BoxFuture<'static, MachineView>;
    /// Returns the metrics of a running model's engine. The error is one line for an operator. Takes 2 s at most.
    fn metrics(&self, model: &Model) -> BoxFuture<'static, Result<EngineMetrics, String>>;
    /// Asks the model hub about the repository `repo_id`, which is `owner/name` or `name`. Takes 10 s at most.
    fn hub_repository(
        &self,
        repo_id: &str,
        token: Option<SecretString>,
    ) -> BoxFuture<'static, Result<HubRepository, ApiError>>;
    /// Returns what a start of the model would do now.
    fn preview(&self, model: &Model) -> BoxFuture<'static, Preview>;
    /// Whether the model runs on the simulator instead of an engine: its record or a setting names it.
    fn is_simulated(&self, model: &Model) -> bool;
    /// The boot id of the machine; empty if it is not known.
    fn boot(&self) -> String;
    /// Returns what a start of a model uses: an image, or the name of a program. `engine` is the model's engine, and
    /// `wished` is its `engine_image`.
    fn image_of(&self, engine: EngineKind, wished: Option<&str>) -> String;
    /// An image as the container runtime knows it; `None` if it is not there.
    fn image(&self, reference: &str) -> BoxFuture<'static, Result<Option<Image>, ApiError>>;
    /// Loads the images of an archive and returns their references. `path` is what the request calls it. The load is a
    /// job, which goes on if the returned future is dropped; `did` makes its row of the audit log.
    fn load_images(
        &self,
        archive: PathBuf,
        path: String,
        did: LoadedImages,
    ) -> BoxFuture<'static, Result<Vec<String>, ApiError>>;
    /// What is known of a model right now.
    fn live(&self, model: ModelId) -> Live;
    /// Whether the data plane accepts the session with this hash.
    fn session_known(&self, id_hash: &[u8; 32]) -> bool;
    /// Returns whether the container runtime answers. The error is one line that anybody may read. Returns soon,
    /// however many callers ask and whatever the runtime does.
    fn runtime_ok(&self) -> BoxFuture<'static, Result<(), &'static str>>;
    /// Whether a gateway supervises the models; the error is one line that names nobody.
    fn supervision_ok(&self) -> Result<(), String>;
    /// Returns whether the data by which requests are decided is read from the database. The error says in one line
    /// what is wrong.
    fn catalog_ok(&self) -> Result<(), String>;
    /// Whether usage can be recorded now.
    fn spool_ok(&self) -> BoxFuture<'static, bool>;
    /// Returns the counts of the usage spool since the gateway started.
    fn spool(&self) -> SpoolReport;
    /// Health of a route as the data plane sees it; `None` if nothing has the name.
    fn route_health(&self, served_name: &str) -> Option<RouteHealth>;
    /// All routes that lead to an engine now, by served name.
    fn live_routes(&self) -> Vec<LiveRoute>;
}

/// What the gateway knows of its machine and its own work.
pub trait Monitor: Send + Sync + 'static {
    /// The machine now; `None` if a file system hangs.
    fn host(&self) -> BoxFuture<'static, Option<HostNow>>;
    /// Returns the samples of the last `minutes`.
    fn trends(&self, minutes: u64) -> BoxFuture<'static, Option<Trends>>;
    fn throughput(&self) -> Throughput;
    fn capabilities(&self) -> BoxFuture<'static, Option<Capabilities>>;
    /// All engines, by served name.
    fn upstreams(&self) -> Vec<UpstreamView>;
    /// Probes the engines of these served names now, or all engines if there is no list.
    fn probe(&self, served_names: Option<Vec<String>>) -> BoxFuture<'static, ()>;
    /// Maps each process id to the id of the container that the process runs in, or of the engine that it belongs to,
    /// as far as it can be seen.
    fn containers(&self, pids: Vec<u32>) -> BoxFuture<'static, HashMap<u32, String>>;
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

/// An image on the machine of the container runtime.
#[derive(Debug, Clone)]
pub struct Image {
    pub size_bytes: i64,
    /// RFC 3339.
    pub created: Option<String>,
    /// Gantry's engine simulator, not a real engine.
    pub simulator: bool,
}

/// A repository of the model hub.
#[derive(Debug, Clone)]
pub struct HubRepository {
    /// `config.json` as it came; `None` if there is none.
    pub config: Option<bytes::Bytes>,
    /// Names of all files; `None` if the hub did not list them.
    pub files: Option<Vec<String>>,
}

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

view! {
    /// Counts of this gateway's usage spool since the gateway started.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SpoolReport {
        /// Rows of requests that ended.
        pub written: u64,
        /// Records that could not be written at first.
        pub write_errors: u64,
        /// Rows that were shipped to the database.
        pub shipped: u64,
        /// Shipped rows that the database had already, because they were read again after a crash or an outage.
        pub replayed: u64,
        /// Damaged places that were skipped.
        pub torn: u64,
        /// Bytes that are on disk and not in the database yet.
        pub backlog_bytes: u64,
    }
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

/// What the machine has, as it was seen last.
#[derive(Debug, Clone, Default)]
pub struct MachineView {
    pub gpus: Vec<Gpu>,
    /// `None`: unknown.
    pub memory: Option<HostMemory>,
}

/// A route to an engine.
#[derive(Debug, Clone)]
pub struct LiveRoute {
    pub served_name: String,
    /// The engine's address; the first one if it has several.
    pub url: String,
    pub task: gantry_domain::model::Task,
    /// `None`: entered by hand.
    pub engine: Option<EngineKind>,
    /// Context length in tokens: as the engine reports it, else as the record says.
    pub max_model_len: Option<i64>,
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

impl Parts {
    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> crate::Problem {
        crate::Problem(ApiError::not_found(what, id))
    }

    /// Returns the same error for an object that the field `param` of a body refers to.
    pub(crate) fn not_found_in(
        param: &str,
        what: &'static str,
        id: impl std::fmt::Display,
    ) -> crate::Problem {
        crate::Problem(ApiError::not_found(what, id).with_param(param))
    }

    pub(crate) fn invalid_state(message: impl Into<String>) -> crate::Problem {
        crate::Problem(ApiError::new(ErrorCode::InvalidState, message))
    }
}
