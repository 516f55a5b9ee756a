//! Filters over raw rows. A filter has one SQL text for each index that may find its rows: databases do not use an
//! index for a condition that a parameter may switch off.

use std::borrow::Cow;

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{FIRST_ERROR_STATUS, Outcome, UsageRow},
};
use uuid::Uuid;

use super::{StatusFilter, UsageFilter, cells::Dims};
use crate::{StoreError, StoreResult, page::clean, tx::row};

row! {
    struct UsageRecord {
        id: Uuid,
        req_id: String,
        created_at: i64,
        key_id: Option<i64>,
        key_prefix: Option<String>,
        user_id: Option<i64>,
        org_id: Option<i64>,
        model_name: String,
        task: String,
        endpoint: String,
        stream: bool,
        prompt_tokens: i64,
        completion_tokens: i64,
        cached_tokens: Option<i64>,
        estimated: bool,
        latency_ms: i64,
        ttft_ms: Option<i64>,
        status_code: i32,
        outcome: String,
        requests: i64,
    }
}

impl TryFrom<UsageRecord> for UsageRow {
    type Error = StoreError;

    fn try_from(row: UsageRecord) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "usage", id: row.id.to_string(), what };
        Ok(Self {
            id: row.id,
            task: Task::parse(&row.task).ok_or_else(|| corrupt("task"))?,
            endpoint: Endpoint::from_path(&row.endpoint).ok_or_else(|| corrupt("endpoint"))?,
            status_code: row.status_code.try_into().map_err(|_| corrupt("status_code"))?,
            outcome: Outcome::parse(&row.outcome).ok_or_else(|| corrupt("outcome"))?,
            req_id: row.req_id,
            created_at: Timestamp(row.created_at),
            key_id: row.key_id.map(KeyId),
            key_prefix: row.key_prefix,
            user_id: row.user_id.map(UserId),
            org_id: row.org_id.map(OrgId),
            model_name: row.model_name,
            stream: row.stream,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            cached_tokens: row.cached_tokens,
            estimated: row.estimated,
            latency_ms: row.latency_ms,
            ttft_ms: row.ttft_ms,
            requests: row.requests,
        })
    }
}

/// The columns of [`UsageRecord`], in the order in which they are inserted.
macro_rules! columns {
    () => {
        "id, req_id, created_at, key_id, key_prefix, user_id, org_id, model_name, task, endpoint, stream, \
         prompt_tokens, completion_tokens, cached_tokens, estimated, latency_ms, ttft_ms, status_code, outcome, \
         requests"
    };
}
pub(super) use columns;
pub(super) const N_COLUMNS: usize = 20;

/// All conditions, as [`bind!`] binds them.
macro_rules! matching {
    () => {
        " FROM usage WHERE id >= $1 AND id < $2 AND status_code >= $3 AND status_code <= $4 \
          AND (CAST($5 AS TEXT) IS NULL OR model_name = $5) AND (CAST($6 AS TEXT) IS NULL OR task = $6) \
          AND (CAST($7 AS BIGINT) IS NULL OR key_id = $7) AND (CAST($8 AS BIGINT) IS NULL OR user_id = $8) \
          AND (CAST($9 AS BIGINT) IS NULL OR org_id = $9) AND (CAST($10 AS TEXT) IS NULL OR outcome = $10)"
    };
}
pub(super) use matching;

/// Makes one SQL text for each [`Driver`], in its order: `$head`, the conditions, `$tail`.
macro_rules! by_driver {
    ($head:expr, $tail:expr) => {
        [
            concat!($head, matching!(), $tail),
            concat!($head, matching!(), " AND key_id = $7", $tail),
            concat!($head, matching!(), " AND user_id = $8", $tail),
            concat!($head, matching!(), " AND model_name = $5", $tail),
            concat!($head, matching!(), " AND (status_code >= 400 OR outcome <> 'ok')", $tail),
            concat!($head, matching!(), " AND task = 'embed'", $tail),
            concat!($head, matching!(), " AND org_id = $9", $tail),
        ]
    };
}
pub(super) use by_driver;

/// Binds a [`Wanted`] and a range of time to a query over [`matching!`].
macro_rules! bind {
    ($query:expr, $wanted:expr, $range:expr) => {{
        let (wanted, range) = ($wanted, $range);
        $query
            .bind(first_id_at(Timestamp(range.from)))
            .bind(first_id_at(Timestamp(range.to)))
            .bind(wanted.status.0)
            .bind(wanted.status.1)
            .bind(wanted.model.as_deref())
            .bind(wanted.filter.task.map(Task::as_str))
            .bind(wanted.filter.key_id.map(|it| it.0))
            .bind(wanted.filter.user_id.map(|it| it.0))
            .bind(wanted.filter.org_id.map(|it| it.0))
            .bind(wanted.filter.outcome.map(Outcome::as_str))
    }};
}
pub(super) use bind;

/// The index that finds the rows of a filter. Without a better one it is the primary key, by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    Time,
    Key,
    User,
    Model,
    Trouble,
    Embed,
    Org,
}

/// A filter in the form that queries need.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) filter: &'a UsageFilter,
    pub(super) model: Option<Cow<'a, str>>,
    /// First and last status code.
    pub(super) status: (i32, i32),
}

impl<'a> Wanted<'a> {
    pub(super) fn new(filter: &'a UsageFilter) -> Self {
        let status = filter.status.map_or((0, i32::MAX), StatusFilter::range);
        Self { filter, model: filter.model.as_deref().map(clean), status }
    }

    /// Returns the index that likely leaves the fewest rows.
    pub(super) fn driver(&self) -> Driver {
        let filter = self.filter;
        let trouble = self.status.0 >= i32::from(FIRST_ERROR_STATUS)
            || filter.outcome.is_some_and(|it| it != Outcome::Ok);
        [
            (filter.key_id.is_some(), Driver::Key),
            (filter.user_id.is_some(), Driver::User),
            (trouble, Driver::Trouble),
            (filter.model.is_some(), Driver::Model),
            (filter.task == Some(Task::Embed), Driver::Embed),
            (filter.org_id.is_some(), Driver::Org),
        ]
        .into_iter()
        .find_map(|(fits, driver)| fits.then_some(driver))
        .unwrap_or(Driver::Time)
    }

    /// Returns whether the requests of a cell match. Ignores their time.
    pub(super) fn matches(&self, dims: &Dims<'_>) -> bool {
        let filter = self.filter;
        (self.status.0..=self.status.1).contains(&i32::from(dims.status))
            && self.model.as_deref().is_none_or(|it| it == dims.model)
            && filter.task.is_none_or(|it| it == dims.task)
            && filter.key_id.is_none_or(|it| dims.key.is_some_and(|(id, _)| id == it.0))
            && filter.user_id.is_none_or(|it| dims.user_id == Some(it.0))
            && filter.org_id.is_none_or(|it| dims.org_id == Some(it.0))
            && filter.outcome.is_none_or(|it| it == dims.outcome)
    }
}
