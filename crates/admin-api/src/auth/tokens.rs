//! `/auth/tokens`: a user's own tokens for the admin API.

use std::time::Duration;

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{
    Timestamp, UserId,
    account_token::{DEFAULT_LIFETIME, MAX_LIFETIME, TokenScopes},
    audit::Action,
    identity::{Session, User},
    key::{Token, TokenKind},
};
use gantry_store::{AuditFilter, NewToken, TokenFilter, TokenHolder, Tx};
use serde::Serialize;
use serde_json::Value;

use crate::{
    App,
    app::Parts,
    audit::record,
    error::Outcome,
    keys::words,
    operation::{Created, Fields, Id, Listed, Object, Params, read},
    policy::{self, AREAS, Caller},
    tokens::{self, TokenView},
};

/// Most tokens of one user that have not expired: more than anybody has scripts.
const MAX_OWN: i64 = 50;
/// Most tokens that a user makes within [`A_DAY`], revoked ones too. Each leaves rows in the audit log, and expired
/// ones stay for a while, so without this limit anybody could fill the database with them.
const MAX_OWN_A_DAY: i64 = 200;
const A_DAY: Duration = Duration::from_hours(24);

/// A new token: the only answer that has the token itself.
#[derive(Debug, Serialize)]
struct NewTokenView {
    #[serde(flatten)]
    view: TokenView,
    token: String,
}

/// What a body asks for.
struct Form {
    name: String,
    scopes: TokenScopes,
    expires_at: Timestamp,
}

impl Form {
    fn read(body: Object, now: Timestamp) -> Outcome<Self> {
        let mut fields = Fields::new(body);
        let name = fields.required("name", &read::named(100), read::name(100));
        let example =
            format!("a text such as models:read,keys:write; the areas are {} and *", AREAS.join(", "));
        let given = fields.required("scopes", &example, words);
        let mut scopes = None;
        if let Some(given) = given {
            match TokenScopes::parse(&given.join(","), AREAS) {
                Ok(read) => scopes = Some(read),
                Err(error) => fields.problem("scopes", error.to_string()),
            }
        }
        let last = now.plus(MAX_LIFETIME);
        let allowed = format!(
            "an RFC 3339 time in the future, at most {} days from now",
            MAX_LIFETIME.as_secs() / 86_400
        );
        let soon = |it: &Value| read::time(it).filter(|at| *at > now && *at <= last);
        let expires_at = fields.optional("expires_at", &allowed, soon);
        fields.finish()?;
        // Both are there, else `finish` would have failed.
        let (Some(name), Some(scopes)) = (name, scopes) else {
            return Err(gantry_domain::ApiError::internal().into());
        };
        Ok(Self { name, scopes, expires_at: expires_at.unwrap_or_else(|| now.plus(DEFAULT_LIFETIME)) })
    }
}

/// List the own tokens
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<Listed<TokenView>> {
    let page = params.page()?;
    params.finish()?;
    let filter = TokenFilter { user_id: Some(caller.user.id), ..TokenFilter::default() };
    tokens::listed(&app, &filter, page).await
}

/// Create a token for the admin API
///
/// It acts as its user. The token itself is shown in this answer only.
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let now = app.clock.now();
    let Form { name, scopes, expires_at } = Form::read(body, now)?;
    let token = Token::generate(TokenKind::Account, &mut rand::rng());
    let new = NewToken {
        user_id: caller.user.id,
        name,
        prefix: token.shown().to_owned(),
        token_hash: token.hash(),
        scopes,
        expires_at,
    };
    let mut tx = app.store.write().await?;
    // If two requests come at once, the later one must count what the earlier one made.
    tx.exclusive().await?;
    let user = still_signed_in(&mut tx, &caller, now).await?;
    if tx.count_live_tokens(caller.user.id, now).await? >= MAX_OWN {
        return Err(Parts::invalid_state(format!("you have {MAX_OWN} tokens: revoke some first")));
    }
    if made_lately(&mut tx, caller.user.id, now).await? >= MAX_OWN_A_DAY {
        return Err(Parts::invalid_state(format!(
            "{MAX_OWN_A_DAY} tokens were made by you within a day: make the next one tomorrow"
        )));
    }
    let made = tx.insert_token(&new, now).await?;
    let id = made.id;
    let holder = TokenHolder { token: made, user, org_enabled: true };
    let view = TokenView::new(holder, now);
    tx.audit(&caller.did(Action::TokenCreate, id).created(record(&view)), now).await?;
    tx.commit().await?;
    Ok(Created(NewTokenView { view, token: token.expose().to_owned() }))
}

/// Returns the user of the caller's session as they are now. If they were disabled or signed out since admission, all
/// their tokens were ended, and this one must not be left over.
async fn still_signed_in(tx: &mut Tx, caller: &Caller, now: Timestamp) -> Outcome<User> {
    let known = tx.session(&caller.session()?).await?;
    let holds = |(session, user, org_enabled): &(Session, User, bool)| {
        user.enabled && *org_enabled && Session::is_current(session.created_at, session.expires_at, now)
    };
    known.filter(holds).map(|(_, user, _)| user).ok_or_else(policy::sign_in_first)
}

/// Counts the tokens that the user made within a day. A revoked token is gone, but the row of the audit log that says
/// that it was made is still there.
async fn made_lately(tx: &mut Tx, user: UserId, now: Timestamp) -> Outcome<i64> {
    let filter = AuditFilter {
        from: Some(now.minus(A_DAY)),
        // Leaves out tokens that were made while the clock was ahead.
        to: Some(now.plus(Duration::from_millis(1))),
        actor_id: Some(user.0),
        action: Some(Action::TokenCreate),
        ..AuditFilter::default()
    };
    Ok(tx.audit_rows(&filter, 0, 0).await?.1)
}

/// Revoke an own token
pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Json<Value>> {
    let mut tx = app.store.write().await?;
    let filter = TokenFilter { user_id: Some(caller.user.id), ..tokens::of(id) };
    let holder = tokens::find(&mut tx, filter).await?;
    tokens::revoke_found(&app, tx, &caller, holder).await
}
