//! `/admin/usage/series`.

use axum::{Json, extract::State};
use gantry_domain::words::either;
use gantry_store::Bucket;
use serde::Serialize;

use super::{Whose, filter};
use crate::{
    App,
    error::{Outcome, Problem},
    extract::Params,
    policy::Caller,
};

/// Most steps of a series: more than a year of hours.
const MAX_STEPS: i64 = 10_000;
/// Most minutes: two days. They come from raw rows, not from sums.
const MAX_MINUTES: i64 = 48 * 60 + 1;

#[derive(Debug, Serialize)]
pub(crate) struct Step {
    /// Begin of the step, RFC 3339. The first may begin before the range; only requests of the range count.
    ts: String,
    requests: i64,
    errors: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
    total_tokens: i64,
}

/// Totals over time
///
/// `bucket` is minute (at most 48 hours), hour (the default) or day. Steps without requests are there too.
pub(crate) async fn series(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<Vec<Step>>> {
    steps(&app, Whose::managed_by(&caller), params).await
}

pub(crate) async fn steps(app: &App, whose: Whose, mut params: Params) -> Outcome<Json<Vec<Step>>> {
    let bucket = params.parsed("bucket", &either(&Bucket::WORDS), Bucket::parse)?.unwrap_or(Bucket::Hour);
    let filter = filter(&mut params, whose, app.clock.now())?;
    params.finish()?;
    let limit = if bucket == Bucket::Minute { MAX_MINUTES } else { MAX_STEPS };
    let n_steps = bucket.count(filter.from, filter.to);
    if n_steps > limit {
        let message = format!(
            "the range has {n_steps} steps of this size, at most {limit} are possible: take larger steps or less time"
        );
        return Err(Problem::invalid("bucket", message));
    }
    let _place = app.long_reads.begin(whose.asks).await?;
    let series = app.store.read().await?.usage_series(&filter, bucket).await?;
    let step = |(start, sums): (gantry_domain::Timestamp, gantry_store::UsageSums)| Step {
        ts: start.rfc3339(),
        requests: sums.requests,
        errors: sums.errors,
        prompt_tokens: sums.prompt_tokens,
        completion_tokens: sums.completion_tokens,
        total_tokens: sums.total_tokens(),
    };
    Ok(Json(series.into_iter().map(step).collect()))
}
