//! A model as it is carried to another gateway: the body that would create it there, without secrets.

use serde_json::{Map, Value, json};

use super::Model;

/// Parts of names of environment variables whose values are secrets.
const SECRET_NAMES: [&str; 9] =
    ["TOKEN", "PASSWORD", "PASSWD", "SECRET", "KEY", "CREDENTIAL", "AUTH", "COOKIE", "PRIVATE"];
/// How values begin that are secrets whatever their name: tokens of hubs and providers, keys, addresses with passwords.
const SECRET_VALUES: [&str; 7] = ["hf_", "sk-", "ghp_", "glpat-", "xoxb-", "AKIA", "-----BEGIN"];

/// A model without what ties it to its gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct PortableModel {
    /// The body of `POST /admin/models`.
    pub body: Map<String, Value>,
    /// What was left out because it is a secret: `hub_token`, `extra_env.NAME`.
    pub redacted: Vec<String>,
}

impl PortableModel {
    /// Returns what is carried of `model`. Without `with_env`, no value of an environment variable is.
    pub fn of(model: &Model, with_env: bool) -> Self {
        let mut body = Map::new();
        body.insert("name".to_owned(), json!(model.name));
        body.insert("served_name".to_owned(), json!(model.served_name));
        body.insert("task".to_owned(), json!(model.task.as_str()));
        body.insert("engine_type".to_owned(), json!(model.engine.as_str()));
        body.extend(model.config.values().clone());
        let mut redacted = Vec::new();
        if model.hub_token.is_some() || model.sealed_hub_token.is_some() {
            redacted.push("hub_token".to_owned());
        }
        if let Some(Value::Object(env)) = body.get_mut("extra_env") {
            redacted.extend(redact_env(env, with_env).into_iter().map(|it| format!("extra_env.{it}")));
        }
        Self { body, redacted }
    }
}

/// Removes environment variables, and returns their names: all of them, or with `keep` those whose values are secrets as far as name
/// and value show it.
pub fn redact_env(env: &mut Map<String, Value>, keep: bool) -> Vec<String> {
    let secret = |(name, value): (&String, &Value)| (!keep || is_secret(name, value)).then(|| name.clone());
    let names: Vec<String> = env.iter().filter_map(secret).collect();
    env.retain(|name, _| !names.contains(name));
    names
}

fn is_secret(name: &str, value: &Value) -> bool {
    let name = name.to_ascii_uppercase();
    let by_value = |text: &str| {
        let has_password = text.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
        has_password || SECRET_VALUES.iter().any(|it| text.starts_with(it))
    };
    SECRET_NAMES.iter().any(|it| name.contains(it)) || value.as_str().is_some_and(by_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names_and_by_how_they_begin() {
        let env = json!({
            "VLLM_USE_V1": "1", "HF_TOKEN": "x", "my_api_key": "x", "X": "hf_abc", "PROXY": "http://u:p@h:1", "URL": "http://h:1",
        });
        let Value::Object(mut env) = env else { panic!("an object") };
        assert_eq!(redact_env(&mut env, true), ["HF_TOKEN", "my_api_key", "X", "PROXY"]);
        assert_eq!(Value::Object(env.clone()), json!({ "VLLM_USE_V1": "1", "URL": "http://h:1" }));
        assert_eq!(redact_env(&mut env, false), ["VLLM_USE_V1", "URL"]);
        assert!(env.is_empty());
    }
}
