//! What has limits of its own: a key, a user or an organisation.

use std::fmt;

use gantry_domain::{KeyId, OrgId, UserId};

/// What has limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Key(KeyId),
    Org(OrgId),
    /// A user, in all sessions together; and with all keys, too, if an administrator limited the user.
    User(UserId),
}

impl Subject {
    /// For messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Org(_) => "organisation",
            Self::User(_) => "user",
        }
    }
}

/// `k7`, `o7` or `u7`: its name in the state that gateways share.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "k{}", id.0),
            Self::Org(id) => write!(f, "o{}", id.0),
            Self::User(id) => write!(f, "u{}", id.0),
        }
    }
}
