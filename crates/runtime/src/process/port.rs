//! Finds a free port on loopback for an engine.

use std::{
    fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, TcpListener},
    ops::Range,
};

use rand::RngExt as _;

const TRIES: usize = 200;
/// Lowest port to choose if the kernel gives out ports above it.
const LOWEST: u16 = 20_000;

/// Returns a port that no program has now. It is outside the range from which the kernel takes ports for outgoing
/// connections: an engine loads libraries for many seconds before it listens, and such a connection could have taken
/// the port by then.
pub(super) fn choose() -> io::Result<u16> {
    let range = range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
    let mut random = rand::rng();
    for _ in 0..TRIES {
        let port = random.random_range(range.clone());
        if is_free(port)? {
            return Ok(port);
        }
    }
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether an engine could listen on this port.
pub(super) fn is_free(port: u16) -> io::Result<bool> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => Ok(false),
        Err(error) => Err(error),
    }
}

fn range(kernels: &str) -> Range<u16> {
    let mut bounds = kernels.split_whitespace().filter_map(|it| it.parse::<u16>().ok());
    match (bounds.next(), bounds.next()) {
        (Some(first), _) if first >= LOWEST + 1000 => LOWEST..first,
        (_, Some(last)) if last <= u16::MAX - 1000 => last + 1..u16::MAX,
        _ => LOWEST..u16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_for_outgoing_connections_are_left_alone() {
        assert_eq!(range("32768\t60999\n"), 20_000..32_768);
        assert_eq!(range("1024 60999"), 61_000..65_535);
        assert_eq!(range("1024 65535"), 20_000..65_535);
        assert_eq!(range(""), 20_000..65_535);
    }

    #[test]
    fn a_port_that_is_taken_is_seen() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(!is_free(port).unwrap());
        drop(taken);
        assert!(is_free(port).unwrap());
        assert!(is_free(choose().unwrap()).unwrap());
    }
}
