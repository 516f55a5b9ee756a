//! Checks who may call a route, and with how large a body, before any handler runs. By default a request is refused.

use std::collections::BTreeSet;

use axum::{
    body::HttpBody,
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, Method, header::AUTHORIZATION, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use gantry_domain::{
    ErrorCode, OrgId, Role,
    account_token::{Right, TokenScopes},
    audit::{Action, Actor, AuditEntry, Origin},
    identity::User,
    key::TokenKind,
};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    App, audit,
    error::{Outcome, Problem},
    guard, operation, routes, session,
    tokens::{self, standing::Standing},
};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody, signed in or not.
    Public,
    /// A user of at least this role: signed in, or with a token whose scopes allow it.
    AtLeast(Role),
    /// A user of at least this role who is signed in: no token stands in for that.
    InPerson(Role),
}

impl Access {
    /// Returns the lowest role that may call the route; `None` if nobody need sign in.
    pub fn role(self) -> Option<Role> {
        match self {
            Self::Public => None,
            Self::AtLeast(role) | Self::InPerson(role) => Some(role),
        }
    }
}

/// Paths below `/admin` whose scopes are those of another area.
const SAME_AREA: &[(&str, &str)] = &[
    ("orgs", "people"),
    ("users", "people"),
    ("tokens", "people"),
    ("engines", "models"),
    ("upstreams", "models"),
    ("events", "system"),
];
/// The path that any token may ask, whatever its scopes: the answer says for whom the token acts.
const WHO_AM_I: &str = "/auth/me";

/// Returns the area of a path in scopes of tokens: the word after `/admin/`, or `account` for a user's own things.
/// `None` if no scope covers the path.
pub fn area(path: &str) -> Option<&str> {
    if path.starts_with("/auth/") {
        return Some("account");
    }
    let word = path.strip_prefix("/admin/")?.split('/').next()?;
    Some(SAME_AREA.iter().find(|it| it.0 == word).map_or(word, |it| it.1))
}

/// Returns the right that a token's scope must give for a request with this method.
pub fn right_of(method: &Method) -> Right {
    if method.is_safe() { Right::Read } else { Right::Write }
}

/// The areas of all routes that tokens may call, by name.
pub fn areas() -> Vec<&'static str> {
    let routes = routes::routes();
    let open = routes.iter().filter(|it| matches!(it.policy.access, Access::AtLeast(_)));
    open.filter_map(|it| area(it.path)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Largest body in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit(pub usize);

impl BodyLimit {
    pub const NONE: Self = Self(0);
    /// User names and passwords.
    pub const SIGN_IN: Self = Self(8 << 10);
    /// Messages of chats: their longest text, with every character written as two of JSON's escapes.
    pub const CHAT: Self = Self(3 << 20);
    pub const ADMIN: Self = Self(256 << 10);
}

/// The policy of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub access: Access,
    pub body: BodyLimit,
}

/// What authenticates the user of a request: a session or a token.
#[derive(Debug, Clone)]
pub(crate) enum Grant {
    /// SHA-256 of the session id.
    Session([u8; 32]),
    Token {
        /// SHA-256 of the token.
        hash: [u8; 32],
        scopes: TokenScopes,
        /// Role and organisation of the token's user at admission.
        standing: Standing,
    },
}

impl Grant {
    /// Returns the hash that tells one grant from another.
    pub(crate) fn key(&self) -> [u8; 32] {
        match self {
            Self::Session(hash) | Self::Token { hash, .. } => *hash,
        }
    }

    /// Returns whether the session or token still stands for its user.
    pub(crate) async fn holds(&self, app: &App) -> bool {
        match self {
            Self::Session(hash) => session::holds(app, hash).await,
            Self::Token { hash, standing, .. } => standing.holds(app, hash).await,
        }
    }

    /// Checks that this grant also covers another area than that of its route: a session does, a token only if its
    /// scopes say so.
    ///
    /// # Errors
    /// 403 `insufficient_scope`.
    pub(crate) fn reaches(&self, area: &str, right: Right) -> Outcome<()> {
        match self {
            Self::Session(_) => Ok(()),
            Self::Token { scopes, .. } => in_scope(scopes, area, right),
        }
    }
}

