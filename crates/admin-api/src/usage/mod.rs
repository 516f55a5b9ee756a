//! `/admin/usage`: recent requests.

pub(crate) mod aggregate;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod integrity;
pub(crate) mod latency;
pub(crate) mod series;

use axum::extract::State;
use gantry_domain::{
    ErrorCode, KeyId, OrgId, UserId,
    model::Task,
    schema::{Rfc3339, whole},
    usage::{Outcome as Ending, UsageRow},
    view,
};
use uuid::Uuid;

use self::filter::{Filter, Scoped};
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Listed, Operation, Page, Query, query},
};

/// What all reads of usage may answer: those of one caller run one after the other, and only a few may wait.
pub(crate) const READ_ERRORS: &[ErrorCode] = &[ErrorCode::TooManyAttempts];

/// Most rows of one request id. More only come from a client that sends the same id each time.
const MOST_OF_ONE_ID: i64 = 1000;

view! {
    /// A row of the ledger. An export has the same fields in the same order.
    #[derive(Debug)]
    pub(crate) struct UsageView: "UsageRow" {
        id: Uuid,
        /// The request id that the client saw. It need not be unique.
        req_id: String,
        created_at: Rfc3339,
        /// `null` for requests of a browser session.
        key_id: Option<KeyId>,
        key_prefix: Option<String>,
        user_id: Option<UserId>,
        org_id: Option<OrgId>,
        /// The served name as it was asked for, cut to 200 characters.
        model_name: String,
        task: Task,
        /// The path of the endpoint.
        endpoint: &'static str,
        stream: bool,
        prompt_tokens: i64,
        completion_tokens: i64,
        total_tokens: i64,
        /// Prompt tokens that came from the engine's prefix cache, if the engine reports them.
        cached_tokens: Option<i64>,
        /// The gateway estimated the tokens, because the engine reported none.
        estimated: bool,
        latency_ms: i64,
        /// Time to the first byte of a streamed answer.
        ttft_ms: Option<i64>,
        status_code: u16 as whole(100, 599),
        outcome: Ending,
        /// The number of requests that the row stands for. Requests of one caller that were refused for the same reason
        /// may share a row.
        requests: i64,
    }
}

impl From<UsageRow> for UsageView {
    fn from(row: UsageRow) -> Self {
        Self {
            id: row.id,
            req_id: row.req_id,
            created_at: row.created_at.into(),
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

query! {
    /// One request among all.
    pub(crate) struct OfRequest {
        /// Only the request with this id, as the header `X-Request-Id` of its answer and every error say it. An id that the
        /// gateway made is found whenever the request was; ids that clients chose are looked for within the range.
        req_id: Option<String>,
    }
}

query! {
    pub(crate) struct UsageQuery {
        page: Page,
        of_request: OfRequest,
        filter: Filter,
    }
}

pub(crate) const LIST: Operation = Operation::new("listUsage", "Recent requests")
    .about("The newest request comes first.")
    .errors(READ_ERRORS);

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(UsageQuery { page, of_request, filter }): Query<UsageQuery>,
) -> Outcome<Listed<UsageView>> {
    rows(&app, filter.managed_by(&caller, app.clock.now())?, of_request, page).await
}

/// Returns one page of the rows that the filter lets through.
pub(crate) async fn rows(
    app: &App,
    of: Scoped,
    of_request: OfRequest,
    page: Page,
) -> Outcome<Listed<UsageView>> {
    let _place = app.bounds.long_reads.begin(of.asks).await?;
    if let Some(req_id) = of_request.req_id {
        let rows = app.store.read().await?.usage_of_request(&of.filter, &req_id, MOST_OF_ONE_ID).await?;
        return Ok(page.of(rows.into_iter().map(UsageView::from).collect()));
    }
    let (rows, total) = app.store.read().await?.usage(&of.filter, page.limit, page.offset).await?;
    Ok(Listed(rows.into_iter().map(UsageView::from).collect(), total))
}
