//! Decides when a model is restarted without an operator's command: after a failure, as its `restart_policy` says, and,
//! with `autostart`, when the gateway starts and finds that the engine ended while no gateway watched it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Failure, Observed, Phase};
use crate::{
    Timestamp,
    model::{Model, Wanted},
};

/// Pauses between a failure and the restart, for consecutive restarts; the last one repeats.
pub const PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(10),
];
/// Restarts older than this do not count.
pub const WINDOW: Duration = Duration::from_hours(1);
/// An engine that ran for at least this long before it failed is not in a crash loop: earlier restarts do not count.
pub const STEADY: Duration = Duration::from_mins(10);
/// Default of the field `restart_limit`.
pub const DEFAULT_LIMIT: i64 = 5;

/// Starts since the operator's last command. Each command of an operator resets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts {
    /// The boot id of the machine when the last start began. `None`: no start has begun since the command.
    pub boot: Option<String>,
    /// Times at which the gateway restarted the model by itself, oldest first.
    pub again: Vec<Timestamp>,
}

impl Starts {
    /// Returns the starts after a restart at `now` that followed the failure of an engine which had run for `ran`.
    #[must_use]
    pub fn and_again(&self, now: Timestamp, ran: Duration) -> Self {
        let counts = |it: &&Timestamp| ran < STEADY && **it <= now && now.since(**it) < WINDOW;
        let again = self.again.iter().filter(counts).copied().chain([now]).collect();
        Self { boot: self.boot.clone(), again }
    }
}

/// The record's rules for restarting the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules<'a> {
    /// `restart_policy` is `on_failure`.
    pub on_failure: bool,
    pub autostart: bool,
    /// Most automatic restarts within an hour; after them the model stays failed.
    pub limit: usize,
    pub starts: Option<&'a Starts>,
    /// Whether the machine was restarted since the last start began.
    pub rebooted: bool,
}

/// Why a model is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its `restart_policy` says so.
    Failure,
    /// Its `autostart` says so.
    Autostart,
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// The operator has to start it.
    No,
    /// It is restarted at this time.
    At(Timestamp),
    /// It has used up its automatic restarts.
    GivenUp,
}

impl<'a> Rules<'a> {
    /// Rules of a model that is never restarted.
    pub const NONE: Self =
        Self { on_failure: false, autostart: false, limit: 0, starts: None, rebooted: false };

    /// Returns the rules of `model` on a machine whose boot id is `boot` (empty if it is not known).
    pub fn of(model: &'a Model, boot: &str) -> Self {
        // A command is in progress, or the previous settings are restored first.
        if model.phase.generation() < model.generation
            || model.wanted != Wanted::Running
            || model.archived
            || model.rollback_to().is_some()
        {
            return Self::NONE;
        }
        let config = &model.config;
        let limit = config.int("restart_limit").unwrap_or(DEFAULT_LIMIT);
        let before = model.starts.as_ref().and_then(|it| it.boot.as_deref());
        Self {
            on_failure: config.text("restart_policy") == Some("on_failure"),
            autostart: config.bool("autostart") == Some(true),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            starts: model.starts.as_ref(),
            rebooted: before.is_some_and(|it| it != boot && !it.is_empty() && !boot.is_empty()),
        }
    }

    /// Returns how many restarts count when a failure happens at `at`.
    fn counted(&self, at: Timestamp, ran: Duration) -> usize {
        let all = self.starts.map_or(&[][..], |it| &it.again);
        if ran >= STEADY { 0 } else { all.iter().filter(|it| at.since(**it) < WINDOW).count() }
    }

    /// Returns what `restart_policy` demands after this phase.
    pub fn after(&self, phase: &Phase) -> Again {
        let Phase::Failed { failure, at, ran_sec, .. } = phase else { return Again::No };
        // If the machine was restarted, the engine did not fail: `autostart` decides.
        if !self.on_failure || failure.is_lasting() || self.rebooted {
            return Again::No;
        }
        let n = self.counted(*at, Duration::from_secs(*ran_sec));
        if n >= self.limit {
            return Again::GivenUp;
        }
        Again::At(at.plus(PAUSES[n.min(PAUSES.len() - 1)]))
    }
}

/// Returns why the model is to be restarted now, if it is.
pub(super) fn due(o: &Observed<'_>) -> Option<Cause> {
    let comes_up = o.boot
        && o.rules.autostart
        // A model that brings down the gateway must not do so for ever.
        && o.rules.counted(o.now, Duration::ZERO) < o.rules.limit
        && match o.phase {
            Phase::Stopped { .. } => true,
            Phase::Failed { unwatched, .. } => *unwatched || o.rules.rebooted,
            _ => false,
        };
    if comes_up {
        return Some(Cause::Autostart);
    }
    match (o.rules.after(o.phase), o.phase) {
        // The clock may have been set back since the failure.
        (Again::At(then), Phase::Failed { at, .. }) if o.now >= then || o.now < *at => Some(Cause::Failure),
        _ => None,
    }
}

impl Failure {
    /// Whether the same start would fail in the same way until somebody changes something.
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::ImageNotAvailable { .. }
            | Self::EngineMissing { .. }
            | Self::FileMissing { .. }
            | Self::StopFailed { .. } => true,
            Self::StartupTimeout { .. }
            | Self::ContainerExited { .. }
            | Self::StartFailed { .. }
            | Self::EngineUnhealthy { .. } => false,
        }
    }

    /// Whether there was a container that failed. If not, it was never made.
    pub(super) fn had_container(&self) -> bool {
        match self {
            Self::StartupTimeout { .. } | Self::ContainerExited { .. } | Self::EngineUnhealthy { .. } => true,
            Self::StartFailed { .. }
            | Self::ImageNotAvailable { .. }
            | Self::EngineMissing { .. }
            | Self::FileMissing { .. }
            | Self::StopFailed { .. } => false,
        }
    }

    /// Returns one word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::StartupTimeout { .. } => "startup_timeout",
            Self::ContainerExited { .. } => "container_exited",
            Self::StartFailed { .. }
            | Self::ImageNotAvailable { .. }
            | Self::EngineMissing { .. }
            | Self::FileMissing { .. } => "start_failed",
            Self::EngineUnhealthy { .. } => "engine_unhealthy",
            Self::StopFailed { .. } => "stop_failed",
        }
    }
}