/// The user behind a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) grant: Grant,
    /// Where this request came from.
    pub(crate) origin: Origin,
}

impl Caller {
    pub(crate) fn role(&self) -> Role {
        self.user.role
    }

    /// SHA-256 of the session id.
    ///
    /// # Errors
    /// 403 `forbidden` if a token acts. Routes that need a session are [`Access::InPerson`], which refuses tokens
    /// before.
    pub(crate) fn session(&self) -> Outcome<[u8; 32]> {
        match &self.grant {
            Grant::Session(hash) => Ok(*hash),
            Grant::Token { .. } => Err(in_person()),
        }
    }

    /// A row of the audit log that says that this caller did `action` to the object.
    pub(crate) fn did(&self, action: Action, object_id: impl std::fmt::Display) -> AuditEntry {
        let actor = Actor::User { id: self.user.id, username: self.user.username.clone() };
        AuditEntry::new(actor, self.origin.clone(), action, object_id)
    }

    /// The one organisation that the caller may see; `None` is all of them.
    pub(crate) fn scope(&self) -> Option<OrgId> {
        (!self.role().is_global()).then_some(self.user.org_id)
    }

    /// Whether objects of `org` exist for this caller.
    pub(crate) fn sees(&self, org: OrgId) -> bool {
        self.scope().is_none_or(|own| own == org)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(sign_in_first)
    }
}

/// Origin of a request without authentication.
#[derive(Debug, Clone)]
pub(crate) struct Stranger(pub(crate) Origin);

impl<S: Send + Sync> FromRequestParts<S> for Stranger {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self(Origin::default())))
    }
}

pub(crate) fn sign_in_first() -> Problem {
    unauthenticated(
        "sign in first; a program sends a token of `POST /auth/tokens` as `Authorization: Bearer gta_…`",
    )
}

/// 401 `unauthenticated`.
pub(crate) fn unauthenticated(why: &str) -> Problem {
    Problem::new(ErrorCode::Unauthenticated, why)
}

fn in_person() -> Problem {
    Problem::new(ErrorCode::Forbidden, "a token can't do this: sign in with the user's password")
}

/// What a request brings to say who sends it.
#[derive(Debug, Clone)]
enum Credential {
    None,
    /// Value of the session cookie.
    Cookie(String),
    Token(SecretString),
}

