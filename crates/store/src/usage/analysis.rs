//! Totals by group, series over time and percentiles, from the sums.

use std::{cmp::Ordering, collections::BTreeMap};

use gantry_domain::{
    OrgId, Timestamp,
    model::Task,
    usage::{Outcome, first_id_at, histogram::Histogram},
    words,
};
use sqlx::Row;

use super::{
    DAY, HOUR, UsageFilter,
    cells::{Dims, UsageSums},
    fold::UNROUTED,
    rollups::{Grain, TimeRange, range_of},
    select::{Wanted, bind, by_driver, matching},
};
use crate::{
    Order, Sort, StoreError, StoreResult, Tx,
    tx::{next, on_db},
};

/// Most groups of models before the names of refused requests are added up without a name. A caller with a key can ask
/// for any number of made-up names, and each group costs memory and time in every answer.
const MOST_NAMES: usize = 10_000;

words! {
    /// What requests are grouped by.
    #[derive(Default)]
    pub enum GroupBy {
        /// The served name.
        #[default]
        Model = "model",
        /// The key; requests of browser sessions have none.
        Key = "key",
        /// The key's user, or the user of the session.
        User = "user",
        /// The organisation of the key or of the user.
        Org = "org",
    }
}

words! {
    /// What groups can be sorted by.
    #[derive(Default)]
    pub enum GroupColumn {
        /// Number of requests.
        #[default]
        Requests = "requests",
        /// Number of requests with a status of 400 or more.
        Errors = "errors",
        /// Tokens of prompts.
        PromptTokens = "prompt_tokens",
        /// Tokens of answers.
        CompletionTokens = "completion_tokens",
        /// Both together.
        TotalTokens = "total_tokens",
        /// Median of the latency.
        P50 = "p50_ms",
        /// 95th percentile of the latency.
        P95 = "p95_ms",
    }
}

impl GroupColumn {
    fn of(self, group: &UsageGroup) -> i64 {
        match self {
            Self::Requests => group.sums.requests,
            Self::Errors => group.sums.errors,
            Self::PromptTokens => group.sums.prompt_tokens,
            Self::CompletionTokens => group.sums.completion_tokens,
            Self::TotalTokens => group.sums.total_tokens(),
            Self::P50 => group.p50_ms,
            Self::P95 => group.p95_ms,
        }
    }
}

/// The requests of one model, key, user or organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageGroup {
    /// Id of the key, user or organisation; `None` for models, and for requests without one.
    pub id: Option<i64>,
    /// The model, or the name of the key, user or organisation, the last one if it is deleted; `None` if the caller may not
    /// see it, or if it was deleted before names were kept.
    pub name: Option<String>,
    /// It has an id, and nothing in the caller's scope has that id any more.
    pub deleted: bool,
    /// First characters of the token. Also set for keys that no longer exist.
    pub key_prefix: Option<String>,
    pub sums: UsageSums,
    /// Latency in milliseconds.
    pub p50_ms: i64,
    pub p95_ms: i64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Model(String),
    Id(Option<i64>),
}

/// A statement that returns numbers and names of those of sixteen numbers that belong to an organisation: each statement
/// costs a round trip.
macro_rules! some {
    ($ids:expr, $org:literal) => {
        concat!(
            $ids,
            " IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) \
             AND (CAST($1 AS BIGINT) IS NULL OR ",
            $org,
            " = $1)"
        )
    };
}

#[derive(Debug, Default)]
struct Total {
    sums: UsageSums,
    latency: Histogram,
    key_prefix: Option<String>,
}

impl Total {
    /// Returns the group with these totals, without the name of a key, user or organisation.
    fn of(self, group: Group) -> UsageGroup {
        let (id, name) = match group {
            Group::Model(name) => (None, Some(name)),
            Group::Id(id) => (id, None),
        };
        let percentile = |p| self.latency.percentile(p).unwrap_or(0);
        UsageGroup {
            id,
            name,
            deleted: false,
            p50_ms: percentile(0.5),
            p95_ms: percentile(0.95),
            key_prefix: self.key_prefix,
            sums: self.sums,
        }
    }
}

words! {
    /// Length of the steps of a series. They begin at full minutes, hours and days of UTC.
    pub enum Bucket {
        /// 60 seconds; from raw rows.
        Minute = "minute",
        /// 60 minutes.
        Hour = "hour",
        /// 24 hours.
        Day = "day",
    }
}

impl Bucket {
    /// Returns the length of a step in milliseconds.
    pub fn length(self) -> i64 {
        match self {
            Self::Minute => 60_000,
            Self::Hour => HOUR,
            Self::Day => DAY,
        }
    }

    /// Returns how many steps a range touches.
    pub fn count(self, from: Timestamp, to: Timestamp) -> i64 {
        let length = self.length();
        to.0.saturating_sub(1).div_euclid(length) - from.0.div_euclid(length) + 1
    }
}

