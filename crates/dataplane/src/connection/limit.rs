//! Limits the number of client connections, in all and from one address: idle ones must not take the descriptors that
//! engines, the database and the spool need.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    rc::{Rc, Weak},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::{connection::serve::ConnectionState, thread::Worker};

/// Most idle connections that are looked at to find one of a given address.
const LOOKS: usize = 256;

/// Connections of all threads.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    all: AtomicUsize,
    /// The number of connections of each address. It is locked for moments, when a connection comes or goes, if
    /// addresses have a limit.
    by: Mutex<HashMap<IpAddr, u32>>,
}

impl ConnectionCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection of `address`, and returns whether there are at most `max`. It is counted in any case.
    fn enter(&self, address: IpAddr, max: u32) -> bool {
        let mut by = self.lock();
        let n = by.entry(address).or_default();
        *n += 1;
        *n <= max
    }

    fn leave(&self, address: IpAddr) {
        let mut by = self.lock();
        if let Some(n) = by.get_mut(&address) {
            *n -= 1;
            if *n == 0 {
                by.remove(&address);
            }
        }
    }
}

/// A connection's place among all, and among those of its address; given back on drop.
pub(crate) struct ConnectionSlot {
    worker: Rc<Worker>,
    address: Option<IpAddr>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let connections = &self.worker.shared.connections;
        connections.all.fetch_sub(1, Relaxed);
        if let Some(address) = self.address {
            connections.leave(address);
        }
    }
}

/// Returns a place for a new connection from `peer`; `None` if there is none, and the connection has to be closed.
pub(crate) fn admit(worker: &Rc<Worker>, peer: IpAddr) -> Option<ConnectionSlot> {
    let (config, shared) = (&worker.config, &worker.shared);
    let (connections, counters) = (&shared.connections, &shared.counters);
    let max = config.max_connections_per_address;
    // All clients of a proxy come from its address.
    let many =
        config.trusted_proxies.contains(peer) || peer.to_canonical().is_loopback() && !config.count_loopback;
    let address = (max > 0 && !many).then(|| network(peer));
    // No address may take all places.
    let max = max.min(u32::try_from(config.max_connections / 2).unwrap_or(u32::MAX)).max(1);
    let fits = address.is_none_or(|it| connections.enter(it, max));
    let before = connections.all.fetch_add(1, Relaxed);
    let place = ConnectionSlot { worker: Rc::clone(worker), address };
    let refused = if fits {
        (before >= config.max_connections).then_some((None, &counters.connections_refused_full))
    } else {
        Some((address, &counters.connections_refused_address))
    };
    if let Some((of, refused)) = refused {
        if !worker.silent.end_oldest(of) {
            refused.fetch_add(1, Relaxed);
            return None;
        }
        counters.connections_displaced.fetch_add(1, Relaxed);
    }
    Some(place)
}

/// Returns the address that connections are counted under: a client with one IPv6 address has all of its /64.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() & !u128::from(u64::MAX)).into(),
        it @ IpAddr::V4(_) => it,
    }
}

/// Connections of a thread that have brought no request yet, oldest first. Those that have brought one, or are gone,
/// are removed when the list is used next.
#[derive(Debug, Default)]
pub(crate) struct Silent(RefCell<VecDeque<Weak<ConnectionState>>>);

impl Silent {
    pub(crate) fn came(&self, state: &Rc<ConnectionState>) {
        let mut all = self.0.borrow_mut();
        // Otherwise the list would grow with every connection ever made.
        while all.front().is_some_and(|it| it.upgrade().is_none_or(|it| it.has_asked())) {
            all.pop_front();
        }
        if all.len() >= all.capacity() {
            all.retain(|it| it.upgrade().is_some_and(|it| !it.has_asked()));
        }
        all.push_back(Rc::downgrade(state));
    }

    /// Ends the connection that has been silent the longest, of one address if `of` is given. Returns whether there was
    /// one.
    fn end_oldest(&self, of: Option<IpAddr>) -> bool {
        let mut all = self.0.borrow_mut();
        let mut at = 0;
        while at < LOOKS
            && let Some(state) = all.get(at)
        {
            match state.upgrade().filter(|it| !it.has_asked()) {
                Some(state) if of.is_some_and(|it| it != network(state.address)) => at += 1,
                found => {
                    all.remove(at);
                    if let Some(state) = found {
                        state.end();
                        return true;
                    }
                }
            }
        }
        false
    }
}
