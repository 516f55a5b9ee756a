//! `/admin/usage`: recent requests, and the filters that everything below it shares.
//!
//! The filters mean the same everywhere: the sums of a filter are the sums of the rows that its list shows, as long as
//! raw rows are kept. Older hours live on in sums only, and count whole.

pub(crate) mod aggregate;
pub(crate) mod export;
pub(crate) mod integrity;
pub(crate) mod latency;
pub(crate) mod series;

use std::time::Duration;

use axum::{extract::State, response::IntoResponse};
use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    model::Task,
    usage::{Outcome as Ending, UsageRow},
    words::either,
};
use gantry_store::{StatusFilter, UsageFilter};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    App,
    error::{Outcome, Problem},
    extract::{Listed, Params},
    policy::Caller,
};

/// Longest time that `hours` may reach back: a leap year.
const MAX_HOURS: i64 = 8784;

#[derive(Debug, Serialize)]
struct UsageView {
    id: Uuid,
    req_id: String,
    created_at: String,
    key_id: Option<KeyId>,
    key_prefix: Option<String>,
    user_id: Option<UserId>,
    org_id: Option<OrgId>,
    model_name: String,
    task: Task,
    endpoint: &'static str,
    stream: bool,
    prompt_tokens: i64,
    completion_tokens: i64,
    total_tokens: i64,
    cached_tokens: Option<i64>,
    estimated: bool,
    latency_ms: i64,
    ttft_ms: Option<i64>,
    status_code: u16,
    outcome: Ending,
    requests: i64,
}

impl From<UsageRow> for UsageView {
    fn from(row: UsageRow) -> Self {
        Self {
            id: row.id,
            req_id: row.req_id,
            created_at: row.created_at.rfc3339(),
            key_id: row.key_id,
            key_prefix: row.key_prefix,
            user_id: row.user_id,
            org_id: row.org_id,
            model_name: row.model_name,
            task: row.task,
            endpoint: row.endpoint.path(),
            stream: row.stream,
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            total_tokens: row.prompt_tokens + row.completion_tokens,
            cached_tokens: row.cached_tokens,
            estimated: row.estimated,
            latency_ms: row.latency_ms,
            ttft_ms: row.ttft_ms,
            status_code: row.status_code,
            outcome: row.outcome,
            requests: row.requests,
        }
    }
}

/// Recent requests
///
/// Newest first.
pub(crate) async fn list(app: State<App>, caller: Caller, params: Params) -> Outcome<impl IntoResponse> {
    rows(&app, Whose::managed_by(&caller), params).await
}

pub(crate) async fn rows(app: &App, whose: Whose, mut params: Params) -> Outcome<impl IntoResponse + use<>> {
    let page = params.page()?;
    let filter = filter(&mut params, whose, app.clock.now())?;
    params.finish()?;
    let _place = app.long_reads.begin(whose.asks).await?;
    let (rows, total) = app.store.read().await?.usage(&filter, page.limit, page.offset).await?;
    Ok(Listed(rows.into_iter().map(UsageView::from).collect(), total))
}

/// No organisation has this id: stands for one that the caller may not know of.
const NOBODY: OrgId = OrgId(0);

/// Whose usage may be asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose {
    /// Who asks.
    asks: UserId,
    /// The organisation whose names may be shown; `None` is all.
    org: Option<OrgId>,
    /// The one user whose usage may be shown, and nothing else of the organisation.
    user: Option<UserId>,
}

impl Whose {
    /// Returns the scope of all usage that an administrator manages.
    pub(crate) fn managed_by(caller: &Caller) -> Self {
        Self { asks: caller.user.id, org: caller.scope(), user: None }
    }

    /// Returns the scope of the caller's own usage, in whichever organisation.
    pub(crate) fn own(caller: &Caller) -> Self {
        Self { asks: caller.user.id, org: Some(caller.user.org_id), user: Some(caller.user.id) }
    }
}

/// The filters that all usage endpoints share. One's own usage has no choice of users and organisations.
fn filter(params: &mut Params, whose: Whose, now: Timestamp) -> Outcome<UsageFilter> {
    let hours = params.number("hours", 24, MAX_HOURS)?;
    let time = "an RFC 3339 time";
    // Rows carry the millisecond in which their request came, so the end is the next one.
    let to = params.parsed("to", time, Timestamp::parse_rfc3339)?.unwrap_or(Timestamp(now.0 + 1));
    let from = params.parsed("from", time, Timestamp::parse_rfc3339)?;
    let from = from.unwrap_or_else(|| to.minus(Duration::from_secs(3600 * hours.unsigned_abs())));
    if from >= to {
        return Err(Problem::invalid("from", "`from` must be before `to`"));
    }
    let model = params.text("model");
    let no_model = params.flag("no_model")?;
    if no_model && model.is_some() {
        return Err(Problem::invalid("no_model", "send either `model` or `no_model`"));
    }
    let (user_id, org_id) = if let Some(user) = whose.user {
        (Some(user), None)
    } else {
        let org = params.id("org_id")?.map(OrgId);
        let foreign = org.is_some_and(|it| whose.org.is_some_and(|own| own != it));
        let org = if foreign { Some(NOBODY) } else { whose.org.or(org) };
        (params.id("user_id")?.map(UserId), org)
    };
    Ok(UsageFilter {
        from,
        to,
        // Any text may be a model's name, so no text of `model` can mean "no model".
        model: if no_model { Some(String::new()) } else { model },
        task: params.parsed("task", &either(&Task::WORDS), Task::parse)?,
        key_id: params.id("key_id")?.map(KeyId),
        user_id,
        org_id,
        status: params.parsed("status", "a status such as 404, or a class such as 4xx", status)?,
        outcome: params.parsed("outcome", &either(&Ending::WORDS), Ending::parse)?,
    })
}

fn status(text: &str) -> Option<StatusFilter> {
    match text.strip_suffix("xx") {
        Some(class) => class.parse().ok().filter(|it| (1..=5).contains(it)).map(StatusFilter::Class),
        None => text.parse().ok().filter(|it| (100..=599).contains(it)).map(StatusFilter::Exact),
    }
}
