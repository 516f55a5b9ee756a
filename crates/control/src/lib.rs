//! The control plane: makes what is wanted so, watches what runs, and feeds the data plane.
//!
//! - [`reconcile`]: one worker for each model brings its container in line with its record
//! - [`publish`]: builds the data plane's catalog from the database
//! - [`ship`]: moves usage rows from the spool to the database
//! - [`machine`]: GPUs and RAM of this machine
//! - [`sample`]: what the machine and the data plane did over time
//! - [`upstreams`]: probes of all engines, for people
//! - [`shared_limits`]: limits that several gateways have in common, through Redis
//! - [`budgets`]: keeps the data plane's sums of spent budgets in line with the database
//! - [`upkeep`]: retention, `last_used_at`, ended sessions
//! - [`supervise`]: which of several gateways on one database reconciles
//! - [`deployment`]: packages that carry an installation elsewhere, and restores
//! - [`jobs`]: work that may take minutes, with a record
//! - [`restarts`]: counts how often models were started again
//! - [`runtime_status`]: what is known of models right now, and in no table
//! - [`diagnose`]: why a model failed, kept with its record
//! - [`versions`]: asks images which version of an engine they hold
//! - [`engine_ops`]: logs and test requests, for the admin API

pub mod base_dir;
pub mod budgets;
pub mod deployment;
mod diagnose;
pub mod engine_http;
pub mod engine_ops;
pub mod hub;
pub mod jobs;
pub mod machine;
pub mod preview;
pub mod previous_log;
pub mod probe;
pub mod publish;
pub mod reconcile;
pub mod restarts;
pub mod runtime_status;
pub mod sample;
pub mod shared_limits;
pub mod ship;
pub mod supervise;
pub mod upkeep;
pub mod upstreams;
pub mod versions;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use gantry_dataplane::Shared;
use gantry_domain::{
    Clock, ModelId, ModelsDir,
    engine::Host,
    image::{self, AllowedImages},
    listeners::Listeners,
    model::{EngineKind, Model, Phase},
    models_dir::ModelsDirRules,
};
use gantry_runtime::{Program, Programs, Runtime};
use gantry_settings as settings;
use gantry_store::Store;
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::{Notify, broadcast, watch};

/// The operator's settings that the control plane needs: sections of them, and what is made from others at start.
#[derive(Debug, Clone)]
pub struct Config {
    pub engines: settings::Engines,
    pub supervision: settings::Supervision,
    /// Limits of keys that have none of their own, and the mode of all limits. A key may have a milder one for itself.
    pub limits: settings::Limits,
    /// Models base directory on the host.
    pub models_dir: ModelsDir,
    /// Rules for which directories it may be.
    pub models_dir_rules: ModelsDirRules,
    pub hub_cache_dir: PathBuf,
    /// Where the gateway keeps its own data.
    pub data_dir: PathBuf,
    /// The default image of each engine, and which others models may name.
    pub images: AllowedImages,
    /// The programs that run in place of images, if engines are processes.
    pub programs: Option<Programs>,
    pub internal_key: SecretString,
    /// Hosts from which engines may fetch pictures and other media that requests refer to.
    pub media_hosts: Vec<String>,
    /// Time that requests in flight get when a model is applied.
    pub drain: Duration,
    pub host: Host,
    /// The settings as people may see them, secrets masked, for packages.
    pub public_settings: Value,
    /// 0 keeps rows for ever.
    pub usage_retention_days: u32,
    /// 0 keeps rows for ever.
    pub audit_retention_days: u32,
}

impl Config {
    /// Returns the image of a model: its own, else its engine's default. If there are no images, returns the name of
    /// its program.
    pub fn image<'a>(&'a self, model: &'a Model) -> &'a str {
        self.image_of(model.engine, model.config.text("engine_image"))
    }

    /// Returns the image for any model of `engine` whose `engine_image` is `wished`.
    pub fn image_of<'a>(&'a self, engine: EngineKind, wished: Option<&'a str>) -> &'a str {
        if let Some(programs) = &self.programs {
            return &programs.of(engine, wished).reference;
        }
        wished.unwrap_or(&self.images.defaults[engine])
    }

    /// Whether a model runs on Gantry's simulator instead of an engine: because its record or a setting names it.
    pub fn is_simulated(&self, model: &Model) -> bool {
        match self.program(model) {
            Some(program) => program.simulator,
            None => image::is_simulator(self.image(model)),
        }
    }

    /// Returns the program of a model if engines are processes.
    pub fn program(&self, model: &Model) -> Option<&Program> {
        let programs = self.programs.as_ref()?;
        Some(programs.of(model.engine, model.config.text("engine_image")))
    }

    /// Longest time in `loading`.
    pub fn startup(&self, model: &Model) -> Duration {
        let own = model.config.int("startup_timeout_sec").and_then(|it| u64::try_from(it).ok());
        own.map_or(self.engines.startup_timeouts()[model.engine], Duration::from_secs)
    }
}

/// State that all parts of the control plane share.
pub struct Control {
    pub config: Config,
    pub store: Store,
    pub clock: Clock,
    /// Clock for deadlines: it does not jump while the process lives.
    pub steady: Clock,
    /// Boot id of the machine; empty if it is not known.
    pub boot: String,
    pub prober: Arc<dyn probe::Prober>,
    pub runtime: Arc<dyn Runtime>,
    /// Accounts whose programs may listen on the ports of engines, see [`Runtime::listeners`].
    pub listeners: Option<Arc<Listeners>>,
    pub versions: versions::Versions,
    /// The data plane's side.
    pub shared: Arc<Shared>,
    pub publisher: publish::Publisher,
    pub runtime_status: Arc<runtime_status::RuntimeStatus>,
    pub images: preview::Images,
    /// Number of our containers without a record that were removed since start.
    pub orphans_stopped: AtomicU64,
    pub restarts: restarts::Restarts,
    pub jobs: Arc<jobs::Jobs>,
    pub machine: Arc<machine::Machine>,
    pub hub: hub::Hub,
    pub samples: Arc<sample::Samples>,
    pub upstreams: upstreams::Upstreams,
    pub supervision: Arc<supervise::Supervision>,
    /// Notified when another gateway on the database changed something.
    pub changed_elsewhere: Notify,
    pub drills: Arc<deployment::drill::Drills>,
    /// Counts restores of the database by this gateway, after which everything is read again.
    pub restores: watch::Sender<u64>,
    /// Notified when a new catalog has a budget that the one before had not.
    pub new_budgets: Notify,
    /// Sends every phase that was stored.
    pub phases: broadcast::Sender<(ModelId, Phase)>,
}