/// One of the two durations of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeKind {
    /// From the arrival of a request to the end of its answer.
    Latency,
    /// Time to first token. Only streamed answers have one.
    Ttft,
}

/// Durations of many requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageTimes {
    pub histogram: Histogram,
    /// Milliseconds.
    pub sum_ms: i64,
}

impl Tx {
    /// Returns totals by group, sorted, equal ones by name or id, and how many groups there are on all pages. Models:
    /// once there are 10,000 names, further names of refused requests count together, under the empty name. Keys, users
    /// and organisations have names if they belong to `scope`, or did when they were deleted; `None` is any organisation.
    pub async fn usage_groups(
        &mut self,
        filter: &UsageFilter,
        by: GroupBy,
        sort: Sort<GroupColumn>,
        limit: i64,
        offset: i64,
        scope: Option<OrgId>,
    ) -> StoreResult<(Vec<UsageGroup>, i64)> {
        let group_of = |dims: &Dims<'_>| match by {
            GroupBy::Model => Group::Model(dims.model.to_owned()),
            GroupBy::Key => Group::Id(dims.key.map(|(id, _)| id)),
            GroupBy::User => Group::Id(dims.user_id),
            GroupBy::Org => Group::Id(dims.org_id),
        };
        let wanted = Wanted::new(filter);
        let plan = self.usage_plan(range_of(filter), Grain::Days).await?;
        let mut totals: BTreeMap<Group, Total> = BTreeMap::new();
        self.each_usage_cell(&plan, &wanted, true, |_, cell| {
            let mut group = group_of(&cell.dims);
            let is_unrouted = by == GroupBy::Model && UNROUTED.contains(&cell.dims.status);
            if is_unrouted && totals.len() >= MOST_NAMES && !totals.contains_key(&group) {
                group = Group::Model(String::new());
            }
            let total = totals.entry(group).or_default();
            total.sums.add(&cell.sums);
            if by == GroupBy::Key && total.key_prefix.is_none() {
                total.key_prefix = cell.dims.key.map(|(_, prefix)| prefix.to_owned());
            }
            if !filter.has_latency_of(cell.dims.outcome) {
                return Some(());
            }
            cell.times.latency(&mut total.latency)
        })
        .await?;

