//! Where an engine listens, as its runtime reports it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The loopback address. Runtimes that start engines on this machine let them listen here and nowhere else.
pub const LOOPBACK: &str = "127.0.0.1";

/// The address of an engine.
///
/// Its stored form leaves out what is usual. So an engine on loopback is stored as its port alone, as versions of the
/// gateway did that knew no other engines, and they can read the rows of this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EngineAddress {
    #[serde(default, skip_serializing_if = "is_default")]
    pub scheme: Scheme,
    /// A name, or an IP address without brackets.
    #[serde(default = "loopback", skip_serializing_if = "is_loopback")]
    pub host: String,
    pub port: u16,
}

/// How an engine is spoken to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    #[default]
    Http,
    Https,
}

impl EngineAddress {
    /// Returns the address of an engine that listens on this machine's loopback.
    pub fn loopback(port: u16) -> Self {
        Self { scheme: Scheme::Http, host: loopback(), port }
    }

    /// Whether it is on this machine's loopback, where any account of the machine can listen.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Returns `host:port`, as a URL or the `Host` header has it.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// The URL of the engine, without a slash at its end.
impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}", self.authority())
    }
}

fn loopback() -> String {
    LOOPBACK.to_owned()
}

fn is_loopback(host: &str) -> bool {
    host == LOOPBACK
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_default(scheme: &Scheme) -> bool {
    *scheme == Scheme::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_a_url() {
        assert_eq!(EngineAddress::loopback(4000).to_string(), "http://127.0.0.1:4000");
        let far = |host: &str| EngineAddress { scheme: Scheme::Https, host: host.to_owned(), port: 443 };
        assert_eq!(far("engine.example").to_string(), "https://engine.example:443");
        assert_eq!(far("fd00::1").to_string(), "https://[fd00::1]:443");
        assert!(EngineAddress::loopback(1).is_loopback() && !far("127.0.0.1.example").is_loopback());
    }
}
