//! The lifecycle of a model as one pure decision: what is wanted and what is seen go in, the next step comes out.
//!
//! Wanted state and seen state never share a field. Every phase says to which generation (count of start, stop and
//! apply commands) it belongs; a final phase of the current generation means "settled, wait for the operator".

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

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
            Self::StartFailed { detail } | Self::ImageNotAvailable { detail } => {
                write!(f, "start_failed: {detail}")
            }
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
    Stopped {
        generation: i64,
        lost: bool,
    },
    /// The decision to make a container is on disk; there may be one already.
    Starting {
        generation: i64,
        since: Timestamp,
    },
    /// The container runs, the engine does not answer yet; at `until` that becomes a failure.
    Loading {
        generation: i64,
        instance: InstanceId,
        since: Timestamp,
        until: Timestamp,
    },
    /// The engine answers on this loopback port.
    Running {
        generation: i64,
        instance: InstanceId,
        port: u16,
        since: Timestamp,
    },
    /// The container is being stopped; at `until` that becomes a failure.
    Stopping {
        generation: i64,
        since: Timestamp,
        until: Timestamp,
    },
    Failed {
        generation: i64,
        failure: Failure,
        at: Timestamp,
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
    /// Nothing to do until something changes.
    Wait,
}

/// Decides what happens to a model next. Pure: no clock, no container runtime, no database.
pub fn plan(o: &Observed<'_>) -> Step {
    match o.wanted {
        Wanted::Stopped => plan_stopped(o),
        Wanted::Running => plan_running(o),
    }
}

/// The same decision while the container runtime does not answer, so that nothing is known of the container
/// (`o.instance` is ignored). What runs is left alone and probed; a start fails; nothing stays in a transient state
/// beyond its deadline. When the runtime is back, [`plan`] goes on from wherever this led.
pub fn plan_blind(o: &Observed<'_>, why: &str) -> Step {
    let current = o.phase.generation() == o.generation;
    let detail = why.to_owned();
    match (o.phase, o.wanted) {
        (Phase::Running { port, .. }, _) if current && o.health == Health::Unknown => {
            Step::Probe { port: *port }
        }
        (Phase::Loading { instance, until, .. }, _)
            if current && is_stale(o, *until, o.deadlines.startup) =>
        {
            Step::Record(load(o, instance.clone()))
        }
        (Phase::Loading { since, until, .. }, _) if current && o.now >= *until => {
            let seconds = until.since(*since).as_secs();
            Step::Record(failed(o, Failure::StartupTimeout { seconds }))
        }
        (Phase::Running { .. } | Phase::Loading { .. } | Phase::Failed { .. } | Phase::Stopped { .. }, _)
            if current =>
        {
            Step::Wait
        }
        // Nothing was made since, so there is nothing to remove.
        (Phase::Stopped { .. }, Wanted::Stopped) => {
            Step::Record(Phase::Stopped { generation: o.generation, lost: false })
        }
        (Phase::Stopping { until, .. }, _) if is_stale(o, *until, o.deadlines.drain + o.deadlines.stop) => {
            Step::Record(stop(o, o.deadlines.stop))
        }
        (Phase::Stopping { until, .. }, _) if o.now >= *until => {
            Step::Record(failed(o, Failure::StopFailed { detail }))
        }
        (Phase::Stopping { .. }, _) => Step::Wait,
        // There is no container that a start would have to wait for.
        (Phase::Stopped { .. } | Phase::Failed { .. } | Phase::Starting { .. }, Wanted::Running) => {
            Step::Record(failed(o, Failure::StartFailed { detail }))
        }
        _ => Step::Record(stop(o, o.deadlines.stop)),
    }
}

fn plan_stopped(o: &Observed<'_>) -> Step {
    match (o.instance, o.phase) {
        (None, Phase::Stopped { generation, .. }) if *generation == o.generation => Step::Wait,
        (None, _) => Step::Record(Phase::Stopped { generation: o.generation, lost: false }),
        (Some(it), _) => remove(o, &it.id),
    }
}

