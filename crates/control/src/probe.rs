//! Probes whether an engine is ready. The primary engine has `/health`; on both, `/v1/models` must list the served name
//! (a llama-server without a model is healthy and serves nothing).

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use gantry_domain::{
    engine::{EngineAddress, key_of},
    listeners::Listeners,
    model::{EngineKind, Model, lifecycle::Health},
};
use http::{HeaderValue, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tracing::warn;

use crate::engine_http::{Local, NoAnswer};

/// Longest time that an engine may take for one answer to a probe.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const KEY_REFUSED: &str = "the engine refuses the key";
pub(crate) const NO_ANSWER: &str = "no answer in time";
pub(crate) const NO_LIST: &str = "/v1/models answers something else than a list";
/// Most names of an engine's list that are kept, and most characters of each.
const MAX_MODELS: usize = 100;
const MAX_NAME: usize = 200;

/// The part of `/v1/models` that matters.
#[derive(Debug, Deserialize)]
struct Listing {
    data: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    max_model_len: Option<i64>,
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(default)]
    n_ctx: Option<i64>,
}

impl Listing {
    fn names(self) -> Vec<String> {
        self.data.into_iter().take(MAX_MODELS).map(|it| cut(&it.id)).collect()
    }
}

/// What a probe found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// The engine's health. A bad result counts as the first in a row here; the caller knows how many came before.
    pub health: Health,
    /// Context length that the engine reports, in tokens.
    pub max_model_len: Option<i64>,
    /// How long it took to answer, if it did.
    pub latency: Option<Duration>,
    /// The names that it lists, cut to a bounded size.
    pub models: Vec<String>,
}

impl Probed {
    /// Returns what is wrong, for people, if the engine is not ready.
    pub fn error(&self) -> Option<&str> {
        match &self.health {
            Health::Ready | Health::Unknown => None,
            Health::Closed { detail } | Health::Wrong { detail, .. } => Some(detail),
            Health::KeyRefused | Health::OldKey => Some(KEY_REFUSED),
            Health::Slow { .. } => Some(NO_ANSWER),
        }
    }
}

impl From<Health> for Probed {
    fn from(health: Health) -> Self {
        Self { health, max_model_len: None, latency: None, models: Vec::new() }
    }
}

/// Asks engines whether they are ready.
pub trait Prober: Send + Sync + 'static {
    /// Probes the engine of `model` at `address`, on a connection of its own. Returns [`Health::Unknown`] if the gateway
    /// can't probe.
    fn probe<'a>(&'a self, model: &'a Model, address: &'a EngineAddress) -> BoxFuture<'a, Probed>;
}

/// Probes over HTTP, with the engine's key.
pub struct HttpProber {
    pub internal_key: SecretString,
    /// See [`gantry_runtime::Runtime::listeners`].
    pub listeners: Option<Listeners>,
}

impl Prober for HttpProber {
    fn probe<'a>(&'a self, model: &'a Model, address: &'a EngineAddress) -> BoxFuture<'a, Probed> {
        let engine = Local { address, allowed: self.listeners.as_ref() };
        async move { probe(model, engine, &key_of(&self.internal_key, model)).await }.boxed()
    }
}

async fn probe(model: &Model, engine: Local<'_>, key: &SecretString) -> Probed {
    let started = Instant::now();
    let asked = ask(model, engine, key).await;
    let latency = Some(started.elapsed());
    match asked {
        Ok(body) => Probed { latency, ..listed(&model.served_name, &body) },
        Err(Unready::Answered(health)) => Probed { latency, ..health.into() },
        Err(Unready::Silent(health)) => health.into(),
    }
}

/// Why there is no list of models.
enum Unready {
    Answered(Health),
    Silent(Health),
}

/// Returns what the engine answers at `/v1/models`, once it is healthy. One connection serves all requests.
async fn ask(model: &Model, engine: Local<'_>, key: &SecretString) -> Result<Bytes, Unready> {
    let auth = HeaderValue::try_from(format!("Bearer {}", key.expose_secret())).ok();
    let open = || async { in_time(engine.open()).await };
    let mut connection = open().await?;
    if model.engine == EngineKind::Vllm {
        match in_time(connection.send("/health", auth.as_ref(), None)).await? {
            (status, _) if status.is_success() => {}
            (status, _) => return Err(Unready::Answered(unready("/health", status))),
        }
        if !connection.is_open() {
            connection = open().await?;
        }
    }
    match in_time(connection.send("/v1/models", auth.as_ref(), None)).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) if refuses_key(status) => Err(Unready::Answered(Health::KeyRefused)),
        (status, _) => Err(Unready::Answered(unready("/v1/models", status))),
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, NoAnswer>>) -> Result<T, Unready> {
    let done = tokio::time::timeout(TIMEOUT, work).await.unwrap_or(Err(NoAnswer::TimedOut));
    done.map_err(|why| {
        Unready::Silent(match why {
            NoAnswer::Closed(detail) => Health::Closed { detail },
            NoAnswer::TimedOut => Health::Slow { n: 1 },
            NoAnswer::NotAsked(error) => {
                warn!(%error, "an engine can't be probed");
                Health::Unknown
            }
        })
    })
}

fn listed(served_name: &str, body: &[u8]) -> Probed {
    let Some(listed) = look_up(served_name, body) else {
        return wrong(NO_LIST.to_owned()).into();
    };
    let health =
        if listed.has { Health::Ready } else { wrong("the engine does not list the model".to_owned()) };
    Probed { health, max_model_len: listed.max_model_len, latency: None, models: listed.models }
}

/// What an engine's `/v1/models` says.
pub(crate) struct Listed {
    /// Whether the name that was looked up is in it.
    pub has: bool,
    /// Its context length, in tokens.
    pub max_model_len: Option<i64>,
    /// The first names, cut to a bounded size.
    pub models: Vec<String>,
}

/// Looks a model up in an engine's `/v1/models`; `None` if that is no list.
pub(crate) fn look_up(name: &str, body: &[u8]) -> Option<Listed> {
    let listing: Listing = serde_json::from_slice(body).ok()?;
    let own = listing.data.iter().find(|it| it.id == name);
    let max_model_len = own.and_then(|it| it.max_model_len.or_else(|| it.meta.as_ref()?.n_ctx));
    Some(Listed { has: own.is_some(), max_model_len, models: listing.names() })
}

/// Whether the answer to a request with our key says that the engine does not accept the key.
pub(crate) fn refuses_key(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

fn unready(path: &str, status: StatusCode) -> Health {
    wrong(format!("{path} answers {}", status.as_u16()))
}

fn wrong(detail: String) -> Health {
    Health::Wrong { n: 1, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_lists_are_understood() {
        let vllm = br#"{"object":"list","data":[{"id":"tiny","max_model_len":512,"parent":null}]}"#;
        let (latency, models) = (None, vec!["tiny".to_owned()]);
        let ready = Probed { health: Health::Ready, max_model_len: Some(512), latency, models };
        assert_eq!(listed("tiny", vllm), ready);
        let llama =
            br#"{"models":[{"name":"x"}],"data":[{"id":"tiny","meta":{"n_ctx":2048,"n_vocab":960}}]}"#;
        assert_eq!(listed("tiny", llama).max_model_len, Some(2048));
        let router = br#"{"data":[],"object":"list"}"#;
        assert!(matches!(listed("tiny", router).health, Health::Wrong { .. }));
        assert!(matches!(listed("tiny", b"<html>").health, Health::Wrong { .. }));
    }
}
