//! Finds out whose program is at the other end of a connection to a port of loopback. The kernel is asked once for each
//! new connection to an engine, before anything is sent.
//!
//! The listening socket is looked up first. If there is none any more, its program may have accepted the connection and
//! closed the listening socket, so the other end of this very connection is looked up. A query takes some microseconds
//! and never waits: the kernel answers in the call that sends it. Linux: `sock_diag(7)`, else `/proc`.

use std::{
    io::{self, ErrorKind, Read},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
};

use gantry_domain::listeners::Listeners;
use socket2::{Domain, Protocol, Socket, Type};

/// `AF_NETLINK`, `NETLINK_SOCK_DIAG`, `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST`, `NLMSG_ERROR` of `linux/netlink.h` and
/// `linux/sock_diag.h`.
const NETLINK: i32 = 16;
const SOCK_DIAG: i32 = 4;
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// `AF_INET`, `IPPROTO_TCP` and, of sockets, `TCP_ESTABLISHED` and `TCP_LISTEN`.
const INET: u8 = 2;
const TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// Bytes of `nlmsghdr`, and of it with `inet_diag_req_v2`.
const HEAD: usize = 16;
const QUESTION: usize = HEAD + 56;
/// `errno`: no such socket.
const NOT_FOUND: i32 = 2;

/// Makes sure that a connection from `own`, an address of this program, to `port` of loopback leads to a program of one of
/// `allowed`.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`]: it leads to another user's program. Others: the kernel can't be asked.
pub fn check(port: u16, own: SocketAddr, allowed: &Listeners) -> io::Result<()> {
    let owner = match owner(port, None)? {
        None => owner(port, v4(own))?,
        listener => listener,
    };
    if allowed.allow(owner) {
        return Ok(());
    }
    if let Some(user) = owner {
        tracing::warn!(port, user, "another user's program is at an engine's port: nothing is sent to it");
    } else {
        tracing::debug!(port, "nobody listens at an engine's port any more: nothing is sent to it");
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "another program is at the engine's port"))
}

fn v4(address: SocketAddr) -> Option<SocketAddrV4> {
    match SocketAddr::new(address.ip().to_canonical(), address.port()) {
        SocketAddr::V4(it) => Some(it),
        SocketAddr::V6(_) => None,
    }
}

/// Returns the user of the socket that listens at `127.0.0.1:port`, or of the one there that is connected with `peer`;
/// `None` if there is none.
///
/// # Errors
/// The kernel can't be asked.
fn owner(port: u16, peer: Option<SocketAddrV4>) -> io::Result<Option<u32>> {
    // A sandbox may forbid this kind of socket.
    asked(port, peer).or_else(|_| listed(port, peer))
}

fn asked(port: u16, peer: Option<SocketAddrV4>) -> io::Result<Option<u32>> {
    let socket = Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG)))?;
    socket.set_nonblocking(true)?;
    if socket.send(&question(port, peer))? != QUESTION {
        return Err(ErrorKind::WriteZero.into());
    }
    let mut answer = [0; 512];
    let length = (&socket).read(&mut answer)?;
    understood(answer.get(..length).unwrap_or_default(), if peer.is_some() { ESTABLISHED } else { LISTEN })
}

fn question(port: u16, peer: Option<SocketAddrV4>) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    put(8, &1_u32.to_ne_bytes());
    put(HEAD, &[INET, TCP]);
    put(HEAD + 4, &u32::MAX.to_ne_bytes());
    // From here it is a socket's identity: its own port, the peer's port, both addresses, any interface, no cookie.
    put(HEAD + 8, &port.to_be_bytes());
    put(HEAD + 12, &Ipv4Addr::LOCALHOST.octets());
    if let Some(peer) = peer {
        put(HEAD + 10, &peer.port().to_be_bytes());
        put(HEAD + 28, &peer.ip().octets());
    }
    put(HEAD + 48, &u32::MAX.to_ne_bytes());
    put(HEAD + 52, &u32::MAX.to_ne_bytes());
    bytes
}

