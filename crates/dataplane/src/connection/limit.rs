//! Limits the number of client connections, in all and from one address: idle ones must not take the descriptors that
//! engines, the database and the spool need.

use std::{net::IpAddr, rc::Rc, sync::atomic::Ordering::Relaxed};

use crate::{connection::counts::network, thread_state::ThreadState};

/// A connection's place among all, and among those of its address; given back on drop.
pub(crate) struct ConnectionSlot {
    thread: Rc<ThreadState>,
    address: Option<IpAddr>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let connections = &self.thread.shared.connections;
        connections.all.fetch_sub(1, Relaxed);
        if let Some(address) = self.address {
            connections.leave(address);
        }
    }
}

/// Returns a place for a new connection from `peer`; `None` if there is none, and the connection has to be closed.
pub(crate) fn admit(thread: &Rc<ThreadState>, peer: IpAddr) -> Option<ConnectionSlot> {
    let (config, shared) = (&thread.config, &thread.shared);
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
    let place = ConnectionSlot { thread: Rc::clone(thread), address };
    let refused = if fits {
        (before >= config.max_connections).then_some((None, &counters.connections_refused_full))
    } else {
        Some((address, &counters.connections_refused_address))
    };
    if let Some((of, refused)) = refused {
        if !thread.silent.end_oldest(of) {
            refused.fetch_add(1, Relaxed);
            return None;
        }
        counters.connections_displaced.fetch_add(1, Relaxed);
    }
    Some(place)
}
