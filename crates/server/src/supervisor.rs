//! Long-lived tasks and how they stop. No other place spawns them.

use std::{future::Future, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, info_span};

/// Runs tasks until the process stops.
#[derive(Clone, Default)]
pub(crate) struct Supervisor {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Supervisor {
    /// Runs `task` until it returns. A task that returns or panics before it was asked to stop stops the whole
    /// process.
    pub(crate) fn spawn<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (work, stop) = (task(self.stop.child_token()), self.stop.clone());
        self.tasks.spawn(
            async move {
                let stop_all_on_exit = stop.drop_guard();
                work.await;
                drop(stop_all_on_exit);
            }
            .instrument(info_span!("task", name)),
        );
    }

    /// Asks every task to stop and waits up to `grace`. `false` if some did not.
    pub(crate) async fn shutdown(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }

    /// Waits until a task ended too early or a stop was requested.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_or_ends_early_stops_the_rest() {
        let supervisor = Supervisor::default();
        supervisor.spawn("broken", |_| async { panic!("boom") });
        supervisor.stopped().await;
        let supervisor = Supervisor::default();
        supervisor.spawn("short", |_| async {});
        supervisor.stopped().await;
    }

    #[tokio::test]
    async fn shutdown_waits_for_all() {
        let supervisor = Supervisor::default();
        supervisor.spawn("patient", |stop| async move { stop.cancelled().await });
        assert!(supervisor.shutdown(Duration::from_secs(5)).await);
    }
}
