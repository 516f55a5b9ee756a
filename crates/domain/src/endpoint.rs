//! The inference endpoints, one row for each: path, scope, task and where the answer holds its token counts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{key::Scope, model::Task};

/// An inference path that the gateway proxies. To add one, add a variant; every `match` then fails to compile until it
/// covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Endpoint {
    /// OpenAI's chats.
    ChatCompletions,
    /// OpenAI's completions of a plain prompt.
    Completions,
    /// OpenAI's embeddings.
    Embeddings,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages endpoint.
    Messages,
    /// Anthropic's count of the tokens of a message.
    CountTokens,
    /// Sorts documents by how well they answer a query (Jina's and Cohere's form).
    Rerank,
    /// How alike pairs of texts are (vLLM).
    Score,
    /// The tokens of a text (vLLM, llama.cpp).
    Tokenize,
    /// The text of tokens (vLLM, llama.cpp).
    Detokenize,
}

/// Where an answer holds its token counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The last `usage` object, complete.
    LastUsage,
    /// All `usage` objects of a stream merged, because Anthropic's API spreads the counts over them.
    EveryUsage,
    /// A number under `input_tokens`.
    InputTokens,
    /// A number under `count`, if the answer has one.
    Count,
}

impl Endpoint {
    /// All endpoints, in the order of metrics.
    pub const ALL: [Self; 10] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Embeddings,
        Self::Responses,
        Self::Messages,
        Self::CountTokens,
        Self::Rerank,
        Self::Score,
        Self::Tokenize,
        Self::Detokenize,
    ];

    /// Returns the path, which is the same at the gateway and at the engine.
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Embeddings => "/v1/embeddings",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
        }
    }

    /// Returns the endpoint with exactly this path; aliases are not known here.
    pub fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.path() == path)
    }

    /// Returns the paths under which clients of other servers know it.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Rerank => &["/rerank", "/v2/rerank"],
            Self::Score => &["/score"],
            _ => &[],
        }
    }

    /// Returns the endpoint for a path: its own path or an alias, with or without slashes at the end.
    pub fn asked_for(path: &str) -> Option<Self> {
        Self::from_path(path).or_else(|| {
            let path = path.trim_end_matches('/');
            let is_alias = |it: &Self| it.aliases().contains(&path);
            Self::from_path(path).or_else(|| Self::ALL.into_iter().find(is_alias))
        })
    }

    /// Returns the path of this API that a client probably meant by another path: one where `/v1` is missing, doubled,
    /// or behind another prefix.
    pub fn meant_by(path: &str) -> Option<String> {
        const MODELS: &str = "/v1/models";
        let path = path.trim_end_matches('/');
        let bare = |it: &'static str| it.strip_prefix("/v1").unwrap_or(it);
        let known = Self::ALL.into_iter().map(Self::path).chain([MODELS]);
        let found = known.into_iter().find(|it| path.ends_with(bare(it))).map(str::to_owned);
        found.or_else(|| {
            let mut rest = path;
            while let Some(shorter) = rest.strip_prefix("/v1").filter(|it| it.starts_with('/')) {
                rest = shorter;
            }
            rest.starts_with(bare(MODELS)).then(|| format!("/v1{rest}"))
        })
    }

    /// Returns the scope that a key needs; `None` if any scope is enough that fits the model's task.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Self::ChatCompletions | Self::Responses | Self::Messages | Self::CountTokens => Some(Scope::Chat),
            Self::Completions => Some(Scope::Completions),
            Self::Embeddings | Self::Rerank | Self::Score => Some(Scope::Embeddings),
            Self::Tokenize | Self::Detokenize => None,
        }
    }

    /// Returns the task that the model must have; `None` if any task will do.
    pub fn task(self) -> Option<Task> {
        match self {
            Self::ChatCompletions
            | Self::Completions
            | Self::Responses
            | Self::Messages
            | Self::CountTokens => Some(Task::Generate),
            Self::Embeddings | Self::Rerank | Self::Score => Some(Task::Embed),
            Self::Tokenize | Self::Detokenize => None,
        }
    }

    /// Returns where answers hold their token counts.
    pub fn counted(self) -> Counted {
        match self {
            Self::ChatCompletions
            | Self::Completions
            | Self::Embeddings
            | Self::Responses
            | Self::Rerank
            | Self::Score => Counted::LastUsage,
            Self::Messages => Counted::EveryUsage,
            Self::CountTokens => Counted::InputTokens,
            Self::Tokenize | Self::Detokenize => Counted::Count,
        }
    }

    /// Whether the engine answers `"stream": true` with server-sent events at this endpoint.
    pub fn streams(self) -> bool {
        self.has_stream_options() || self.names_events()
    }

    /// Whether an engine sends token counts of a stream only if `stream_options` asks for them.
    pub fn has_stream_options(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
    }

    /// Whether events of a stream, errors included, have names (`event: …`).
    pub fn names_events(self) -> bool {
        matches!(self, Self::Responses | Self::Messages)
    }

    /// Whether error bodies carry `"type": "error"` beside `error`. Anthropic's clients can't read them without it.
    pub fn types_errors(self) -> bool {
        matches!(self, Self::Messages | Self::CountTokens)
    }

    /// Whether the engine runs the model. Where it only counts tokens, the gateway never estimates usage.
    pub fn runs_model(self) -> bool {
        !matches!(self, Self::CountTokens | Self::Tokenize | Self::Detokenize)
    }

    /// Whether a model's `request_defaults` apply to it.
    pub fn takes_defaults(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions | Self::Responses)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_own_path() {
        for (at, endpoint) in Endpoint::ALL.into_iter().enumerate() {
            assert_eq!(endpoint as usize, at, "tables are indexed by it");
            assert_eq!(Endpoint::from_path(endpoint.path()), Some(endpoint));
        }
        assert_eq!(Endpoint::from_path("/v1/tokenize"), None);
    }

    #[test]
    fn other_names_and_near_misses() {
        for (path, endpoint) in [
            ("/v1/chat/completions//", Endpoint::ChatCompletions),
            ("/v2/rerank", Endpoint::Rerank),
            ("/rerank/", Endpoint::Rerank),
            ("/score", Endpoint::Score),
        ] {
            assert_eq!(Endpoint::asked_for(path), Some(endpoint), "{path}");
        }
        assert_eq!(Endpoint::asked_for("/v2/score"), None);
        for (path, meant) in [
            ("/chat/completions", Some("/v1/chat/completions")),
            ("/v1/v1/completions", Some("/v1/completions")),
            ("/openai/deployments/m/chat/completions", Some("/v1/chat/completions")),
            ("/v1/v1/messages/count_tokens/", Some("/v1/messages/count_tokens")),
            ("/models", Some("/v1/models")),
            ("/models/org/m", Some("/v1/models/org/m")),
            ("/v1/v1/models/m", Some("/v1/models/m")),
            ("/v1/tokenize", Some("/tokenize")),
            ("/v1/audio/speech", None),
            ("/", None),
        ] {
            assert_eq!(Endpoint::meant_by(path).as_deref(), meant, "{path}");
        }
    }
}
