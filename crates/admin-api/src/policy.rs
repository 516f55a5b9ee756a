//! What a route demands of its callers: a role, the scope of a token, a size of the body.

use axum::http::Method;
use gantry_domain::{Role, account_token::Right};

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

/// The areas of all routes that tokens may call, by name. A test compares this list with the route table.
pub const AREAS: &[&str] = &["account", "audit", "deployment", "keys", "models", "people", "system", "usage"];

/// Returns a scope in words, such as `models:write`.
pub(crate) fn scope_word(area: &str, right: Right) -> String {
    format!("{area}:{}", right.as_str())
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
    /// Requests for an answer in a chat: the whole conversation, with its pictures.
    pub const COMPLETION: Self = Self(8 << 20);
    pub const ADMIN: Self = Self(256 << 10);
}

/// The policy of one route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub access: Access,
    pub body: BodyLimit,
}
