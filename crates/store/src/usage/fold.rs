//! Removes names of models that never existed. Any caller with a key can make names up. Rows keep them for as long as
//! retention keeps rows, and lists find them by the sums. When retention has deleted the rows of a day, its sums lose
//! these names too: their requests are added to those without a name. So the size of what is kept for ever depends on
//! the models that exist, not on what callers ask for.

use std::collections::BTreeSet;

use gantry_domain::Timestamp;
use sqlx::Row;

use super::{DAY, HOUR, UsageFilter, cells::Cells, insert::corrupt, rollups::TimeRange, select::Wanted};
use crate::{
    StoreError, StoreResult, Tx,
    tx::{AdvisoryLock, next, on_db},
};

/// Key in `meta`: the day up to which names were folded, in milliseconds.
const FOLDED: &str = "usage_names_folded";
/// Status codes of requests for a name that is not served: refused as unknown, or by a limit before that.
pub(super) const UNROUTED: [u16; 2] = [404, 429];

impl Tx {
    /// Takes the names of models that never existed out of the sums of the oldest day whose raw rows are gone. Returns
    /// whether there was such a day. A name counts as a model's if a model or a registry entry has it, or if one of
    /// that day's requests for it ended in another way than as unknown or over a limit.
    pub async fn fold_usage_names(&mut self) -> StoreResult<bool> {
        const NEXT: &str = "SELECT MIN(start_at) FROM usage_rollups WHERE hours = 24 AND start_at >= $1";
        const NAMES: &str = "SELECT served_name FROM models UNION SELECT served_name FROM registry";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        let folded = self.meta_get(FOLDED).await?.and_then(|it| it.parse::<i64>().ok()).unwrap_or(0);
        let next: Option<i64> =
            on_db!(self, |conn| sqlx::query_scalar(NEXT).bind(folded).fetch_one(conn).await)?;
        let raw_since = self.usage_raw_since().await?;
        let Some(day) = next.filter(|day| Timestamp(day + DAY) <= raw_since) else { return Ok(false) };

        let names: Vec<String> = on_db!(self, |conn| sqlx::query_scalar(NAMES).fetch_all(conn).await)?;
        let mut known: BTreeSet<String> = names.into_iter().collect();
        known.insert(String::new());
        let all = UsageFilter::default();
        let of_day = TimeRange::new(day, day + DAY);
        self.each_rollup(24, of_day, &Wanted::new(&all), false, |_, cell| {
            if !UNROUTED.contains(&cell.dims.status) && !known.contains(cell.dims.model) {
                known.insert(cell.dims.model.to_owned());
            }
            Some(())
        })
        .await?;
        self.fold_span(24, day, &known).await?;
        for hour in (day..day + DAY).step_by(HOUR as usize) {
            self.fold_span(1, hour, &known).await?;
        }
        self.meta_set(FOLDED, &(day + DAY).to_string()).await?;
        Ok(true)
    }

    /// Leaves one roll-up of the span, with only the `known` names in it.
    async fn fold_span(&mut self, hours: i64, start: i64, known: &BTreeSet<String>) -> StoreResult<()> {
        const TAKE: &str =
            "DELETE FROM usage_rollups WHERE hours = $1 AND start_at = $2 RETURNING sums, times";
        let all = UsageFilter::default();
        let mut made_up = false;
        self.each_rollup(hours, TimeRange::new(start, start + 1), &Wanted::new(&all), false, |_, cell| {
            made_up |= !known.contains(cell.dims.model);
            Some(())
        })
        .await?;
        if !made_up {
            return Ok(());
        }
        let mut cells = Cells::default();
        on_db!(self, |conn, patience| {
            let mut rows = sqlx::query(TAKE).bind(hours).bind(start).fetch(conn);
            while let Some(row) = next(&mut rows, patience).await? {
                let folded = cells.fold(row.try_get(0)?, row.try_get(1)?, known);
                folded.ok_or_else(|| corrupt(start))?;
            }
            Ok::<_, StoreError>(())
        })?;
        self.insert_rollup(hours, start, &cells.pack()).await
    }
}
