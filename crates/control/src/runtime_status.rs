//! What is known of models right now: how far a pull is, and whether the container still is what a start would make. It
//! would be wrong after a restart, so it is kept in memory and not in the database.

use std::collections::HashMap;

use gantry_domain::ModelId;
use parking_lot::{Mutex, MutexGuard};

/// Why the container of a running model differs from the one that a start would make now, though the record was not
/// edited.
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

/// What is known of one model right now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelStatus {
    pub drift: Option<Drift>,
    pub pull: Option<Pull>,
    /// If true, its `restart_policy` no longer starts it.
    pub given_up: bool,
}

/// The [`ModelStatus`] of each model.
#[derive(Debug, Default)]
pub struct RuntimeStatus(Mutex<HashMap<ModelId, ModelStatus>>);

impl RuntimeStatus {
    /// Returns what is known of a model; the default if nothing is known.
    pub fn of(&self, id: ModelId) -> ModelStatus {
        self.map().get(&id).copied().unwrap_or_default()
    }

    /// Returns the number of models that their `restart_policy` no longer starts.
    pub fn given_up(&self) -> usize {
        self.map().values().filter(|it| it.given_up).count()
    }

    pub(crate) fn change(&self, id: ModelId, change: impl FnOnce(&mut ModelStatus)) {
        change(self.map().entry(id).or_default());
    }

    /// Forgets which models were given up: another gateway decides from now on.
    pub(crate) fn forget_given_up(&self) {
        self.map().values_mut().for_each(|it| it.given_up = false);
    }

    pub(crate) fn forget(&self, id: ModelId) {
        self.map().remove(&id);
    }

    fn map(&self) -> MutexGuard<'_, HashMap<ModelId, ModelStatus>> {
        self.0.lock()
    }
}
