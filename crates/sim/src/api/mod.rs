//! The HTTP surface: the paths of each flavour, who may use them, and which function answers.

pub(crate) mod answer;
pub(crate) mod chat;
mod chat_llama;
mod chat_vllm;
mod completion;
mod embeddings;
mod info;
mod inputs;
mod messages;
mod metrics;
pub(crate) mod request;
mod responses;
mod send;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::args::llama_flags::MODELS_NEED_KEY;
use crate::config::{Config, Task};
use crate::engine::Engine;
use crate::flavour::{Flavour, Version};
use crate::reply::{self, Refusal, Reply};
use request::Fields;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Health,
    Load,
    Version,
    Metrics,
    Models,
    Props,
    Slots,
    LoraAdapters,
    Tokenize,
    Detokenize,
    ApplyTemplate,
    Chat,
    Completion,
    Responses,
    Messages,
    CountTokens,
    Embeddings,
    Rerank,
    Score,
}

impl Endpoint {
    /// Returns whether the endpoint makes the model work; faults affect only these.
    fn is_inference(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::Chat | E::Completion | E::Responses | E::Messages | E::Embeddings | E::Rerank | E::Score
        )
    }

    fn is_read(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::Health | E::Load | E::Version | E::Metrics | E::Models | E::Props | E::Slots | E::LoraAdapters
        )
    }
}

/// Returns the endpoint of a path. vLLM has only the routes that fit the task, llama-server has all.
fn route(config: &Config, path: &str) -> Option<Endpoint> {
    use Endpoint as E;
    let generates = config.task == Task::Generate;
    let endpoint = match (config.flavour, path) {
        (_, "/health") | (Flavour::Llamacpp, "/v1/health") | (Flavour::Vllm, "/ping") => E::Health,
        (_, "/v1/models") | (Flavour::Llamacpp, "/models") => E::Models,
        (_, "/metrics") => E::Metrics,
        (_, "/tokenize") => E::Tokenize,
        (_, "/detokenize") => E::Detokenize,
        (Flavour::Vllm, "/version") => E::Version,
        (Flavour::Vllm, "/load") => E::Load,
        (Flavour::Vllm, "/v1/chat/completions") if generates => E::Chat,
        (Flavour::Vllm, "/v1/completions") if generates => E::Completion,
        (Flavour::Vllm, "/v1/responses") if generates => E::Responses,
        (Flavour::Vllm, "/v1/messages") if generates => E::Messages,
        (Flavour::Vllm, "/v1/messages/count_tokens") if generates => E::CountTokens,
        (Flavour::Vllm, "/v1/embeddings") if !generates => E::Embeddings,
        (Flavour::Vllm, "/rerank" | "/v1/rerank" | "/v2/rerank") if !generates => E::Rerank,
        (Flavour::Vllm, "/score" | "/v1/score") if !generates => E::Score,
        (Flavour::Llamacpp, "/props") => E::Props,
        (Flavour::Llamacpp, "/slots") => E::Slots,
        (Flavour::Llamacpp, "/lora-adapters") => E::LoraAdapters,
        (Flavour::Llamacpp, "/apply-template") => E::ApplyTemplate,
        (Flavour::Llamacpp, "/v1/chat/completions" | "/chat/completions") => E::Chat,
        (Flavour::Llamacpp, "/v1/completions") => E::Completion,
        (Flavour::Llamacpp, "/v1/responses") => E::Responses,
        (Flavour::Llamacpp, "/v1/messages") => E::Messages,
        (Flavour::Llamacpp, "/v1/messages/count_tokens") => E::CountTokens,
        (Flavour::Llamacpp, "/v1/embeddings") => E::Embeddings,
        (Flavour::Llamacpp, "/rerank" | "/v1/rerank" | "/reranking" | "/v1/reranking") => E::Rerank,
        _ => return None,
    };
    Some(endpoint)
}

