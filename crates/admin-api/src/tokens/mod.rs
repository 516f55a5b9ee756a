//! `/admin/tokens`, the view that `/auth/tokens` shares, and the check of a token in a request.

pub mod keep;
pub(crate) mod standing;
pub mod uses;

use axum::extract::State;
use gantry_domain::{
    OrgId, Timestamp, TokenId, UserId,
    account_token::AccountToken,
    audit::{Action, Origin, ViaToken},
    key::{self, KeyStatus, TokenKind},
    schema::{Rfc3339, one_of},
    view,
};
use gantry_store::{TokenFilter, TokenHolder, Tx};

use crate::{
    App,
    app::Parts,
    caller::{Caller, Grant, unauthenticated},
    error::Outcome,
    operation::{Deleted, Id, Listed, Operation, Page, Query, query},
    users,
};
use standing::{Standing, status};

view! {
    /// A token as lists show it.
    #[derive(Debug)]
    pub(crate) struct TokenView: "Token" {
        id: TokenId,
        name: String,
        /// The first characters of the token.
        prefix: String,
        scopes: String,
        user_id: UserId,
        username: String,
        org_id: OrgId,
        created_at: Rfc3339,
        expires_at: Rfc3339,
        /// Written every 10 seconds.
        last_used_at: Option<Rfc3339>,
        status: KeyStatus as one_of(&["active", "expired", "holder_disabled"]),
    }
}

impl TokenView {
    pub(crate) fn new(holder: TokenHolder, now: Timestamp) -> Self {
        let status = status(&holder, now);
        let TokenHolder { token, user, org_enabled: _ } = holder;
        let AccountToken { id, user_id, name, prefix, scopes, created_at, expires_at, last_used_at } = token;
        Self {
            id,
            name,
            prefix,
            scopes: scopes.to_string(),
            user_id,
            username: user.username,
            org_id: user.org_id,
            created_at: created_at.into(),
            expires_at: expires_at.into(),
            last_used_at: last_used_at.map(Rfc3339),
            status,
        }
    }
}

/// Returns the user for whom a token in a request acts, as a caller.
///
/// # Errors
/// 401 `unauthenticated`: it is not known (any more), or has expired.
pub(crate) async fn caller(app: &App, token: &str) -> Outcome<Caller> {
    if !key::is_well_formed(TokenKind::Account, token) {
        return Err(unauthenticated("the token is incomplete or mistyped: its checksum does not fit"));
    }
    let now = app.clock.now();
    let hash = key::hash(token.as_bytes());
    let known = app.store.read_quick().await?.token(&hash).await?;
    let Some(holder) = known else { return Err(unauthenticated("the token is not known, or was revoked")) };
    match status(&holder, now) {
        KeyStatus::Active => {}
        KeyStatus::Expired => return Err(unauthenticated("the token has expired: make a new one")),
        _ => return Err(unauthenticated("the user of this token is disabled")),
    }
    let TokenHolder { token, user, .. } = holder;
    app.accounts.token_uses.note(token.id, now);
    let via = ViaToken { id: token.id, prefix: token.prefix };
    let origin = Origin { token: Some(via), ..Origin::default() };
    let standing = Standing::of(&user);
    Ok(Caller { user, grant: Grant::Token { hash, scopes: token.scopes, standing }, origin })
}

query! {
    pub(crate) struct TokenQuery {
        page: Page,
        /// Only those of users of this organisation.
        org_id: Option<OrgId>,
        /// Only those of this user.
        user_id: Option<UserId>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listTokens", "List tokens of users");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(TokenQuery { page, org_id, user_id }): Query<TokenQuery>,
) -> Outcome<Listed<TokenView>> {
    if org_id.is_some_and(|org| !caller.sees(org)) {
        return Ok(Listed(Vec::new(), 0));
    }
    let filter = TokenFilter { id: None, org_id: caller.scope().or(org_id), user_id };
    listed(&app, &filter, page).await
}

pub(crate) async fn listed(app: &App, filter: &TokenFilter, page: Page) -> Outcome<Listed<TokenView>> {
    let (holders, total) = app.store.read().await?.tokens(filter, page.limit, page.offset).await?;
    let now = app.clock.now();
    Ok(Listed(holders.into_iter().map(|it| TokenView::new(it, now)).collect(), total))
}

pub(crate) const REVOKE: Operation = Operation::new("revokeToken", "Revoke a token of a user").about(
    "The token stops working at once and is gone from the list. Nobody may revoke the token of a user of a higher role than \
     their own.",
);

pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<TokenId>> {
    let mut tx = app.store.write().await?;
    let holder = find(&mut tx, TokenFilter { org_id: caller.scope(), ..of(id) }).await?;
    users::within_reach(&caller, &holder.user)?;
    revoke_found(&app, tx, &caller, holder).await
}

/// The filter of one token.
pub(crate) fn of(id: i64) -> TokenFilter {
    TokenFilter { id: Some(TokenId(id)), ..TokenFilter::default() }
}

/// The one token of this filter.
///
/// # Errors
/// 404 `not_found`.
pub(crate) async fn find(tx: &mut Tx, filter: TokenFilter) -> Outcome<TokenHolder> {
    let found = tx.tokens(&filter, 1, 0).await?.0.into_iter().next();
    found.ok_or_else(|| Parts::not_found("token", filter.id.map_or(0, |it| it.0)))
}

/// Deletes a token that was found in `tx`, and commits `tx`.
pub(crate) async fn revoke_found(
    app: &App,
    mut tx: Tx,
    caller: &Caller,
    holder: TokenHolder,
) -> Outcome<Deleted<TokenId>> {
    let (id, now) = (holder.token.id, app.clock.now());
    if !tx.delete_token(id).await? {
        return Err(Parts::not_found("token", id));
    }
    let view = crate::audit::record(TokenView::new(holder, now));
    tx.audit(&caller.did(Action::TokenRevoke, id).deleted(view), now).await?;
    tx.commit().await?;
    Ok(Deleted(id))
}
