//! `/admin/usage/integrity`: do the sums say what the rows say?

use axum::{Json, extract::State};
use gantry_domain::{Timestamp, schema::Rfc3339, view};
use gantry_store::{UsageCheck, UsageSums};

use super::READ_ERRORS;
use crate::{App, caller::Caller, error::Outcome, operation::Operation, ports::SpoolReport};

/// Milliseconds.
const DAY: i64 = 86_400_000;
/// Most mismatches that are listed; the first ones say enough.
const MAX_SHOWN: usize = 100;

view! {
    #[derive(Debug)]
    pub(crate) struct Integrity {
        ok: bool,
        /// The begin of the hours of which raw rows are kept; `null` if there are none.
        checked_from: Option<Rfc3339>,
        checked_to: Option<Rfc3339>,
        /// The number of requests according to the rows.
        rows: i64,
        /// The number of the same requests according to the sums.
        rollup_rows_sum: i64,
        /// At most 100 of them are listed.
        mismatches: Vec<Mismatch>,
        /// The counts of this gateway's usage spool since the gateway started.
        spool: SpoolReport,
    }
}

view! {
    /// A day (or the kept part of it) for which the rows, the hourly sums and the daily sums do not agree.
    #[derive(Debug)]
    pub(crate) struct Mismatch {
        from: Rfc3339,
        to: Rfc3339,
        rows: Counts,
        hourly: Counts,
        /// `null` for a part of a day, which has no daily sum.
        daily: Option<Counts>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct Counts {
        /// Refused requests may share rows.
        rows: i64,
        requests: i64,
        errors: i64,
        prompt_tokens: i64,
        completion_tokens: i64,
    }
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
            from: check.from.into(),
            to: check.to.into(),
            rows: check.rows.into(),
            hourly: check.hours.into(),
            daily: check.days.map(Counts::from),
        }
    }
}

pub(crate) const INTEGRITY: Operation = Operation::new("checkUsage", "Compare usage rows with their sums")
    .about(
        "Everything that is kept is compared, day by day. All rows are read: ten million take some seconds.",
    )
    .errors(READ_ERRORS);

pub(crate) async fn integrity(app: State<App>, caller: Caller) -> Outcome<Json<Integrity>> {
    let _place = app.bounds.long_reads.begin(caller.user.id).await?;
    let mut tx = app.store.read().await?;
    let (since, extent) = (tx.usage_raw_since().await?, tx.usage_extent().await?);
    drop(tx);
    let range = extent.map(|(first, end)| (first.max(since), end)).filter(|(from, to)| from < to);
    let spool = app.monitor.spool();
    let mut report = Integrity {
        ok: spool.missing == 0,
        checked_from: range.map(|it| it.0.into()),
        checked_to: range.map(|it| it.1.into()),
        rows: 0,
        rollup_rows_sum: 0,
        mismatches: Vec::new(),
        spool,
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
