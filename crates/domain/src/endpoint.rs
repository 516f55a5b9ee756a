//! The inference endpoints: one entry for each, with all that is true of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{key::Scope, model::Task};

/// What is true of one endpoint.
#[derive(Debug)]
pub struct Facts {
    /// The path, which is the same at the gateway and at the engine.
    pub path: &'static str,
    /// The paths under which clients of other servers know it.
    pub aliases: &'static [&'static str],
    /// The number in the usage spool. The spool is on disk, so a number is never used for anything else.
    pub spool_code: u8,
    /// `operationId` in the `OpenAPI` document.
    pub operation_id: &'static str,
    /// One line for the documentation.
    pub summary: &'static str,
    /// `gen_ai.operation.name` of the `OpenTelemetry` conventions, which have names for chats, text completions and
    /// embeddings; others are allowed.
    pub telemetry_name: &'static str,
    /// The scope that a key needs; `None` if any scope is enough that fits the model's task.
    pub scope: Option<Scope>,
    /// The task that the model must have; `None` if any task will do.
    pub task: Option<Task>,
    /// What a body holds besides the model's name.
    pub input: Input,
    /// Where answers hold their token counts.
    pub counted: Counted,
    /// How the engine answers `"stream": true`; `None` if it does not stream.
    pub stream: Option<Stream>,
    /// The form of error bodies.
    pub errors: ErrorStyle,
    /// Whether the engine runs the model. Where it only counts tokens, the gateway never estimates usage.
    pub runs_model: bool,
    /// Whether a model's `request_defaults` apply to it.
    pub takes_defaults: bool,
}

/// The fields of a body on which the gateway and all engines agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// `messages`.
    Messages,
    /// `prompt`: one or more.
    Prompt,
    /// `input`: one or more.
    Input,
    /// `query` and `documents`.
    Documents,
    /// `text_1` and `text_2`: one or more texts each.
    Pairs,
    /// `prompt`, a text, or `messages`.
    Text,
    /// `tokens`: token ids.
    Tokens,
}

/// The form of a stream of server-sent events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Events without names. The engine sends token counts only if `stream_options` asks for them.
    Plain,
    /// Events, errors included, have names (`event: …`).
    NamedEvents,
}

/// The form of error bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// `{"error": …}`.
    OpenAi,
    /// `{"type": "error", "error": …}`: Anthropic's clients can't read them without `type`.
    Anthropic,
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

macro_rules! endpoints {
    ($($(#[$doc:meta])* $name:ident $facts:tt)+) => {
        /// An inference path that the gateway proxies.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Endpoint {
            $($(#[$doc])* $name,)+
        }

        impl Endpoint {
            /// All endpoints, in the order of metrics.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];

            /// Returns what is true of it.
            pub fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$name => &endpoints!(@facts $facts),)+
                }
            }
        }
    };
    (@facts { $($fact:ident: $value:expr,)+ }) => { Facts { $($fact: $value,)+ } };
}

