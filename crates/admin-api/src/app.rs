//! The state that every handler can reach.

use std::{path::PathBuf, sync::Arc, time::Duration};

use gantry_domain::{
    ApiError, Clock, ErrorCode, ModelId, ModelsDir,
    image::AllowedImages,
    model::{PerEngine, Phase},
    models_dir::ModelsDirRules,
    net::IpList,
    runtime::Traits,
    setting::SettingView,
    web::Web,
};
use gantry_store::Store;
use secrecy::SecretString;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::{
    body_room::BodyRoom,
    changes::Changes,
    chat::Answers,
    cookies::Cookies,
    disk::Disk,
    feed::Feed,
    guesses::Guesses,
    long_reads::LongReads,
    password::Passwords,
    ports::{Allowances, Checks, DataPlane, Deployment, Engines, Hub, Images, Inference, Monitor},
    seats::Seats,
    session_uses::SessionUses,
    throttle::Throttle,
    tokens::uses::TokenUses,
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

/// The parts of [`App`]. These are plain structs, so that the compiler checks how they are wired up.
pub struct Parts {
    pub store: Store,
    pub clock: Clock,
    /// The clock for measuring elapsed time: nobody can set it. It is the reconciler's clock, which stamps the phases
    /// of models.
    pub steady: Clock,
    pub engines: Arc<dyn Engines>,
    pub engine_images: Arc<dyn Images>,
    pub hub: Arc<dyn Hub>,
    pub deployment: Arc<dyn Deployment>,
    pub data_plane: Arc<dyn DataPlane>,
    pub inference: Arc<dyn Inference>,
    /// The answers of the playground that are being written.
    pub answers: Answers,
    pub allowances: Arc<dyn Allowances>,
    pub monitor: Arc<dyn Monitor>,
    pub checks: Arc<dyn Checks>,
    pub accounts: Accounts,
    pub signals: Signals,
    pub bounds: Bounds,
    pub files: Files,
    pub config: Config,
}

/// What signing in needs.
pub struct Accounts {
    pub passwords: Passwords,
    pub cookies: Cookies,
    pub throttle: Throttle,
    /// Counts guesses at the current password in requests that change it.
    pub guesses: Guesses,
    pub session_uses: SessionUses,
    pub token_uses: TokenUses,
    /// The token that a bootstrap request must carry, unless it comes from the gateway's own user or root on this
    /// machine.
    pub setup_token: SecretString,
}

/// How handlers notify others of changes, and are notified.
pub struct Signals {
    pub refresh: Refresh,
    /// Wakes the reconciler for a model. This is only a hint: if one is lost, the model waits for the reconciler's next
    /// period.
    pub wake: mpsc::Sender<ModelId>,
    /// Every phase that the reconciler stored.
    pub phases: broadcast::Sender<(ModelId, Phase)>,
    pub feed: Feed,
}

/// How much of the gateway callers may take at the same time.
pub struct Bounds {
    pub seats: Seats,
    /// The memory for bodies of requests, and for answers.
    pub body_room: BodyRoom,
    pub answer_room: BodyRoom,
    pub changes: Changes,
    /// Limits the reads of usage that may take long.
    pub long_reads: LongReads,
}

/// The folders of models and images, and how they are read.
pub struct Files {
    pub models_dir: ModelsDir,
    pub models_dir_rules: ModelsDirRules,
    pub headers: Headers,
    pub disk: Disk,
    pub hub_cache_dir: PathBuf,
    /// Folders that packages are written to and read from.
    pub export_dirs: Vec<PathBuf>,
}

/// Settings that handlers read.
pub struct Config {
    /// What runs the engines.
    pub runtime: Traits,
    /// Most users that an organisation may have.
    pub org_users_max: u32,
    /// Which images models may name.
    pub images: AllowedImages,
    /// Whether the gateway is offline: images are never pulled then.
    pub offline: bool,
    pub startup_timeouts: PerEngine<Duration>,
    pub trusted_proxies: IpList,
    pub web: Web,
    /// The settings as people may see them.
    pub settings: Arc<[SettingView]>,
}

/// Headers of model files that were read before; see [`gantry_inspect::Cache`].
#[derive(Clone, Default)]
pub struct Headers(pub(crate) Arc<gantry_inspect::Cache>);

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
