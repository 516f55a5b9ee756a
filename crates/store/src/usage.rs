//! The usage ledger. Rows are only ever added, in batches, and deleted by age; times are ranges over the id.

use std::{fmt::Write as _, sync::LazyLock};

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, first_id_at},
};
use uuid::Uuid;

use crate::{
    StoreError, StoreResult, Tx,
    page::clean,
    tx::{Inner, on_db, row},
};

/// Which answers to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusFilter {
    /// The first digit: 2 for `2xx`.
    Class(u8),
    Exact(u16),
}

impl StatusFilter {
    /// First and last status code.
    fn range(self) -> (i32, i32) {
        match self {
            Self::Class(digit) => (i32::from(digit) * 100, i32::from(digit) * 100 + 99),
            Self::Exact(code) => (code.into(), code.into()),
        }
    }
}

/// All conditions that are set must hold.
#[derive(Debug, Clone)]
pub struct UsageFilter {
    /// Inclusive.
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    /// Served name.
    pub model: Option<String>,
    pub task: Option<Task>,
    pub key_id: Option<KeyId>,
    pub user_id: Option<UserId>,
    pub org_id: Option<OrgId>,
    pub status: Option<StatusFilter>,
    pub outcome: Option<Outcome>,
}

impl Default for UsageFilter {
    /// Everything.
    fn default() -> Self {
        Self {
            from: Timestamp(0),
            to: Timestamp(i64::MAX),
            model: None,
            task: None,
            key_id: None,
            user_id: None,
            org_id: None,
            status: None,
            outcome: None,
        }
    }
}

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
        })
    }
}

/// The columns of [`UsageRecord`], in the order in which [`Tx::insert_usage`] binds them.
macro_rules! columns {
    () => {
        "id, req_id, created_at, key_id, key_prefix, user_id, org_id, model_name, task, endpoint, stream, \
         prompt_tokens, completion_tokens, cached_tokens, estimated, latency_ms, ttft_ms, status_code, outcome"
    };
}
const N_COLUMNS: usize = 19;

macro_rules! matching {
    () => {
        " FROM usage WHERE id >= $1 AND id < $2 AND status_code >= $3 AND status_code <= $4 \
          AND (CAST($5 AS TEXT) IS NULL OR model_name = $5) AND (CAST($6 AS TEXT) IS NULL OR task = $6) \
          AND (CAST($7 AS BIGINT) IS NULL OR key_id = $7) AND (CAST($8 AS BIGINT) IS NULL OR user_id = $8) \
          AND (CAST($9 AS BIGINT) IS NULL OR org_id = $9) AND (CAST($10 AS TEXT) IS NULL OR outcome = $10)"
    };
}

/// Rows of one insert, from large to small: few round trips for a batch of any size, and few statement texts. SQLite
/// takes 32,766 parameters, Postgres 65,535.
const CHUNKS: [usize; 4] = [256, 32, 4, 1];

/// One text for each of [`CHUNKS`]; they hold nothing but placeholders, by number for Postgres and by place for
/// SQLite: there sqlx looks up the name of each numbered one, and SQLite searches a list for it, so that a thousand of
/// them cost more than the insert itself (measured: 30 against 4 µs a row).
static INSERTS: LazyLock<[[String; 4]; 2]> =
    LazyLock::new(|| [false, true].map(|numbered| CHUNKS.map(|n_rows| insert_text(n_rows, numbered))));

fn insert_text(n_rows: usize, numbered: bool) -> String {
    let mut sql = String::from(concat!("INSERT INTO usage (", columns!(), ") VALUES "));
    for row in 0..n_rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 1..=N_COLUMNS {
            let comma = if column == 1 { "" } else { "," };
            let _ = if numbered {
                write!(sql, "{comma}${}", row * N_COLUMNS + column)
            } else {
                write!(sql, "{comma}?")
            };
        }
        sql.push(')');
    }
    sql.push_str(" ON CONFLICT (id) DO NOTHING");
    sql
}

impl Tx {
    /// Adds rows; those whose id is known are skipped, so that a batch may be repeated. Says how many were new.
    pub async fn insert_usage(&mut self, rows: &[UsageRow]) -> StoreResult<u64> {
        let mut rest = rows;
        let mut n_new = 0;
        let texts = &INSERTS[usize::from(matches!(self.0, Inner::Postgres(_)))];
        for (size, sql) in CHUNKS.into_iter().zip(texts) {
            let chunks = rest.chunks_exact(size);
            rest = chunks.remainder();
            for chunk in chunks {
                n_new += self.insert_usage_chunk(sql, chunk).await?;
            }
        }
        Ok(n_new)
    }

    async fn insert_usage_chunk(&mut self, sql: &'static str, rows: &[UsageRow]) -> StoreResult<u64> {
        Ok(on_db!(self, |conn| {
            let mut query = sqlx::query(sql);
            for row in rows {
                query = query
                    .bind(row.id)
                    .bind(clean(&row.req_id))
                    .bind(row.created_at.0)
                    .bind(row.key_id.map(|it| it.0))
                    .bind(row.key_prefix.as_deref())
                    .bind(row.user_id.map(|it| it.0))
                    .bind(row.org_id.map(|it| it.0))
                    .bind(clean(&row.model_name))
                    .bind(row.task.as_str())
                    .bind(row.endpoint.path())
                    .bind(row.stream)
                    .bind(row.prompt_tokens)
                    .bind(row.completion_tokens)
                    .bind(row.cached_tokens)
                    .bind(row.estimated)
                    .bind(row.latency_ms)
                    .bind(row.ttft_ms)
                    .bind(i32::from(row.status_code))
                    .bind(row.outcome.as_str());
            }
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// One page of rows, newest first, and how many there are on all pages.
    pub async fn usage(
        &mut self,
        filter: &UsageFilter,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<UsageRow>, i64)> {
        const COUNT: &str = concat!("SELECT COUNT(*)", matching!());
        const SQL: &str =
            concat!("SELECT ", columns!(), matching!(), " ORDER BY id DESC LIMIT $11 OFFSET $12");
        macro_rules! filtered {
            ($query:expr) => {{
                let (first, last) = filter.status.map_or((0, i32::MAX), StatusFilter::range);
                $query
                    .bind(first_id_at(filter.from))
                    .bind(first_id_at(filter.to))
                    .bind(first)
                    .bind(last)
                    .bind(filter.model.as_deref().map(clean))
                    .bind(filter.task.map(Task::as_str))
                    .bind(filter.key_id.map(|it| it.0))
                    .bind(filter.user_id.map(|it| it.0))
                    .bind(filter.org_id.map(|it| it.0))
                    .bind(filter.outcome.map(Outcome::as_str))
            }};
        }
        let total = on_db!(self, |conn| filtered!(sqlx::query_scalar(COUNT)).fetch_one(conn).await)?;
        let rows: Vec<UsageRecord> = on_db!(self, |conn| {
            filtered!(sqlx::query_as(SQL)).bind(limit).bind(offset).fetch_all(conn).await
        })?;
        let rows = rows.into_iter().map(UsageRow::try_from).collect::<StoreResult<_>>()?;
        Ok((rows, total))
    }

    /// Deletes up to `limit` of the oldest rows made before `before`; says how many. Call it until that is 0, each
    /// time in a transaction of its own, so that writers get their turn in between.
    pub async fn delete_usage_before(&mut self, before: Timestamp, limit: i64) -> StoreResult<u64> {
        const SQL: &str =
            "DELETE FROM usage WHERE id IN (SELECT id FROM usage WHERE id < $1 ORDER BY id LIMIT $2)";
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(first_id_at(before)).bind(limit);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }
}
