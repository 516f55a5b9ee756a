//! How many client connections there are, in all and from each address, and which of them have brought no request yet.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, MutexGuard};

use crate::connection::state::ConnectionState;

/// Most silent connections that are looked at to find one of a given address.
const LOOKS: usize = 256;

/// The places of client connections. All threads share them: a thread that has no silent connection must not refuse a
/// new one while another thread has hundreds. They are locked for moments, when a connection comes or goes.
#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<Taken>);

#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) all: usize,
    /// The number of connections of each address that is counted.
    by: HashMap<IpAddr, u32>,
    /// Connections that have brought no request yet, oldest first. Those that have brought one, or are gone, are
    /// removed when the list is used next.
    silent: VecDeque<Weak<ConnectionState>>,
}

impl Places {
    pub(super) fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock()
    }

    /// Whether there are as many connections as there may be.
    pub(super) fn are_full(&self, max: usize) -> bool {
        self.lock().all >= max
    }
}

impl Taken {
    /// Returns how many connections `address` has now.
    pub(super) fn enter(&mut self, address: Option<IpAddr>) -> u32 {
        self.all += 1;
        address.map_or(0, |it| {
            let n = self.by.entry(it).or_default();
            *n += 1;
            *n
        })
    }

    pub(super) fn leave(&mut self, address: Option<IpAddr>) {
        self.all -= 1;
        if let Some(address) = address
            && let Some(n) = self.by.get_mut(&address)
        {
            *n -= 1;
            if *n == 0 {
                self.by.remove(&address);
            }
        }
    }

    pub(super) fn add_silent(&mut self, state: &Arc<ConnectionState>) {
        let all = &mut self.silent;
        // Otherwise the list would grow with every connection ever made.
        while all.front().is_some_and(|it| it.upgrade().is_none_or(|it| it.has_asked())) {
            all.pop_front();
        }
        if all.len() >= all.capacity() {
            all.retain(|it| it.upgrade().is_some_and(|it| !it.has_asked()));
        }
        all.push_back(Arc::downgrade(state));
    }

    /// Ends the connection that has been silent the longest, of one address if `of` is given, and takes its place away.
    /// Returns whether there was one.
    pub(super) fn end_oldest(&mut self, of: Option<IpAddr>) -> bool {
        let mut at = 0;
        while at < LOOKS
            && let Some(state) = self.silent.get(at)
        {
            match state.upgrade().filter(|it| !it.has_asked()) {
                Some(state) if of.is_some() && of != state.counted => at += 1,
                found => {
                    self.silent.remove(at);
                    if let Some(state) = found
                        && state.end()
                    {
                        self.leave(state.counted);
                        return true;
                    }
                }
            }
        }
        false
    }
}
