//! Checks who may call a route, and with how large a body, before any handler runs. By default a request is refused.

use axum::{
    Extension,
    body::HttpBody,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, Method, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse, Response},
};
use gantry_domain::{ErrorCode, account_token::TokenScopes, audit::Origin, key::TokenKind};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    App, audit,
    body_room::Room,
    caller::{Caller, Grant, Stranger, in_person, in_scope, sign_in_first},
    error::{Outcome, Problem},
    guard, held, operation,
    policy::{Access, Policy, area, right_of},
    routes, session, tokens,
};

/// The path that any token may ask, whatever its scopes: the answer says for whom the token acts.
const WHO_AM_I: &str = "/auth/me";

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

/// The row of the route table that a request is for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    policy: Policy,
    method: Method,
    /// The path pattern as the route table has it.
    path: MatchedPath,
}

impl Asked {
    /// Whether it changes what others see, and leaves a row in the audit log. What users change of their own has other bounds.
    fn is_bounded_change(&self) -> bool {
        !self.method.is_safe() && self.path.as_str().starts_with("/admin/")
    }
}

/// Refuses what has no row in the route table, whatever router it comes from: nobody may call it. Runs for matched routes
/// only.
pub(crate) async fn require_policy(mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let asked = path.and_then(|path| {
        let policy = routes::policy(request.method(), path.as_str())?;
        Some(Asked { policy, method: request.method().clone(), path })
    });
    match asked {
        None => guard::unknown_method(request).await.into_response(),
        Some(asked) => {
            request.extensions_mut().insert(asked);
            next.run(request).await
        }
    }
}

/// Enforces the policy that [`require_policy`] found.
pub(crate) async fn enforce(
    State(app): State<App>,
    Extension(asked): Extension<Asked>,
    mut request: Request,
    next: Next,
) -> Response {
    // Bodies can't be shared between threads, so what is needed of the request is taken out before the await.
    let site = guard::same_site(&app, request.headers());
    // Any site may link to public pages.
    let public = asked.policy.access == Access::Public && asked.method.is_safe();
    let site = if public { Ok(()) } else { site };
    let credential = Credential::of(request.headers());
    let origin = audit::origin(&app, &request);
    let caller = match admit(&app, &asked, site, &credential).await {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(asked.policy.body);
    // Nobody must believe that a parameter was understood when it was not, as in `DELETE …?dry_run=true`. A handler that
    // reads the query string refuses unknown parameters by itself.
    if !routes::takes_query(request.method(), asked.path.as_str())
        && let Err(problem) = operation::without_query(request.uri())
    {
        return problem.into_response();
    }
    // The body's bytes count until the handler has answered.
    let user = caller.as_ref().map(|it| (it.user.id, it.role()));
    let mut room = app.bounds.body_room.room(user);
    let (mut request, caller) =
        match with_its_body(&app, &asked, &credential, caller, request, &mut room).await {
            Ok(arrived) => arrived,
            Err(problem) => return problem.into_response(),
        };
    if let Some(caller) = &caller
        && asked.is_bounded_change()
        && let Some(org) = caller.scope()
        && let Err(problem) = app.bounds.changes.begin(org, app.steady.now())
    {
        return problem.into_response();
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
    held::bounded(next.run(request).await, app.bounds.answer_room.room(user))
}

/// Reads the body of a change into `room`. It may have taken long to arrive, so the caller is admitted once more: a user
/// who was deleted meanwhile must not act any more.
async fn with_its_body(
    app: &App,
    asked: &Asked,
    credential: &Credential,
    caller: Option<Caller>,
    request: Request,
    room: &mut Room,
) -> Result<(Request, Option<Caller>), Problem> {
    if request.body().is_end_stream() || request.method().is_safe() {
        return Ok((request, caller));
    }
    let request = operation::with_its_body(request, asked.policy.body, room).await?;
    let caller = match caller {
        Some(_) => admit(app, asked, Ok(()), credential).await?,
        None => None,
    };
    Ok((request, caller))
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
