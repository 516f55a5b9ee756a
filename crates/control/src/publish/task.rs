//! When the catalog is read: on request, after a change by whichever gateway, and now and then regardless.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gantry_store::{DatabaseKind, StoreResult, in_time};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::{Control, base_dir};

/// Who waits for a publication.
pub type Requests = mpsc::Receiver<oneshot::Sender<()>>;

/// However lost a hint may get: a change is in the catalog after this time.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);
/// A full reload at least this often: it catches what no counter shows, such as a restored database.
const READ_AT_LEAST_EVERY: Duration = Duration::from_mins(1);
/// How often a gateway looks for what others on its database changed: keys and sessions that were ended end here too
/// within this time and that of one reading.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Ends when another gateway on this database changed something since `seen`. A database that does not answer is left
/// to the next publication, which says so.
async fn changed_elsewhere(control: &Control, seen: i64) {
    if control.store.kind() == DatabaseKind::Sqlite {
        // It belongs to one gateway.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if changes(control).await.is_ok_and(|n| n != seen) {
            return;
        }
    }
}

/// Takes over what another gateway may have changed but the catalog: the models base directory, and commands, which the
/// reconciler is sent to look for. It has its own count: the publisher's is taken over by whatever is read first, and a
/// command from elsewhere would go unnoticed among requests of this gateway.
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
    in_time(async { control.store.read_quick().await?.changes().await }).await
}

/// Publishes whenever somebody asks, when something changed since, and now and then regardless.
pub async fn run(control: Arc<Control>, mut requests: Requests, stop: CancellationToken) {
    let mut waiting = Vec::new();
    let (mut seen, mut read_at) = (0, Instant::now());
    // The last reading failed. It is tried again after a pause, whatever it was that could not be read.
    let mut failed = false;
    let mut following = std::pin::pin!(follow_others(&control));
    loop {
        let asked = tokio::select! {
            () = changed_elsewhere(&control, seen) => true,
            // Never ends.
            () = &mut following => false,
            () = stop.cancelled() => return,
            // Everybody who asked meanwhile is served by one reading.
            n = requests.recv_many(&mut waiting, 1024) => if n == 0 { return } else { true },
            () = tokio::time::sleep(LOOK_AT_LEAST_EVERY) => false,
        };
        // Before the reading, so that what comes meanwhile is read next time. Own changes are seen as well, which costs
        // one reading too many at most.
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
