//! Whether failures in a row speak against the engine, or against few who asked it.

use crate::who::Who;

/// Errors of more persons than this are the engine's fault.
const FEW: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Blame {
    /// One of the failures can't be a request's fault.
    engine: bool,
    /// Persons who got errors; of more than [`FEW`] one more.
    persons: Vec<Who>,
}

impl Blame {
    /// A failure that no request explains.
    pub(super) fn add_engine(&mut self) {
        self.engine = true;
    }

    /// A request of `who` got an error.
    pub(super) fn add(&mut self, who: Who) {
        if self.persons.len() <= FEW && !self.persons.iter().any(|it| it.is_same_person(who)) {
            self.persons.push(who);
        }
    }

    pub(super) fn is_of_the_engine(&self) -> bool {
        self.engine
    }

    /// Also if callers can't be told apart.
    pub(super) fn is_for_all(&self) -> bool {
        self.engine || self.persons.len() > FEW || self.persons.iter().any(|it| it.is_anyone())
    }

    /// Whether requests of `who` are kept away.
    pub(super) fn concerns(&self, who: Who) -> bool {
        self.is_for_all() || self.persons.iter().any(|it| it.is_same_person(who))
    }
}
