//! Finds out which user's program has a TCP socket of this machine. A loopback address alone says nothing about that,
//! since every account of the machine has it. Linux: `sock_diag(7)`, else `/proc`.

use std::{
    fs,
    io::{self, ErrorKind, Read},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};

/// `AF_NETLINK`, `NETLINK_SOCK_DIAG`, `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST`, `NLMSG_ERROR` of `linux/netlink.h` and
/// `linux/sock_diag.h`.
const NETLINK: i32 = 16;
const SOCK_DIAG: i32 = 4;
const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// `AF_INET`, `AF_INET6`, `IPPROTO_TCP`.
const INET: u8 = 2;
const INET6: u8 = 10;
const TCP: u8 = 6;
/// States of sockets: `TCP_ESTABLISHED`, `TCP_LISTEN`. The kernel forgets the owner of connections that are not
/// established any more, and says 0.
const ESTABLISHED: u8 = 1;
const LISTEN: u8 = 10;
/// Bytes of `nlmsghdr`, and of it with `inet_diag_req_v2`.
const HEAD: usize = 16;
const QUESTION: usize = HEAD + 56;
/// `errno`: no such socket.
const NOT_FOUND: i32 = 2;

/// Tables of the kernel's TCP sockets (`proc_pid_net(5)`).
const TABLES: [&str; 2] = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
/// How often the tables are read before a connection counts as missing. The kernel gives them out in pieces: a line can
/// be left out while other connections come and go, but a line that is there is true.
const READS: usize = 4;

