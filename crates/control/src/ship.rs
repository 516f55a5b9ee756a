//! Moves usage rows from the data plane's spool into the database, in batches. The spool is the queue: while the
//! database is away it grows on disk, and nothing is lost or counted twice.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    time::Duration,
};

use gantry_dataplane::spool::{Batch, Reader};
use gantry_store::in_time;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::Control;

/// Most rows that are written to the database at once.
const BATCH: usize = 4096;
/// Pause between two batches, so that under load many rows share a transaction. It delays a row by at most this much.
const GATHER: Duration = Duration::from_millis(200);
/// Each batch adds rows with its own sums for each hour. After this many batches, these rows are added up into one.
const COMPACT_AFTER: u32 = 64;
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest time until the spool is looked at, even if a hint was lost.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Runs until `stop`, then ships what is left. The data plane must have ended its requests before.
///
/// # Errors
/// The spool can't be opened.
pub async fn open(dir: PathBuf) -> io::Result<Reader> {
    tokio::task::spawn_blocking(move || Reader::open(&dir)).await.map_err(io::Error::other)?
}

/// See [`open`].
pub async fn run(control: Arc<Control>, mut reader: Reader, stop: CancellationToken) {
    if let Some(boot) = control.shared.boot.get() {
        reader.follow(*boot);
    }
    let mut n_batches = 0;
    loop {
        let ending = stop.is_cancelled();
        let (back, outcome) = drain(&control, reader, &mut n_batches).await;
        let Some(back) = back else {
            // This ends the gateway. After its restart, it ships what the spool kept.
            error!("usage can no longer be shipped to the database; the spool keeps it");
            return;
        };
        reader = back;
        if ending {
            return;
        }
        let pause = match outcome {
            Ok(()) => AT_LEAST_EVERY,
            Err(error) => {
                warn!(error = %error, "usage could not be shipped; the spool keeps it");
                RETRY_AFTER
            }
        };
        let next = async {
            tokio::time::sleep(GATHER).await;
            let _ = tokio::time::timeout(pause, control.shared.usage_written.notified()).await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = next => {}
        }
    }
}

/// Ships until the spool is empty. Returns the reader unless one of our tasks panicked.
async fn drain(
    control: &Control,
    mut reader: Reader,
    n_batches: &mut u32,
) -> (Option<Reader>, Result<(), String>) {
    loop {
        // Rows that are counted here can be read.
        let written = control.shared.counters.spool_written.load(Acquire);
        let read = tokio::task::spawn_blocking(move || {
            let batch = reader.read_batch(BATCH);
            (reader, batch)
        });
        let Ok((back, batch)) = read.await else { return (None, Err("the reader panicked".to_owned())) };
        reader = back;
        // The spool's state is noted also while nothing can be shipped: that is when operators must be told.
        note_spool(control, &reader);
        let batch: Batch = match batch {
            Ok(batch) => batch,
            Err(error) => return (Some(reader), Err(error.to_string())),
        };
        if let Err(error) = in_time(insert(control, &batch)).await {
            control.shared.counters.usage_failures.fetch_add(1, Relaxed);
            return (Some(reader), Err(error.to_string()));
        }
        if !batch.rows.is_empty() {
            *n_batches += 1;
            if n_batches.is_multiple_of(COMPACT_AFTER)
                && let Err(error) = in_time(compact(control)).await
            {
                warn!(error = &error as &dyn std::error::Error, "sums of usage could not be added up");
            }
        }
        let more = batch.more;
        let committed = tokio::task::spawn_blocking(move || {
            let done = reader.commit(batch);
            (reader, done)
        });
        let Ok((back, done)) = committed.await else { return (None, Err("the reader panicked".to_owned())) };
        reader = back;
        note_spool(control, &reader);
        if let Err(error) = done {
            return (Some(reader), Err(error.to_string()));
        }
        if !more {
            note_missing(control, written.saturating_sub(reader.live()));
            return (Some(reader), Ok(()));
        }
    }
}

fn note_spool(control: &Control, reader: &Reader) {
    let counters = &control.shared.counters;
    counters.spool_torn.store(reader.torn(), Relaxed);
    counters.spool_backlog_bytes.store(reader.backlog_bytes(), Relaxed);
}

/// Notes how many rows were written and are not there any more, when all that are there were shipped. A segment that was removed
/// is put back within a second (`spool::Writer`), and its rows are there again.
fn note_missing(control: &Control, missing: u64) {
    let before = control.shared.counters.spool_missing.swap(missing, Relaxed);
    if missing > before {
        error!(
            missing,
            "usage rows are missing from the spool: somebody removed its files before they were in the database"
        );
    }
}

async fn insert(control: &Control, batch: &Batch) -> gantry_store::StoreResult<()> {
    if batch.rows.is_empty() {
        return Ok(());
    }
    let mut tx = control.store.write().await?;
    let n_new = tx.insert_usage(&batch.rows).await?;
    tx.commit().await?;
    crate::budgets::shipped(control, &batch.rows, n_new);
    let (n_rows, counters) = (batch.rows.len() as u64, &control.shared.counters);
    counters.usage_shipped.fetch_add(n_rows, Relaxed);
    counters.usage_replayed.fetch_add(n_rows.saturating_sub(n_new), Relaxed);
    Ok(())
}

async fn compact(control: &Control) -> gantry_store::StoreResult<()> {
    let mut place = Some(gantry_store::UsageSpan::default());
    while let Some(after) = place {
        let mut tx = control.store.write().await?;
        place = tx.compact_usage(i64::from(COMPACT_AFTER) / 2, false, after).await?;
        tx.commit().await?;
    }
    Ok(())
}
