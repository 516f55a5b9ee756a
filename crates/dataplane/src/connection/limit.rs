//! Limits the number of client connections, in all and from one address: idle ones must not take the descriptors that
//! engines, the database and the spool need. If there is no place left, the connection that has been silent the longest
//! gives its place to the new one.

use std::{
    net::{IpAddr, Ipv6Addr},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    connection::state::{Arrival, ConnectionState},
    thread_state::ThreadState,
};

/// A connection's place among all, and among those of its address; given back on drop.
pub(crate) struct ConnectionPlace {
    thread: Rc<ThreadState>,
    pub(super) state: Arc<ConnectionState>,
}

impl ConnectionPlace {
    /// Notes that the connection brings a request, with a body or without.
    pub(super) fn asks(&self, has_body: bool) {
        if self.state.asks(has_body) {
            // Its first request came at the moment at which it was ended. It goes on, and is counted again.
            self.thread.shared.connections.lock().enter(self.state.counted);
        }
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut taken = self.thread.shared.connections.lock();
        // The place of one that is to end belongs to another connection.
        if !self.state.is_to_end() {
            taken.leave(self.state.counted);
        }
    }
}

/// Returns a place for a new connection from `peer`; `None` if there is none, and the connection has to be closed.
pub(crate) fn admit(thread: &Rc<ThreadState>, peer: IpAddr, arrival: Arrival) -> Option<ConnectionPlace> {
    let (config, counters) = (&thread.config, &thread.shared.counters);
    let max = config.max_connections_per_address;
    // All clients of a proxy come from its address.
    let many =
        config.trusted_proxies.contains(peer) || peer.to_canonical().is_loopback() && !config.count_loopback;
    let address = (max > 0 && !many).then(|| network(peer));
    // No address may take all places.
    let max = max.min(u32::try_from(config.max_connections / 2).unwrap_or(u32::MAX)).max(1);
    let state = Arc::new(ConnectionState::new(address));
    let mut taken = thread.shared.connections.lock();
    let of_address = taken.enter(address);
    let lacking = if of_address > max {
        Some((address, &counters.connections_refused_address))
    } else {
        (taken.all > config.max_connections).then_some((None, &counters.connections_refused_full))
    };
    if let Some((of, refused)) = lacking {
        if !taken.end_oldest(of) {
            taken.leave(address);
            refused.fetch_add(1, Relaxed);
            return None;
        }
        counters.connections_displaced.fetch_add(1, Relaxed);
    }
    // Those that come while the gateway drains get an error at once.
    if arrival == Arrival::Early {
        taken.add_silent(&state);
    }
    drop(taken);
    Some(ConnectionPlace { thread: Rc::clone(thread), state })
}

/// Returns the address that connections are counted under: a client with one IPv6 address has all of its /64.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() & !u128::from(u64::MAX)).into(),
        it @ IpAddr::V4(_) => it,
    }
}
