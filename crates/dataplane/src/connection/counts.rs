//! How many client connections there are, in all and from each address, and which of them have brought no request yet.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    rc::{Rc, Weak},
    sync::atomic::AtomicUsize,
};

use parking_lot::{Mutex, MutexGuard};

use crate::connection::state::ConnectionState;

/// Most idle connections that are looked at to find one of a given address.
const LOOKS: usize = 256;

/// Connections of all threads.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    pub(super) all: AtomicUsize,
    /// The number of connections of each address. It is locked for moments, when a connection comes or goes, if
    /// addresses have a limit.
    by: Mutex<HashMap<IpAddr, u32>>,
}

impl ConnectionCounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        // Nothing in here panics while it holds the lock; a poisoned one is still consistent.
        self.by.lock()
    }

    /// Counts one more connection of `address`, and returns whether there are at most `max`. It is counted in any case.
    pub(super) fn enter(&self, address: IpAddr, max: u32) -> bool {
        let mut by = self.lock();
        let n = by.entry(address).or_default();
        *n += 1;
        *n <= max
    }

    pub(super) fn leave(&self, address: IpAddr) {
        let mut by = self.lock();
        if let Some(n) = by.get_mut(&address) {
            *n -= 1;
            if *n == 0 {
                by.remove(&address);
            }
        }
    }
}

/// Returns the address that connections are counted under: a client with one IPv6 address has all of its /64.
pub(super) fn network(peer: IpAddr) -> IpAddr {
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
    pub(crate) fn add(&self, state: &Rc<ConnectionState>) {
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
    pub(super) fn end_oldest(&self, of: Option<IpAddr>) -> bool {
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
