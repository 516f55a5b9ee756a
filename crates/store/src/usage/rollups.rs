//! Decides which parts of a range come from where. Whole days come from the sums of days, the remaining whole hours
//! from the sums of hours, and what is left of the first and the last hour from raw rows: every request counts once, to
//! the millisecond.
//!
//! Hours whose raw rows are gone (retention) come from their sums even if the range cuts them: then the whole hour
//! counts.

use gantry_domain::{
    Timestamp,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, first_id_at},
};
use sqlx::Row;

use super::{
    DAY, HOUR, UsageFilter,
    cells::{CellRef, Dims, RowCounts, Times, UsageSums, each},
    insert::corrupt,
    select::{Wanted, bind, by_driver, matching},
};
use crate::{
    StoreError, StoreResult, Tx,
    tx::{next, on_db},
};

/// Exclusive end of the times that an id can hold, in milliseconds.
const END_OF_TIME: i64 = 1 << 48;
/// Key in `meta`: the hour from which on retention has deleted no raw row.
pub(super) const RAW_SINCE: &str = "usage_raw_since";

/// A range of time in milliseconds, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimeRange {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl TimeRange {
    pub(super) fn new(from: i64, to: i64) -> Self {
        Self { from, to }
    }

    pub(super) fn is_empty(self) -> bool {
        self.from >= self.to
    }
}

/// The parts of a range, none of them empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Parts shorter than an hour: before and after the others.
    pub(super) raw: Vec<TimeRange>,
    pub(super) hours: Vec<TimeRange>,
    pub(super) days: Option<TimeRange>,
}

/// Which sums are used for the whole days of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grain {
    /// The sums of days.
    Days,
    /// The sums of hours.
    Hours,
}

impl Plan {
    /// Makes the plan for `range`. Sums may stand for the whole hours `summed` of it.
    fn of(range: TimeRange, summed: TimeRange, grain: Grain) -> Self {
        let mut plan = Self::default();
        if summed.from > summed.to {
            plan.raw.push(range);
            return plan;
        }
        let around = |outer: TimeRange, inner: TimeRange| {
            let both = [TimeRange::new(outer.from, inner.from), TimeRange::new(inner.to, outer.to)];
            both.into_iter().filter(|it| !it.is_empty())
        };
        plan.raw.extend(around(range, summed));
        let days = TimeRange::new(ceil(summed.from, DAY), summed.to / DAY * DAY);
        if grain == Grain::Days && !days.is_empty() {
            plan.days = Some(days);
            plan.hours.extend(around(summed, days));
        } else if !summed.is_empty() {
            plan.hours.push(summed);
        }
        plan
    }
}

/// Returns the first multiple of `unit` that is not before `time`, which is not negative.
fn ceil(time: i64, unit: i64) -> i64 {
    (time + unit - 1) / unit * unit
}

/// Returns the range of a filter, cut to the times that ids can hold.
pub(super) fn range_of(filter: &UsageFilter) -> TimeRange {
    TimeRange::new(filter.from.0.clamp(0, END_OF_TIME), filter.to.0.clamp(0, END_OF_TIME))
}

impl Tx {
    /// Returns the hour from which on all raw rows are there. Retention may have deleted older ones.
    pub async fn usage_raw_since(&mut self) -> StoreResult<Timestamp> {
        let stored = self.meta_get(RAW_SINCE).await?;
        Ok(Timestamp(stored.and_then(|it| it.parse().ok()).unwrap_or(0)))
    }

    /// Returns from where to read the requests of a range.
    pub(super) async fn usage_plan(&mut self, range: TimeRange, grain: Grain) -> StoreResult<Plan> {
        if range.is_empty() {
            return Ok(Plan::default());
        }
        let TimeRange { from, to } = range;
        let raw_since = self.usage_raw_since().await?.0;
        // An end within an hour needs raw rows only if there are rows on the other side of it.
        let (begin, end) = (from / HOUR * HOUR, ceil(to, HOUR));
        let cut_from = begin >= raw_since && self.has_usage(TimeRange::new(begin, from)).await?;
        let cut_to = end > raw_since && self.has_usage(TimeRange::new(to, end)).await?;
        let first = if cut_from { begin + HOUR } else { begin };
        let last = if cut_to { end - HOUR } else { end };
        Ok(Plan::of(range, TimeRange::new(first, last), grain))
    }

    /// Returns whether there is a raw row of that time.
    async fn has_usage(&mut self, range: TimeRange) -> StoreResult<bool> {
        const SQL: &str =
            "SELECT COUNT(*) FROM (SELECT id FROM usage WHERE id >= $1 AND id < $2 LIMIT 1) AS found";
        if range.is_empty() {
            return Ok(false);
        }
        let n: i64 = on_db!(self, |conn| {
            let query = sqlx::query_scalar(SQL).bind(first_id_at(Timestamp(range.from)));
            query.bind(first_id_at(Timestamp(range.to))).fetch_one(conn).await
        })?;
        Ok(n > 0)
    }

