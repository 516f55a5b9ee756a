//! `/admin/usage/series`.

use axum::{Json, extract::State};
use gantry_domain::{Timestamp, schema::Rfc3339, view};
use gantry_store::{Bucket, UsageSums};

use super::{
    READ_ERRORS,
    filter::{Filter, Scoped},
};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Choice, Operation, Query, query},
};

/// Most steps of a series: more than a year of hours.
const MAX_STEPS: i64 = 10_000;
/// Most minutes: two days. They come from raw rows, not from sums.
const MAX_MINUTES: i64 = 48 * 60 + 1;

view! {
    /// The requests of one step.
    #[derive(Debug)]
    pub(crate) struct Step {
        /// The begin of the step. The first step may begin before the range; only requests of the range count.
        ts: Rfc3339,
        requests: i64,
        /// Requests with a status of 400 or more.
        errors: i64,
        prompt_tokens: i64,
        completion_tokens: i64,
        total_tokens: i64,
    }
}

query! {
    pub(crate) struct Steps {
        /// The length of a step.
        bucket: Choice<Bucket>,
    }
}

query! {
    pub(crate) struct SeriesQuery {
        steps: Steps,
        filter: Filter,
    }
}

pub(crate) const SERIES: Operation = Operation::new("getUsageSeries", "Totals over time")
    .about(
        "Steps without requests are in the answer, too. A series has at most 48 hours of minutes, or 10000 steps of \
         another length.",
    )
    .errors(READ_ERRORS);

pub(crate) async fn series(
    app: State<App>,
    caller: Caller,
    Query(SeriesQuery { steps: size, filter }): Query<SeriesQuery>,
) -> Outcome<Json<Vec<Step>>> {
    steps(&app, filter.managed_by(&caller, app.clock.now())?, size).await
}

/// Returns the steps of the requests that the filter lets through.
pub(crate) async fn steps(app: &App, of: Scoped, size: Steps) -> Outcome<Json<Vec<Step>>> {
    let Scoped { asks, filter, .. } = of;
    let Steps { bucket: Choice(bucket) } = size;
    let limit = if bucket == Bucket::Minute { MAX_MINUTES } else { MAX_STEPS };
    let n_steps = bucket.count(filter.from, filter.to);
    if n_steps > limit {
        let message = format!(
            "the range has {n_steps} steps of this size, at most {limit} are possible: take larger steps or less time"
        );
        return Err(Problem::invalid("bucket", message));
    }
    let _place = app.bounds.long_reads.begin(asks).await?;
    let series = app.store.read().await?.usage_series(&filter, bucket).await?;
    let step = |(start, sums): (Timestamp, UsageSums)| Step {
        ts: start.into(),
        requests: sums.requests,
        errors: sums.errors,
        prompt_tokens: sums.prompt_tokens,
        completion_tokens: sums.completion_tokens,
        total_tokens: sums.total_tokens(),
    };
    Ok(Json(series.into_iter().map(step).collect()))
}
