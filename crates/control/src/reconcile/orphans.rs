//! Stops containers that carry our label and belong to no record: their model was deleted by other means, its database
//! was put back to an earlier state, or its engine was changed. They hold memory for no use.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use gantry_domain::model::lifecycle::InstanceId;
use gantry_runtime::Found;
use parking_lot::{Mutex, MutexGuard};
use tracing::warn;

use crate::Control;

/// Containers that are being stopped, which may take longer than the next tick.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<HashSet<InstanceId>>>);

impl Ending {
    fn ids(&self) -> MutexGuard<'_, HashSet<InstanceId>> {
        self.0.lock()
    }

    /// Returns those of `left` that are not being stopped yet, and adds them.
    pub(super) fn take(&self, left: impl Iterator<Item = Found>) -> Vec<Found> {
        let mut ids = self.ids();
        left.filter(|it| ids.insert(it.instance.id.clone())).collect()
    }
}

/// Stops and removes those of `left` that still exist, each with the usual grace. A failure is retried at the next
/// tick.
pub(super) async fn stop(control: &Control, ending: &Ending, left: Vec<Found>) {
    let stops = left.iter().map(async |it| {
        // A deletion that was in progress when the list was made may have removed it meanwhile.
        if control.runtime.find(&it.name).await?.is_none_or(|now| now.instance.id != it.instance.id) {
            return Ok(false);
        }
        control.runtime.stop(&it.instance.id, control.config.engines.stop_timeout_sec).await?;
        control.runtime.remove(&it.instance.id).await?;
        Ok::<_, gantry_runtime::RuntimeError>(true)
    });
    for (found, stopped) in left.iter().zip(futures_util::future::join_all(stops).await) {
        ending.ids().remove(&found.instance.id);
        let (container, model) = (&found.name, found.model_id.0);
        match stopped {
            Ok(true) => {
                control.orphans_stopped.fetch_add(1, Relaxed);
                warn!(
                    container,
                    model, "a container of ours that belongs to no record was stopped and removed"
                );
            }
            Ok(false) => {}
            Err(error) => warn!(container, model, %error, "an orphaned container could not be removed"),
        }
    }
}
