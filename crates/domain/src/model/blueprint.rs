//! What a container is made from, kept apart from the record that an operator goes on editing.

use serde::{Deserialize, Serialize};

use super::{Model, ModelConfig, Task};
use crate::{Timestamp, diagnosis::Diagnosis};

/// The settings of a record that decide what its container is. Fixed when a start begins, so that an edit while it is
/// under way does not change what is being made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    pub task: Task,
    pub config: ModelConfig,
    /// Its engine has a key of its own, see [`crate::engine::key_of`]. Those that earlier versions of the gateway started
    /// have the internal key itself, and keep it as long as they run.
    #[serde(default)]
    pub own_key: bool,
}

impl Blueprint {
    pub fn of(model: &Model) -> Self {
        Self { task: model.task, config: model.config.clone(), own_key: true }
    }

    /// The record with these settings in place of its own.
    pub fn put_into(&self, model: &Model) -> Model {
        Model { task: self.task, config: self.config.clone(), ..model.clone() }
    }
}

/// A start that replaces something: how it goes on, and back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apply {
    pub at: Timestamp,
    /// The model was serving when it was applied: requests in flight get time to end, new ones wait for the new engine.
    pub swap: bool,
    /// If the new settings do not get ready, go back to the last that did.
    pub rollback: bool,
    /// These are the settings gone back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RolledBack>,
}

/// What a roll-back took out of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolledBack {
    /// `state_reason` of the start that failed.
    pub reason: String,
    /// Why, if that was found out.
    #[serde(default)]
    pub diagnosis: Option<Diagnosis>,
    /// The settings as they were then, so that nothing of an operator's work is lost.
    pub replaced: Blueprint,
}

impl Apply {
    /// What is left of it once the model serves: only the memory of a roll-back.
    pub fn done(&self) -> Option<Self> {
        self.rolled_back.as_ref()?;
        Some(Self { swap: false, rollback: false, ..self.clone() })
    }
}
