//! The model record: what an operator wants to run, with which settings, and the state that it is in.

mod blueprint;
pub mod check;
pub mod config;
pub mod diagnosis;
mod draft;
pub mod fields;
pub mod identity;
pub mod lifecycle;
mod per_engine;
mod portable;
pub mod tuned;

use secrecy::SecretString;

pub use blueprint::{Apply, Blueprint, RolledBack};
pub use config::ModelConfig;
pub use diagnosis::Diagnosis;
pub use draft::{ModelDraft, RESERVED, is_reserved};
pub use lifecycle::{InstanceNumber, Phase, Starts, State, Wanted};
pub use per_engine::PerEngine;
pub use portable::{PortableModel, redact_env};

use crate::{ModelId, Timestamp, words};

words! {
    /// The task of a model, which decides which endpoints it serves.
    #[derive(PartialOrd, Ord)]
    pub enum Task {
        /// Generates text: chat, completions and what is built on them.
        Generate = "generate",
        /// Makes embeddings, and ranks texts with them.
        Embed = "embed",
    }
}

words! {
    /// Which engine serves a model. `parse` also reads the [`rank`](Self::rank).
    pub enum EngineKind {
        /// The primary engine: hub checkpoints, tensor parallelism.
        Vllm = "vllm" | "primary",
        /// The secondary engine: GGUF files, CPU and GPU mixed.
        Llamacpp = "llamacpp" | "secondary",
    }
}

impl EngineKind {
    /// Returns the neutral word of the specification, as in `primary-model-7`.
    pub fn rank(self) -> &'static str {
        match self {
            Self::Vllm => "primary",
            Self::Llamacpp => "secondary",
        }
    }

    /// Returns the name of an instance of model `id`: `primary-model-7` for the first, as versions of the gateway name it
    /// that knew no other, and `primary-model-7-1` for the one after it.
    pub fn instance_name(self, id: ModelId, number: InstanceNumber) -> String {
        let first = format!("{}-model-{id}", self.rank());
        if number == InstanceNumber::FIRST { first } else { format!("{first}-{}", number.0) }
    }

    /// Whether an instance of some model has this name.
    pub fn is_instance_name(name: &str) -> bool {
        Self::ALL.into_iter().any(|engine| {
            let ids = name.strip_prefix(engine.rank()).and_then(|it| it.strip_prefix("-model-"));
            let (id, number) = ids.map_or(("", None), |it| match it.split_once('-') {
                Some((id, number)) => (id, Some(number)),
                None => (it, None),
            });
            let number = number.map_or(Ok(InstanceNumber::FIRST), |it| it.parse().map(InstanceNumber));
            match (id.parse().map(ModelId), number) {
                (Ok(id), Ok(number)) => engine.instance_name(id, number) == name,
                _ => false,
            }
        })
    }
}

