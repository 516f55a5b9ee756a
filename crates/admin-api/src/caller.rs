//! Who sends a request: a user with a session or a token, or nobody in particular.

use axum::{extract::FromRequestParts, http::request::Parts};
use gantry_domain::{
    ErrorCode, OrgId, Role,
    account_token::{Right, TokenScopes},
    audit::{Action, Actor, AuditEntry, Origin},
    identity::User,
};

use crate::{
    error::{Outcome, Problem},
    policy::scope_word,
    seats::{Seat, Seats},
    tokens::standing::Standing,
};

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

    /// Takes a place for a stream of this caller.
    ///
    /// # Errors
    /// Those of [`Seats::take`].
    pub(crate) fn take_seat(&self, seats: &Seats) -> Outcome<Seat> {
        seats.take(self.grant.key(), self.user.id, self.role())
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

pub(crate) fn in_person() -> Problem {
    Problem::new(ErrorCode::Forbidden, "a token can't do this: sign in with the user's password")
}

/// # Errors
/// 403 `insufficient_scope`.
pub(crate) fn in_scope(scopes: &TokenScopes, area: &str, right: Right) -> Outcome<()> {
    if scopes.allows(area, right) {
        return Ok(());
    }
    let message = format!("this needs the scope `{}`, the token has `{scopes}`", scope_word(area, right));
    Err(Problem::new(ErrorCode::InsufficientScope, message))
}
