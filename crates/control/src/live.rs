//! What is known of models right now and would be wrong after a restart, so that no database keeps it: how far a pull
//! is, whether the container still is what a start would make.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use gantry_domain::ModelId;

/// Why the container of a running model is not what a start would make now, though the record was not edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drift {
    /// Settings of the gateway, or the engine's image, changed what the container would be.
    Launch,
    /// The internal key was changed since it was started.
    InternalKey,
}

/// Bytes of an image that is being pulled; both grow while it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pull {
    pub done: u64,
    pub known: u64,
}

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    pub drift: Option<Drift>,
    pub pull: Option<Pull>,
    /// Its `restart_policy` starts it no more.
    pub given_up: bool,
}

/// [`Seen`] of each model.
#[derive(Debug, Default)]
pub struct Live(Mutex<HashMap<ModelId, Seen>>);

impl Live {
    /// Nothing, if nothing is known.
    pub fn of(&self, id: ModelId) -> Seen {
        self.map().get(&id).copied().unwrap_or_default()
    }

    /// Models that their `restart_policy` starts no more.
    pub fn given_up(&self) -> usize {
        self.map().values().filter(|it| it.given_up).count()
    }

    pub(crate) fn change(&self, id: ModelId, change: impl FnOnce(&mut Seen)) {
        change(self.map().entry(id).or_default());
    }

    /// Another gateway decides from now on.
    pub(crate) fn forget_given_up(&self) {
        self.map().values_mut().for_each(|it| it.given_up = false);
    }

    pub(crate) fn forget(&self, id: ModelId) {
        self.map().remove(&id);
    }

    fn map(&self) -> MutexGuard<'_, HashMap<ModelId, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
