//! Decides what happens to a model next, from the wanted and the observed state. The functions are pure: no clock, no
//! container runtime, no database.

use std::time::Duration;

use super::{
    Again, BAD_PROBES, Failure, Health, Instance, InstanceId, InstanceStatus, Observed, Phase, Step, Wanted,
    again,
};
use crate::{Timestamp, engine::EngineAddress};

/// Decides what happens to a model next.
pub fn plan(o: &Observed<'_>) -> Step {
    match o.wanted {
        Wanted::Stopped => plan_stopped(o),
        Wanted::Running => plan_running(o),
    }
}

/// Makes the same decision while the container runtime does not answer, so that nothing is known about the container
/// (`o.instance` is ignored). A running engine is left alone and probed, a start fails, and no transient state lasts
/// beyond its deadline. When the runtime is back, [`plan`] goes on from there.
pub fn plan_blind(o: &Observed<'_>, why: &str) -> Step {
    let current = o.phase.generation() == o.generation;
    let detail = why.to_owned();
    match (o.phase, o.wanted) {
        (Phase::Running { address, .. }, _) if current && o.health == Health::Unknown => {
            Step::Probe { address: address.clone() }
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
        // Nothing was made since then, so there is nothing to remove.
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
        // A start would not have to wait for any container.
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
        // A command failed while the container runtime was away, and so left the container of an earlier generation
        // behind.
        (Some(old), Phase::Failed { .. } | Phase::Stopped { .. })
            if current && old.generation != o.generation && is_live(old) =>
        {
            return Step::Remove(old.id.clone());
        }
        // The gateway exited between a failure and the end of its engine. The engine gets its grace period; `Launch`
        // removes whatever is left after that.
        (Some(old), Phase::Starting { since, .. })
            if current
                && old.generation != o.generation
                && is_live(old)
                && o.now < since.plus(o.deadlines.stop) =>
        {
            return Step::Remove(old.id.clone());
        }
        // `Launch` removes containers that an earlier start left behind; only a live one goes through `stopping`.
        (Some(old), Phase::Stopped { .. } | Phase::Failed { .. } | Phase::Starting { .. })
            if old.generation != o.generation && !is_stop_failure(o.phase) =>
        {
            None
        }
        (Some(old), _) if old.generation != o.generation => return remove(o, &old.id),
        (instance, _) => instance,
    };
    match (o.phase, instance) {
        (Phase::Failed { .. } | Phase::Stopped { .. }, None) if current => settled(o),
        (Phase::Failed { failure, .. }, Some(it)) if current => match it.status {
            // The container is kept for its logs, but a failed engine must not go on holding memory.
            InstanceStatus::Running { .. } => Step::Halt(it.id.clone(), failed(o, failure.clone())),
            _ => settled(o),
        },
        (Phase::Starting { .. }, None) if current => Step::Launch,
        (Phase::Loading { .. }, None) if current => lost(o, |detail| Failure::ContainerExited { detail }),
        (Phase::Running { .. }, None) if current => lost(o, |detail| Failure::EngineUnhealthy { detail }),
        (_, None) => Step::Record(Phase::Starting { generation: o.generation, since: o.now }),
        (phase, Some(it)) => follow(o, phase, it),
    }
}

/// Handles a start that failed or a container that was lost. Nothing happens until the operator's next command, unless
/// the record says that the model is restarted.
fn settled(o: &Observed<'_>) -> Step {
    if let Some(cause) = again::due(o) {
        return Step::Restart(cause);
    }
    match o.phase {
        // The specification demands this state if there is no container when the gateway comes up, whatever the state
        // was.
        Phase::Failed { failure, .. }
            if o.boot
                && o.instance.is_none()
                && failure.had_container()
                && !matches!(o.rules.after(o.phase), Again::At(_)) =>
        {
            Step::Record(Phase::Stopped { generation: o.generation, lost: true })
        }
        _ => Step::Wait,
    }
}

/// Handles a container of the current generation: follows it through its life.
fn follow(o: &Observed<'_>, phase: &Phase, it: &Instance) -> Step {
    match (&it.status, phase) {
        // The container was made but not started, so the start begins again. `Launch` also removes it.
        (InstanceStatus::Created, Phase::Starting { .. }) => Step::Launch,
        (InstanceStatus::Created, _) => {
            Step::Record(Phase::Starting { generation: o.generation, since: o.now })
        }
        (InstanceStatus::Exited { code, out_of_memory }, Phase::Running { .. }) => {
            let detail = format!("container {}", exit_text(*code, *out_of_memory));
            Step::Record(ended(o, Failure::EngineUnhealthy { detail }))
        }
        (InstanceStatus::Exited { code, out_of_memory }, _) => {
            let detail = exit_text(*code, *out_of_memory);
            Step::Record(ended(o, Failure::ContainerExited { detail }))
        }
        (InstanceStatus::Running { .. }, Phase::Loading { until, .. })
            if is_ahead(o, *until, o.deadlines.startup) =>
        {
            Step::Record(load(o, it.id.clone()))
        }
        (InstanceStatus::Running { address }, Phase::Loading { since, until, .. }) => {
            loading(o, it, address.as_ref(), Span { since: *since, until: *until })
        }
        (InstanceStatus::Running { address }, Phase::Running { address: known, .. }) => {
            running(o, it, address.as_ref(), known)
        }
        (InstanceStatus::Running { .. }, _) => Step::Record(load(o, it.id.clone())),
    }
}

/// The time that an engine gets to load.
#[derive(Clone, Copy)]
struct Span {
    since: Timestamp,
    until: Timestamp,
}

fn loading(o: &Observed<'_>, it: &Instance, address: Option<&EngineAddress>, time: Span) -> Step {
    let unhealthy = |detail: &str| {
        Step::Halt(it.id.clone(), failed(o, Failure::StartFailed { detail: detail.to_owned() }))
    };
    match (&o.health, address) {
        (Health::Ready, Some(address)) => Step::Record(Phase::Running {
            generation: o.generation,
            instance: it.id.clone(),
            address: address.clone(),
            since: o.now,
        }),
        (Health::KeyRefused | Health::OldKey, _) => {
            unhealthy("the engine refuses the gateway's internal key")
        }
        // The probe comes before the deadline: the engine may have become ready while no gateway watched it.
        (Health::Unknown, Some(address)) => Step::Probe { address: address.clone() },
        _ if o.now >= time.until => {
            let seconds = time.until.since(time.since).as_secs();
            Step::Halt(it.id.clone(), failed(o, Failure::StartupTimeout { seconds }))
        }
        _ => Step::Wait,
    }
}

fn running(o: &Observed<'_>, it: &Instance, address: Option<&EngineAddress>, known: &EngineAddress) -> Step {
    let dead = |detail: String| Step::Halt(it.id.clone(), failed(o, Failure::EngineUnhealthy { detail }));
    match (&o.health, address) {
        // A restart by hand gives the container another address, and its engine loads the model again.
        (_, Some(address)) if address != known => Step::Record(load(o, it.id.clone())),
        (Health::Unknown, Some(address)) => Step::Probe { address: address.clone() },
        (Health::Closed { detail }, _) => dead(detail.clone()),
        (Health::KeyRefused, _) => dead("the engine refuses the gateway's internal key".to_owned()),
        (Health::Slow { n }, _) if *n >= BAD_PROBES => dead(format!("{n} probes in a row got no answer")),
        (Health::Wrong { n, detail }, _) if *n >= BAD_PROBES => {
            dead(format!("{n} probes in a row got no good answer, the last: {detail}"))
        }
        _ => Step::Wait,
    }
}

/// Handles a container of the current generation that is gone.
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
        // The engine gets no new requests since the model is `stopping`; those in flight may finish.
        Phase::Stopping { since, .. } if o.in_flight > 0 && o.now < since.plus(o.deadlines.drain) => {
            Step::Wait
        }
        // The removal is retried at every pass, because the container must not stay.
        Phase::Stopping { .. } | Phase::Failed { failure: Failure::StopFailed { .. }, .. } => {
            Step::Remove(id.clone())
        }
        _ => Step::Record(stop(o, limit)),
    }
}

/// Whether a deadline no longer means anything, because an earlier run of the gateway set it: it passed while no
/// gateway could act on it, or [`is_ahead`] is true.
fn is_stale(o: &Observed<'_>, until: Timestamp, limit: Duration) -> bool {
    until <= o.watched_since || is_ahead(o, until, limit)
}

/// Whether a deadline is further away than it can have been set. Then the clock was set back since.
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
    let ran_sec = match o.phase {
        Phase::Running { since, .. } => o.now.since(*since).as_secs(),
        _ => 0,
    };
    Phase::Failed { generation: o.generation, failure, at: o.now, ran_sec, unwatched: false }
}

/// Returns the failed phase of an engine that ended by itself, perhaps before this gateway came up.
fn ended(o: &Observed<'_>, failure: Failure) -> Phase {
    let mut phase = failed(o, failure);
    if let Phase::Failed { unwatched, ran_sec, .. } = &mut phase {
        *unwatched = match o.phase {
            Phase::Starting { since, .. } | Phase::Loading { since, .. } | Phase::Running { since, .. } => {
                o.boot && *since < o.watched_since
            }
            _ => false,
        };
        // The time at which it ended is not known.
        if *unwatched {
            *ran_sec = 0;
        }
    }
    phase
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
