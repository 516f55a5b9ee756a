//! What is known of one client connection.

use std::{
    net::IpAddr,
    sync::atomic::{
        AtomicBool, AtomicU8,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
    task::Waker,
};

use futures_util::task::AtomicWaker;

/// When a connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Early,
    /// It came after the gateway began to drain: it only gets an error, and the drain does not wait for it.
    Late,
}

/// It has brought no request yet.
const SILENT: u8 = 0;
/// It has brought a request.
const ASKED: u8 = 1;
/// It has brought no request, and is to be closed to make room for another one.
const ENDED: u8 = 2;

/// How a connection behaves. Its own thread notes what it brings; any thread may end it.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// The address that it is counted under, if its address has a limit.
    pub(super) counted: Option<IpAddr>,
    /// One of the constants above.
    story: AtomicU8,
    /// Its last request had a body.
    sends: AtomicBool,
    waker: AtomicWaker,
}

impl ConnectionState {
    pub(super) fn new(counted: Option<IpAddr>) -> Self {
        Self {
            counted,
            story: AtomicU8::new(SILENT),
            sends: AtomicBool::default(),
            waker: AtomicWaker::new(),
        }
    }

    /// Notes that it brings a request, with a body or without. Returns whether it was to be closed, which it is no more.
    pub(super) fn asks(&self, has_body: bool) -> bool {
        self.sends.store(has_body, Relaxed);
        !self.has_asked() && self.story.swap(ASKED, AcqRel) == ENDED
    }

    /// Sets who is woken when it has to end.
    pub(super) fn set_waker(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Whether it has brought a request.
    pub(crate) fn has_asked(&self) -> bool {
        self.story.load(Acquire) == ASKED
    }

    /// Whether its last request had a body, of which some may be under way.
    pub(crate) fn may_be_sending(&self) -> bool {
        self.sends.load(Relaxed)
    }

    /// Whether it has to be closed, unless it brings a request first.
    pub(super) fn is_to_end(&self) -> bool {
        self.story.load(Acquire) == ENDED
    }

    /// Closes it if it brings no request, to make room for another one. Returns `false` if it has brought one already.
    pub(super) fn end(&self) -> bool {
        let silent = self.story.compare_exchange(SILENT, ENDED, AcqRel, Acquire).is_ok();
        if silent {
            self.waker.wake();
        }
        silent
    }
}
