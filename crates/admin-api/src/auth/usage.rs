//! `/auth/usage`: a user's own requests and their sums, with the filters of `/admin/usage`.

use axum::{Json, extract::State};

use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Listed, Operation, Page, Query, query},
    usage::{
        self, OfRequest, READ_ERRORS, UsageView,
        aggregate::{self, GroupView, Grouping},
        filter::OwnFilter,
        series::{self, Step, Steps},
    },
};

query! {
    pub(crate) struct OwnUsageQuery {
        page: Page,
        of_request: OfRequest,
        filter: OwnFilter,
    }
}

pub(crate) const LIST: Operation = Operation::new("listOwnUsage", "Own recent requests")
    .about("The requests of one's own keys and sessions. The newest one comes first.")
    .errors(READ_ERRORS);

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(OwnUsageQuery { page, of_request, filter }): Query<OwnUsageQuery>,
) -> Outcome<Listed<UsageView>> {
    usage::rows(&app, filter.owned_by(&caller, app.clock.now())?, of_request, page).await
}

query! {
    pub(crate) struct OwnGroupQuery {
        grouping: Grouping,
        filter: OwnFilter,
    }
}

pub(crate) const AGGREGATE: Operation = Operation::new("aggregateOwnUsage", "Own totals by group")
    .about("This is `GET /admin/usage/aggregate` for one's own requests.")
    .errors(READ_ERRORS);

pub(crate) async fn aggregate(
    app: State<App>,
    caller: Caller,
    Query(OwnGroupQuery { grouping, filter }): Query<OwnGroupQuery>,
) -> Outcome<Listed<GroupView>> {
    aggregate::groups(&app, filter.owned_by(&caller, app.clock.now())?, grouping).await
}

query! {
    pub(crate) struct OwnSeriesQuery {
        steps: Steps,
        filter: OwnFilter,
    }
}

pub(crate) const SERIES: Operation = Operation::new("getOwnUsageSeries", "Own totals over time")
    .about("This is `GET /admin/usage/series` for one's own requests.")
    .errors(READ_ERRORS);

pub(crate) async fn series(
    app: State<App>,
    caller: Caller,
    Query(OwnSeriesQuery { steps, filter }): Query<OwnSeriesQuery>,
) -> Outcome<Json<Vec<Step>>> {
    series::steps(&app, filter.owned_by(&caller, app.clock.now())?, steps).await
}
