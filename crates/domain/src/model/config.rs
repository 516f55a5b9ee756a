//! Settings of a model under the names of the field table.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    EngineKind,
    check::below_models,
    fields::{self, Default, Kind},
};
use crate::engine::owned;

/// Settings of a model under the names of the field table. Only fields that were set are in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ModelConfig(pub(super) Map<String, Value>);

impl ModelConfig {
    /// Makes the settings from stored values. They were validated when they were written.
    pub fn from_stored(values: Map<String, Value>) -> Self {
        Self(values)
    }

    /// Returns all fields that were set.
    pub fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns a field; `None` if it is unset.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Returns a text field; `None` if it is unset.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Returns a field that is a whole number; `None` if it is unset.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    /// Returns a field that is true or false; `None` if it is unset.
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    /// Returns the texts of a list field; nothing if it is unset.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the names of the adapters that requests can choose. vLLM serves each as a model; llama.cpp always
    /// applies all of them, so it has none to choose.
    pub fn adapters(&self, engine: EngineKind) -> Vec<&str> {
        match engine {
            EngineKind::Vllm => {
                self.texts("lora_adapters").filter_map(|it| Some(it.split_once('=')?.0)).collect()
            }
            EngineKind::Llamacpp => Vec::new(),
        }
    }

    /// Returns the set value, else the default of the field table.
    pub(super) fn effective_int(&self, name: &str, engine: EngineKind) -> Option<i64> {
        let default = match fields::find(name, engine)?.default {
            Default::Int(it) => Some(it),
            _ => None,
        };
        self.int(name).or(default)
    }

    /// Returns every path in the settings, relative to the models base directory, with the field that holds it.
    pub fn paths(&self) -> Vec<(&'static str, String)> {
        let mut paths = Vec::new();
        for field in fields::all() {
            match field.kind {
                Kind::Path | Kind::ModelPath => {
                    paths.extend(self.text(field.name).map(|it| (field.name, below_models(it).to_owned())));
                }
                Kind::RepoOrPath => {
                    let path = self.text(field.name).and_then(|it| it.strip_prefix("/models/"));
                    paths.extend(path.map(|it| (field.name, it.to_owned())));
                }
                Kind::NamedPaths { .. } => paths.extend(
                    self.texts(field.name)
                        .filter_map(|it| it.split_once('='))
                        .map(|(_, path)| (field.name, path.to_owned())),
                ),
                _ => {}
            }
        }
        paths
    }

    /// Whether the engine runs the code that comes with the checkpoint. Records of older versions of the gateway may
    /// turn that on through `extra_args`.
    pub fn trusts_code(&self) -> bool {
        self.bool("trust_remote_code") == Some(true)
            || self
                .texts("extra_args")
                .any(|it| owned::field(EngineKind::Vllm, it) == Some("trust_remote_code"))
    }

    /// Whether the engine fetches the weights by itself.
    pub fn is_online(&self) -> bool {
        match self.text("mode") {
            Some(mode) => mode == "online",
            None => self.text("local_path").is_none() && self.text("repo_id").is_some(),
        }
    }
}