// To add an endpoint, add an entry; it does not compile until it states every fact.
endpoints! {
    /// OpenAI's chats.
    ChatCompletions {
        path: "/v1/chat/completions",
        aliases: &[],
        spool_code: 1,
        operation_id: "createChatCompletion",
        summary: "Chat (OpenAI)",
        telemetry_name: "chat",
        scope: Some(Scope::Chat),
        task: Some(Task::Generate),
        input: Input::Messages,
        counted: Counted::LastUsage,
        stream: Some(Stream::Plain),
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: true,
    }
    /// OpenAI's completions of a plain prompt.
    Completions {
        path: "/v1/completions",
        aliases: &[],
        spool_code: 2,
        operation_id: "createCompletion",
        summary: "Complete a text (OpenAI)",
        telemetry_name: "text_completion",
        scope: Some(Scope::Completions),
        task: Some(Task::Generate),
        input: Input::Prompt,
        counted: Counted::LastUsage,
        stream: Some(Stream::Plain),
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: true,
    }
    /// OpenAI's embeddings.
    Embeddings {
        path: "/v1/embeddings",
        aliases: &[],
        spool_code: 3,
        operation_id: "createEmbedding",
        summary: "Turn texts into vectors (OpenAI)",
        telemetry_name: "embeddings",
        scope: Some(Scope::Embeddings),
        task: Some(Task::Embed),
        input: Input::Input,
        counted: Counted::LastUsage,
        stream: None,
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: false,
    }
    /// OpenAI's responses.
    Responses {
        path: "/v1/responses",
        aliases: &[],
        spool_code: 4,
        operation_id: "createResponse",
        summary: "Responses (OpenAI)",
        telemetry_name: "chat",
        scope: Some(Scope::Chat),
        task: Some(Task::Generate),
        input: Input::Input,
        counted: Counted::LastUsage,
        stream: Some(Stream::NamedEvents),
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: true,
    }
    /// Anthropic's messages endpoint.
    Messages {
        path: "/v1/messages",
        aliases: &[],
        spool_code: 5,
        operation_id: "createMessage",
        summary: "Messages (Anthropic)",
        telemetry_name: "chat",
        scope: Some(Scope::Chat),
        task: Some(Task::Generate),
        input: Input::Messages,
        counted: Counted::EveryUsage,
        stream: Some(Stream::NamedEvents),
        errors: ErrorStyle::Anthropic,
        runs_model: true,
        takes_defaults: false,
    }
    /// Anthropic's count of the tokens of a message.
    CountTokens {
        path: "/v1/messages/count_tokens",
        aliases: &[],
        spool_code: 6,
        operation_id: "countMessageTokens",
        summary: "Count the tokens of messages (Anthropic)",
        telemetry_name: "count_tokens",
        scope: Some(Scope::Chat),
        task: Some(Task::Generate),
        input: Input::Messages,
        counted: Counted::InputTokens,
        stream: None,
        errors: ErrorStyle::Anthropic,
        runs_model: false,
        takes_defaults: false,
    }
    /// Sorts documents by how well they answer a query (Jina's and Cohere's form).
    Rerank {
        path: "/v1/rerank",
        aliases: &["/rerank", "/v2/rerank"],
        spool_code: 7,
        operation_id: "rerank",
        summary: "Order documents by how well they answer a query; also `/rerank`, `/v2/rerank`",
        telemetry_name: "rerank",
        scope: Some(Scope::Embeddings),
        task: Some(Task::Embed),
        input: Input::Documents,
        counted: Counted::LastUsage,
        stream: None,
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: false,
    }
    /// How alike pairs of texts are (vLLM).
    Score {
        path: "/v1/score",
        aliases: &["/score"],
        spool_code: 8,
        operation_id: "score",
        summary: "Score pairs of texts; also `/score`",
        telemetry_name: "score",
        scope: Some(Scope::Embeddings),
        task: Some(Task::Embed),
        input: Input::Pairs,
        counted: Counted::LastUsage,
        stream: None,
        errors: ErrorStyle::OpenAi,
        runs_model: true,
        takes_defaults: false,
    }
    /// The tokens of a text (vLLM, llama.cpp).
    Tokenize {
        path: "/tokenize",
        aliases: &[],
        spool_code: 9,
        operation_id: "tokenize",
        summary: "Turn a text into tokens",
        telemetry_name: "tokenize",
        scope: None,
        task: None,
        input: Input::Text,
        counted: Counted::Count,
        stream: None,
        errors: ErrorStyle::OpenAi,
        runs_model: false,
        takes_defaults: false,
    }
    /// The text of tokens (vLLM, llama.cpp).
    Detokenize {
        path: "/detokenize",
        aliases: &[],
        spool_code: 10,
        operation_id: "detokenize",
        summary: "Turn tokens into a text",
        telemetry_name: "detokenize",
        scope: None,
        task: None,
        input: Input::Tokens,
        counted: Counted::Count,
        stream: None,
        errors: ErrorStyle::OpenAi,
        runs_model: false,
        takes_defaults: false,
    }
}

impl Endpoint {
    /// Returns the path, which is the same at the gateway and at the engine.
    pub fn path(self) -> &'static str {
        self.facts().path
    }

    /// Returns the endpoint with exactly this path; aliases are not known here.
    pub fn from_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.path() == path)
    }

    /// Returns the endpoint for a path: its own path or an alias, with or without slashes at the end.
    pub fn asked_for(path: &str) -> Option<Self> {
        Self::from_path(path).or_else(|| {
            let path = path.trim_end_matches('/');
            let is_alias = |it: &Self| it.facts().aliases.contains(&path);
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
        self.facts().scope
    }

    /// Returns the task that the model must have; `None` if any task will do.
    pub fn task(self) -> Option<Task> {
        self.facts().task
    }

    /// Returns where answers hold their token counts.
    pub fn counted(self) -> Counted {
        self.facts().counted
    }

    /// Whether the engine answers `"stream": true` with server-sent events at this endpoint.
    pub fn streams(self) -> bool {
        self.facts().stream.is_some()
    }

    /// Whether an engine sends token counts of a stream only if `stream_options` asks for them.
    pub fn has_stream_options(self) -> bool {
        self.facts().stream == Some(Stream::Plain)
    }

    /// Whether events of a stream, errors included, have names (`event: …`).
    pub fn names_events(self) -> bool {
        self.facts().stream == Some(Stream::NamedEvents)
    }

    /// Whether error bodies carry `"type": "error"` beside `error`.
    pub fn types_errors(self) -> bool {
        self.facts().errors == ErrorStyle::Anthropic
    }

    /// Whether the engine runs the model. Where it only counts tokens, the gateway never estimates usage.
    pub fn runs_model(self) -> bool {
        self.facts().runs_model
    }

    /// Whether a model's `request_defaults` apply to it.
    pub fn takes_defaults(self) -> bool {
        self.facts().takes_defaults
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
            let twins = Endpoint::ALL.into_iter().filter(|it| {
                let (one, other) = (it.facts(), endpoint.facts());
                one.spool_code == other.spool_code || one.operation_id == other.operation_id
            });
            assert_eq!(twins.count(), 1, "{endpoint}");
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
