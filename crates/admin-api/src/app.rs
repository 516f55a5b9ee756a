//! What every handler can reach.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures_util::{future::BoxFuture, stream::BoxStream};
use gantry_domain::{
    ApiError, Clock, ErrorCode, KeyId, LogWindow, ModelId, ModelsDir, OrgId, UserId,
    diagnosis::Watch,
    engine::{EngineVersion, LaunchWarning},
    engine_metrics::EngineMetrics,
    host::{Capabilities, HostNow, RouteHealth, Throughput, Trends, UpstreamView},
    image::AllowedImages,
    limit::{Limits, Standing},
    machine::{Gpu, HostMemory},
    model::{EngineKind, Model, Phase},
    models_dir::ModelsDirRules,
    net::IpList,
    web::Web,
};
use gantry_store::Store;
use secrecy::SecretString;
use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::{
    body_room::BodyRoom, disk::Disk, feed::Feed, guesses::Guesses, long_reads::LongReads,
    password::Passwords, seats::Seats, session::Cookies, throttle::Throttle, tokens::uses::TokenUses,
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
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

/// See [`App`]. A plain struct, so that wiring it up is checked by the compiler.
pub struct Parts {
    pub store: Store,
    pub clock: Clock,
    /// For times that pass: nobody sets it. The reconciler's, which stamps the phases of models.
    pub steady: Clock,
    pub passwords: Passwords,
    pub cookies: Cookies,
    pub throttle: Throttle,
    pub token_uses: TokenUses,
    pub refresh: Refresh,
    pub engines: Arc<dyn Engines>,
    pub monitor: Arc<dyn Monitor>,
    pub allowances: Arc<dyn Allowances>,
    /// Wakes the reconciler for a model. A hint: a lost one costs one period.
    pub wake: mpsc::Sender<ModelId>,
    /// Every phase that the reconciler stored.
    pub phases: broadcast::Sender<(ModelId, Phase)>,
    pub feed: Feed,
    pub seats: Seats,
    pub body_room: BodyRoom,
    /// Reads of usage that may take long.
    pub long_reads: LongReads,
    /// Users that an organisation may have.
    pub org_users_max: u32,
    /// Must accompany a bootstrap from elsewhere than loopback.
    pub setup_token: SecretString,
    /// What runs the engines: `docker` or `process`.
    pub runtime: &'static str,
    pub models_dir: ModelsDir,
    pub models_dir_rules: ModelsDirRules,
    pub headers: Headers,
    pub disk: Disk,
    /// Of the current password, when it is to be changed.
    pub guesses: Guesses,
    pub hub_cache_dir: PathBuf,
    /// Which images models may name.
    pub images: AllowedImages,
    /// Images are never pulled.
    pub offline: bool,
    /// Folders that packages are written to and read from.
    pub export_dirs: Vec<PathBuf>,
    pub startup_timeouts: [Duration; 2],
    pub trusted_proxies: IpList,
    pub web: Web,
}

/// Headers of model files that were read before; see [`gantry_inspect::Cache`].
#[derive(Clone, Default)]
pub struct Headers(pub(crate) Arc<gantry_inspect::Cache>);

/// What the data plane knows of limits.
pub trait Allowances: Send + Sync + 'static {
    /// Limits of keys that have none of their own.
    fn defaults(&self) -> Limits;
    /// What was spent of the budgets of a holder; `None` for one that nothing is counted for: it has no limit, or can't be
    /// used, or nobody knows of it yet.
    fn spent(&self, holder: LimitHolder) -> Option<Spent>;
    /// What is left of all limits, as far as this gateway knows; nothing of a holder without limits.
    fn standing(&self, holder: LimitHolder) -> Standing;
}

/// Who has limits.
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
    /// Returns once the data plane uses the new state, so that a client can use a key in its next breath. Gives up
    /// after a second: the publisher then does it in its own time.
    pub async fn publish(&self) {
        let (done, published) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            let _ = tokio::time::timeout(Duration::from_secs(1), published).await;
        }
    }
}

/// Lines of an engine's log as they come.
pub type LogStream = BoxStream<'static, String>;