        let n_groups = totals.len() as i64;
        let mut groups: Vec<UsageGroup> = totals.into_iter().map(|(group, it)| it.of(group)).collect();
        // The sort is stable: equal groups stay in the order of their names or ids.
        groups.sort_by(|a, b| {
            let order: Ordering = sort.by.of(a).cmp(&sort.by.of(b));
            if sort.order == Order::Desc { order.reverse() } else { order }
        });
        let page = groups.into_iter().skip(offset.max(0) as usize).take(limit.max(0) as usize);
        let mut page: Vec<UsageGroup> = page.collect();
        self.name_groups(by, &mut page, scope).await?;
        Ok((page, n_groups))
    }

    /// Gives groups with an id their present or their last names.
    async fn name_groups(
        &mut self,
        by: GroupBy,
        groups: &mut [UsageGroup],
        scope: Option<OrgId>,
    ) -> StoreResult<()> {
        let ids: Vec<i64> = groups.iter().filter_map(|it| it.id).collect();
        let mut names = self.names_of(by, &ids, scope).await?;
        for group in groups.iter_mut().filter(|it| it.id.is_some()) {
            group.name = group.id.and_then(|id| names.remove(&id));
            group.deleted = group.name.is_none();
        }
        let gone: Vec<i64> = groups.iter().filter(|it| it.deleted).filter_map(|it| it.id).collect();
        let mut names = self.deleted_names(by, &gone, scope).await?;
        for group in groups.iter_mut().filter(|it| it.deleted) {
            group.name = group.id.and_then(|id| names.remove(&id));
        }
        Ok(())
    }

    /// Returns the names of those that belong to `scope`. A user who moved to another organisation has a name there,
    /// and none here.
    async fn names_of(
        &mut self,
        by: GroupBy,
        ids: &[i64],
        scope: Option<OrgId>,
    ) -> StoreResult<BTreeMap<i64, String>> {
        let sql = match by {
            GroupBy::Model => return Ok(BTreeMap::new()),
            GroupBy::Key => some!("SELECT id, name FROM api_keys WHERE id", "org_id"),
            GroupBy::User => some!("SELECT id, username FROM users WHERE id", "org_id"),
            GroupBy::Org => some!("SELECT id, name FROM orgs WHERE id", "id"),
        };
        self.some_names(sql, ids, scope).await
    }

    /// Returns the last names of those that were deleted, if they belonged to `scope` then.
    async fn deleted_names(
        &mut self,
        by: GroupBy,
        ids: &[i64],
        scope: Option<OrgId>,
    ) -> StoreResult<BTreeMap<i64, String>> {
        macro_rules! of {
            ($kind:literal) => {
                some!(
                    concat!(
                        "SELECT former_id, name FROM deleted_names WHERE kind = '",
                        $kind,
                        "' AND former_id"
                    ),
                    "org_id"
                )
            };
        }
        let sql = match by {
            GroupBy::Model => return Ok(BTreeMap::new()),
            GroupBy::Key => of!("key"),
            GroupBy::User => of!("user"),
            GroupBy::Org => of!("org"),
        };
        self.some_names(sql, ids, scope).await
    }

    /// Runs a statement of [`some!`] until it was asked for all ids.
    async fn some_names(
        &mut self,
        sql: &'static str,
        ids: &[i64],
        scope: Option<OrgId>,
    ) -> StoreResult<BTreeMap<i64, String>> {
        let mut names = BTreeMap::new();
        for ids in ids.chunks(16) {
            let found: Vec<(i64, String)> = on_db!(self, |conn| {
                // The last chunk is filled up with an id that nothing has.
                let padded = ids.iter().copied().chain(std::iter::repeat(0)).take(16);
                let mut query = sqlx::query_as(sql).bind(scope.map(|it| it.0));
                for id in padded {
                    query = query.bind(id);
                }
                query.fetch_all(conn).await
            })?;
            names.extend(found);
        }
        Ok(names)
    }

    /// Returns the totals of each step of time that the range touches, oldest first, steps without requests too.
    /// Minutes come from raw rows alone. The caller bounds the number of steps ([`Bucket::count`]).
    pub async fn usage_series(
        &mut self,
        filter: &UsageFilter,
        bucket: Bucket,
    ) -> StoreResult<Vec<(Timestamp, UsageSums)>> {
        let wanted = Wanted::new(filter);
        let range = range_of(filter);
        let length = bucket.length();
        let mut steps = BTreeMap::new();
        let mut start = range.from / length * length;
        while start < range.to {
            steps.insert(start, UsageSums::default());
            start += length;
        }
        if bucket == Bucket::Minute {
            self.add_minutes(&wanted, range, &mut steps).await?;
        } else {
            let grain = if bucket == Bucket::Day { Grain::Days } else { Grain::Hours };
            let plan = self.usage_plan(range, grain).await?;
            self.each_usage_cell(&plan, &wanted, false, |at, cell| {
                if let Some(step) = steps.get_mut(&(at / length * length)) {
                    step.add(&cell.sums);
                }
                Some(())
            })
            .await?;
        }
        Ok(steps.into_iter().map(|(start, sums)| (Timestamp(start), sums)).collect())
    }

    async fn add_minutes(
        &mut self,
        wanted: &Wanted<'_>,
        range: TimeRange,
        steps: &mut BTreeMap<i64, UsageSums>,
    ) -> StoreResult<()> {
        const SQL: [&str; 7] = by_driver!(
            "SELECT created_at / 60000, CAST(SUM(requests) AS BIGINT), \
             CAST(SUM(CASE WHEN status_code >= 400 THEN requests ELSE 0 END) AS BIGINT), \
             CAST(SUM(prompt_tokens) AS BIGINT), CAST(SUM(completion_tokens) AS BIGINT)",
            " GROUP BY 1"
        );
        let sql = SQL[wanted.driver() as usize];
        on_db!(self, |conn, patience| {
            let mut rows = bind!(sqlx::query(sql), wanted, range).fetch(conn);
            while let Some(row) = next(&mut rows, patience).await? {
                let minute: i64 = row.try_get(0)?;
                if let Some(step) = steps.get_mut(&(minute * 60_000)) {
                    step.requests = row.try_get(1)?;
                    step.errors = row.try_get(2)?;
                    step.prompt_tokens = row.try_get(3)?;
                    step.completion_tokens = row.try_get(4)?;
                }
            }
            Ok::<_, StoreError>(())
        })
    }

    /// Returns how long requests took, or how long they took to their first token.
    pub async fn usage_times(&mut self, filter: &UsageFilter, kind: TimeKind) -> StoreResult<UsageTimes> {
        let wanted = Wanted::new(filter);
        let plan = self.usage_plan(range_of(filter), Grain::Days).await?;
        let mut times = UsageTimes::default();
        self.each_usage_cell(&plan, &wanted, true, |_, cell| match kind {
            TimeKind::Latency if !filter.has_latency_of(cell.dims.outcome) => Some(()),
            TimeKind::Latency => {
                times.sum_ms = times.sum_ms.saturating_add(cell.sums.latency_ms);
                cell.times.latency(&mut times.histogram)
            }
            TimeKind::Ttft => {
                times.sum_ms = times.sum_ms.saturating_add(cell.sums.ttft_ms);
                cell.times.ttft(&mut times.histogram)
            }
        })
        .await?;
        Ok(times)
    }
}