/// Answers one request.
pub(crate) async fn handle(engine: Arc<Engine>, request: Request<Incoming>) -> Reply {
    let (parts, body) = request.into_parts();
    let config = &engine.config;
    let path = parts.uri.path().to_owned();
    if path == "/sim/stats" {
        return reply::json_reply(config.flavour, 200, &info::stats(&engine));
    }
    if engine.loading.load(Relaxed) {
        return if path == "/" { reply::file_not_found() } else { reply::loading() };
    }
    if needs_key(config, &path) && (config.faults.wrong_key || !has_key(config, &parts.headers)) {
        return reply::unauthorized(config.flavour);
    }
    let Some(endpoint) = route(config, &path) else {
        return match config.flavour {
            Flavour::Vllm => reply::detail_reply(404, "Not Found"),
            Flavour::Llamacpp => reply::file_not_found(),
        };
    };
    let (reads, allowed) = if endpoint.is_read() {
        (true, parts.method == Method::GET || (config.flavour == Flavour::Vllm && path == "/ping"))
    } else {
        (false, parts.method == Method::POST)
    };
    if !allowed {
        return match config.flavour {
            Flavour::Vllm => {
                let mut refused = reply::detail_reply(405, "Method Not Allowed");
                let allow = HeaderValue::from_static(if reads { "GET" } else { "POST" });
                refused.headers_mut().insert(header::ALLOW, allow);
                refused
            }
            Flavour::Llamacpp => reply::file_not_found(),
        };
    }
    if matches!(endpoint, Endpoint::Models) {
        let before = engine.counters.lists.fetch_add(1, Relaxed);
        if (1..=config.faults.bad_lists).contains(&before) {
            return Refusal::of_status(config.flavour, 500).reply(config, false);
        }
    }
    if reads {
        return info::read(&engine, endpoint);
    }
    let messages_api = matches!(endpoint, Endpoint::Messages | Endpoint::CountTokens);
    let done = match body.collect().await {
        Ok(body) => work(&engine, endpoint, body.to_bytes()).await,
        // The client left before it had sent the whole body, so this answer is never read.
        Err(_) => Err(Refusal::bad(config.flavour, "the request body ended early")),
    };
    done.unwrap_or_else(|refusal| refusal.reply(config, messages_api))
}

async fn work(engine: &Arc<Engine>, endpoint: Endpoint, body: Bytes) -> Result<Reply, Refusal> {
    let config = &engine.config;
    if endpoint.is_inference()
        && let Some(status) = config.faults.error_status
    {
        return Err(Refusal::of_status(config.flavour, status));
    }
    let fields = Fields::read(config, &body)?;
    if config.router && endpoint.is_inference() {
        return Err(Refusal::bad(config.flavour, "model name is missing from the request"));
    }
    match endpoint {
        Endpoint::Chat => chat::answer(engine, &fields).await,
        Endpoint::Completion => completion::answer(engine, &fields).await,
        Endpoint::Responses => responses::answer(engine, &fields).await,
        Endpoint::Messages => messages::answer(engine, &fields).await,
        Endpoint::CountTokens => messages::count_tokens(engine, &fields),
        Endpoint::Embeddings => embeddings::embeddings(engine, &fields).await,
        Endpoint::Rerank => embeddings::rerank(engine, &fields).await,
        Endpoint::Score => embeddings::score(engine, &fields).await,
        _ => info::tokens(engine, endpoint, &fields),
    }
}

/// Returns whether a path needs a key. vLLM protects `/v1*`, and some newer prefixes in newer releases; llama-server
/// protects everything but its health checks.
fn needs_key(config: &Config, path: &str) -> bool {
    if config.keys.is_empty() && !config.faults.wrong_key {
        return false;
    }
    match config.flavour {
        Flavour::Vllm => {
            let guarded = [("/v1", 0), ("/v2", 22), ("/inference", 22), ("/cohere", 32)];
            guarded
                .iter()
                .any(|(prefix, minor)| path.starts_with(prefix) && config.version >= Version(0, *minor, 0))
        }
        Flavour::Llamacpp if matches!(path, "/v1/models" | "/models") => config.version >= MODELS_NEED_KEY,
        Flavour::Llamacpp => !matches!(path, "/health" | "/v1/health"),
    }
}

fn has_key(config: &Config, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let key = match config.flavour {
        Flavour::Vllm => bearer,
        Flavour::Llamacpp => bearer.or(text("x-api-key")),
    };
    key.is_some_and(|key| config.keys.iter().any(|known| known == key))
}