/// What the admin API needs of running engines; the reconciler's side implements it.
pub trait Engines: Send + Sync + 'static {
    /// Lines of the model's engine, and how it ended.
    fn logs(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<EngineLog, ApiError>>;
    /// The same, and what follows.
    fn follow(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<LogStream, ApiError>>;
    /// One small request straight to the engine.
    fn test(&self, model: &Model) -> BoxFuture<'static, TestReport>;
    /// The machine that engines run on.
    fn machine(&self) -> BoxFuture<'static, MachineView>;
    /// What the engine of a model that runs counts; the error is one line for an operator. Takes 2 s at most.
    fn metrics(&self, model: &Model) -> BoxFuture<'static, Result<EngineMetrics, String>>;
    /// What the model hub says of `repo_id`, which is `owner/name` or `name`. Takes 10 s at most.
    fn hub_repository(
        &self,
        repo_id: &str,
        token: Option<SecretString>,
    ) -> BoxFuture<'static, Result<HubRepository, ApiError>>;
    /// What a start would do now.
    fn preview(&self, model: &Model) -> BoxFuture<'static, Preview>;
    /// Whether the model runs on the simulator instead of an engine: its record or a setting names it.
    fn is_simulated(&self, model: &Model) -> bool;
    /// The boot id of the machine; empty if it is not known.
    fn boot(&self) -> String;
    /// What a start of a model of `engine` whose `engine_image` is `wished` uses: an image, or the name of a program.
    fn image_of(&self, engine: EngineKind, wished: Option<&str>) -> String;
    /// An image as the container runtime knows it; `None` if it is not there.
    fn image(&self, reference: &str) -> BoxFuture<'static, Result<Option<Image>, ApiError>>;
    /// Takes in the images of an archive; their references. Counts in `sent` the bytes of it that are on their way.
    fn load_images(
        &self,
        archive: PathBuf,
        sent: Arc<AtomicU64>,
    ) -> BoxFuture<'static, Result<Vec<String>, ApiError>>;
    /// What is known of a model right now.
    fn live(&self, model: ModelId) -> Live;
    /// Whether the data plane accepts the session with this hash.
    fn session_known(&self, id_hash: &[u8; 32]) -> bool;
    /// Whether the container runtime answers; the error is one line for anybody. Soon done, however many ask and
    /// whatever the runtime does.
    fn runtime_ok(&self) -> BoxFuture<'static, Result<(), &'static str>>;
    /// Whether a gateway supervises the models; the error is one line that names nobody.
    fn supervision_ok(&self) -> Result<(), String>;
    /// Whether what requests are decided by is read from the database; what is wrong in one line.
    fn catalog_ok(&self) -> Result<(), String>;
    /// Whether usage can be recorded now.
    fn spool_ok(&self) -> BoxFuture<'static, bool>;
    /// What went through the usage spool since the gateway started.
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
    /// What was sampled in the last `minutes`.
    fn trends(&self, minutes: u64) -> BoxFuture<'static, Option<Trends>>;
    fn throughput(&self) -> Throughput;
    fn capabilities(&self) -> BoxFuture<'static, Option<Capabilities>>;
    /// All engines, by served name.
    fn upstreams(&self) -> Vec<UpstreamView>;
    /// Probes the engines of these served names now, of all without a list.
    fn probe(&self, served_names: Option<Vec<String>>) -> BoxFuture<'static, ()>;
    /// Ids of the containers that processes run in, or of the engines that they belong to, as far as they can be seen.
    fn containers(&self, pids: Vec<u32>) -> BoxFuture<'static, HashMap<u32, String>>;
}

/// Why what runs is not what a start would make now, though the record was not edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Settings of the gateway, or the engine's image.
    Launch,
    /// The internal key: the engine refuses the gateway.
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
    /// Why what runs is not what a start would make now, though the record was not edited.
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
    /// Names of all files; `None` if the hub did not tell.
    pub files: Option<Vec<String>>,
}

/// What an engine wrote. All empty when the model has no container.
#[derive(Debug, Clone, Default)]
pub struct EngineLog {
    pub text: String,
    /// `None` while it runs.
    pub exit_code: Option<i64>,
    /// The kernel ended it for its use of memory.
    pub out_of_memory: bool,
    /// It is of a container that an earlier command made: the last one made none, or none yet.
    pub earlier: bool,
    pub watch: Watch,
}

/// Counts of the usage spool, of this gateway and since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SpoolReport {
    /// Rows of requests that ended.
    pub written: u64,
    /// Records that could not be written at first.
    pub write_errors: u64,
    /// Rows that were brought to the database.
    pub shipped: u64,
    /// Those of them that the database had already: read once more after a crash or an outage.
    pub replayed: u64,
    /// Damaged places that were skipped.
    pub torn: u64,
    /// What lies on disk and is not in the database yet.
    pub backlog_bytes: u64,
}

/// The container that a start would make.
#[derive(Debug, Clone)]
pub struct Preview {
    pub image: String,
    /// `None`: the container runtime does not answer.
    pub image_cached: Option<bool>,
    /// Why a missing image would not be fetched.
    pub image_refused: Option<&'static str>,
    /// It names our simulator.
    pub simulator: bool,
    /// Of the engine, as far as the image tells.
    pub version: EngineVersion,
    /// The image is being asked just now.
    pub version_pending: bool,
    /// Entry point (where we set it) and arguments.
    pub command: Vec<String>,
    /// With secrets in clear: to be redacted before it is shown.
    pub env: Vec<(String, String)>,
    /// Settings that are not used as they are.
    pub unsupported: Vec<LaunchWarning>,
    /// There are no images: the engine is a program of this machine.
    pub is_process: bool,
    /// A variable with which a start is refused.
    pub refused_variable: Option<String>,
    /// GPUs of the machine; 0 also where the gateway can't see them.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TestType {
    Chat,
    Completion,
    Embedding,
    Rerank,
}

/// Answer of `POST /admin/models/{id}/test`.
#[derive(Debug, Clone, Serialize)]
pub struct TestReport {
    pub success: bool,
    pub test_type: TestType,
    pub request: serde_json::Value,
    pub response: Option<serde_json::Value>,
    pub error: Option<String>,
    pub latency_ms: u64,
    /// RFC 3339.
    pub timestamp: String,
}

impl Parts {
    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> crate::Problem {
        crate::Problem(ApiError::not_found(what, id))
    }

    /// The same, of what the field `param` of a body refers to.
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
