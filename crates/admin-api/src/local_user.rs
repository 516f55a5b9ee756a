//! Finds out which user's program is at the other end of a connection from this machine. A loopback address alone says
//! nothing about the sender, since every account of the machine, and every proxy on it, has one.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
};

use axum::http::{HeaderMap, Uri, uri::Authority};
use gantry_domain::web;
use tracing::warn;

use crate::Peer;

/// Tables of the kernel's TCP sockets (`proc_pid_net(5)`).
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// State of a connection that both ends hold open. The kernel forgets the owner of connections in other states, and
/// says 0.
const ESTABLISHED: &str = "01";
const ROOT: u32 = 0;
/// How often the tables are read before a connection counts as missing. The kernel gives them out in pieces: a line can
/// be left out while other connections come and go, but a line that is there is true.
const READS: usize = 4;

/// Returns whether a request comes from a program of the gateway's own user or of root on this machine, and not through
/// a proxy that says so or that runs as another user.
pub(crate) async fn sends(peer: Peer, uri: &Uri, headers: &HeaderMap) -> bool {
    let forwarded = headers.keys().map(http::HeaderName::as_str).any(|it| {
        it.starts_with("x-forwarded") || matches!(it, "forwarded" | "via" | "x-real-ip" | "x-client-ip")
    });
    let authority = uri.authority().map(Authority::as_str);
    if forwarded || !peer.0.ip().to_canonical().is_loopback() || !web::is_for_loopback(headers, authority) {
        return false;
    }
    let own = rustix::process::geteuid().as_raw();
    let found = tokio::task::spawn_blocking(move || owners(peer.0)).await;
    match found {
        Ok(Ok(owners)) => !owners.is_empty() && owners.iter().all(|it| *it == own || *it == ROOT),
        Ok(Err(error)) => {
            warn!(%error, "the kernel does not say whose a connection is");
            false
        }
        Err(_) => false,
    }
}

/// Returns the users of all connections with this local address; there may be several, to different addresses.
fn owners(end: SocketAddr) -> io::Result<Vec<u32>> {
    for _ in 1..READS {
        let found = listed(end)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    listed(end)
}

fn listed(end: SocketAddr) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for path in TABLES {
        match fs::read_to_string(path) {
            Ok(table) => found.extend(table.lines().skip(1).filter_map(|line| owner(line, end))),
            // A kernel without IPv6 has no such table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns the user of the socket of a line, if it is a connection with this local address.
fn owner(line: &str, end: SocketAddr) -> Option<u32> {
    // `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, _, state) = (words.next()?, words.next()?, words.next()?);
    let owner = words.nth(3)?.parse().ok()?;
    let is_end = address(local)
        .is_some_and(|it| it.port() == end.port() && it.ip().to_canonical() == end.ip().to_canonical());
    (state == ESTABLISHED && is_end).then_some(owner)
}

/// Parses an address such as `0100007F:1F90`: words of 32 bits as this machine has them in memory, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |n: usize| Some(u32::from_str_radix(ip.get(8 * n..8 * n + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            bytes.into()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?).into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_s_lines_are_read() {
        let line = "   1: 0100007F:C4CA 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 65534        0 4242 1";
        let end = "127.0.0.1:50378".parse().unwrap();
        assert_eq!(owner(line, end), Some(65534));
        assert_eq!(owner(line, "[::ffff:127.0.0.1]:50378".parse().unwrap()), Some(65534));
        assert_eq!(owner(line, "127.0.0.1:50379".parse().unwrap()), None);
        assert_eq!(owner(line, "127.0.0.2:50378".parse().unwrap()), None);
        // One that its program closed: whose it was is not known any more.
        assert_eq!(owner(&line.replace(" 01 ", " 05 ").replace("65534", "0"), end), None);
        let six = line.replace("0100007F:C4CA", "00000000000000000000000001000000:C4CA");
        assert_eq!(owner(&six, "[::1]:50378".parse().unwrap()), Some(65534));
        for junk in ["", "x", "1: 7F:1 2:3 01 a b c 0", "1: 0100007F:C4CA", "1: g100007F:C4CA x 01 a b c 0"] {
            assert_eq!(owner(junk, end), None, "{junk}");
        }
    }

    #[test]
    fn connections_of_this_process_are_its_own() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not every machine has IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let own = rustix::process::geteuid().as_raw();
            // The same port may belong to connections to other addresses, too.
            let found = owners(client.local_addr().unwrap()).unwrap();
            assert!(!found.is_empty() && found.iter().all(|it| *it == own), "{found:?}");
        }
    }
}
