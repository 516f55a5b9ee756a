//! Finds out whose program is at the other end of a connection to a port of loopback. The kernel is asked once for each
//! new connection to an engine, before anything is sent.
//!
//! The listening socket is looked up first. If there is none any more, its program may have accepted the connection and
//! closed the listening socket, so the other end of this very connection is looked up. A query takes some microseconds
//! and never waits.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
};

use gantry_connect::sockets;
use gantry_domain::listeners::Listeners;

/// Makes sure that a connection from `own`, an address of this program, to `port` of loopback leads to a program of one of
/// `allowed`.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`]: it leads to another user's program. Others: the kernel can't be asked.
pub fn check(port: u16, own: SocketAddr, allowed: &Listeners) -> io::Result<()> {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let owner = match sockets::owner(here, None)? {
        None => sockets::owner(here, Some(own))?,
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

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
