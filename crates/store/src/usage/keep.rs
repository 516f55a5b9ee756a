//! Maintenance of the ledger: deletes old rows, adds sums up, makes the sums of rows from before there were sums, and
//! compares rows with sums.

use gantry_domain::{
    Timestamp,
    usage::{UsageRow, first_id_at, time_of},
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    DAY, HOUR, UsageFilter,
    cells::{Cells, UsageSums},
    insert::corrupt,
    rollups::{RAW_SINCE, TimeRange},
    select::{UsageRecord, Wanted, columns},
};
use crate::{
    Store, StoreError, StoreResult, Tx,
    tx::{AdvisoryLock, Db, next, on_db},
};

/// Roll-ups of one span are added up to about this many bytes. Only a client that makes names up produces more cells
/// than fit in that. A reader then still needs no more memory than this at a time.
const LARGEST: i64 = 8 << 20;
/// Roll-ups below this size are added up without regard to their relative sizes.
const SMALL: i64 = 64 << 10;
/// Number of spans that are compacted in one transaction. Writers wait for some ten milliseconds meanwhile.
const SPANS: i64 = 8;

/// A position among the spans that have sums. The default is before all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSpan {
    hours: i64,
    start: i64,
}

/// Sums over the same time from raw rows and from roll-ups, to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageCheck {
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    /// From raw rows; only rows, requests, errors and tokens (prompt, completion) are filled in.
    pub rows: UsageSums,
    /// From the sums of hours.
    pub hours: UsageSums,
    /// From the sums of days; `None` if the time is not a whole day.
    pub days: Option<UsageSums>,
}

impl UsageCheck {
    /// Returns whether rows and sums say the same.
    pub fn agrees(&self) -> bool {
        let seen = |it: &UsageSums| (it.rows, it.requests, it.errors, it.prompt_tokens, it.completion_tokens);
        let rows = seen(&self.rows);
        seen(&self.hours) == rows && self.days.as_ref().is_none_or(|it| seen(it) == rows)
    }
}

