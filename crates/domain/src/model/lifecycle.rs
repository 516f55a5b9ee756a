//! The lifecycle of a model as one pure decision: it takes the wanted state and the observed state, and returns the
//! next step.
//!
//! Wanted state and observed state never share a field. Every phase carries its generation (a count of start, stop and
//! apply commands); a final phase of the current generation means "settled, wait for the operator".

pub mod again;
mod plan;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use again::{Again, Cause, Rules, Starts};
pub use plan::{plan, plan_blind};

use crate::{Timestamp, engine::EngineAddress, words};

words! {
    /// The state that the operator asked for last.
    pub enum Wanted {
        /// The model is to run.
        Running = "running",
        /// The model is to hold no container.
        Stopped = "stopped",
    }
}

words! {
    /// The state of a model that the API shows.
    pub enum State {
        /// There is no container.
        Stopped = "stopped",
        /// A container is being made, or its image is being pulled.
        Starting = "starting",
        /// The engine runs and loads the model.
        Loading = "loading",
        /// The engine answers requests.
        Running = "running",
        /// The container is being removed.
        Stopping = "stopping",
        /// The last start failed, or the engine ended by itself.
        Failed = "failed",
    }
}

impl State {
    /// Whether a container exists, or is being made or removed.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Loading | Self::Running | Self::Stopping)
    }
}

/// Why a model failed. Its [`fmt::Display`] text is the `state_reason` of the specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    StartupTimeout {
        seconds: u64,
    },
    ContainerExited {
        detail: String,
    },
    StartFailed {
        detail: String,
    },
    /// A start that failed because the image is not there and can't be fetched; shown as `start_failed`.
    ImageNotAvailable {
        detail: String,
    },
    /// A start that failed because the engine's program is not installed; shown as `start_failed`.
    EngineMissing {
        detail: String,
    },
    /// A start that failed because a file or folder of the settings is not there; shown as `start_failed`.
    FileMissing {
        /// The field of the model's record that names the file.
        field: String,
        detail: String,
    },
    EngineUnhealthy {
        detail: String,
    },
    StopFailed {
        detail: String,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartupTimeout { seconds } => write!(f, "startup_timeout_after_{seconds}s"),
            Self::ContainerExited { detail } => write!(f, "container_exited: {detail}"),
            Self::StartFailed { detail }
            | Self::ImageNotAvailable { detail }
            | Self::EngineMissing { detail }
            | Self::FileMissing { detail, .. } => write!(f, "start_failed: {detail}"),
            Self::EngineUnhealthy { detail } => write!(f, "engine_unhealthy: {detail}"),
            Self::StopFailed { detail } => write!(f, "stop_failed: {detail}"),
        }
    }
}

/// Which of a model's instances one is. For now a model has one instance, the [first](Self::FIRST).
///
/// With the model's id it names an instance for the gateway, as [`InstanceId`] does for the runtime: the next start of
/// the same instance has the same number and another id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceNumber(pub u32);

impl InstanceNumber {
    /// The instance that each model has. What older versions of the gateway started carries no number, and is this one.
    pub const FIRST: Self = Self(0);
}

impl Default for InstanceNumber {
    fn default() -> Self {
        Self::FIRST
    }
}

/// The runtime's id of the engine process or container behind a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub String);

/// The last observed phase of a model. Only the reconciler writes it; each variant carries the data that only it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// There is no container. `lost`: the container was gone when the gateway came up.
    Stopped { generation: i64, lost: bool },
    /// The decision to make a container is stored; the container may already exist.
    Starting { generation: i64, since: Timestamp },
    /// The container runs, and the engine does not answer yet. At `until` that becomes a failure.
    Loading { generation: i64, instance: InstanceId, since: Timestamp, until: Timestamp },
    /// The engine answers.
    Running {
        generation: i64,
        instance: InstanceId,
        #[serde(flatten)]
        address: EngineAddress,
        since: Timestamp,
    },
    /// The container is being stopped; at `until` that becomes a failure.
    Stopping { generation: i64, since: Timestamp, until: Timestamp },
    Failed {
        generation: i64,
        failure: Failure,
        at: Timestamp,
        /// How long it had been `running` before, in seconds.
        #[serde(default)]
        ran_sec: u64,
        /// The engine ended while no gateway watched it.
        #[serde(default)]
        unwatched: bool,
    },
}

/// An instance that answers, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Serving<'a> {
    pub instance: &'a InstanceId,
    pub address: &'a EngineAddress,
}

impl Phase {
    /// Phase of a model that was never started.
    pub const NEW: Self = Self::Stopped { generation: 0, lost: false };

