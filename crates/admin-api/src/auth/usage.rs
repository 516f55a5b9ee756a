//! `/auth/usage`: a user's own requests and their sums, with the filters of `/admin/usage`.

use axum::{Json, extract::State, response::IntoResponse};

use crate::{
    App,
    error::Outcome,
    operation::Params,
    policy::Caller,
    usage::{
        self, Whose, aggregate,
        series::{self, Step},
    },
};

/// Own recent requests
pub(crate) async fn list(app: State<App>, caller: Caller, params: Params) -> Outcome<impl IntoResponse> {
    usage::rows(&app, Whose::own(&caller), params).await
}

/// Own totals by group
pub(crate) async fn aggregate(app: State<App>, caller: Caller, params: Params) -> Outcome<impl IntoResponse> {
    aggregate::groups(&app, Whose::own(&caller), params).await
}

/// Own totals over time
pub(crate) async fn series(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<Vec<Step>>> {
    series::steps(&app, Whose::own(&caller), params).await
}
