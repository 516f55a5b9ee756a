//! Whose program may listen on an engine's port.
//!
//! Any account of the machine can take a port of loopback that nobody has: before an engine listens, and after it ended.
//! What the gateway sends there, keys and prompts, is meant for the engine alone.

/// Users whose programs may be behind the ports of engines. Accounts are the border: a program of the same user could
/// read the engine's key anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// As the gateway sees their ids.
    pub users: Vec<u32>,
    /// Docker without its proxy forwards the port by translating addresses. Then no process listens on it, and that is fine.
    pub none: bool,
}

impl Listeners {
    /// Whether the socket that takes connections may be what it is; `None`: there is none.
    pub fn allow(&self, owner: Option<u32>) -> bool {
        owner.map_or(self.none, |user| self.users.contains(&user))
    }
}
