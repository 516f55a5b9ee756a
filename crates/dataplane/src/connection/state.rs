//! What is known of one client connection.

use std::{
    cell::{Cell, RefCell},
    net::IpAddr,
    task::Waker,
};

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Early,
    /// It came after the gateway began to drain: it only gets an error, and the drain does not wait for it.
    Late,
}

/// How a connection behaves.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub address: IpAddr,
    /// It has brought a request.
    asked: Cell<bool>,
    /// Its last request had a body.
    sends: Cell<bool>,
    /// It is to be closed, to make room for another one.
    ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionState {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self {
            address,
            asked: Cell::default(),
            sends: Cell::default(),
            ended: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Notes that it brings a request, with a body or without.
    pub(super) fn asks(&self, has_body: bool) {
        self.asked.set(true);
        self.sends.set(has_body);
    }

    /// Sets who is woken when it has to end.
    pub(super) fn set_waker(&self, waker: Waker) {
        *self.waker.borrow_mut() = Some(waker);
    }

    /// Whether it has brought a request.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.get()
    }

    /// Whether its last request had a body, of which some may be under way.
    pub(crate) fn may_be_sending(&self) -> bool {
        self.sends.get()
    }

    /// Whether it has to be closed, unless it brings a request first.
    pub(super) fn is_to_end(&self) -> bool {
        self.ended.get()
    }

    /// Closes it if it brings no request, to make room for another one.
    pub(super) fn end(&self) {
        self.ended.set(true);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}
