//! Organisations, users and sessions as the store keeps them. The admin API shows them with types of its own.

use std::time::Duration;

use crate::{OrgId, Role, Timestamp, UserId, limit::Limits};

/// A tenant. `enabled = false` ends all its sessions and keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Org {
    pub id: OrgId,
    /// 1–100 characters, unique without regard to case.
    pub name: String,
    pub enabled: bool,
    pub created_at: Timestamp,
    /// Limits for all its keys and sessions together.
    pub limits: Limits,
}

/// Stands for the password hash of a user who has no password yet: no password fits.
pub const NO_PASSWORD: &str = "";

/// A person (or a service) that can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub org_id: OrgId,
    /// 1–64 characters, unique without regard to case over all organisations.
    pub username: String,
    /// argon2id in PHC string format, or [`NO_PASSWORD`].
    pub password_hash: String,
    pub role: Role,
    pub enabled: bool,
    pub created_at: Timestamp,
    pub last_login_at: Option<Timestamp>,
    /// Limits for all keys and sessions of the user together.
    pub limits: Limits,
    /// Served names that the user's keys and sessions may call; `None` allows all.
    pub models: Option<Vec<String>>,
}

/// A signed-in browser. Only the hash of the id is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// SHA-256 of the 256-bit random id.
    pub id_hash: [u8; 32],
    pub user_id: UserId,
    pub created_at: Timestamp,
    /// Expiry time, which moves forward with each use (sliding lifetime).
    pub expires_at: Timestamp,
}

impl Session {
    /// Largest lead of a session's creation time over the clock. A session that was created further in the future is
    /// refused: it was made under a wrong clock, and would live too long.
    pub const CLOCK_SLACK: Duration = Duration::from_hours(2);

    /// Whether a session with these times is valid now.
    pub fn is_current(created_at: Timestamp, expires_at: Timestamp, now: Timestamp) -> bool {
        expires_at > now && created_at <= now.plus(Self::CLOCK_SLACK)
    }
}

/// Name of the cookie that a sign-in sets.
pub const SESSION_COOKIE: &str = "svc_session";

/// Returns the session cookie from the values of a request's `Cookie` headers, in their order. If there are several,
/// the first counts (RFC 6265 §5.4: the one with the longest path, else the oldest).
pub fn session_cookie<'a>(headers: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut pairs = headers.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find_map(|(name, value)| (name == SESSION_COOKIE).then_some(value))
}
