//! `GET /auth/limits`: what a user may use, and what is left of it.

use axum::{Json, extract::State};
use gantry_domain::{
    KeyId,
    key::KeyStatus,
    limit::{LimitMode, Standing},
    view,
};
use gantry_store::{KeyFilter, Sort};

use crate::{App, caller::Caller, error::Outcome, operation::Operation, ports::LimitHolder};

/// Most keys of one user that are shown; users can make 100 themselves.
const MAX_KEYS: i64 = 1000;

view! {
    #[derive(Debug)]
    pub(crate) struct OwnLimits {
        /// What is left for all sessions together, and for all keys as far as an administrator limited the user.
        user: Standing,
        /// What is left for everybody in the organisation together.
        org: Standing,
        /// Keys that can be used now.
        keys: Vec<OwnKey>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct OwnKey {
        id: KeyId,
        name: String,
        prefix: String,
        limit_mode: LimitMode,
        limits: Standing,
    }
}

pub(crate) const SHOW: Operation = Operation::new("getOwnLimits", "Own limits").about(
    "The answer says what is allowed, used and left: of the keys that the user can use now, of the user, and of the user's \
     organisation. `null` is without limit. A request must fit into all of them. `user` binds all sessions together, and \
     the keys too as far as an administrator limited the user. The numbers are those that this gateway knows: what other \
     gateways used comes in within a second or so.",
);

pub(crate) async fn show(app: State<App>, caller: Caller) -> Outcome<Json<OwnLimits>> {
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
