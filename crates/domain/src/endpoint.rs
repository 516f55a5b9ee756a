//! The inference endpoints: path, scope, task and where the answer says its token counts. One row for each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{key::Scope, model::Task};

/// An inference path that the gateway proxies. A new one is one variant here; every `match` then asks for its facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Endpoint {
    ChatCompletions,
    Completions,
    Embeddings,
}

impl Endpoint {
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Completions, Self::Embeddings];

    /// The path, the same at the gateway and at the engine.
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
        }
    }

    pub fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.path() == path)
    }

    /// What a key must be allowed to call it.
    pub fn scope(self) -> Scope {
        match self {
            Self::ChatCompletions => Scope::Chat,
            Self::Completions => Scope::Completions,
            Self::Embeddings => Scope::Embeddings,
        }
    }

    /// The task that the model must have.
    pub fn task(self) -> Task {
        match self {
            Self::ChatCompletions | Self::Completions => Task::Generate,
            Self::Embeddings => Task::Embed,
        }
    }

    /// Whether `"stream": true` makes the engine answer with server-sent events here.
    pub fn streams(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}
