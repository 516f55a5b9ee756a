//! Identifies the sender of a request, to tell callers apart: what one client does must not be held against the engine
//! that all use.

use gantry_domain::{KeyId, OrgId, UserId};

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CallerId {
    pub key: Option<KeyId>,
    pub user: Option<UserId>,
    pub org: Option<OrgId>,
}

impl CallerId {
    /// Returns whether callers can't be told apart ([`crate::Config::allow_all_keys`]).
    pub(crate) fn is_anyone(self) -> bool {
        self == Self::default()
    }

    /// Returns whether both are the same person. All keys of a user are one person: users make as many as they like.
    pub(crate) fn is_same_person(self, other: Self) -> bool {
        match (self.user, other.user) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.key == other.key,
            _ => false,
        }
    }
}
