//! Makes the catalog's entry of one model: where its requests go, and how they are handled.

use std::{sync::Arc, time::Duration};

use gantry_dataplane::{RequestDefaults, Route, RouteTarget};
use gantry_domain::model::{Model, ModelConfig};
use gantry_store::RegistryEntry;

use crate::Control;

const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_mins(10);
const DEFAULT_STREAM_IDLE: Duration = Duration::from_mins(5);

pub(super) fn managed_route(
    control: &Control,
    model: &Model,
    target: RouteTarget,
    max_model_len: Option<i64>,
) -> Route {
    // The engine's settings were fixed when it started. What the gateway does itself follows the record at once.
    let launched = model.as_launched();
    let seconds = |name, default| {
        let set = model.config.int(name).and_then(|it| u64::try_from(it).ok());
        set.map_or(default, Duration::from_secs)
    };
    Route {
        served_name: model.served_name.clone(),
        adapter_of: None,
        task: launched.task,
        engine: Some(model.engine),
        upstream_model: None,
        simulator: control.config.is_simulated(&launched),
        target,
        request_timeout: seconds("request_timeout_sec", DEFAULT_REQUEST_TIMEOUT),
        stream_idle_timeout: seconds("stream_idle_timeout_sec", DEFAULT_STREAM_IDLE),
        created: model.created_at,
        max_model_len: max_model_len.or(launched.config.int("max_model_len")),
        request_defaults: request_defaults(&model.config).map(Arc::new),
        stats: control.shared.stats.of(&model.served_name),
    }
}

pub(super) fn adapter_route(control: &Control, model: &Route, name: &str) -> Route {
    Route {
        served_name: name.to_owned(),
        adapter_of: Some(model.served_name.clone()),
        upstream_model: None,
        target: model.target.clone(),
        request_defaults: model.request_defaults.clone(),
        stats: control.shared.stats.of(name),
        ..*model
    }
}

pub(super) fn manual_route(control: &Control, entry: RegistryEntry, target: RouteTarget) -> Route {
    Route {
        stats: control.shared.stats.of(&entry.served_name),
        max_model_len: control.reported_context(&entry.served_name),
        served_name: entry.served_name,
        adapter_of: None,
        task: entry.task,
        engine: None,
        upstream_model: entry.upstream_model.map(Into::into),
        simulator: false,
        target,
        request_timeout: DEFAULT_REQUEST_TIMEOUT,
        stream_idle_timeout: DEFAULT_STREAM_IDLE,
        created: entry.created_at,
        request_defaults: None,
    }
}

fn request_defaults(config: &ModelConfig) -> Option<RequestDefaults> {
    RequestDefaults::new(config.get("request_defaults")?.as_object()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_model_s_request_defaults_are_published() {
        let of = |config: &Value| {
            let config = ModelConfig::from_stored(config.as_object().unwrap().clone());
            request_defaults(&config).map(|it| format!("{it:?}"))
        };
        assert!(of(&json!({"request_defaults": {"top_k": 40}})).unwrap().contains("\"top_k\""));
        assert_eq!(of(&json!({"request_defaults": {}})), None);
        assert_eq!(of(&json!({})), None);
    }
}
