//! Containers that carry our label and belong to no record: their model was deleted by other means, its database was
//! put back to an earlier state, or its engine was changed. They hold memory for nobody, so they are stopped.

use std::sync::atomic::Ordering::Relaxed;

use gantry_runtime::Found;
use tracing::warn;

use crate::Control;

/// Stops and removes what is still there of `left`, each with the usual grace; a failure is repeated at the next tick.
pub(super) async fn stop(control: &Control, left: Vec<Found>) {
    let stops = left.iter().map(async |it| {
        // A deletion that was under way when the list was made has removed it meanwhile.
        if control.runtime.find(&it.name).await?.is_none_or(|now| now.instance.id != it.instance.id) {
            return Ok(false);
        }
        control.runtime.stop(&it.instance.id, control.config.stop_grace).await?;
        control.runtime.remove(&it.instance.id).await?;
        Ok::<_, gantry_runtime::RuntimeError>(true)
    });
    for (found, stopped) in left.iter().zip(futures_util::future::join_all(stops).await) {
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