impl Credential {
    /// Returns the credential of a request. If a request has both a token and a session cookie, the token is used:
    /// browsers send cookies by themselves. Other kinds of `Authorization` are for the data plane.
    fn of(headers: &HeaderMap) -> Self {
        let bearer = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok()).and_then(|it| {
            let (scheme, token) = it.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        match bearer.filter(|it| it.starts_with(TokenKind::Account.prefix())) {
            Some(token) => Self::Token(token.into()),
            None => session::cookie(headers).map_or(Self::None, |it| Self::Cookie(it.to_owned())),
        }
    }
}

/// A route as far as admission is concerned.
struct Asked {
    policy: Policy,
    method: Method,
    /// The path pattern as the route table has it.
    path: MatchedPath,
}

/// Looks the route's policy up and enforces it. Runs for matched routes only.
pub(crate) async fn enforce(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let asked = path.and_then(|path| {
        let policy = routes::policy(request.method(), path.as_str())?;
        Some(Asked { policy, method: request.method().clone(), path })
    });
    let Some(asked) = asked else {
        // The table does not have this route, so nobody may call it.
        return guard::unknown_method(request).await.into_response();
    };
    // Bodies can't be shared between threads, so what is needed of the request is taken out before the await.
    let site = guard::same_site(&app, request.headers());
    // Any site may link to public pages.
    let public = asked.policy.access == Access::Public && asked.method.is_safe();
    let site = if public { Ok(()) } else { site };
    let credential = Credential::of(request.headers());
    let origin = audit::origin(&app, &request);
    match admit(&app, &asked, site, &credential).await {
        Ok(mut caller) => {
            request.extensions_mut().insert(asked.policy.body);
            let mut room = app.body_room.room(caller.as_ref().map(|it| it.user.id));
            // A handler that reads the query string refuses unknown parameters by itself. For other changes, nobody
            // must believe that a parameter was understood when it was not, as in `DELETE …?dry_run=true`.
            if !request.method().is_safe()
                && !routes::takes_query(request.method(), asked.path.as_str())
                && let Err(problem) = operation::without_query(request.uri())
            {
                return problem.into_response();
            }
            if !request.body().is_end_stream() && !request.method().is_safe() {
                let arrived = async {
                    let request = operation::with_its_body(request, asked.policy.body, &mut room).await?;
                    // The body may have taken long to arrive: a user who was deleted meanwhile must not act any more.
                    let caller = match caller {
                        Some(_) => admit(&app, &asked, Ok(()), &credential).await?,
                        None => None,
                    };
                    Ok::<_, Problem>((request, caller))
                };
                (request, caller) = match arrived.await {
                    Ok(arrived) => arrived,
                    Err(problem) => return problem.into_response(),
                };
            }
            match caller {
                Some(caller) => {
                    let origin = Origin { token: caller.origin.token, ..origin };
                    request.extensions_mut().insert(Caller { origin, ..caller });
                }
                None => {
                    request.extensions_mut().insert(Stranger(origin));
                }
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn admit(
    app: &App,
    asked: &Asked,
    site: Result<(), Problem>,
    credential: &Credential,
) -> Result<Option<Caller>, Problem> {
    let Some(role) = asked.policy.access.role() else {
        // Sign-in and set-up set or use cookies too: no page of another site may send such requests.
        return site.map(|()| None);
    };
    let caller = match credential {
        Credential::None => return Err(sign_in_first()),
        Credential::Cookie(cookie) => {
            site?;
            session::caller(app, cookie).await?.ok_or_else(sign_in_first)?
        }
        // No page of another site can make a browser send a token.
        Credential::Token(token) => tokens::caller(app, token.expose_secret()).await?,
    };
    if let Grant::Token { scopes, .. } = &caller.grant {
        within_scopes(asked, scopes)?;
    }
    if caller.role() < role {
        let why = format!("this needs the role `{role}`, yours is `{}`", caller.role());
        let message = match own_way(&asked.method, asked.path.as_str()) {
            Some(own) => format!("{why}; your own is at {} {own}", asked.method),
            None => why,
        };
        return Err(Problem::new(ErrorCode::Forbidden, message));
    }
    Ok(Some(caller))
}

/// Whether a token with these scopes may call the route.
fn within_scopes(asked: &Asked, scopes: &TokenScopes) -> Outcome<()> {
    let path = asked.path.as_str();
    let area = match asked.policy.access {
        Access::AtLeast(_) => area(path).ok_or_else(in_person)?,
        Access::Public | Access::InPerson(_) => return Err(in_person()),
    };
    let right = right_of(&asked.method);
    if path == WHO_AM_I {
        return Ok(());
    }
    in_scope(scopes, area, right)
}

fn in_scope(scopes: &TokenScopes, area: &str, right: Right) -> Outcome<()> {
    if scopes.allows(area, right) {
        return Ok(());
    }
    let message =
        format!("this needs the scope `{}`, the token has `{scopes}`", tokens::scope_word(area, right));
    Err(Problem::new(ErrorCode::InsufficientScope, message))
}

/// Returns where users find their own part of what `path` shows of all users: the same path below `/auth`, or a parent
/// of it.
fn own_way(method: &Method, path: &str) -> Option<String> {
    let mut own = format!("/auth/{}", path.strip_prefix("/admin/")?);
    loop {
        if routes::policy(method, &own).is_some() {
            return Some(own);
        }
        own.truncate(own.rfind('/').filter(|at| *at > "/auth".len())?);
        if *method != Method::GET {
            return None;
        }
    }
}