fn plan_running(o: &Observed<'_>) -> Step {
    let current = o.phase.generation() == o.generation;
    let instance = match (o.instance, o.phase) {
        // A command that failed while the container runtime was away left the container of the one before.
        (Some(old), Phase::Failed { .. } | Phase::Stopped { .. })
            if current && old.generation != o.generation && is_live(old) =>
        {
            return Step::Remove(old.id.clone());
        }
        // `Launch` removes what is left over of an earlier start; only a live one goes through `stopping`.
        (Some(old), Phase::Stopped { .. } | Phase::Failed { .. } | Phase::Starting { .. })
            if old.generation != o.generation && !is_stop_failure(o.phase) =>
        {
            None
        }
        (Some(old), _) if old.generation != o.generation => return remove(o, &old.id),
        (instance, _) => instance,
    };
    match (o.phase, instance) {
        // A start that failed, or a container that was lost: settled until the operator's next command.
        (Phase::Failed { .. } | Phase::Stopped { .. }, None) if current => Step::Wait,
        (Phase::Failed { failure, .. }, Some(it)) if current => match it.status {
            // Kept for its logs, but a failed engine must not go on holding memory.
            InstanceStatus::Running { .. } => Step::Halt(it.id.clone(), failed(o, failure.clone())),
            _ => Step::Wait,
        },
        (Phase::Starting { .. }, None) if current => Step::Launch,
        (Phase::Loading { .. }, None) if current => lost(o, |detail| Failure::ContainerExited { detail }),
        (Phase::Running { .. }, None) if current => lost(o, |detail| Failure::EngineUnhealthy { detail }),
        (_, None) => Step::Record(Phase::Starting { generation: o.generation, since: o.now }),
        (phase, Some(it)) => follow(o, phase, it),
    }
}

/// A container of the current generation exists: follow it through its life.
fn follow(o: &Observed<'_>, phase: &Phase, it: &Instance) -> Step {
    match (&it.status, phase) {
        // Half made: start over. Removing it is part of `Launch`.
        (InstanceStatus::Created, Phase::Starting { .. }) => Step::Launch,
        (InstanceStatus::Created, _) => {
            Step::Record(Phase::Starting { generation: o.generation, since: o.now })
        }
        (InstanceStatus::Exited { code, out_of_memory }, Phase::Running { .. }) => {
            let detail = format!("container {}", exit_text(*code, *out_of_memory));
            Step::Record(failed(o, Failure::EngineUnhealthy { detail }))
        }
        (InstanceStatus::Exited { code, out_of_memory }, _) => {
            let detail = exit_text(*code, *out_of_memory);
            Step::Record(failed(o, Failure::ContainerExited { detail }))
        }
        (InstanceStatus::Running { .. }, Phase::Loading { until, .. })
            if is_ahead(o, *until, o.deadlines.startup) =>
        {
            Step::Record(load(o, it.id.clone()))
        }
        (InstanceStatus::Running { port }, Phase::Loading { since, until, .. }) => {
            loading(o, it, *port, (*since, *until))
        }
        (InstanceStatus::Running { port }, Phase::Running { port: known, .. }) => {
            running(o, it, *port, *known)
        }
        (InstanceStatus::Running { .. }, _) => Step::Record(load(o, it.id.clone())),
    }
}

fn loading(
    o: &Observed<'_>,
    it: &Instance,
    port: Option<u16>,
    (since, until): (Timestamp, Timestamp),
) -> Step {
    let unhealthy = |detail: &str| {
        Step::Halt(it.id.clone(), failed(o, Failure::StartFailed { detail: detail.to_owned() }))
    };
    match (&o.health, port) {
        (Health::Ready, Some(port)) => Step::Record(Phase::Running {
            generation: o.generation,
            instance: it.id.clone(),
            port,
            since: o.now,
        }),
        (Health::KeyRefused | Health::OldKey, _) => {
            unhealthy("the engine refuses the gateway's internal key")
        }
        // Before its deadline counts: while nobody looked it may have got ready.
        (Health::Unknown, Some(port)) => Step::Probe { port },
        _ if o.now >= until => {
            let seconds = until.since(since).as_secs();
            Step::Halt(it.id.clone(), failed(o, Failure::StartupTimeout { seconds }))
        }
        _ => Step::Wait,
    }
}

