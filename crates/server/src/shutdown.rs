//! Shutdown of the process: orderly after the first signal, immediate after the second.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use gantry_admin_api::Answers;
use gantry_control::{Control, reconcile::note_stopped};
use gantry_dataplane::DataPlane;
use gantry_runtime::Gate;
use gantry_settings::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::supervisor::Supervisor;

/// Time for the usage shipper to end after the last request.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time for what has come of answers in chats to be stored, when there is no time for anything else.
const ANSWERS_GRACE: Duration = Duration::from_secs(2);
/// Time for the container runtime and everything else, in addition to the time that an engine gets to stop.
const RUNTIME_GRACE: Duration = Duration::from_secs(20);

/// SIGTERM and Ctrl-C.
pub(crate) struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate()).context("can't listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("can't listen for Ctrl-C")?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The parts that have to be shut down.
pub(crate) struct End<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) plane: &'a DataPlane,
    pub(crate) control: &'a Arc<Control>,
    pub(crate) supervisor: Supervisor,
    /// The tasks that move usage rows, which must outlive the last request.
    pub(crate) shipping: Supervisor,
    pub(crate) answers: Answers,
}

impl End<'_> {
    /// Shuts everything down. Returns whether the shutdown was orderly.
    pub(crate) async fn run(self, signals: &mut Signals) -> bool {
        info!(
            "stopping: running requests may end for {} s",
            self.settings.listening.drain_timeout_sec.as_secs()
        );
        tokio::select! {
            clean = self.in_order() => clean,
            () = signals.next() => {
                warn!("told to stop again: stopping at once");
                // After this, the usage rows of the requests that are cut off are in the spool; the next gateway
                // process ships them.
                self.plane.cut().await;
                let _ = tokio::time::timeout(ANSWERS_GRACE, self.answers.settled()).await;
                false
            }
        }
    }

    async fn in_order(&self) -> bool {
        let drained = self.plane.drain(self.settings.listening.drain_timeout_sec).await;
        // A worker that is stopping an engine gets the time to finish.
        let limit = self.control.config.engines.stop_timeout_sec + RUNTIME_GRACE;
        let mut clean = self.supervisor.shutdown(limit).await;
        clean &= self.shipping.shutdown(STOP_GRACE).await;
        if self.settings.engines.stop_models_on_shutdown {
            tokio::select! {
                stopped = tokio::time::timeout(limit, stop_models(self.control)) => if stopped.is_err() {
                    warn!("the container runtime takes too long to stop the models; they may go on");
                },
                () = self.control.supervision.keep(self.control) => {}
            }
        }
        info!(drained, clean, models_stopped = self.settings.engines.stop_models_on_shutdown, "stopped");
        clean
    }
}

/// Stops the models for `STOP_MODELS_ON_SHUTDOWN`, all at once, so that this takes a single grace time. The containers
/// are removed too: when the gateway comes back, a stopped container would look like an engine that died.
async fn stop_models(control: &Control) {
    if !control.supervision.is_open() {
        info!("another gateway supervises the models; they go on");
        return;
    }
    let Ok(found) = control.runtime.list().await else {
        warn!("the container runtime does not answer; models go on");
        return;
    };
    let stops = found.iter().map(async |it| {
        control.runtime.stop(&it.instance.id, control.config.engines.stop_timeout_sec).await?;
        control.runtime.remove(&it.instance.id).await
    });
    for (found, stopped) in found.iter().zip(futures_util::future::join_all(stops).await) {
        match stopped {
            Err(error) => warn!(container = found.name, %error, "a model could not be stopped"),
            Ok(()) => {
                if let Err(error) = note_stopped(control, found.model_id).await {
                    let error = &error as &dyn std::error::Error;
                    warn!(container = found.name, error, "that a model was stopped could not be stored");
                }
            }
        }
    }
}
