//! `/auth/keys`: a user's own keys.

use axum::extract::State;
use gantry_domain::{ErrorCode, KeyId, key::KeyStatus};
use gantry_store::{KeyColumn, KeyFilter, Sort};

use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::Outcome,
    keys::{KeyView, Maker, NewKeyView, OwnKeyForm, create_key, listed, revoke_key},
    operation::{Body, Created, Deleted, Id, Listed, Operation, Page, Query, Search, query},
};

query! {
    pub(crate) struct OwnKeyQuery {
        page: Page,
        sort: Sort<KeyColumn>,
        /// Only those that have this status now.
        status: Option<KeyStatus>,
        /// Part of the name or of the prefix.
        q: Option<Search>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listOwnKeys", "List your own keys");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(OwnKeyQuery { page, sort, status, q }): Query<OwnKeyQuery>,
) -> Outcome<Listed<KeyView>> {
    let filter = KeyFilter {
        scope_user: Some(caller.user.id),
        status: status.map(|it| (it, app.clock.now())),
        q: q.map(|it| it.0),
        ..KeyFilter::default()
    };
    listed(&app, &filter, sort, page).await
}

pub(crate) const CREATE: Operation = Operation::new("createOwnKey", "Create a key for oneself")
    .about(
        "The token is shown in this answer only. A user has at most 100 keys, revoked ones not counted, and makes at most \
         200 new ones within 24 hours, revoked ones counted.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(form): Body<OwnKeyForm>,
) -> Outcome<Created<NewKeyView>> {
    let settings = form.settings(app.allowances.defaults())?;
    let user = &caller.user;
    let key = create_key(&app, &caller, Maker::Holder, settings, user.org_id, Some(user.id)).await?;
    Ok(Created(key))
}

pub(crate) const REVOKE: Operation =
    Operation::new("revokeOwnKey", "Revoke one of your own keys").about("The key stops working at once.");

pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<KeyId>> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let key = tx.key_in(KeyId(id), None, Some(caller.user.id)).await?;
    let key = key.ok_or_else(|| Parts::not_found("key", id))?;
    revoke_key(&app, tx, &caller, &key).await?;
    Ok(Deleted(KeyId(id)))
}
