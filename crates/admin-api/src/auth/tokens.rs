//! `/auth/tokens`: a user's own tokens for the admin API.

use std::{borrow::Cow, time::Duration};

use axum::extract::State;
use gantry_domain::{
    ErrorCode, Timestamp, TokenId, UserId,
    account_token::{DEFAULT_LIFETIME, EVERY_AREA, MAX_LIFETIME, TokenScopes},
    audit::Action,
    identity::{Session, User},
    key::{Token, TokenKind},
    schema::{self, Components},
    view,
};
use gantry_store::{AuditFilter, NewToken, TokenFilter, TokenHolder, Tx};
use serde_json::{Value, json};

use crate::{
    App,
    app::Parts,
    audit::record,
    caller::{self, Caller},
    error::Outcome,
    keys::words,
    operation::{Body, Created, Deleted, Field, Id, Listed, Name, Operation, Page, Query, form, read},
    policy::AREAS,
    tokens::{self, TokenView},
};

/// Most tokens of one user that have not expired: more than anybody has scripts.
const MAX_OWN: i64 = 50;
/// Most tokens that a user makes within [`A_DAY`], revoked ones too. Each leaves rows in the audit log, and expired
/// ones stay for a while, so without this limit anybody could fill the database with them.
const MAX_OWN_A_DAY: i64 = 200;
const A_DAY: Duration = Duration::from_hours(24);

view! {
    /// A new token: the only answer that has the token itself.
    #[derive(Debug)]
    pub(crate) struct NewTokenView: "NewToken" {
        view: TokenView => part,
        /// Shown in this answer only.
        token: String as schema::secret(schema::word("^gta_[0-9A-Za-z]{46}$")),
    }
}

form! {
    pub(crate) struct NewTokenForm {
        name: required Name<100>,
        /// What the token may do, as `area:read` (`GET`) or `area:write` (every method); `*` is every area. Each operation
        /// says which scope it needs.
        scopes: required Scopes,
        /// A time in the future, at most 366 days from now. Without it the token expires in 90 days. Every token expires.
        expires_at: optional Expiry,
    }
}

/// Scopes of a token, as an array or as one text with commas.
pub(crate) struct Scopes;

impl Field for Scopes {
    type Value = TokenScopes;

    fn allowed() -> Cow<'static, str> {
        format!("a text such as models:read,keys:write; the areas are {} and *", AREAS.join(", ")).into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<TokenScopes> {
        TokenScopes::parse(&words(value)?.join(","), AREAS).ok()
    }

    fn complaint(name: &str, value: &Value) -> String {
        match words(value).map(|it| TokenScopes::parse(&it.join(","), AREAS)) {
            Some(Err(error)) => error.to_string(),
            _ => format!("`{name}` must be {}", Self::allowed()),
        }
    }

    fn schema(_: &mut Components) -> Value {
        let areas = [AREAS, &[EVERY_AREA]].concat();
        let words: Vec<String> =
            areas.iter().flat_map(|area| ["read", "write"].map(|right| format!("{area}:{right}"))).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let one = words.join("|").replace(EVERY_AREA, "[*]");
        json!({ "anyOf": [
            schema::word(&format!("^[ ,]*({one}) *(,[ ,]*(({one}) *)?)*$")),
            { "type": "array", "minItems": 1, "maxItems": 1000, "items": schema::one_of(&words) },
        ] })
    }
}

/// The end of a token.
pub(crate) struct Expiry;

impl Field for Expiry {
    type Value = Timestamp;

    fn allowed() -> Cow<'static, str> {
        let days = MAX_LIFETIME.as_secs() / 86_400;
        format!("an RFC 3339 time in the future, at most {days} days from now").into()
    }

    fn read(value: &Value, now: Timestamp) -> Option<Timestamp> {
        read::time(value).filter(|at| *at > now && *at <= now.plus(MAX_LIFETIME))
    }

    fn schema(_: &mut Components) -> Value {
        schema::time()
    }
}

pub(crate) const LIST: Operation = Operation::new("listOwnTokens", "List your own tokens");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Outcome<Listed<TokenView>> {
    let filter = TokenFilter { user_id: Some(caller.user.id), ..TokenFilter::default() };
    tokens::listed(&app, &filter, page).await
}

pub(crate) const CREATE: Operation = Operation::new("createOwnToken", "Create a token for the admin API")
    .about(
        "Tokens are for scripts, so that they need nobody's password. A token is sent as `Authorization: Bearer gta_…` to \
         `/admin` and `/auth`. It acts as its user, with the role that the user has at that moment, where its scopes reach. \
         It can't sign in, change the password, make tokens or call `/v1`. Disabling or deleting its user ends it for \
         good. A user has at most 50 tokens that have not expired. The token is shown in this answer only.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewTokenForm>,
) -> Outcome<Created<NewTokenView>> {
    let now = app.clock.now();
    let NewTokenForm { name, scopes, expires_at } = form;
    let expires_at = expires_at.unwrap_or_else(|| now.plus(DEFAULT_LIFETIME));
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
    known.filter(holds).map(|(_, user, _)| user).ok_or_else(caller::sign_in_first)
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

pub(crate) const REVOKE: Operation = Operation::new("revokeOwnToken", "Revoke one of your own tokens")
    .about("The token stops working at once and is gone from the list.");

pub(crate) async fn revoke(app: State<App>, caller: Caller, Id(id): Id) -> Outcome<Deleted<TokenId>> {
    let mut tx = app.store.write().await?;
    let filter = TokenFilter { user_id: Some(caller.user.id), ..tokens::of(id) };
    let holder = tokens::find(&mut tx, filter).await?;
    tokens::revoke_found(&app, tx, &caller, holder).await
}