fn running(o: &Observed<'_>, it: &Instance, port: Option<u16>, known: u16) -> Step {
    let dead = |detail: String| Step::Halt(it.id.clone(), failed(o, Failure::EngineUnhealthy { detail }));
    match (&o.health, port) {
        // A restart by hand gives another port, and an engine that loads its model again.
        (_, Some(port)) if port != known => Step::Record(load(o, it.id.clone())),
        (Health::Unknown, Some(port)) => Step::Probe { port },
        (Health::Closed { detail }, _) => dead(detail.clone()),
        (Health::KeyRefused, _) => dead("the engine refuses the gateway's internal key".to_owned()),
        (Health::Slow { n }, _) if *n >= BAD_PROBES => dead(format!("{n} probes in a row got no answer")),
        (Health::Wrong { n, detail }, _) if *n >= BAD_PROBES => {
            dead(format!("{n} probes in a row got no good answer, the last: {detail}"))
        }
        _ => Step::Wait,
    }
}

/// The container of the current generation is gone.
fn lost(o: &Observed<'_>, failure: impl FnOnce(String) -> Failure) -> Step {
    if o.boot {
        return Step::Record(Phase::Stopped { generation: o.generation, lost: true });
    }
    Step::Record(failed(o, failure("container removed".to_owned())))
}

fn remove(o: &Observed<'_>, id: &InstanceId) -> Step {
    let limit = o.deadlines.drain + o.deadlines.stop;
    match o.phase {
        Phase::Stopping { until, .. } if is_stale(o, *until, limit) => Step::Record(stop(o, limit)),
        Phase::Stopping { until, .. } if o.now >= *until => Step::Record(failed(
            o,
            Failure::StopFailed {
                detail: "the container runtime did not stop the container in time".to_owned(),
            },
        )),
        // No new request goes there since it is `stopping`; those in flight may end.
        Phase::Stopping { since, .. } if o.in_flight > 0 && o.now < since.plus(o.deadlines.drain) => {
            Step::Wait
        }
        // Tried again at every pass: the container must not stay.
        Phase::Stopping { .. } | Phase::Failed { failure: Failure::StopFailed { .. }, .. } => {
            Step::Remove(id.clone())
        }
        _ => Step::Record(stop(o, limit)),
    }
}

/// A deadline that an earlier life of the gateway set, and that means nothing now: it passed while nobody could do
/// anything about it, or [`is_ahead`].
fn is_stale(o: &Observed<'_>, until: Timestamp, limit: Duration) -> bool {
    until <= o.watched_since || is_ahead(o, until, limit)
}

/// Further away than it can have been set: the clock was set back since.
fn is_ahead(o: &Observed<'_>, until: Timestamp, limit: Duration) -> bool {
    until > o.now.plus(limit)
}

fn load(o: &Observed<'_>, instance: InstanceId) -> Phase {
    Phase::Loading {
        generation: o.generation,
        instance,
        since: o.now,
        until: o.now.plus(o.deadlines.startup),
    }
}

fn stop(o: &Observed<'_>, limit: Duration) -> Phase {
    Phase::Stopping { generation: o.phase.generation(), since: o.now, until: o.now.plus(limit) }
}

fn is_live(it: &Instance) -> bool {
    matches!(it.status, InstanceStatus::Running { .. })
}

fn is_stop_failure(phase: &Phase) -> bool {
    matches!(phase, Phase::Failed { failure: Failure::StopFailed { .. }, .. })
}

fn failed(o: &Observed<'_>, failure: Failure) -> Phase {
    Phase::Failed { generation: o.generation, failure, at: o.now }
}

fn exit_text(code: i64, out_of_memory: bool) -> String {
    if out_of_memory {
        return format!("out of memory (exit code {code})");
    }
    match code {
        137 => "killed (exit code 137)".to_owned(),
        code => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests;
