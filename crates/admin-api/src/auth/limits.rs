//! `GET /auth/limits`: what a user may use, and what is left of it.

use axum::{Json, extract::State};
use gantry_domain::{
    KeyId,
    key::KeyStatus,
    limit::{LimitMode, Standing},
};
use gantry_store::{KeyFilter, Sort};
use serde::Serialize;

use crate::{App, app::LimitHolder, error::Outcome, operation::Params, policy::Caller};

/// Most keys of one user that are shown; users can make 100 themselves.
const MAX_KEYS: i64 = 1000;

#[derive(Debug, Serialize)]
pub(crate) struct OwnLimits {
    /// What is left for all sessions together, and for all keys as far as an administrator limited the user.
    user: Standing,
    /// What is left for everybody in the organisation together.
    org: Standing,
    /// Keys that can be used now.
    keys: Vec<OwnKey>,
}

#[derive(Debug, Serialize)]
struct OwnKey {
    id: KeyId,
    name: String,
    prefix: String,
    limit_mode: LimitMode,
    limits: Standing,
}

/// Own limits
pub(crate) async fn show(app: State<App>, caller: Caller, params: Params) -> Outcome<Json<OwnLimits>> {
    params.finish()?;
    let filter = KeyFilter {
        scope_user: Some(caller.user.id),
        status: Some((KeyStatus::Active, app.clock.now())),
        ..KeyFilter::default()
    };
    let (keys, _) = app.store.read().await?.keys(&filter, Sort::default(), MAX_KEYS, 0).await?;
    let standing = |holder| app.allowances.standing(holder);
    let keys = keys.into_iter().map(|key| OwnKey {
        id: key.id,
        prefix: key.prefix,
        name: key.settings.name,
        limit_mode: key.settings.limit_mode,
        limits: standing(LimitHolder::Key(key.id)),
    });
    Ok(Json(OwnLimits {
        keys: keys.collect(),
        user: standing(LimitHolder::User(caller.user.id)),
        org: standing(LimitHolder::Org(caller.user.org_id)),
    }))
}