impl Tx {
    /// Deletes up to `limit` of the oldest rows made before the hour of `before` and returns how many. Call it until
    /// that is 0, each time in a transaction of its own, so that writers get their turn in between. Sums stay.
    pub async fn delete_usage_before(&mut self, before: Timestamp, limit: i64) -> StoreResult<u64> {
        const SQL: &str =
            "DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE id < $1 ORDER BY id LIMIT $2)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        // Only whole hours are deleted, so that a range can tell which hours are complete. The hour is noted before the
        // first row goes.
        let hour = Timestamp(before.0.max(0) / HOUR * HOUR);
        if hour > self.usage_raw_since().await? {
            self.meta_set(RAW_SINCE, &hour.0.to_string()).await?;
        }
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(first_id_at(hour)).bind(limit);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Adds up the roll-ups of some spans behind `after` that have at least `at_least` of them. A large roll-up is left
    /// as it is until the small ones have half its size, so that it is not rewritten for every few requests; `thorough`
    /// adds them up in any case. Call it again with the returned position until that is `None`, each time in a
    /// transaction of its own.
    ///
    /// Gateways that compact at the same time take turns.
    pub async fn compact_usage(
        &mut self,
        at_least: i64,
        thorough: bool,
        after: UsageSpan,
    ) -> StoreResult<Option<UsageSpan>> {
        const CROWDED: &str = "SELECT hours, start_at FROM usage_rollups WHERE (hours, start_at) > ($3, $4) \
                               GROUP BY hours, start_at HAVING COUNT(*) >= $1 ORDER BY hours, start_at LIMIT $2";
        const SIZES: &str = "SELECT CAST(LENGTH(sums) + LENGTH(times) AS BIGINT) AS size FROM usage_rollups \
                             WHERE hours = $1 AND start_at = $2 ORDER BY size";
        const TAKE: &str = "DELETE FROM usage_rollups WHERE hours = $1 AND start_at = $2 \
                            AND LENGTH(sums) + LENGTH(times) <= $3 RETURNING sums, times";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        let spans: Vec<(i64, i64)> = on_db!(self, |conn| {
            let query = sqlx::query_as(CROWDED).bind(at_least.max(2)).bind(SPANS);
            query.bind(after.hours).bind(after.start).fetch_all(conn).await
        })?;
        let (mut place, mut n_merged) = (after, 0);
        for (hours, start) in &spans {
            let (hours, start) = (*hours, *start);
            loop {
                let sizes: Vec<i64> = on_db!(self, |conn| {
                    sqlx::query_scalar(SIZES).bind(hours).bind(start).fetch_all(conn).await
                })?;
                let Some(largest) = taken_up_to(&sizes, thorough) else { break };
                if n_merged == SPANS {
                    return Ok(Some(place));
                }
                let mut cells = Cells::default();
                on_db!(self, |conn, patience| {
                    let mut rows = sqlx::query(TAKE).bind(hours).bind(start).bind(largest).fetch(conn);
                    while let Some(row) = next(&mut rows, patience).await? {
                        let merged = cells.merge(row.try_get(0)?, row.try_get(1)?, 0);
                        merged.ok_or_else(|| corrupt(start))?;
                    }
                    Ok::<_, StoreError>(())
                })?;
                self.insert_rollup(hours, start, &cells.pack()).await?;
                n_merged += 1;
            }
            // The position also moves behind a span whose roll-ups are too large to be added up. Otherwise that span
            // would stay first for ever.
            place = UsageSpan { hours, start };
        }
        Ok((spans.len() as i64 == SPANS).then_some(place))
    }

    /// Compares rows and sums of the time from `from` (to the day's end, at most to `to`). Both must be full hours.
    /// Runs in a reading transaction, so that both are of the same moment.
    pub async fn check_usage(&mut self, from: Timestamp, to: Timestamp) -> StoreResult<UsageCheck> {
        const SQL: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(requests), 0) AS BIGINT), \
             CAST(COALESCE(SUM(CASE WHEN status_code >= 400 THEN requests ELSE 0 END), 0) AS BIGINT), \
             CAST(COALESCE(SUM(prompt_tokens), 0) AS BIGINT), \
             CAST(COALESCE(SUM(completion_tokens), 0) AS BIGINT) FROM usage WHERE id >= $1 AND id < $2";
        let day = from.0 / DAY * DAY;
        let to = Timestamp(to.0.min(day + DAY));
        let (rows, requests, errors, prompt_tokens, completion_tokens): (i64, i64, i64, i64, i64) =
            on_db!(self, |conn| {
                sqlx::query_as(SQL).bind(first_id_at(from)).bind(first_id_at(to)).fetch_one(conn).await
            })?;
        let rows =
            UsageSums { requests, errors, prompt_tokens, completion_tokens, rows, ..UsageSums::default() };
        let hours = self.rolled_up(1, from, to).await?;
        let whole = from.0 == day && to.0 == day + DAY;
        let days = if whole { Some(self.rolled_up(24, from, to).await?) } else { None };
        Ok(UsageCheck { from, to, rows, hours, days })
    }

    /// Returns the start of the first hour that has rows or sums, and the end of the last one.
    pub async fn usage_extent(&mut self) -> StoreResult<Option<(Timestamp, Timestamp)>> {
        const OLDEST: &str = "SELECT id FROM usage ORDER BY id LIMIT 1";
        const NEWEST: &str = "SELECT id FROM usage ORDER BY id DESC LIMIT 1";
        const FIRST: &str = "SELECT MIN(start_at) FROM usage_rollups WHERE hours = 1";
        const LAST: &str = "SELECT MAX(start_at) FROM usage_rollups WHERE hours = 1";
        let hour_of = |id: Uuid| time_of(id).0 / HOUR * HOUR;
        let mut hours = Vec::new();
        for sql in [OLDEST, NEWEST] {
            let id = on_db!(self, |conn| sqlx::query_scalar(sql).fetch_optional(conn).await)?;
            hours.extend(id.map(hour_of));
        }
        for sql in [FIRST, LAST] {
            let start: Option<i64> = on_db!(self, |conn| sqlx::query_scalar(sql).fetch_one(conn).await)?;
            hours.extend(start);
        }
        let (first, last) = (hours.iter().min(), hours.iter().max());
        Ok(first.zip(last).map(|(first, last)| (Timestamp(*first), Timestamp(last + HOUR))))
    }

    /// Returns the first hour at or after `from` (a full one) that has rows or sums.
    pub async fn next_usage(&mut self, from: Timestamp) -> StoreResult<Option<Timestamp>> {
        const ROW: &str = "SELECT id FROM usage WHERE id >= $1 ORDER BY id LIMIT 1";
        const SUM: &str = "SELECT MIN(start_at) FROM usage_rollups WHERE hours = $2 AND start_at >= $1";
        let id: Option<Uuid> = on_db!(self, |conn| {
            sqlx::query_scalar(ROW).bind(first_id_at(from)).fetch_optional(conn).await
        })?;
        let mut next = id.map(|id| time_of(id).0 / HOUR * HOUR);
        for hours in [1_i64, 24] {
            let start: Option<i64> = on_db!(self, |conn| {
                sqlx::query_scalar(SUM).bind(from.0).bind(hours).fetch_one(conn).await
            })?;
            next = next.into_iter().chain(start).min();
        }
        Ok(next.map(Timestamp))
    }

    async fn rolled_up(&mut self, hours: i64, from: Timestamp, to: Timestamp) -> StoreResult<UsageSums> {
        let mut sums = UsageSums::default();
        let all = UsageFilter::default();
        self.each_rollup(hours, TimeRange::new(from.0, to.0), &Wanted::new(&all), false, |_, cell| {
            sums.add(&cell.sums);
            Some(())
        })
        .await?;
        Ok(sums)
    }

    /// Lets no other gateway add sums until the transaction ends. Sums that it added while a day is made anew would be
    /// counted twice or not at all.
    async fn lock_rollups(&mut self) -> StoreResult<()> {
        const SQL: &str = "LOCK TABLE usage_rollups IN SHARE ROW EXCLUSIVE MODE";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        // On SQLite there is one writer anyway.
        if let Db::Postgres(_) = &self.db {
            on_db!(self, |conn| sqlx::query(SQL).execute(conn).await.map(drop))?;
        }
        Ok(())
    }

    async fn is_day_unrolled(&mut self) -> StoreResult<bool> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM usage_unrolled)";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?)
    }

    /// Makes the sums of the oldest day that has none yet, if any. Replaces any sums that the day has.
    async fn roll_up_day(&mut self) -> StoreResult<()> {
        const TAKE: &str = "DELETE FROM usage_unrolled \
             WHERE start_at = (SELECT MIN(start_at) FROM usage_unrolled) RETURNING start_at";
        const FORGET: &str = "DELETE FROM usage_rollups WHERE start_at >= $1 AND start_at < $2";
        const ROWS: &str = concat!("SELECT ", columns!(), " FROM usage WHERE id >= $1 AND id < $2");
        let day: Option<i64> = on_db!(self, |conn| sqlx::query_scalar(TAKE).fetch_optional(conn).await)?;
        let Some(day) = day else { return Ok(()) };
        on_db!(self, |conn| sqlx::query(FORGET).bind(day).bind(day + DAY).execute(conn).await.map(drop))?;
        let mut whole = Cells::default();
        for hour in (day..day + DAY).step_by(HOUR as usize) {
            let rows: Vec<UsageRecord> = on_db!(self, |conn| {
                let query = sqlx::query_as(ROWS).bind(first_id_at(Timestamp(hour)));
                query.bind(first_id_at(Timestamp(hour + HOUR))).fetch_all(conn).await
            })?;
            if rows.is_empty() {
                continue;
            }
            let mut cells = Cells::default();
            for row in rows {
                cells.record(&UsageRow::try_from(row)?, hour);
            }
            let packed = cells.pack();
            whole.merge(&packed.sums, &packed.times, hour - day).ok_or_else(|| corrupt(hour))?;
            self.insert_rollup(1, hour, &packed).await?;
        }
        self.insert_rollup(24, day, &whole.pack()).await
    }
}

