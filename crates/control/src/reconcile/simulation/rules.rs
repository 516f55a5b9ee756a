//! Rules that a model's states always follow.

use gantry_domain::model::State;

/// Whether `state_reason` has one of the forms of the specification.
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

/// State changes that may happen without a command.
pub(super) const FOLLOWS: &[(State, State)] = {
    use State::{Failed, Loading, Running, Starting, Stopped, Stopping};
    &[
        (Starting, Loading),
        (Loading, Running),
        (Stopping, Stopped),
        // An apply: the old engine is gone. Or the apply failed, and the last good settings are started.
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
        // A container that could not be stopped in time is gone after all. Or what was kept of it is gone when a
        // gateway starts.
        (Failed, Stopped),
        // The model's `autostart` starts it.
        (Stopped, Starting),
    ]
};

/// State changes that a command may cause.
pub(super) const COMMANDED: &[(State, State)] = {
    use State::{Failed, Loading, Running, Starting, Stopped, Stopping};
    &[
        (Stopped, Starting),
        (Failed, Starting),
        (Running, Stopping),
        (Starting, Stopping),
        (Loading, Stopping),
        (Failed, Stopping),
        // The command before was not carried out yet.
        (Starting, Stopped),
        (Stopping, Starting),
    ]
};
