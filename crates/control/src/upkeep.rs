//! Does small chores on a timer: records when keys were last used, and deletes sessions that ended and usage that is
//! old enough.

use std::{collections::HashMap, sync::Arc, time::Duration};

use gantry_domain::{KeyId, Timestamp};
use gantry_store::{StoreResult, UsageSpan, in_time};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::Control;

const KEYS_EVERY: Duration = Duration::from_secs(10);
/// How often the other chores run, in units of `KEYS_EVERY`: every hour.
const REST_EVERY: u32 = 360;
/// Rows deleted at once, so that writers wait only briefly.
const DELETE_BATCH: i64 = 2_000;
const DAY: Duration = Duration::from_hours(24);
/// A jump of the clock that is larger than this is suspicious: a gateway that looks each hour does not see one. After a
/// longer time off, a gateway waits a day before it deletes.
const LEAP: Duration = Duration::from_hours(48);
const DOUBT: Duration = DAY;
/// An earlier time is accepted after it has held for this long: by then the machine did not just start without a clock.
const STANDS: Duration = Duration::from_hours(6);
/// Keys of the table `meta`: times of the clock in ms.
const CLOCK_SEEN: &str = "clock_seen";
const CLOCK_LOW: &str = "clock_low";
const CLOCK_DOUBTED: &str = "clock_doubted";

/// Does the chores at their intervals until `stop`.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(KEYS_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut written = HashMap::new();
    let mut n: u32 = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = tick.tick() => {}
        }
        note(in_time(keys(&control, &mut written)).await, "when keys were last used could not be stored");
        if n.is_multiple_of(REST_EVERY) {
            note(retention(&control, &stop).await, "old rows could not be deleted");
            note(compact(&control, &stop).await, "sums of usage could not be added up");
        }
        n = n.wrapping_add(1);
    }
    note(in_time(keys(&control, &mut written)).await, "when keys were last used could not be stored");
}

fn note(result: StoreResult<()>, what: &str) {
    if let Err(error) = result {
        warn!(error = &error as &dyn std::error::Error, "{what}");
    }
}

async fn keys(control: &Control, written: &mut HashMap<KeyId, Timestamp>) -> StoreResult<()> {
    let catalog = control.shared.catalog.load_full();
    let used = catalog.keys.values().filter_map(|it| Some((it.id, it.state.last_used()?)));
    let news: Vec<_> = used.filter(|(id, at)| written.get(id) != Some(at)).collect();
    if news.is_empty() {
        return Ok(());
    }
    let mut tx = control.store.write().await?;
    tx.touch_keys(&news, control.clock.now()).await?;
    tx.commit().await?;
    written.extend(news);
    Ok(())
}

// Deletes old rows. The gateway may stop between two batches; the rest is then done after its next start.

async fn retention(control: &Control, stop: &CancellationToken) -> StoreResult<()> {
    let now = control.clock.now();
    if !clock_is_trusted(control, now).await? {
        return Ok(());
    }
    let mut tx = control.store.write().await?;
    tx.purge_sessions(now).await?;
    tx.commit().await?;
    // An error in one of them must not keep the other from its work.
    let usage = usage_retention(control, now, stop).await;
    audit_retention(control, now, stop).await.and(usage)
}

/// Decides whether rows may be deleted for their age. A clock that was set years ahead makes everything old. So if it
/// moved by more than [`LEAP`] since the last look, wherever the gateway was meanwhile, nothing is deleted until the
/// new time has held for [`DOUBT`].
///
/// A machine that starts in 1970 and gets the time from the network leaps at each start, but not really. So the latest
/// time that was seen is kept, unless an earlier one holds for [`STANDS`].
async fn clock_is_trusted(control: &Control, now: Timestamp) -> StoreResult<bool> {
    let mut tx = control.store.write().await?;
    let time = |text: Option<String>| text.and_then(|it| it.parse().ok()).map(Timestamp);
    let seen = time(tx.meta_get(CLOCK_SEEN).await?);
    let mut doubted = time(tx.meta_get(CLOCK_DOUBTED).await?);
    if let Some(seen) = seen.filter(|it| now > it.plus(LEAP)) {
        let days = now.since(seen).as_secs() / DAY.as_secs();
        warn!(
            days,
            "the clock moved by that much since the last look: nothing is deleted for its age for a day"
        );
        doubted = Some(now);
    }
    // If the clock was set back since, the doubted time was wrong.
    let trusted = doubted.is_none_or(|it| now < it || now > it.plus(DOUBT));
    let low = time(tx.meta_get(CLOCK_LOW).await?);
    let (seen, low) = after(seen, low, now);
    tx.meta_set(CLOCK_SEEN, &seen.0.to_string()).await?;
    tx.meta_set(CLOCK_LOW, &low.map(|it| it.0.to_string()).unwrap_or_default()).await?;
    let doubted = doubted.filter(|_| !trusted).map(|it| it.0.to_string());
    tx.meta_set(CLOCK_DOUBTED, doubted.as_deref().unwrap_or_default()).await?;
    tx.commit().await?;
    if !trusted {
        info!("old rows are kept, since the clock moved by days at once");
    }
    Ok(trusted)
}

