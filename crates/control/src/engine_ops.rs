//! Reads logs of engines and sends test requests to them.

use std::time::{Duration, Instant};

use futures_util::stream::BoxStream;
use gantry_domain::{
    ApiError, ErrorCode, LogWindow,
    engine::{EngineAddress, key_of},
    engine_metrics::{self, EngineMetrics},
    model::{EngineKind, Model, Phase, Task, lifecycle::Instance},
};
use gantry_runtime::RuntimeError;
use serde_json::{Value, json};

use crate::{Control, engine_http};

const TEST_TIMEOUT: Duration = Duration::from_mins(1);
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

const CHAT: &str = "/v1/chat/completions";
const COMPLETION: &str = "/v1/completions";

/// The result of a test request.
#[derive(Debug, Clone)]
pub struct Tested {
    /// Path that was called.
    pub path: &'static str,
    pub request: Value,
    pub response: Option<Value>,
    pub error: Option<String>,
    pub latency: Duration,
}

impl Control {
    fn local<'a>(&'a self, address: &'a EngineAddress) -> engine_http::Local<'a> {
        engine_http::Local { address, allowed: self.listeners.as_deref() }
    }

    /// Returns the lines of the engine's log that `window` selects, and what the engine is; `None` when the model has
    /// none.
    ///
    /// # Errors
    /// The container runtime does not answer.
    pub async fn logs(
        &self,
        model: &Model,
        window: LogWindow,
    ) -> Result<Option<(String, Instance)>, ApiError> {
        let found = self.runtime.find(&model.instance_name()).await.map_err(|it| refused(&it))?;
        let Some(found) = found else { return Ok(None) };
        let text = self.runtime.logs(&found.instance.id, window).await.map_err(|it| refused(&it))?;
        Ok(Some((text, found.instance)))
    }

    /// Returns the same lines as a stream that continues with new ones.
    ///
    /// # Errors
    /// The container runtime does not answer, or there is no container.
    pub async fn follow(
        &self,
        model: &Model,
        window: LogWindow,
    ) -> Result<BoxStream<'static, String>, ApiError> {
        match self.runtime.find(&model.instance_name()).await.map_err(|it| refused(&it))? {
            None => Err(ApiError::new(ErrorCode::InvalidState, "the model has no container to read from")),
            Some(found) => {
                self.runtime.follow_logs(&found.instance.id, window).await.map_err(|it| refused(&it))
            }
        }
    }

    /// Returns the counters that the engine of `model`, which must be running, reports at `/metrics`.
    ///
    /// # Errors
    /// One line for an operator.
    pub async fn metrics(&self, model: &Model) -> Result<EngineMetrics, String> {
        let Phase::Running { address, .. } = &model.phase else {
            return Err("the model does not run".to_owned());
        };
        let key = key_of(&self.config.internal_key, model);
        let answer = engine_http::call(self.local(address), "/metrics", &key, None, METRICS_TIMEOUT).await;
        let (status, body) = answer.map_err(silent)?;
        if !status.is_success() {
            return Err(format!("the engine's /metrics answers {}", status.as_u16()));
        }
        let engine = model.engine;
        // The text may have 8 MiB, so it is not parsed on an async thread.
        let parsed = tokio::task::spawn_blocking(move || {
            engine_metrics::parse(engine, &String::from_utf8_lossy(&body))
        });
        let parsed = parsed.await.map_err(|_| "the engine's /metrics could not be read".to_owned())?;
        let parsed =
            parsed.ok_or_else(|| "the engine's /metrics has none of the usual counters".to_owned())?;
        let own = self.shared.stats.of(&model.served_name);
        Ok(parsed.or_measured(&own.ttft.read().0, &own.latency.read().0))
    }

    /// Sends one small request of the model's task straight to its engine. A model without a chat template gets the
    /// completion that its chats become.
    pub async fn test(&self, model: &Model) -> Tested {
        let name = &model.served_name;
        let (path, request) = match (model.task, model.config.text("pooling")) {
            (Task::Embed, Some("rank")) => {
                ("/v1/rerank", json!({ "model": name, "query": "Hello", "documents": ["Hello", "Goodbye"] }))
            }
            (Task::Embed, _) => ("/v1/embeddings", json!({ "model": name, "input": "Hello" })),
            (Task::Generate, _) => (
                CHAT,
                json!({
                    "model": name, "max_tokens": 16,
                    "messages": [{ "role": "user", "content": "Say hello." }],
                }),
            ),
        };
        let started = Instant::now();
        let Phase::Running { address, .. } = &model.phase else {
            let error = Some("the model does not run".to_owned());
            return Tested { path, request, response: None, error, latency: Duration::ZERO };
        };
        let body = request.to_string().into_bytes();
        let key = key_of(&self.config.internal_key, model);
        let call = async |path, body| {
            engine_http::call(self.local(address), path, &key, Some(body), TEST_TIMEOUT).await
        };
        let mut sent = (path, request);
        let mut outcome = call(path, body.clone()).await;
        // The same conversion as for the chats of all callers.
        if model.engine == EngineKind::Vllm
            && path == CHAT
            && let Ok((status, answer)) = &outcome
            && let Some(completion) = gantry_dataplane::as_completion(status.as_u16(), answer, &body)
        {
            sent = (COMPLETION, serde_json::from_slice(&completion).unwrap_or_default());
            outcome = call(COMPLETION, completion.to_vec()).await;
        }
        let latency = started.elapsed();
        let (response, error) = match outcome {
            Ok((status, body)) => {
                let value = serde_json::from_slice::<Value>(&body)
                    .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
                let error = (!status.is_success()).then(|| format!("the engine answers {}", status.as_u16()));
                (Some(value), error)
            }
            Err(why) => (None, Some(silent(why))),
        };
        let (path, request) = sent;
        Tested { path, request, response, error, latency }
    }
}

/// Says why an engine's metrics are not available, in the API's words.
fn silent(why: engine_http::NoAnswer) -> String {
    match why {
        engine_http::NoAnswer::Closed(detail) => detail,
        engine_http::NoAnswer::NotAsked(error) => format!("the gateway can't ask: {}", error.kind()),
        engine_http::NoAnswer::TimedOut => "the engine did not answer in time".to_owned(),
    }
}

fn refused(error: &RuntimeError) -> ApiError {
    ApiError::new(ErrorCode::RuntimeUnavailable, error.to_string())
}
