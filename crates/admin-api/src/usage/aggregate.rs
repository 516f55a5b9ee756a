//! `/admin/usage/aggregate`.

use axum::{extract::State, response::IntoResponse};
use gantry_domain::words::either;
use gantry_store::{GroupBy, GroupColumn, Order, Sort, UsageGroup};
use serde::Serialize;

use super::{Whose, filter};
use crate::{
    App,
    error::Outcome,
    extract::{Listed, Params},
    policy::Caller,
};

/// What groups can be sorted by.

#[derive(Debug, Serialize)]
struct GroupView {
    /// What people call it.
    group: String,
    group_id: Option<i64>,
    /// Whether the group has an id, and nothing that the caller may see has that id any more.
    deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_prefix: Option<String>,
    requests: i64,
    errors: i64,
    prompt_tokens: i64,
    completion_tokens: i64,
    total_tokens: i64,
    cached_tokens: i64,
    p50_ms: i64,
    p95_ms: i64,
}

impl GroupView {
    /// Makes the view for a caller who sees all organisations (`all`) or only their own. To the latter, an object that
    /// moved to another organisation looks like a deleted one, and nothing shows the difference.
    fn new(by: GroupBy, group: UsageGroup, all: bool) -> Self {
        let UsageGroup { id, name, key_prefix, sums, p50_ms, p95_ms } = group;
        let deleted = id.is_some() && name.is_none();
        let known = name.clone().unwrap_or_default();
        let gone = if all { " (deleted)" } else { "" };
        let shown = match (by, id) {
            (GroupBy::Key, None) => "browser sessions".to_owned(),
            (GroupBy::User, None) => "keys without a user".to_owned(),
            (GroupBy::Org, None) => "no organisation".to_owned(),
            // These requests were refused before the model was read, or their models are too many or too old to be told
            // apart.
            (GroupBy::Model, _) if known.is_empty() => "no model".to_owned(),
            (GroupBy::Key, Some(id)) => {
                let prefix = key_prefix.clone().unwrap_or_else(|| format!("key {id}"));
                if deleted {
                    format!("{prefix}{gone}")
                } else {
                    format!("{prefix} {known}").trim().to_owned()
                }
            }
            (GroupBy::User, Some(id)) if deleted => format!("user {id}{gone}"),
            (GroupBy::Org, Some(id)) if deleted => format!("organisation {id}{gone}"),
            (GroupBy::Model, _) | (GroupBy::User | GroupBy::Org, Some(_)) => known,
        };
        Self {
            group: shown,
            group_id: id,
            deleted,
            model_name: name.filter(|_| by == GroupBy::Model),
            key_prefix,
            requests: sums.requests,
            errors: sums.errors,
            prompt_tokens: sums.prompt_tokens,
            completion_tokens: sums.completion_tokens,
            total_tokens: sums.total_tokens(),
            cached_tokens: sums.cached_tokens,
            p50_ms,
            p95_ms,
        }
    }
}

/// Totals by group
///
/// `group_by` is model, key, user or org; `sort` a column of the answer, descending with `-` in front. Errors are
/// requests with a status of 400 or more, whoever is to blame.
pub(crate) async fn aggregate(app: State<App>, caller: Caller, params: Params) -> Outcome<impl IntoResponse> {
    groups(&app, Whose::managed_by(&caller), params).await
}

pub(crate) async fn groups(
    app: &App,
    whose: Whose,
    mut params: Params,
) -> Outcome<impl IntoResponse + use<>> {
    let page = params.page()?;
    let by = params.parsed("group_by", &either(&GroupBy::WORDS), GroupBy::parse)?.unwrap_or_default();
    let most = Sort { by: GroupColumn::Requests, order: Order::Desc };
    let sort = params.sort(&GroupColumn::WORDS, GroupColumn::parse)?.unwrap_or(most);
    let filter = filter(&mut params, whose, app.clock.now())?;
    params.finish()?;
    let all = whose.org.is_none();
    let _place = app.long_reads.begin(whose.asks).await?;
    let mut tx = app.store.read().await?;
    let (groups, total) = tx.usage_groups(&filter, by, sort, page.limit, page.offset, whose.org).await?;
    Ok(Listed(groups.into_iter().map(|it| GroupView::new(by, it, all)).collect(), total))
}
