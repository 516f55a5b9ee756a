//! Decides whose programs may listen on an engine's port.
//!
//! Any account of the machine can take a free port of loopback, before an engine listens on it and after the engine
//! ended. What the gateway sends there, keys and prompts, is meant for the engine alone.

/// Users whose programs may listen on the ports of engines. The account is the security boundary: a program of the same
/// user could read the engine's key anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// User ids, as the gateway sees them.
    pub users: Vec<u32>,
    /// Whether a port without a listening process is accepted. Docker without its proxy forwards the port by
    /// translating addresses, so that no process listens on it.
    pub none: bool,
}

impl Listeners {
    /// Whether a socket that accepts connections may belong to `owner`; `None`: no process listens.
    pub fn allow(&self, owner: Option<u32>) -> bool {
        owner.map_or(self.none, |user| self.users.contains(&user))
    }
}
