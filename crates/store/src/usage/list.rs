//! Pages of raw rows. The sums say how many matching rows each hour has, and between which milliseconds. So the total
//! of a list needs no count over rows, a far page needs no walk over the rows before it, and a filter that matches
//! little searches only where matching rows are.

use std::collections::BTreeMap;

use gantry_domain::{
    Timestamp,
    model::Task,
    usage::{Outcome, UsageRow, first_id_at},
};
use sqlx::Row;
use uuid::Uuid;

use super::{
    DAY, HOUR, UsageFilter,
    rollups::{Grain, Plan, TimeRange, range_of},
    select::{Driver, UsageRecord, Wanted, bind, by_driver, columns, matching},
};
use crate::{
    StoreError, StoreResult, Tx,
    page::clean,
    tx::{next, on_db},
};

/// A row in the form of the database; see [`UsageRow`] for the fields.
#[derive(Debug, Clone, Copy)]
pub struct UsageRef<'a> {
    pub id: Uuid,
    pub req_id: &'a str,
    pub created_at: Timestamp,
    pub key_id: Option<i64>,
    pub key_prefix: Option<&'a str>,
    pub user_id: Option<i64>,
    pub org_id: Option<i64>,
    pub model_name: &'a str,
    pub task: &'a str,
    pub endpoint: &'a str,
    pub stream: bool,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub cached_tokens: Option<i64>,
    pub estimated: bool,
    pub latency_ms: i64,
    pub ttft_ms: Option<i64>,
    pub status_code: i32,
    pub outcome: &'a str,
    pub requests: i64,
}

impl<'a> UsageRef<'a> {
    /// Reads the columns that [`Tx::usage_before`] selects.
    fn read(
        id: Uuid,
        req_id: &'a str,
        key_prefix: Option<&'a str>,
        model_name: &'a str,
        rest: &'a str,
    ) -> Option<Self> {
        let mut rest = rest.split(',');
        let mut next = || rest.next();
        let number = |text: &str| text.parse::<i64>().ok();
        // An absent value is empty.
        let optional = |text: &str| if text.is_empty() { Some(None) } else { number(text).map(Some) };
        Some(Self {
            id,
            req_id,
            key_prefix,
            model_name,
            created_at: Timestamp(number(next()?)?),
            key_id: optional(next()?)?,
            user_id: optional(next()?)?,
            org_id: optional(next()?)?,
            task: next()?,
            endpoint: next()?,
            stream: next()? == "1",
            prompt_tokens: number(next()?)?,
            completion_tokens: number(next()?)?,
            cached_tokens: optional(next()?)?,
            estimated: next()? == "1",
            latency_ms: number(next()?)?,
            ttft_ms: optional(next()?)?,
            status_code: number(next()?)?.try_into().ok()?,
            outcome: next()?,
            requests: number(next()?)?,
        })
    }
}

/// A stretch of time, and how many matching rows it has.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    range: TimeRange,
    n: i64,
    /// Whether this is a whole day. Its hours can be looked up for more detail.
    is_day: bool,
}

impl Tx {
    /// Returns one page of rows, newest first, and how many there are on all pages. Rows that retention deleted are
    /// neither listed nor counted.
    pub async fn usage(
        &mut self,
        filter: &UsageFilter,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<UsageRow>, i64)> {
        let wanted = Wanted::new(filter);
        let mut range = range_of(filter);
        range.from = range.from.max(self.usage_raw_since().await?.0);
        let plan = self.usage_plan(range, Grain::Days).await?;
        let mut stretches = self.stretches(&plan, &wanted).await?;
        let total = stretches.iter().map(|it| it.n).sum();

        let (mut rows, mut skip) = (Vec::new(), offset);
        while let Some(stretch) = stretches.pop() {
            let need = limit - rows.len() as i64;
            if need <= 0 {
                break;
            }
            if stretch.n <= skip {
                skip -= stretch.n;
            } else if stretch.is_day {
                let day = Plan { hours: vec![stretch.range], ..Plan::default() };
                stretches.extend(self.stretches(&day, &wanted).await?);
            } else {
                rows.extend(self.usage_rows(stretch.range, &wanted, need, skip).await?);
                skip = 0;
            }
        }
        Ok((rows, total))
    }

    /// Returns the rows of a request by the id that its client saw, newest first, at most `limit`. A client may choose that id,
    /// and choose it again. An id that the gateway made says when its request came: its row is found whenever that was. Other
    /// ids are looked for in the rows within the filter's range.
    pub async fn usage_of_request(
        &mut self,
        filter: &UsageFilter,
        req_id: &str,
        limit: i64,
    ) -> StoreResult<Vec<UsageRow>> {
        const SQL: [&str; 7] =
            by_driver!(concat!("SELECT ", columns!()), " AND req_id = $11 ORDER BY id DESC LIMIT $12");
        let wanted = Wanted::new(filter);
        let since = self.usage_raw_since().await?.0;
        let made = req_id.parse::<Uuid>().ok().filter(|it| it.get_version_num() == 7);
        let made = made.map(gantry_domain::usage::time_of);
        // The row has the id of the request, unless the client gave that.
        let exactly = made.map(|at| (TimeRange::new(at.0.max(since), at.0 + 1), SQL[Driver::Time as usize]));
        let mut range = range_of(filter);
        range.from = range.from.max(since);
        let within = (range, SQL[wanted.driver() as usize]);
        for (range, sql) in exactly.into_iter().chain([within]) {
            let rows: Vec<UsageRecord> = on_db!(self, |conn| {
                bind!(sqlx::query_as(sql), &wanted, range)
                    .bind(clean(req_id))
                    .bind(limit)
                    .fetch_all(conn)
                    .await
            })?;
            if !rows.is_empty() {
                return rows.into_iter().map(UsageRow::try_from).collect();
            }
        }
        Ok(Vec::new())
    }

