//! The roles of people and what they may do. What API keys may do is defined in [`crate::key::Scopes`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// A user's role, in the order of increasing power: `User < OrgAdmin < Admin < Owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Uses the playground and manages their own keys.
    User,
    /// Manages users, keys and usage of their own organisation.
    OrgAdmin,
    /// May do everything except what can reach the host: see [`Role::Owner`]. If engines are processes, the choice of
    /// models that they parse amounts to the power of the gateway's user, see docs/runtimes.md.
    Admin,
    /// May do everything, including what amounts to power over the host (engine images, extra arguments, base
    /// directory).
    Owner,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::User, Self::OrgAdmin, Self::Admin, Self::Owner];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::OrgAdmin => "org_admin",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// Whether this role acts on every organisation rather than only on its own.
    pub fn is_global(self) -> bool {
        self >= Self::Admin
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
