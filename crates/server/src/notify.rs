//! Reports the gateway's state to the service manager (`sd_notify(3)`), if `NOTIFY_SOCKET` names its socket.

use std::slice;

use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(crate) fn send(state: &NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(slice::from_ref(state)) {
        warn!(%error, %state, "the service manager could not be notified");
    }
}

/// Reports that the control runtime is alive, twice as often as the service manager requires. Without reports, it kills
/// the gateway.
pub(crate) async fn feed_watchdog(stop: CancellationToken) {
    let period = sd_notify::watchdog_enabled().filter(|it| !it.is_zero());
    let Some(period) = period else { return stop.cancelled().await };
    let mut ticks = tokio::time::interval(period / 2);
    loop {
        tokio::select! {
            _ = ticks.tick() => send(&NotifyState::Watchdog),
            () = stop.cancelled() => return,
        }
    }
}
