//! `/admin/usage/integrity`: do the sums say what the rows say?

use axum::{Json, extract::State};
use gantry_domain::Timestamp;
use gantry_store::{UsageCheck, UsageSums};
use serde::Serialize;

use crate::{App, app::SpoolReport, error::Outcome, operation::Params, policy::Caller};

/// Milliseconds.
const DAY: i64 = 86_400_000;
/// Most mismatches that are listed; the first ones say enough.
const MAX_SHOWN: usize = 100;

#[derive(Debug, Serialize)]
pub(crate) struct Integrity {
    ok: bool,
    /// All hours of which raw rows are kept; `null` if there are none.
    checked_from: Option<String>,
    checked_to: Option<String>,
    rows: i64,
    /// Number of the same requests according to the sums.
    rollup_rows_sum: i64,
    mismatches: Vec<Mismatch>,
    /// Counts of this gateway's usage spool since the gateway started.
    spool: SpoolReport,
}

/// A day (or the kept part of it) for which the rows, the hourly sums and the daily sums do not agree.
#[derive(Debug, Serialize)]
struct Mismatch {
    from: String,
    to: String,
    rows: Counts,
    hourly: Counts,
    daily: Option<Counts>,
}

#[derive(Debug, Serialize)]
struct Counts {
    /// Refused requests may share rows.
    rows: i64,
    requests: i64,
    errors: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
}

impl From<UsageSums> for Counts {
    fn from(sums: UsageSums) -> Self {
        let UsageSums { rows, requests, errors, prompt_tokens, completion_tokens, .. } = sums;
        Self { rows, requests, errors, prompt_tokens, completion_tokens }
    }
}

impl From<&UsageCheck> for Mismatch {
    fn from(check: &UsageCheck) -> Self {
        Self {
            from: check.from.rfc3339(),
            to: check.to.rfc3339(),
            rows: check.rows.into(),
            hourly: check.hours.into(),
            daily: check.days.map(Counts::from),
        }
    }
}

/// Compare usage rows with their sums
///
/// Day by day, over everything that is kept. It reads all rows: some seconds for ten million.
pub(crate) async fn integrity(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<Integrity>> {
    params.finish()?;
    let _place = app.long_reads.begin(caller.user.id).await?;
    let mut tx = app.store.read().await?;
    let (since, extent) = (tx.usage_raw_since().await?, tx.usage_extent().await?);
    drop(tx);
    let range = extent.map(|(first, end)| (first.max(since), end)).filter(|(from, to)| from < to);
    let mut report = Integrity {
        ok: true,
        checked_from: range.map(|it| it.0.rfc3339()),
        checked_to: range.map(|it| it.1.rfc3339()),
        rows: 0,
        rollup_rows_sum: 0,
        mismatches: Vec::new(),
        spool: app.engines.spool(),
    };
    let Some((mut from, end)) = range else { return Ok(Json(report)) };
    // The range has whole days where possible, so that the sums of days are checked too.
    from = Timestamp(from.0 / DAY * DAY).max(since);
    let to = Timestamp((end.0 + DAY - 1) / DAY * DAY);
    while from < to {
        // A transaction for each day: none is long, and each sees rows and sums of one moment.
        let check = app.store.read().await?.check_usage(from, to).await?;
        report.rows += check.rows.requests;
        report.rollup_rows_sum += check.hours.requests;
        if !check.agrees() {
            report.ok = false;
            if report.mismatches.len() < MAX_SHOWN {
                report.mismatches.push((&check).into());
            }
        }
        // Days without rows and sums agree. A clock that was ahead may have left many of them.
        from = match app.store.read().await?.next_usage(check.to).await? {
            Some(next) => check.to.max(Timestamp(next.0 / DAY * DAY)),
            None => break,
        };
    }
    Ok(Json(report))
}
