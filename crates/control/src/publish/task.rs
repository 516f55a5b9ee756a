//! Decides when the catalog is read: on request, after a change by any gateway, and from time to time in any case.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_store::{DatabaseKind, StoreResult, in_time};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Control, base_dir};

/// The callers that wait for a publication.
pub type Requests = mpsc::Receiver<oneshot::Sender<()>>;

/// Longest time until a change is in the catalog, even if its hint is lost.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);
/// A full reload happens at least this often. It catches what no counter shows, such as a restored database.
const READ_AT_LEAST_EVERY: Duration = Duration::from_mins(1);
/// How often a gateway looks for changes by others on its database. Keys and sessions that were ended there end here
/// within this time plus that of one reading.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Returns when another gateway on this database has changed something since `seen`. If the database does not answer,
/// the next publication reports it.
async fn changed_elsewhere(control: &Control, seen: i64) {
    if control.store.kind() == DatabaseKind::Sqlite {
        // A SQLite database belongs to one gateway.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if changes(control).await.is_ok_and(|n| n != seen) {
            return;
        }
    }
}

/// Takes over what another gateway may have changed besides the catalog: the models base directory, and commands, for
/// which it wakes the reconciler. It counts changes for itself: any reading advances the publisher's count, so that a
/// command from another gateway would go unnoticed among this gateway's own requests.
async fn follow_others(control: &Control) {
    if control.store.kind() == DatabaseKind::Sqlite {
        return std::future::pending().await;
    }
    let (mut seen, mut base_dir) = (None, None);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Ok(now) = changes(control).await else { continue };
        if seen == Some(now) || in_time(base_dir::follow(control, &mut base_dir)).await.is_err() {
            continue;
        }
        seen = Some(now);
        control.changed_elsewhere.notify_one();
    }
}

async fn changes(control: &Control) -> StoreResult<i64> {
    in_time(async { control.store.read_quick().await?.change_counter().await }).await
}

/// Publishes on request, when something has changed, and from time to time in any case.
pub async fn run(control: Arc<Control>, mut requests: Requests, stop: CancellationToken) {
    let mut waiting = Vec::new();
    let (mut seen, mut read_at) = (0, Instant::now());
    // True if the last reading failed. It is tried again after a pause, whatever the cause.
    let mut failed = false;
    let mut restores = control.restores.subscribe();
    let mut following = std::pin::pin!(follow_others(&control));
    loop {
        let asked = tokio::select! {
            () = changed_elsewhere(&control, seen) => true,
            Ok(()) = restores.changed() => true,
            // Never ends.
            () = &mut following => false,
            () = stop.cancelled() => return,
            // One reading serves all requests that came meanwhile.
            n = requests.recv_many(&mut waiting, 1024) => if n == 0 { return } else { true },
            () = tokio::time::sleep(LOOK_AT_LEAST_EVERY) => false,
        };
        // The count is read before the catalog, so that later changes are read next time. It includes this gateway's
        // own changes, which costs at most one reading too many.
        let now = changes(&control).await.ok();
        if asked || failed || now != Some(seen) || read_at.elapsed() >= READ_AT_LEAST_EVERY {
            (seen, read_at) = (now.unwrap_or(seen), Instant::now());
            let read = control.publisher.publish(&control).await;
            failed = read.is_err();
            if let Err(error) = read {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the catalog could not be read; the old one stays"
                );
            }
        }
        for waiter in waiting.drain(..) {
            let _ = waiter.send(());
        }
    }
}
