//! Who may call a route, with how large a body: checked before any handler runs, by default refused.

use axum::{
    body::HttpBody,
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::request::Parts,
    middleware::Next,
    response::{IntoResponse, Response},
};
use gantry_domain::{
    ErrorCode, OrgId, Role,
    audit::{Action, Actor, AuditEntry, Origin},
    identity::User,
};

use crate::{App, audit, error::Problem, extract, guard, routes, session};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody, signed in or not.
    Public,
    /// A signed-in user of at least this role.
    AtLeast(Role),
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

/// The signed-in user behind a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) user: User,
    /// SHA-256 of the session id.
    pub(crate) session: [u8; 32],
    /// Where this request came from.
    pub(crate) origin: Origin,
}

impl Caller {
    pub(crate) fn role(&self) -> Role {
        self.user.role
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
        parts.extensions.get::<Self>().cloned().ok_or_else(unauthenticated)
    }
}

/// Where a request of nobody in particular came from.
#[derive(Debug, Clone)]
pub(crate) struct Stranger(pub(crate) Origin);

impl<S: Send + Sync> FromRequestParts<S> for Stranger {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_else(|| Self(Origin::default())))
    }
}

pub(crate) fn unauthenticated() -> Problem {
    Problem::new(ErrorCode::Unauthenticated, "sign in first")
}

/// Looks the route's policy up and enforces it. Runs for matched routes only.
pub(crate) async fn enforce(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let policy = path.as_ref().and_then(|path| routes::policy(request.method(), path.as_str()));
    let Some(policy) = policy else {
        // A method that the route does not have, or a route without a policy: both end in a refusal.
        return next.run(request).await;
    };
    // Bodies can't be shared between threads, so what is needed of the request is taken out before the await.
    let site = guard::same_site(&app, request.method(), request.headers());
    let cookie = session::cookie(request.headers()).map(str::to_owned);
    let origin = audit::origin(&app, &request);
    match admit(&app, policy, site, cookie.as_deref()).await {
        Ok(mut caller) => {
            request.extensions_mut().insert(policy.body);
            // What reads refuses by itself what it does not know; of a change nobody must believe that it was
            // understood when it was not: `DELETE …?dry_run=true`.
            if !request.method().is_safe()
                && !path.is_some_and(|it| routes::takes_query(request.method(), it.as_str()))
                && let Err(problem) = extract::without_query(request.uri())
            {
                return problem.into_response();
            }
            if !request.body().is_end_stream() && !request.method().is_safe() {
                let arrived = async {
                    let request = extract::with_its_body(request, policy.body).await?;
                    // It may have taken its time: who was deleted meanwhile has no say any more.
                    let caller = match caller {
                        Some(_) => admit(&app, policy, Ok(()), cookie.as_deref()).await?,
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
                Some(caller) => drop(request.extensions_mut().insert(Caller { origin, ..caller })),
                None => drop(request.extensions_mut().insert(Stranger(origin))),
            }
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

async fn admit(
    app: &App,
    policy: Policy,
    site: Result<(), Problem>,
    cookie: Option<&str>,
) -> Result<Option<Caller>, Problem> {
    let Access::AtLeast(role) = policy.access else {
        // Sign-in and set-up set or use cookies too: no other site may send them.
        return site.map(|()| None);
    };
    let cookie = cookie.ok_or_else(unauthenticated)?;
    site?;
    let caller = session::caller(app, cookie).await?.ok_or_else(unauthenticated)?;
    if caller.role() < role {
        let message = format!("this needs the role `{role}`, yours is `{}`", caller.role());
        return Err(Problem::new(ErrorCode::Forbidden, message));
    }
    Ok(Some(caller))
}