/// Returns what is stored about the clock: the latest time that counts as seen, and since when the clock has been
/// earlier than that.
fn after(seen: Option<Timestamp>, low: Option<Timestamp>, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
    match seen.filter(|it| now < *it) {
        None => (now, None),
        Some(seen) => match low.filter(|it| now >= *it && now <= it.plus(LEAP)) {
            Some(low) if now > low.plus(STANDS) => (now, None),
            Some(low) => (seen, Some(low)),
            None => (seen, Some(now)),
        },
    }
}

async fn usage_retention(control: &Control, now: Timestamp, stop: &CancellationToken) -> StoreResult<()> {
    let days = control.config.usage_retention_days;
    if days == 0 {
        return Ok(());
    }
    let oldest = now.minus(DAY * days);
    while !stop.is_cancelled() {
        let mut tx = control.store.write().await?;
        let deleted = tx.delete_usage_before(oldest, DELETE_BATCH).await?;
        tx.commit().await?;
        if deleted < DELETE_BATCH as u64 {
            break;
        }
    }
    // Names that clients made up are removed together with their rows.
    while !stop.is_cancelled() {
        let mut tx = control.store.write().await?;
        let more = tx.fold_usage_names().await?;
        tx.commit().await?;
        if !more {
            break;
        }
    }
    Ok(())
}

async fn audit_retention(control: &Control, now: Timestamp, stop: &CancellationToken) -> StoreResult<()> {
    let days = control.config.audit_retention_days;
    if days == 0 {
        return Ok(());
    }
    // Rows are written while this runs, so the upper limit is in the future: only rows beyond it come from a wrong
    // clock. With the limit at `now`, all rows of a log that began a moment ago would count as old, and would be
    // deleted.
    let latest = now.plus(DAY);
    while !stop.is_cancelled() {
        let mut tx = control.store.write().await?;
        let deleted = tx.delete_audit_before(now.minus(DAY * days), latest, DELETE_BATCH).await?;
        tx.commit().await?;
        if deleted < DELETE_BATCH as u64 {
            break;
        }
    }
    Ok(())
}

/// Leaves one roll-up for each hour and day.
async fn compact(control: &Control, stop: &CancellationToken) -> StoreResult<()> {
    let mut place = Some(UsageSpan::default());
    while let Some(after) = place
        && !stop.is_cancelled()
    {
        let mut tx = control.store.write().await?;
        place = tx.compact_usage(2, true, after).await?;
        tx.commit().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn a_start_in_1970_is_no_time_that_was_seen() {
        let real = Timestamp(1_790_000_000_000);
        let (seen, low) = after(Some(real), None, Timestamp(5_000));
        assert_eq!((seen, low), (real, Some(Timestamp(5_000))));
        // The time comes from the network: an hour later, as it were, which is no leap.
        let now = Timestamp(real.0 + HOUR);
        assert_eq!(after(Some(seen), low, now), (now, None));
        // Another start, with the earlier time of the one before still there.
        let (seen, low) = after(Some(real), Some(Timestamp(5_000)), Timestamp(1_000));
        assert_eq!((seen, low), (real, Some(Timestamp(1_000))));
    }

    #[test]
    fn a_clock_that_was_years_ahead_is_forgotten_after_hours() {
        let (ahead, right) = (Timestamp(2_000_000_000_000), Timestamp(1_790_000_000_000));
        let (mut seen, mut low) = (ahead, None);
        for hour in 0..=6 {
            (seen, low) = after(Some(seen), low, Timestamp(right.0 + hour * HOUR));
            assert_eq!((seen, low), (ahead, Some(right)));
        }
        let now = Timestamp(right.0 + 7 * HOUR);
        assert_eq!(after(Some(seen), low, now), (now, None));
    }
}
