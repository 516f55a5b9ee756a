//! The settings that a container is made from, kept apart from the record that an operator may go on editing.

use serde::{Deserialize, Serialize};

use super::Diagnosis;
use super::{Model, ModelConfig, Task};
use crate::Timestamp;

/// The settings of a record from which its container is made. They are fixed when a start begins, so that an edit
/// during the start does not affect it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blueprint {
    pub task: Task,
    pub config: ModelConfig,
    /// Whether the engine has a key of its own, see [`crate::engine::key_of`]. Engines that earlier versions of the
    /// gateway started have the internal key itself, and keep it as long as they run.
    #[serde(default)]
    pub own_key: bool,
}

impl Blueprint {
    /// Returns the settings that the record has now.
    pub fn of(model: &Model) -> Self {
        Self { task: model.task, config: model.config.clone(), own_key: true }
    }

    /// Returns the record with these settings in place of its own.
    pub fn put_into(&self, model: &Model) -> Model {
        Model { task: self.task, config: self.config.clone(), ..model.clone() }
    }
}

/// A start that replaces a running or failed configuration: how it proceeds, and how it is rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Apply {
    pub at: Timestamp,
    /// Whether the model was serving when the apply began. Then requests in flight get time to finish, and new ones
    /// wait for the new engine.
    pub swap: bool,
    /// If the new settings do not become ready, the gateway goes back to the last ones that did.
    pub rollback: bool,
    /// Set if the settings are those that a roll-back restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RolledBack>,
}

/// The settings that a roll-back removed from the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RolledBack {
    /// `state_reason` of the start that failed.
    pub reason: String,
    /// The diagnosis of that failure, if there is one.
    #[serde(default)]
    pub diagnosis: Option<Diagnosis>,
    /// The settings before the roll-back, so that no work of an operator is lost.
    pub replaced: Blueprint,
}

impl Apply {
    /// Returns what remains of the apply once the model serves: only the record of a roll-back.
    pub fn done(&self) -> Option<Self> {
        self.rolled_back.as_ref()?;
        Some(Self { swap: false, rollback: false, ..self.clone() })
    }
}
