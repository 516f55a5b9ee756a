//! The lifecycle of a model as one pure decision: what is wanted and what is seen go in, the next step comes out.
//!
//! Wanted state and seen state never share a field. Every phase says to which generation (count of start, stop and
//! apply commands) it belongs; a final phase of the current generation means "settled, wait for the operator".

pub mod again;
mod plan;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use again::{Again, Cause, Rules, Starts};
pub use plan::{plan, plan_blind};

use crate::Timestamp;

/// What the operator asked for last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    Running,
    Stopped,
}

impl Wanted {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Stopped].into_iter().find(|it| it.as_str() == text)
    }
}

/// The word that the API shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Stopped,
    Starting,
    Loading,
    Running,
    Stopping,
    Failed,
}

impl State {
    pub const ALL: [Self; 6] =
        [Self::Stopped, Self::Starting, Self::Loading, Self::Running, Self::Stopping, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    /// A container exists, or is being made or removed.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Starting | Self::Loading | Self::Running | Self::Stopping)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a model failed. [`fmt::Display`] is the `state_reason` of the specification.
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
        /// Of the model's record.
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

/// The engine process or container behind a model: the runtime's id for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub String);

/// What was last seen of a model. Only the reconciler writes it; each variant carries what only it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// No container. `lost`: it was gone when the gateway came up.
    Stopped { generation: i64, lost: bool },
    /// The decision to make a container is on disk; there may be one already.
    Starting { generation: i64, since: Timestamp },
    /// The container runs, the engine does not answer yet; at `until` that becomes a failure.
    Loading { generation: i64, instance: InstanceId, since: Timestamp, until: Timestamp },
    /// The engine answers on this loopback port.
    Running { generation: i64, instance: InstanceId, port: u16, since: Timestamp },
    /// The container is being stopped; at `until` that becomes a failure.
    Stopping { generation: i64, since: Timestamp, until: Timestamp },
    Failed {
        generation: i64,
        failure: Failure,
        at: Timestamp,
        /// For how many seconds it had been `running` before.
        #[serde(default)]
        ran_sec: u64,
        /// The engine ended while no gateway watched it.
        #[serde(default)]
        unwatched: bool,
    },
}

impl Phase {
    /// Of a model that was never started.
    pub const NEW: Self = Self::Stopped { generation: 0, lost: false };

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

    /// The container, once its id is known.
    pub fn instance(&self) -> Option<&InstanceId> {
        match self {
            Self::Loading { instance, .. } | Self::Running { instance, .. } => Some(instance),
            Self::Stopped { .. } | Self::Starting { .. } | Self::Stopping { .. } | Self::Failed { .. } => {
                None
            }
        }
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

/// The API's `state` and `state_reason`: the phase, corrected by a command that the reconciler has not seen yet, so
/// that a client that started a model never reads `stopped` afterwards.
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

/// A container of ours, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    /// The generation that made it.
    pub generation: i64,
    pub status: InstanceStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstanceStatus {
    /// Made but not started: the gateway died in between, or the start was refused.
    Created,
    /// Runs; `port` is where its port 8000 is published on loopback.
    Running {
        port: Option<u16>,
    },
    Exited {
        code: i64,
        out_of_memory: bool,
    },
}

/// What a probe of the engine said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Not probed in this pass; or it could not be, because the gateway itself lacks what that takes.
    Unknown,
    /// Refused, or closed without an answer: nobody listens, or not yet.
    Closed { detail: String },
    /// Answers, and lists the model.
    Ready,
    /// 401, though the container was started with the key of now.
    KeyRefused,
    /// 401, and the container was started with another key: the engine is well, and serves nobody until it is applied.
    OldKey,
    /// No answer in time; `n` probes in a row were not good.
    Slow { n: u32 },
    /// Answers, but not as one that is ready: 503 while it loads, else a fault. `n` probes in a row were not good.
    Wrong { n: u32, detail: String },
}

/// Deadlines that the decision needs.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    pub startup: Duration,
    /// Grace of a stop plus what the runtime may take on top.
    pub stop: Duration,
    /// How long requests in flight hold up a stop; zero unless the stop is part of a swap.
    pub drain: Duration,
}

/// Probes in a row without a good answer after which a running engine counts as dead.
pub const BAD_PROBES: u32 = 3;

/// Everything that [`plan`] may look at.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    pub wanted: Wanted,
    pub generation: i64,
    pub phase: &'a Phase,
    pub instance: Option<&'a Instance>,
    pub health: Health,
    /// The first pass for this model since the gateway came up.
    pub boot: bool,
    /// Since when this gateway looks after the model. A deadline that passed before that was nobody's fault.
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
    /// Make and start the container, removing a leftover of ours first.
    Launch,
    /// Stop gracefully and remove.
    Remove(InstanceId),
    /// Stop gracefully, keep it for its logs, and store this phase.
    Halt(InstanceId, Phase),
    /// Probe the engine at this port, then look again.
    Probe { port: u16 },
    /// Start it again, as a new generation.
    Restart(Cause),
    /// Nothing to do until something changes.
    Wait,
}