/// Returns the largest of the sizes (in ascending order) that is worth adding up; `None` if fewer than two are.
fn taken_up_to(sizes: &[i64], thorough: bool) -> Option<i64> {
    let (mut sum, mut n) = (0, 0_usize);
    for size in sizes {
        let out_of_proportion = !thorough && *size > SMALL.max(2 * sum);
        if sum + size > LARGEST || n > 0 && out_of_proportion {
            break;
        }
        (sum, n) = (sum + size, n + 1);
    }
    if n < 2 { None } else { sizes.get(n - 1).copied() }
}

impl Store {
    /// Makes the sums of rows that an older program wrote. Later calls find nothing to do and block no other
    /// transaction.
    pub(crate) async fn roll_up_old_usage(&self) -> StoreResult<()> {
        while self.read().await?.is_day_unrolled().await? {
            let mut tx = self.write().await?;
            tx.lock_rollups().await?;
            tx.roll_up_day().await?;
            tx.commit().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rollups_do_not_drag_a_large_one_along() {
        assert_eq!(taken_up_to(&[10, 10, 900_000], false), Some(10));
        assert_eq!(taken_up_to(&[10, 10, 900_000], true), Some(900_000));
        assert_eq!(taken_up_to(&[60_000, 60_000, 200_000], false), Some(200_000));
        assert_eq!(taken_up_to(&[10, 900_000], false), None);
        assert_eq!(taken_up_to(&[LARGEST, LARGEST], true), None);
        assert_eq!(taken_up_to(&[10, LARGEST], true), None);
        assert_eq!(taken_up_to(&[], true), None);
    }
}