/// Returns the user of the connection from `local` to `peer`, or without `peer` that of the socket that listens at
/// `local` or at every address; `None` if there is no such socket. Both ends are of the same family, or of IPv4 once
/// [`IpAddr::to_canonical`] is applied. It takes some microseconds and never waits: the kernel answers in the call that
/// sends the question.
///
/// # Errors
/// The kernel can't be asked.
pub fn owner(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Option<u32>> {
    let (local, peer) = (canonical(local), peer.map(canonical));
    // A sandbox may forbid this kind of socket.
    asked(local, peer).or_else(|_| listed(local, peer))
}

/// Returns the users of all connections whose end on this machine is `local`. There may be several, to different
/// addresses. Reads the kernel's table of all sockets, which blocks for as long as that takes; [`owner`] is cheaper
/// where both ends are known.
///
/// # Errors
/// The kernel can't be asked.
pub fn owners(local: SocketAddr) -> io::Result<Vec<u32>> {
    let local = canonical(local);
    for _ in 1..READS {
        let found = connected(&table()?, local);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(connected(&table()?, local))
}

fn connected(table: &[Line], local: SocketAddr) -> Vec<u32> {
    table.iter().filter(|it| it.state == ESTABLISHED && it.local == local).map(|it| it.user).collect()
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn asked(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Option<u32>> {
    let socket = Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG)))?;
    socket.set_nonblocking(true)?;
    if socket.send(&question(local, peer))? != QUESTION {
        return Err(ErrorKind::WriteZero.into());
    }
    let mut answer = [0; 512];
    let length = (&socket).read(&mut answer)?;
    understood(answer.get(..length).unwrap_or_default(), if peer.is_some() { ESTABLISHED } else { LISTEN })
}

fn question(local: SocketAddr, peer: Option<SocketAddr>) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(QUESTION as u32).to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &REQUEST.to_ne_bytes());
    put(8, &1_u32.to_ne_bytes());
    put(HEAD, &[if local.is_ipv4() { INET } else { INET6 }, TCP]);
    put(HEAD + 4, &u32::MAX.to_ne_bytes());
    // From here it is a socket's identity: its own port, the peer's port, both addresses, any interface, no cookie.
    let mut end = |port: usize, ip: usize, address: SocketAddr| {
        put(HEAD + port, &address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(it) => put(HEAD + ip, &it.octets()),
            IpAddr::V6(it) => put(HEAD + ip, &it.octets()),
        }
    };
    end(8, 12, local);
    if let Some(peer) = peer {
        end(10, 28, peer);
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
fn listed(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Option<u32>> {
    let is_it = |it: &Line| match peer {
        Some(peer) => it.state == ESTABLISHED && it.local == local && it.peer == peer,
        None => it.state == LISTEN && it.local.port() == local.port() && it.takes(local.ip()),
    };
    Ok(table()?.into_iter().find(is_it).map(|it| it.user))
}

/// A socket in the kernel's table; its addresses are canonical.
struct Line {
    local: SocketAddr,
    peer: SocketAddr,
    state: u8,
    user: u32,
}

impl Line {
    /// Whether connections to `ip` reach this listening socket. One of every address of IPv6 takes those of IPv4, too,
    /// unless it says no, which the table does not show.
    fn takes(&self, ip: IpAddr) -> bool {
        match self.local.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => ip.is_ipv4(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => true,
            own => own == ip,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        // `sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …`
        let mut words = text.split_ascii_whitespace().skip(1);
        let (local, peer) = (address(words.next()?)?, address(words.next()?)?);
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { local, peer, state, user: words.nth(3)?.parse().ok()? })
    }
}

fn table() -> io::Result<Vec<Line>> {
    let mut all = Vec::new();
    for path in TABLES {
        match fs::read_to_string(path) {
            Ok(table) => all.extend(table.lines().skip(1).filter_map(Line::parse)),
            // A kernel without IPv6 has no such table.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
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
    Some(canonical((ip, u16::from_str_radix(port, 16).ok()?).into()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn own() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_kernel_s_lines_are_read() {
        let text = "   1: 0100007F:C4CA 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 65534        0 4242 1";
        let end: SocketAddr = "127.0.0.1:50378".parse().unwrap();
        let line = Line::parse(text).unwrap();
        assert_eq!((line.local, line.peer), (end, "127.0.0.1:8080".parse().unwrap()));
        assert_eq!((line.state, line.user), (ESTABLISHED, 65534));
        // A socket of IPv6 that is connected by IPv4.
        let mapped = text.replace("0100007F:C4CA", "0000000000000000FFFF00000100007F:C4CA");
        assert_eq!(Line::parse(&mapped).unwrap().local, end);
        let users = |text: &str, local: &str| {
            connected(&[Line::parse(text).unwrap()], canonical(local.parse().unwrap()))
        };
        assert_eq!(users(text, "127.0.0.1:50378"), [65534]);
        assert_eq!(users(text, "[::ffff:127.0.0.1]:50378"), [65534]);
        assert_eq!(users(text, "127.0.0.1:50379"), []);
        assert_eq!(users(text, "127.0.0.2:50378"), []);
        // One that its program closed: whose it was is not known any more.
        assert_eq!(users(&text.replace(" 01 ", " 05 ").replace("65534", "0"), "127.0.0.1:50378"), []);
        let six = text.replace("0100007F:C4CA", "00000000000000000000000001000000:C4CA");
        assert_eq!(Line::parse(&six).unwrap().local, "[::1]:50378".parse().unwrap());
        for junk in ["", "x", "1: 7F:1 2:3 01 a b c 0", "1: 0100007F:C4CA", "1: g100007F:C4CA x 01 a b c 0"] {
            assert!(Line::parse(junk).is_none(), "{junk}");
        }
    }

    #[test]
    fn connections_of_this_process_are_its_own() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not every machine has IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            // The same port may belong to connections to other addresses, too.
            let found = owners(client.local_addr().unwrap()).unwrap();
            assert!(!found.is_empty() && found.iter().all(|it| *it == own()), "{found:?}");
        }
    }

    #[test]
    fn both_ways_tell_whose_a_listener_is_and_where_none_is() {
        for (at, host) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::]:0", "127.0.0.1"),
            ("[::]:0", "::1"),
            ("[::1]:0", "::1"),
        ] {
            let Ok(listener) = TcpListener::bind(at) else { continue };
            let local = SocketAddr::new(host.parse().unwrap(), listener.local_addr().unwrap().port());
            assert_eq!(asked(local, None).unwrap(), Some(own()), "{at}");
            assert_eq!(listed(local, None).unwrap(), Some(own()), "{at}");
            // A connection does not change the owner.
            let client = TcpStream::connect(local).unwrap();
            assert_eq!(owner(local, None).unwrap(), Some(own()), "{at}");
            let _taken = listener.accept().unwrap();
            drop(listener);
            assert_eq!((asked(local, None).unwrap(), listed(local, None).unwrap()), (None, None), "{at}");
            // The program still has the connection.
            let peer = Some(client.local_addr().unwrap());
            assert_eq!(asked(local, peer).unwrap(), Some(own()), "{at}");
            assert_eq!(listed(local, peer).unwrap(), Some(own()), "{at}");
            let nobody = Some(SocketAddr::new(local.ip(), 1));
            assert_eq!((asked(local, nobody).unwrap(), listed(local, nobody).unwrap()), (None, None), "{at}");
        }
    }
}