/// A stored model. The operator's commands write `wanted` and `generation`; only the reconciler writes `phase`.
#[derive(Debug, Clone)]
pub struct Model {
    pub id: ModelId,
    /// Display name, 1–200 characters.
    pub name: String,
    /// The name that clients send in `model`; unique among models that are not archived.
    pub served_name: String,
    pub task: Task,
    pub engine: EngineKind,
    /// All other fields of the field table.
    pub config: ModelConfig,
    /// Access token of the model hub; it is never shown.
    pub hub_token: Option<SecretString>,
    /// The hub token as it is stored, if this gateway lacks the database's key that opens it.
    pub sealed_hub_token: Option<String>,
    pub archived: bool,
    pub wanted: Wanted,
    /// Counts the operator's start, stop and apply commands. A container, a phase and a verdict belong to one of them.
    pub generation: i64,
    pub phase: Phase,
    /// The settings from which the container of this generation is made; `None` if the model was never started.
    pub launched: Option<Blueprint>,
    /// The last settings with which the engine became ready.
    pub last_good: Option<Blueprint>,
    /// Set if the last command was an apply.
    pub apply: Option<Apply>,
    /// Starts since the operator's last command; `None`: none yet.
    pub starts: Option<Starts>,
    /// Why the model failed last; the next start removes it.
    pub diagnosis: Option<Diagnosis>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Model {
    /// Makes a record that was never started.
    pub fn new(id: ModelId, draft: ModelDraft, now: Timestamp) -> Self {
        Self {
            id,
            name: draft.name,
            served_name: draft.served_name,
            task: draft.task,
            engine: draft.engine,
            config: draft.config,
            hub_token: draft.hub_token,
            sealed_hub_token: draft.sealed_hub_token,
            archived: draft.archived,
            wanted: Wanted::Stopped,
            generation: 0,
            phase: Phase::NEW,
            diagnosis: None,
            launched: None,
            last_good: None,
            apply: None,
            starts: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Returns the model as it is after a change of its record.
    #[must_use]
    pub fn with(self, draft: ModelDraft) -> Self {
        let ModelDraft { name, served_name, task, engine, config, hub_token, sealed_hub_token, archived } =
            draft;
        Self { name, served_name, task, engine, config, hub_token, sealed_hub_token, archived, ..self }
    }

    /// Returns the API's `state` and `state_reason`, derived from the wanted and the observed state.
    pub fn state(&self) -> (State, Option<String>) {
        lifecycle::state(self.wanted, self.generation, &self.phase)
    }

    /// Returns the model with the settings from which its container was made. They differ from the record's if that was
    /// edited since.
    #[must_use]
    pub fn as_launched(&self) -> Self {
        self.launched.as_ref().map_or_else(|| self.clone(), |it| it.put_into(self))
    }

    /// Returns the settings from which the start that begins now makes its container: the record's. A start without an
    /// operator's command keeps the settings of the start before.
    pub fn to_launch(&self) -> Blueprint {
        let begun = self.starts.as_ref().is_some_and(|it| it.boot.is_some());
        let launched = self.launched.as_ref().filter(|_| begun);
        launched.cloned().unwrap_or_else(|| Blueprint::of(self))
    }

    /// Returns further names that its engine answers to.
    pub fn adapters(&self) -> Vec<&str> {
        self.config.adapters(self.engine)
    }

    /// Returns the name of its instance.
    pub fn instance_name(&self) -> String {
        self.engine.instance_name(self.id, InstanceNumber::FIRST)
    }

    /// Returns the settings that a failed apply goes back to. There are none once the new settings have become ready.
    pub fn rollback_to(&self) -> Option<&Blueprint> {
        let good = self.last_good.as_ref().filter(|it| self.launched.as_ref() != Some(it))?;
        let wanted = self.apply.as_ref().is_some_and(|it| it.rollback) && self.wanted == Wanted::Running;
        (wanted && self.state().0 == State::Failed).then_some(good)
    }

    /// Whether requests wait for the new engine instead of failing.
    pub fn is_swapping(&self) -> bool {
        let swap = self.apply.as_ref().is_some_and(|it| it.swap) && self.wanted == Wanted::Running;
        match self.state().0 {
            State::Stopping | State::Starting | State::Loading => swap,
            State::Failed => swap && self.rollback_to().is_some(),
            State::Running | State::Stopped => false,
        }
    }
}

/// One entry of a model's timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEvent {
    pub at: Timestamp,
    pub from: State,
    pub to: State,
    pub reason: Option<String>,
    /// Details for people: which command, how long it took.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instance_has_a_name_of_its_own_and_the_first_the_one_of_old() {
        let name = |engine: EngineKind, number| engine.instance_name(ModelId(7), InstanceNumber(number));
        assert_eq!(name(EngineKind::Vllm, 0), "primary-model-7");
        assert_eq!(name(EngineKind::Llamacpp, 2), "secondary-model-7-2");
        for good in ["primary-model-7", "secondary-model-7-2", "primary-model-70-11"] {
            assert!(EngineKind::is_instance_name(good), "{good}");
        }
        for odd in [
            "",
            "primary-model-",
            "primary-model-07",
            "primary-model-7-0",
            "primary-model-7-",
            "tertiary-model-7",
        ] {
            assert!(!EngineKind::is_instance_name(odd), "{odd}");
        }
    }
}
