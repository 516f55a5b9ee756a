//! What holds of a model's states, whatever happens.

use gantry_domain::model::State;

/// The specification's forms of `state_reason`.
pub(super) fn grammatical(state: State, reason: &str) -> bool {
    let detailed = ["container_exited: ", "start_failed: ", "engine_unhealthy: ", "stop_failed: "]
        .iter()
        .any(|it| reason.strip_prefix(it).is_some_and(|detail| !detail.is_empty() && !detail.contains('\n')));
    let timeout = reason.strip_prefix("startup_timeout_after_").and_then(|it| it.strip_suffix('s'));
    match state {
        State::Failed => detailed || timeout.is_some_and(|it| it.parse::<u64>().is_ok()),
        State::Stopped => reason == "container_not_found",
        _ => false,
    }
}

/// What may follow on what by itself.
pub(super) const FOLLOWS: &[(State, State)] = {
    use State::{Failed, Loading, Running, Starting, Stopped, Stopping};
    &[
        (Starting, Loading),
        (Loading, Running),
        (Stopping, Stopped),
        // An apply: the old engine is gone; or it failed, and the last good settings are started.
        (Stopping, Starting),
        (Failed, Starting),
        // Restarted by hand.
        (Running, Loading),
        (Starting, Failed),
        (Loading, Failed),
        (Running, Failed),
        (Stopping, Failed),
        // Its container vanished while no gateway ran.
        (Loading, Stopped),
        (Running, Stopped),
        // What could not be stopped in time is gone after all; or so is, when a gateway comes up, what was kept of it.
        (Failed, Stopped),
        // By its `autostart`.
        (Stopped, Starting),
    ]
};

/// What a command may make of what.
pub(super) const COMMANDED: &[(State, State)] = {
    use State::{Failed, Loading, Running, Starting, Stopped, Stopping};
    &[
        (Stopped, Starting),
        (Failed, Starting),
        (Running, Stopping),
        (Starting, Stopping),
        (Loading, Stopping),
        (Failed, Stopping),
        // Nothing was done about the command before.
        (Starting, Stopped),
        (Stopping, Starting),
    ]
};