    /// Returns the stretches of a plan that have matching rows, oldest first.
    async fn stretches(&mut self, plan: &Plan, wanted: &Wanted<'_>) -> StoreResult<Vec<Stretch>> {
        const COUNT: [&str; 7] = by_driver!("SELECT COUNT(*)", "");
        /// What the roll-ups that begin at one time say.
        struct Counted {
            hours: i64,
            n: i64,
            /// From the first request to behind the last one, in milliseconds from the start.
            window: TimeRange,
        }
        let mut found: BTreeMap<i64, Counted> = BTreeMap::new();
        let spans = plan.days.iter().map(|it| (24, *it)).chain(plan.hours.iter().map(|it| (1, *it)));
        for (hours, range) in spans {
            self.each_rollup(hours, range, wanted, false, |start, cell| {
                let nothing = Counted { hours, n: 0, window: TimeRange::new(i64::MAX, 0) };
                let found = found.entry(start).or_insert(nothing);
                found.n += cell.sums.rows;
                found.window.from = found.window.from.min(cell.window.0);
                found.window.to = found.window.to.max(cell.window.1 + 1);
                Some(())
            })
            .await?;
        }
        let whole = |(start, Counted { hours, n, window }): (i64, Counted)| {
            if hours == 24 {
                Stretch { range: TimeRange::new(start, start + DAY), n, is_day: true }
            } else {
                let (from, to) = (window.from.clamp(0, HOUR), window.to.clamp(0, HOUR));
                Stretch { range: TimeRange::new(start + from, start + to), n, is_day: false }
            }
        };
        let mut stretches: Vec<Stretch> = found.into_iter().map(whole).collect();
        for range in &plan.raw {
            let sql = COUNT[wanted.driver() as usize];
            let n: i64 =
                on_db!(self, |conn| bind!(sqlx::query_scalar(sql), wanted, range).fetch_one(conn).await)?;
            stretches.push(Stretch { range: *range, n, is_day: false });
        }
        stretches.retain(|it| it.n > 0);
        stretches.sort_by_key(|it| it.range);
        Ok(stretches)
    }

    async fn usage_rows(
        &mut self,
        range: TimeRange,
        wanted: &Wanted<'_>,
        limit: i64,
        offset: i64,
    ) -> StoreResult<Vec<UsageRow>> {
        const SQL: [&str; 7] =
            by_driver!(concat!("SELECT ", columns!()), " ORDER BY id DESC LIMIT $11 OFFSET $12");
        let sql = SQL[wanted.driver() as usize];
        let rows: Vec<UsageRecord> = on_db!(self, |conn| {
            bind!(sqlx::query_as(sql), wanted, range).bind(limit).bind(offset).fetch_all(conn).await
        })?;
        rows.into_iter().map(UsageRow::try_from).collect()
    }

    /// Shows up to `limit` rows, newest first: those before the row `before`, or the newest. Returns the id of the last
    /// one; `None` if there was none.
    ///
    /// # Errors
    /// Those of the database. The callback keeps the rows that it was given before the error.
    pub async fn usage_before(
        &mut self,
        filter: &UsageFilter,
        before: Option<Uuid>,
        limit: i64,
        mut show: impl FnMut(&UsageRef<'_>),
    ) -> StoreResult<Option<Uuid>> {
        // Numbers and words of closed sets are selected as one text: SQLite allocates each value of a row separately,
        // under a lock that both threads want, and with 20 of them an export did little else.
        const SQL: [&str; 7] = by_driver!(
            "SELECT id, req_id, key_prefix, model_name, concat_ws(',', created_at, \
             COALESCE(CAST(key_id AS TEXT), ''), COALESCE(CAST(user_id AS TEXT), ''), \
             COALESCE(CAST(org_id AS TEXT), ''), task, endpoint, CASE WHEN stream THEN 1 ELSE 0 END, prompt_tokens, \
             completion_tokens, COALESCE(CAST(cached_tokens AS TEXT), ''), CASE WHEN estimated THEN 1 ELSE 0 END, \
             latency_ms, COALESCE(CAST(ttft_ms AS TEXT), ''), status_code, outcome, requests)",
            " AND (CAST($11 AS BIGINT) IS NULL OR id < $12) ORDER BY id DESC LIMIT $13"
        );
        let wanted = Wanted::new(filter);
        let mut range = range_of(filter);
        range.from = range.from.max(self.usage_raw_since().await?.0);
        if let Some(id) = before {
            // The condition on the id distinguishes rows of the same millisecond.
            range.to = range.to.min(gantry_domain::usage::time_of(id).0 + 1);
        }
        let sql = SQL[wanted.driver() as usize];
        let mut last = None;
        on_db!(self, |conn, patience| {
            let query = bind!(sqlx::query(sql), &wanted, range);
            let query = query.bind(before.map(|_| 1_i64)).bind(before.unwrap_or_default()).bind(limit);
            let mut rows = query.fetch(conn);
            while let Some(row) = next(&mut rows, patience).await? {
                let id: Uuid = row.try_get(0)?;
                let (req_id, key_prefix, model_name) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
                let shown = UsageRef::read(id, req_id, key_prefix, model_name, row.try_get(4)?);
                let corrupt = || StoreError::Corrupt { table: "usage", id: id.to_string(), what: "a row" };
                show(&shown.ok_or_else(corrupt)?);
                last = Some(id);
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(last)
    }
}
