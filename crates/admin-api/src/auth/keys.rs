//! `/auth/keys`: a user's own keys.

use axum::{extract::State, response::IntoResponse};
use gantry_domain::KeyId;
use gantry_store::KeyFilter;

use crate::{
    App,
    app::Parts,
    error::Outcome,
    extract::{Created, Id, Listed, Object, Params},
    keys::{KeyForm, KeyView, Maker, create_key, revoke_key, sort, status},
    policy::Caller,
};

/// List the own keys
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    let sort = sort(&mut params)?;
    let filter = KeyFilter {
        scope_user: Some(caller.user.id),
        status: status(&mut params, &app)?,
        q: params.search()?,
        ..KeyFilter::default()
    };
    params.finish()?;
    let (keys, total) = app.store.read().await?.keys(&filter, sort, page.limit, page.offset).await?;
    Ok(Listed(keys.iter().map(|key| KeyView::new(&app, key)).collect(), total))
}

/// Create a key for oneself
///
/// At most 100 keys, revoked ones not counted, and at most 200 new ones within 24 hours, revoked ones counted.
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let settings = KeyForm::create(body, app.clock.now())?.own(app.allowances.defaults())?;
    let user = &caller.user;
    Ok(Created(create_key(&app, (&caller, Maker::Holder), settings, user.org_id, Some(user.id)).await?))
}

/// Revoke an own key
pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<impl IntoResponse> {
    let mut tx = app.store.write().await?;
    tx.exclusive().await?;
    let key = tx.key_in(KeyId(id), None, Some(caller.user.id)).await?;
    let key = key.ok_or_else(|| Parts::not_found("key", id))?;
    revoke_key(&app, tx, &caller, &key).await?;
    Ok(crate::extract::deleted(id))
}
