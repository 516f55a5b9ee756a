//! Who sent a request, as far as it matters for telling one from another: what one client does must not be held against
//! the engine that all use.

use gantry_domain::{KeyId, OrgId, UserId};

/// Who sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Who {
    pub key: Option<KeyId>,
    pub user: Option<UserId>,
    pub org: Option<OrgId>,
}

impl Who {
    /// Nobody can be told from anybody ([`crate::Config::allow_all_keys`]).
    pub(crate) fn is_anyone(self) -> bool {
        self == Self::default()
    }

    /// All keys of a user are one person: users make as many as they like.
    pub(crate) fn is_same_person(self, other: Self) -> bool {
        match (self.user, other.user) {
            (Some(a), Some(b)) => a == b,
            (None, None) => self.key == other.key,
            _ => false,
        }
    }
}
