//! The roles of people and what they may do. What API keys may do is defined in [`crate::key::Scopes`].

use crate::words;

words! {
    /// A user's role, in the order of increasing power: `User < OrgAdmin < Admin < Owner`.
    #[derive(PartialOrd, Ord)]
    pub enum Role {
        /// Uses the playground and manages their own keys.
        User = "user",
        /// Manages users, keys and usage of their own organisation.
        OrgAdmin = "org_admin",
        /// May do everything except what can reach the host: see [`Role::Owner`]. If engines are processes, the choice
        /// of models that they parse amounts to the power of the gateway's user, see docs/runtimes.md.
        Admin = "admin",
        /// May do everything, including what amounts to power over the host (engine images, extra arguments, base
        /// directory).
        Owner = "owner",
    }
}

impl Role {
    /// Whether this role acts on every organisation rather than only on its own.
    pub fn is_global(self) -> bool {
        self >= Self::Admin
    }
}