/// The user in an `inet_diag_msg`.
fn understood(answer: &[u8], state: u8) -> io::Result<Option<u32>> {
    let word = |at: usize| -> io::Result<u32> {
        let bytes = answer.get(at..at + 4).and_then(|it| it.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or_else(|| ErrorKind::UnexpectedEof.into())
    };
    let kind = answer.get(4..6).and_then(|it| it.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(ERROR) => match word(HEAD)?.cast_signed().wrapping_neg() {
            NOT_FOUND => Ok(None),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
        Some(BY_FAMILY) if answer.get(HEAD + 1) == Some(&state) => word(HEAD + 64).map(Some),
        Some(BY_FAMILY) => Ok(None),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Returns the same as [`asked`], but reads it from the kernel's tables in `/proc`.
fn listed(port: u16, peer: Option<SocketAddrV4>) -> io::Result<Option<u32>> {
    let four = std::fs::read_to_string("/proc/net/tcp")?;
    // This file does not exist without IPv6.
    let six = std::fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    Ok([four, six].iter().find_map(|table| table.lines().skip(1).find_map(|line| user_of(line, port, peer))))
}

/// Returns the user in a line, if the line is the wanted socket, on `port` of loopback or of every address:
fn user_of(line: &str, port: u16, peer: Option<SocketAddrV4>) -> Option<u32> {
    let mut words = line.split_whitespace();
    let (address, at) = words.nth(1)?.split_once(':')?;
    let (other, other_at) = words.next()?.split_once(':')?;
    let takes = matches!(
        address,
        "0100007F"
            | "00000000"
            | "00000000000000000000000000000000"
            | "0000000000000000FFFF00000100007F"
            | "0000000000000000FFFF000000000000"
    );
    let state = words.next()?;
    let is_it = match peer {
        None => state == "0A",
        Some(peer) => {
            let ip = format!("{:08X}", u32::from_ne_bytes(peer.ip().octets()));
            state == "01" && other.ends_with(&ip) && u16::from_str_radix(other_at, 16) == Ok(peer.port())
        }
    };
    let user = words.nth(3)?.parse().ok()?;
    (takes && is_it && u16::from_str_radix(at, 16) == Ok(port)).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn both_ways_tell_whose_a_listener_is_and_where_none_is() {
        let own = rustix::process::geteuid().as_raw();
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert_eq!(asked(port, None).unwrap(), Some(own), "{at}");
            assert_eq!(listed(port, None).unwrap(), Some(own), "{at}");
            // A connection does not change the owner.
            let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            assert_eq!(owner(port, None).unwrap(), Some(own), "{at}");
            let _taken = listener.accept().unwrap();
            drop(listener);
            assert_eq!((asked(port, None).unwrap(), listed(port, None).unwrap()), (None, None), "{at}");
            // The program still has the connection.
            let peer = v4(client.local_addr().unwrap());
            assert_eq!(asked(port, peer).unwrap(), Some(own), "{at}");
            assert_eq!(listed(port, peer).unwrap(), Some(own), "{at}");
            let nobody = Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
            assert_eq!((asked(port, nobody).unwrap(), listed(port, nobody).unwrap()), (None, None), "{at}");
        }
    }

    #[test]
    fn only_those_who_may_are_let_through() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let own = rustix::process::geteuid().as_raw();
        let allowed = |users: &[u32], none| Listeners { users: users.to_vec(), none };
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let check = |allowed: &Listeners| check(port, client.local_addr().unwrap(), allowed);
        assert!(check(&allowed(&[own], false)).is_ok());
        let refused = check(&allowed(&[own + 1], true)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        // A program that accepts the connection and stops listening can't hide.
        let taken = listener.accept().unwrap();
        drop(listener);
        assert!(check(&allowed(&[own], false)).is_ok());
        assert!(check(&allowed(&[own + 1], true)).is_err());
        drop(taken);
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert!(super::check(port, nobody, &allowed(&[own], true)).is_ok());
        assert!(super::check(port, nobody, &allowed(&[own], false)).is_err());
    }
}