    /// Returns the count of commands that the phase belongs to.
    pub fn generation(&self) -> i64 {
        match self {
            Self::Stopped { generation, .. }
            | Self::Starting { generation, .. }
            | Self::Loading { generation, .. }
            | Self::Running { generation, .. }
            | Self::Stopping { generation, .. }
            | Self::Failed { generation, .. } => *generation,
        }
    }

    /// Returns the container, once its id is known.
    pub fn instance(&self) -> Option<&InstanceId> {
        match self {
            Self::Loading { instance, .. } | Self::Running { instance, .. } => Some(instance),
            Self::Stopped { .. } | Self::Starting { .. } | Self::Stopping { .. } | Self::Failed { .. } => {
                None
            }
        }
    }

    /// Returns the instances that answer.
    pub fn serving(&self) -> impl Iterator<Item = Serving<'_>> {
        let running = match self {
            Self::Running { instance, address, .. } => Some(Serving { instance, address }),
            _ => None,
        };
        running.into_iter()
    }

    fn state(&self) -> State {
        match self {
            Self::Stopped { .. } => State::Stopped,
            Self::Starting { .. } => State::Starting,
            Self::Loading { .. } => State::Loading,
            Self::Running { .. } => State::Running,
            Self::Stopping { .. } => State::Stopping,
            Self::Failed { .. } => State::Failed,
        }
    }
}

/// Returns the API's `state` and `state_reason`: the phase, corrected by a command that the reconciler has not handled
/// yet. So a client that started a model never reads `stopped` afterwards.
pub fn state(wanted: Wanted, generation: i64, phase: &Phase) -> (State, Option<String>) {
    if phase.generation() < generation {
        return match (wanted, phase.state()) {
            (Wanted::Running, State::Stopped | State::Failed) => (State::Starting, None),
            (Wanted::Stopped, State::Stopped) => (State::Stopped, None),
            _ => (State::Stopping, None),
        };
    }
    let reason = match phase {
        Phase::Failed { failure, .. } => Some(failure.to_string()),
        Phase::Stopped { lost: true, .. } => Some("container_not_found".to_owned()),
        _ => None,
    };
    (phase.state(), reason)
}

/// A container that belongs to this gateway, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    /// The generation that made the container.
    pub generation: i64,
    pub status: InstanceStatus,
}

/// What the runtime says of a container or process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceStatus {
    /// The container was made but not started: the gateway died in between, or the start was refused.
    Created,
    /// The container runs; its engine listens, or will listen, at `address`.
    Running {
        address: Option<EngineAddress>,
    },
    Exited {
        code: i64,
        out_of_memory: bool,
    },
}

/// The result of probing the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The engine was not probed in this pass, or could not be, because the gateway itself lacked a resource for that.
    Unknown,
    /// The connection was refused, or closed without an answer: no process listens, or not yet.
    Closed { detail: String },
    /// The engine answers and lists the model.
    Ready,
    /// The engine answers 401, though the container was started with the current key.
    KeyRefused,
    /// The engine answers 401, and the container was started with another key. The engine is healthy, but serves no
    /// requests until the model is applied.
    OldKey,
    /// The engine did not answer in time; `n` probes in a row failed.
    Slow { n: u32 },
    /// The engine answers, but is not ready: with 503 while it loads, else with a fault. `n` probes in a row failed.
    Wrong { n: u32, detail: String },
}

/// Time limits that the decision needs.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    pub startup: Duration,
    /// Grace period of a stop, plus the time that the runtime may take on top.
    pub stop: Duration,
    /// Longest time for which requests in flight delay a stop; zero unless the stop is part of a swap.
    pub drain: Duration,
}

/// Failed probes in a row after which a running engine counts as dead.
pub const BAD_PROBES: u32 = 3;

/// Everything that [`plan`] may look at.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub wanted: Wanted,
    pub generation: i64,
    pub phase: &'a Phase,
    pub instance: Option<&'a Instance>,
    pub health: Health,
    /// Whether this is the first pass for this model since the gateway came up.
    pub boot: bool,
    /// When this gateway began to watch the model. If a deadline passed before that, the engine is not to blame.
    pub watched_since: Timestamp,
    pub now: Timestamp,
    pub deadlines: Deadlines,
    /// Requests that the engine still works on, as far as this process knows.
    pub in_flight: u32,
    pub rules: Rules<'a>,
}

/// What to do next. After any step but [`Step::Wait`] the reconciler looks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Store this phase.
    Record(Phase),
    /// Make and start the container; a leftover container of the model is removed first.
    Launch,
    /// Stop the container gracefully and remove it.
    Remove(InstanceId),
    /// Stop the container gracefully, keep it for its logs, and store this phase.
    Halt(InstanceId, Phase),
    /// Probe the engine, then look again.
    Probe { address: EngineAddress },
    /// Start the model again, as a new generation.
    Restart(Cause),
    /// Do nothing until something changes.
    Wait,
}
