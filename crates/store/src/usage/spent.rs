//! Tokens that count against budgets. They come from the same sums as all other usage queries, which are kept for ever.
//! So they are always right, and a month of millions of requests costs as little as one of a few.

use std::{collections::BTreeMap, ops::Range};

use gantry_domain::{KeyId, OrgId, Timestamp, UserId};

use super::{
    UsageFilter,
    rollups::{Grain, range_of},
    select::Wanted,
};
use crate::{StoreResult, Tx};

/// Tokens that count against budgets. They belong to one key (or, without one, to all sessions) of one user in one
/// organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensSpent {
    pub key_id: Option<KeyId>,
    /// `None` for a key of the organisation itself.
    pub user_id: Option<UserId>,
    pub org_id: Option<OrgId>,
    /// Tokens of the requests of the day.
    pub day: i64,
    /// Tokens of the requests of the month.
    pub month: i64,
}

/// Ids of a key, a user and an organisation.
type Holders = (Option<i64>, Option<i64>, Option<i64>);

impl Tx {
    /// Returns what requests of `month`, and of the `day` within it, spent: tokens of prompts and completions, but not
    /// those that were only counted. Holders without requests are left out; the others come in the order of their ids.
    pub async fn tokens_spent(
        &mut self,
        month: Range<Timestamp>,
        day: Range<Timestamp>,
    ) -> StoreResult<Vec<TokensSpent>> {
        let everything = UsageFilter::default();
        let wanted = Wanted::new(&everything);
        let mut spent: BTreeMap<Holders, (i64, i64)> = BTreeMap::new();
        // The day is a part of its own, so that one that begins or ends within an hour is exact, too.
        for (from, to) in [(month.start, day.start), (day.start, day.end), (day.end, month.end)] {
            let of_day = (from, to) == (day.start, day.end);
            let part = range_of(&UsageFilter { from, to, ..UsageFilter::default() });
            let plan = self.usage_plan(part, Grain::Days).await?;
            self.each_usage_cell(&plan, &wanted, false, |_, cell| {
                let tokens = cell.sums.total_tokens().saturating_sub(cell.sums.free_tokens);
                let holder = (cell.dims.key.map(|(id, _)| id), cell.dims.user_id, cell.dims.org_id);
                let (day, month) = spent.entry(holder).or_default();
                *day = day.saturating_add(if of_day { tokens } else { 0 });
                *month = month.saturating_add(tokens);
                Some(())
            })
            .await?;
        }
        let row = |((key, user, org), (day, month)): (Holders, (i64, i64))| TokensSpent {
            key_id: key.map(KeyId),
            user_id: user.map(UserId),
            org_id: org.map(OrgId),
            day,
            month,
        };
        Ok(spent.into_iter().map(row).collect())
    }
}
