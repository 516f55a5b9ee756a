//! Is the engine ready? The primary engine has `/health`; on both, `/v1/models` must list the served name (a
//! llama-server without a model is healthy and serves nothing).

use std::time::Duration;

use futures_util::{FutureExt, future::BoxFuture};
use gantry_domain::model::{EngineKind, Model, lifecycle::Health};
use http::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;

use crate::engine_http::{NoAnswer, call};

const TIMEOUT: Duration = Duration::from_secs(5);

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

/// What a probe found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// [`Health::Slow`] counts by itself as the first; the caller knows how many came before.
    pub health: Health,
    /// Context length that the engine reports, in tokens.
    pub max_model_len: Option<i64>,
}

impl From<Health> for Probed {
    fn from(health: Health) -> Self {
        Self { health, max_model_len: None }
    }
}

/// How engines are asked whether they are ready.
pub trait Prober: Send + Sync + 'static {
    /// Probes the engine of `model` on `port` of loopback, on a connection of its own.
    fn probe<'a>(&'a self, model: &'a Model, port: u16) -> BoxFuture<'a, Probed>;
}

/// Over HTTP, with the internal key.
pub struct HttpProber(pub SecretString);

impl Prober for HttpProber {
    fn probe<'a>(&'a self, model: &'a Model, port: u16) -> BoxFuture<'a, Probed> {
        probe(model, port, &self.0).boxed()
    }
}

async fn probe(model: &Model, port: u16, key: &SecretString) -> Probed {
    if model.engine == EngineKind::Vllm {
        match call(port, "/health", key, None, TIMEOUT).await {
            Ok((status, _)) if status.is_success() => {}
            Ok((status, _)) => return not_yet(format!("/health answers {}", status.as_u16())).into(),
            Err(why) => return no_answer(why).into(),
        }
    }
    match call(port, "/v1/models", key, None, TIMEOUT).await {
        Ok((StatusCode::OK, body)) => listed(&model.served_name, &body),
        Ok((StatusCode::UNAUTHORIZED, _)) => Health::KeyRefused.into(),
        Ok((status, _)) => not_yet(format!("/v1/models answers {}", status.as_u16())).into(),
        Err(why) => no_answer(why).into(),
    }
}

fn listed(served_name: &str, body: &[u8]) -> Probed {
    let Ok(listing) = serde_json::from_slice::<Listing>(body) else {
        return not_yet("/v1/models answers something else than a list".to_owned()).into();
    };
    match listing.data.into_iter().find(|it| it.id == served_name) {
        Some(entry) => {
            let max_model_len = entry.max_model_len.or(entry.meta.and_then(|it| it.n_ctx));
            Probed { health: Health::Ready, max_model_len }
        }
        None => not_yet("the engine does not list the model".to_owned()).into(),
    }
}

fn not_yet(detail: String) -> Health {
    Health::NotYet { detail }
}

fn no_answer(why: NoAnswer) -> Health {
    match why {
        NoAnswer::Closed(detail) => Health::NotYet { detail },
        NoAnswer::TimedOut => Health::Slow { n: 1 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_lists_are_understood() {
        let vllm = br#"{"object":"list","data":[{"id":"tiny","max_model_len":512,"parent":null}]}"#;
        assert_eq!(listed("tiny", vllm), Probed { health: Health::Ready, max_model_len: Some(512) });
        let llama =
            br#"{"models":[{"name":"x"}],"data":[{"id":"tiny","meta":{"n_ctx":2048,"n_vocab":960}}]}"#;
        assert_eq!(listed("tiny", llama).max_model_len, Some(2048));
        let router = br#"{"data":[],"object":"list"}"#;
        assert!(matches!(listed("tiny", router).health, Health::NotYet { .. }));
        assert!(matches!(listed("tiny", b"<html>").health, Health::NotYet { .. }));
    }
}
