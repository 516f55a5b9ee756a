//! Adds rows. Replays of the spool repeat batches, so a row counts only if the database says that it was new, and it is
//! added to the sums in the transaction that stores it. So rows and sums always agree.
//!
//! Sums are inserted as new rows and never change existing ones: several gateways on one Postgres do not wait for each
//! other, and a batch costs two small inserts, whatever is in it. [`crate::Tx::compact_usage`] adds them up later.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    sync::LazyLock,
};

use gantry_domain::usage::{UsageRow, time_of};
use uuid::Uuid;

use super::{
    DAY, HOUR,
    cells::{Cells, Packed},
    select::{N_COLUMNS, columns},
};
use crate::{
    StoreError, StoreResult, Tx,
    page::clean,
    tx::{Db, on_db},
};

/// Number of rows of one insert, from large to small: few round trips for a batch of any size, and few SQL texts.
/// SQLite takes 32,766 parameters, Postgres 65,535.
const CHUNKS: [usize; 4] = [256, 32, 4, 1];

/// One SQL text for each of [`CHUNKS`] and database. Placeholders are numbered for Postgres and positional for SQLite:
/// there sqlx looks up the name of each numbered one, and SQLite searches a list for it, so that a thousand of them
/// cost more than the insert itself (measured: 30 against 4 µs a row).
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
    sql.push_str(" ON CONFLICT (id) DO NOTHING RETURNING id");
    sql
}

impl Tx {
    /// Adds rows and returns how many were new. Skips rows whose id is known, so that a batch may be repeated.
    pub async fn insert_usage(&mut self, rows: &[UsageRow]) -> StoreResult<u64> {
        let mut rest = rows;
        let mut new = HashSet::with_capacity(rows.len());
        let texts = &INSERTS[usize::from(matches!(self.db, Db::Postgres(_)))];
        for (size, sql) in CHUNKS.into_iter().zip(texts) {
            let chunks = rest.chunks_exact(size);
            rest = chunks.remainder();
            for chunk in chunks {
                new.extend(self.insert_usage_chunk(sql, chunk).await?);
            }
        }
        let n_new = new.len() as u64;
        // A row that occurs twice in the batch counts once.
        self.roll_up(rows.iter().filter(|it| new.remove(&it.id))).await?;
        Ok(n_new)
    }

    /// Adds rows to the sums of their hours and days.
    pub(super) async fn roll_up(&mut self, rows: impl Iterator<Item = &UsageRow>) -> StoreResult<()> {
        let mut hours: BTreeMap<i64, Cells> = BTreeMap::new();
        for row in rows {
            let at = time_of(row.id).0;
            let hour = at - at % HOUR;
            hours.entry(hour).or_default().record(row, hour);
        }
        let mut days: BTreeMap<i64, Cells> = BTreeMap::new();
        for (hour, cells) in hours {
            let packed = cells.pack();
            let day = hour - hour % DAY;
            let merged = days.entry(day).or_default().merge(&packed.sums, &packed.times, hour - day);
            merged.ok_or_else(|| corrupt(hour))?;
            self.insert_rollup(1, hour, &packed).await?;
        }
        for (day, cells) in days {
            self.insert_rollup(24, day, &cells.pack()).await?;
        }
        Ok(())
    }

    pub(super) async fn insert_rollup(&mut self, hours: i64, start: i64, packed: &Packed) -> StoreResult<()> {
        const SQL: &str =
            "INSERT INTO usage_rollups (hours, start_at, requests, sums, times) VALUES ($1, $2, $3, $4, $5)";
        on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(hours).bind(start).bind(packed.requests);
            query.bind(&packed.sums).bind(&packed.times).execute(conn).await.map(drop)
        })?;
        Ok(())
    }

    async fn insert_usage_chunk(&mut self, sql: &'static str, rows: &[UsageRow]) -> StoreResult<Vec<Uuid>> {
        Ok(on_db!(self, |conn| {
            let mut query = sqlx::query_scalar(sql);
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
                    .bind(row.outcome.as_str())
                    .bind(row.requests);
            }
            query.fetch_all(conn).await
        })?)
    }
}

/// Returns the error for a roll-up that can't be read.
pub(super) fn corrupt(start: i64) -> StoreError {
    StoreError::Corrupt { table: "usage_rollups", id: start.to_string(), what: "sums or times" }
}
