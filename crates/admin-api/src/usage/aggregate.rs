//! `/admin/usage/aggregate`.

use axum::extract::State;
use gantry_domain::{
    schema::{id, nullable},
    view,
};
use gantry_store::{GroupBy, GroupColumn, Sort, UsageGroup};

use super::{
    READ_ERRORS,
    filter::{Filter, Scoped},
};
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Choice, Listed, Operation, Page, Query, query},
};

view! {
    /// The requests of one model, key, user or organisation.
    #[derive(Debug)]
    pub(crate) struct GroupView {
        /// What people call it; the last name of what was deleted.
        group: String,
        group_id: Option<i64> as nullable(id()),
        /// The group has an id, and nothing that the caller may see has that id any more.
        deleted: bool,
        model_name: Option<String> => optional,
        key_prefix: Option<String> => optional,
        requests: i64,
        /// Requests with a status of 400 or more.
        errors: i64,
        prompt_tokens: i64,
        completion_tokens: i64,
        total_tokens: i64,
        cached_tokens: i64,
        p50_ms: i64,
        p95_ms: i64,
    }
}

impl GroupView {
    fn new(by: GroupBy, group: UsageGroup) -> Self {
        let UsageGroup { id, name, deleted, key_prefix, sums, p50_ms, p95_ms } = group;
        let known = name.clone().unwrap_or_default();
        let shown = match (by, id) {
            (GroupBy::Key, None) => "browser sessions".to_owned(),
            (GroupBy::User, None) => "keys without a user".to_owned(),
            (GroupBy::Org, None) => "no organisation".to_owned(),
            // These requests were refused before the model was read, or their models are too many or too old to be told
            // apart.
            (GroupBy::Model, _) if known.is_empty() => "no model".to_owned(),
            (GroupBy::Key, Some(id)) => {
                let prefix = key_prefix.clone().unwrap_or_else(|| format!("key {id}"));
                format!("{prefix} {known}").trim().to_owned()
            }
            // It moved to another organisation, or was deleted before names were kept.
            (GroupBy::User, Some(id)) if name.is_none() => format!("user {id}"),
            (GroupBy::Org, Some(id)) if name.is_none() => format!("organisation {id}"),
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

query! {
    pub(crate) struct Grouping {
        page: Page,
        /// What the requests of a group have in common.
        group_by: Choice<GroupBy>,
        sort: Sort<GroupColumn>,
    }
}

query! {
    pub(crate) struct GroupQuery {
        grouping: Grouping,
        filter: Filter,
    }
}

pub(crate) const AGGREGATE: Operation = Operation::new("aggregateUsage", "Totals by group")
    .about(
        "Errors are requests with a status of 400 or more, whether the client or the engine is to blame. `deleted` says that nothing that you may \
         see has this id any more. Requests without a model name are the group `no model`, whose `model_name` is empty.",
    )
    .errors(READ_ERRORS);

pub(crate) async fn aggregate(
    app: State<App>,
    caller: Caller,
    Query(GroupQuery { grouping, filter }): Query<GroupQuery>,
) -> Outcome<Listed<GroupView>> {
    groups(&app, filter.managed_by(&caller, app.clock.now())?, grouping).await
}

/// Returns one page of the groups of the requests that the filter lets through.
pub(crate) async fn groups(app: &App, of: Scoped, grouping: Grouping) -> Outcome<Listed<GroupView>> {
    let Scoped { asks, org, filter } = of;
    let Grouping { page, group_by: Choice(by), sort } = grouping;
    let _place = app.bounds.long_reads.begin(asks).await?;
    let mut tx = app.store.read().await?;
    let (groups, total) = tx.usage_groups(&filter, by, sort, page.limit, page.offset, org).await?;
    Ok(Listed(groups.into_iter().map(|it| GroupView::new(by, it)).collect(), total))
}
