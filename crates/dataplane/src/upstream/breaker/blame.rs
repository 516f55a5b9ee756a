//! Decides whether failures in a row are the fault of the engine, or of the requests of a few callers.

use crate::caller_id::CallerId;

/// Most callers whose requests may be at fault. If more callers get errors, the engine is at fault.
const FEW: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Blame {
    /// One of the failures can't be a request's fault.
    engine: bool,
    /// Callers who got errors, at most [`FEW`] + 1 of them.
    persons: Vec<CallerId>,
}

impl Blame {
    /// A failure that no request explains.
    pub(super) fn add_engine(&mut self) {
        self.engine = true;
    }

    /// A request of `caller` got an error.
    pub(super) fn add(&mut self, caller: CallerId) {
        if self.persons.len() <= FEW && !self.persons.iter().any(|it| it.is_same_person(caller)) {
            self.persons.push(caller);
        }
    }

    pub(super) fn is_of_the_engine(&self) -> bool {
        self.engine
    }

    /// Returns whether all callers are kept away, also if callers can't be told apart.
    pub(super) fn is_for_all(&self) -> bool {
        self.engine || self.persons.len() > FEW || self.persons.iter().any(|it| it.is_anyone())
    }

    /// Returns whether requests of `caller` are kept away.
    pub(super) fn concerns(&self, caller: CallerId) -> bool {
        self.is_for_all() || self.persons.iter().any(|it| it.is_same_person(caller))
    }
}