    /// Calls the callback for every cell of the plan that matches, with the start of its span or, for a raw row, its
    /// own time. Ignores the range of the filter.
    pub(super) async fn each_usage_cell(
        &mut self,
        plan: &Plan,
        wanted: &Wanted<'_>,
        with_times: bool,
        mut visit: impl FnMut(i64, CellRef<'_>) -> Option<()>,
    ) -> StoreResult<()> {
        if let Some(range) = plan.days {
            self.each_rollup(24, range, wanted, with_times, &mut visit).await?;
        }
        for range in &plan.hours {
            self.each_rollup(1, *range, wanted, with_times, &mut visit).await?;
        }
        for range in &plan.raw {
            self.each_raw_cell(*range, wanted, &mut visit).await?;
        }
        Ok(())
    }

    /// Reads every matching cell of the roll-ups of `hours` (1 or 24) that begin in the range.
    pub(super) async fn each_rollup(
        &mut self,
        hours: i64,
        range: TimeRange,
        wanted: &Wanted<'_>,
        with_times: bool,
        mut visit: impl FnMut(i64, CellRef<'_>) -> Option<()>,
    ) -> StoreResult<()> {
        const SUMS: &str = "SELECT start_at, sums FROM usage_rollups \
                            WHERE hours = $1 AND start_at >= $2 AND start_at < $3";
        const TIMES: &str = "SELECT start_at, sums, times FROM usage_rollups \
                             WHERE hours = $1 AND start_at >= $2 AND start_at < $3";
        let sql = if with_times { TIMES } else { SUMS };
        on_db!(self, |conn, patience| {
            // Roll-ups are read one at a time: together they may be large.
            let mut rows = sqlx::query(sql).bind(hours).bind(range.from).bind(range.to).fetch(conn);
            while let Some(row) = next(&mut rows, patience).await? {
                let start: i64 = row.try_get(0)?;
                let sums: &[u8] = row.try_get(1)?;
                let times: Option<&[u8]> = if with_times { Some(row.try_get(2)?) } else { None };
                let mut whole = Some(());
                let read = each(sums, times, |cell| {
                    if wanted.matches(&cell.dims) {
                        whole = whole.and(visit(start, cell));
                    }
                });
                read.and(whole).ok_or_else(|| corrupt(start))?;
            }
            Ok::<_, StoreError>(())
        })
    }

    /// Reads every matching raw row of the range, as a cell.
    pub(super) async fn each_raw_cell(
        &mut self,
        range: TimeRange,
        wanted: &Wanted<'_>,
        mut visit: impl FnMut(i64, CellRef<'_>) -> Option<()>,
    ) -> StoreResult<()> {
        const SQL: [&str; 7] = by_driver!(
            "SELECT created_at, key_id, key_prefix, user_id, org_id, model_name, task, status_code, outcome, \
             prompt_tokens, completion_tokens, cached_tokens, estimated, latency_ms, ttft_ms, endpoint, requests",
            ""
        );
        let sql = SQL[wanted.driver() as usize];
        on_db!(self, |conn, patience| {
            let mut rows = bind!(sqlx::query(sql), wanted, range).fetch(conn);
            while let Some(row) = next(&mut rows, patience).await? {
                let at: i64 = row.try_get(0)?;
                let broken = || StoreError::Corrupt { table: "usage", id: at.to_string(), what: "a row" };
                let key_id: Option<i64> = row.try_get(1)?;
                let prefix: Option<&str> = row.try_get(2)?;
                let status = u16::try_from(row.try_get::<i32, _>(7)?).map_err(|_| broken())?;
                let requests: i64 = row.try_get(16)?;
                let (latency, ttft) = (row.try_get(13)?, row.try_get(14)?);
                let dims = Dims {
                    model: row.try_get(5)?,
                    key: key_id.map(|id| (id, prefix.unwrap_or_default())),
                    user_id: row.try_get(3)?,
                    org_id: row.try_get(4)?,
                    status,
                    task: Task::parse(row.try_get(6)?).ok_or_else(broken)?,
                    outcome: Outcome::parse(row.try_get(8)?).ok_or_else(broken)?,
                };
                let sums = UsageSums::from(RowCounts {
                    requests,
                    prompt_tokens: row.try_get(9)?,
                    completion_tokens: row.try_get(10)?,
                    cached_tokens: row.try_get(11)?,
                    endpoint: Endpoint::from_path(row.try_get(15)?).ok_or_else(broken)?,
                    status,
                    estimated: row.try_get(12)?,
                    latency,
                    ttft,
                });
                let times = Times::One { latency, ttft, requests };
                visit(at, CellRef { dims, sums, window: (0, 0), times }).ok_or_else(broken)?;
            }
            Ok::<_, StoreError>(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: i64 = HOUR;

    #[test]
    fn a_range_falls_into_days_hours_and_raw_ends() {
        let range = TimeRange::new;
        let whole = range(DAY - 2 * H, 3 * DAY + H);
        let days = Plan::of(range(whole.from - 5, whole.to + 7), whole, Grain::Days);
        assert_eq!(days.raw, [range(whole.from - 5, whole.from), range(whole.to, whole.to + 7)]);
        assert_eq!(days.hours, [range(whole.from, DAY), range(3 * DAY, whole.to)]);
        assert_eq!(days.days, Some(range(DAY, 3 * DAY)));
        let hours = Plan::of(whole, whole, Grain::Hours);
        assert_eq!(hours, Plan { raw: vec![], hours: vec![whole], days: None });
        // Cut on both sides of one hour, and of two.
        assert_eq!(Plan::of(range(5, 7), range(H, 0), Grain::Days).raw, [range(5, 7)]);
        assert_eq!(Plan::of(range(5, H + 7), range(H, H), Grain::Days).raw, [range(5, H), range(H, H + 7)]);
        assert_eq!(Plan::of(range(5, 7), range(0, H), Grain::Days).hours, [range(0, H)]);
    }
}
