//! What happens to a model next: decided from what is wanted and what was observed. Pure: no clock, no container runtime,
//! no database.

use std::time::Duration;

use super::{
    Again, BAD_PROBES, Failure, Health, Instance, InstanceId, InstanceStatus, Observed, Phase, Step, Wanted,
    again,
};
use crate::Timestamp;

/// Decides what happens to a model next.
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
        // The gateway ended between a failure and the end of its engine, which gets its grace. `Launch` removes what is
        // still there after that.
        (Some(old), Phase::Starting { since, .. })
            if current
                && old.generation != o.generation
                && is_live(old)
                && o.now < since.plus(o.deadlines.stop) =>
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
        (Phase::Failed { .. } | Phase::Stopped { .. }, None) if current => settled(o),
        (Phase::Failed { failure, .. }, Some(it)) if current => match it.status {
            // Kept for its logs, but a failed engine must not go on holding memory.
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

/// A start that failed, or a container that was lost: settled until the operator's next command, unless the record says
/// that it is started again.
fn settled(o: &Observed<'_>) -> Step {
    if let Some(cause) = again::due(o) {
        return Step::Restart(cause);
    }
    match o.phase {
        // The specification: no container when the gateway comes up, whatever the state was.
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
    let ran_sec = match o.phase {
        Phase::Running { since, .. } => o.now.since(*since).as_secs(),
        _ => 0,
    };
    Phase::Failed { generation: o.generation, failure, at: o.now, ran_sec, unwatched: false }
}

/// The same for an engine that ended by itself, perhaps before this gateway came up.
fn ended(o: &Observed<'_>, failure: Failure) -> Phase {
    let mut phase = failed(o, failure);
    if let Phase::Failed { unwatched, ran_sec, .. } = &mut phase {
        *unwatched = match o.phase {
            Phase::Starting { since, .. } | Phase::Loading { since, .. } | Phase::Running { since, .. } => {
                o.boot && *since < o.watched_since
            }
            _ => false,
        };
        // When it ended is not known.
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
