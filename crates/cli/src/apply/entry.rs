//! One entry of a file, and how it differs from what the gateway has.

use gantry_domain::{key::Scopes, model::EngineKind, net::IpList};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::section::Section;

/// What the gateway shows instead of a value that the caller may not see.
const HIDDEN: &str = "***";

/// One entry of a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// The file that has it, for errors.
    pub(super) file: String,
    /// The section that has it.
    pub(super) section: Section,
    /// The section of the record: limits are part of an organisation or a user.
    pub(super) of: Section,
    pub(super) name: String,
    pub(super) fields: Map<String, Value>,
}

/// A field that has another value in the gateway.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) from: Value,
    pub(super) to: Value,
}

impl Entry {
    /// Returns `SECTION/NAME`.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", self.section.as_str(), self.title())
    }

    /// Returns the name within the section.
    pub(super) fn title(&self) -> String {
        if self.section == self.of {
            self.name.clone()
        } else {
            format!("{}/{}", self.of.as_str(), self.name)
        }
    }

    /// Returns the user or the organisation that a key belongs to: field and name.
    pub(super) fn holder(&self) -> Option<(&'static str, &str)> {
        let named = |field: &'static str| Some((field, self.fields.get(field)?.as_str()?));
        (self.of == Section::Keys).then(|| named("username").or_else(|| named("org_name"))).flatten()
    }

    /// Returns whether this is the record that the entry names.
    pub(super) fn names(&self, record: &Value) -> bool {
        record[self.of.name()] == self.name.as_str()
            && match self.of {
                Section::Registry => record["source"] == "manual",
                Section::Keys => {
                    let is_users = self.holder().is_some_and(|(field, _)| field == "username");
                    record["status"] != "revoked"
                        && record["username"].is_null() != is_users
                        && self.holder().is_some_and(|(field, name)| record[field] == name)
                }
                _ => true,
            }
    }

    /// Returns whether the field is part of what names the record, and so the same in both.
    fn is_name(&self, field: &str) -> bool {
        field == self.of.name() || (self.of == Section::Keys && matches!(field, "org_name" | "username"))
    }

    /// Returns the fields that have another value in the gateway's record.
    pub(super) fn differences(&self, record: &Value) -> Vec<Difference> {
        let other = |(field, wanted): (&String, &Value)| {
            let is_compared = !self.is_name(field) && !self.of.unseen().contains(&field.as_str());
            (is_compared && !same(field, wanted, record)).then(|| Difference {
                field: field.clone(),
                from: without_secrets(field, &record[field.as_str()]),
                to: without_secrets(field, wanted),
            })
        };
        self.fields.iter().filter_map(other).collect()
    }

    /// Returns the body that makes these changes.
    pub(super) fn change(&self, differences: &[Difference]) -> Map<String, Value> {
        let is_sent =
            |field: &str| self.of.unseen().contains(&field) || differences.iter().any(|it| it.field == field);
        let fields = self.fields.iter().filter(|(field, _)| is_sent(field));
        fields.map(|(field, value)| (field.clone(), value.clone())).collect()
    }
}

/// Returns whether a record has this value already, perhaps written in another way.
fn same(field: &str, wanted: &Value, record: &Value) -> bool {
    let (shown, text) = (&record[field], wanted.as_str());
    if wanted.is_null() {
        let defaulted = record["defaulted"].as_array().is_some_and(|it| it.iter().any(|it| it == field));
        let unset = match field {
            "ip_allowlist" => *shown == json!([]),
            "limit_mode" => shown == "enforce",
            _ => false,
        };
        return shown.is_null() || defaulted || unset;
    }
    match field {
        "scopes" => Scopes::parse(&words(wanted).join(","))
            .is_ok_and(|it| shown.as_str() == Some(it.to_string().as_str())),
        "ip_allowlist" => IpList::parse(words(wanted).iter().map(String::as_str))
            .is_ok_and(|it| *shown == json!(it.entries())),
        "expires_at" => {
            let time = |text: &str| text.parse::<Timestamp>().ok();
            text.and_then(time).is_some_and(|it| shown.as_str().and_then(time) == Some(it))
        }
        "engine_type" => text.and_then(EngineKind::parse).is_some_and(|it| shown == it.as_str()),
        _ => alike(wanted, shown),
    }
}

/// Returns the words of a list that may also be one text with commas.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split(',').map(str::to_owned).collect(),
        Value::Array(items) => items.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether two values mean the same: `1` and `1.0` do, and what is hidden is taken to be the same.
fn alike(wanted: &Value, shown: &Value) -> bool {
    match (wanted, shown) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq()),
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| alike(a, b)))
        }
        (Value::String(_), Value::String(b)) if b == HIDDEN => true,
        (a, b) => a == b,
    }
}

/// Hides the values of environment variables: operators put tokens there, and what `apply` prints lands in logs.
fn without_secrets(field: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if field == "extra_env"
        && let Value::Object(env) = &mut value
    {
        env.values_mut().for_each(|it| *it = HIDDEN.into());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_written_in_several_ways() {
        let record = json!({
            "scopes": "chat,embeddings", "ip_allowlist": ["10.0.0.5"], "expires_at": "2030-01-01T00:00:00.000Z",
            "engine_type": "vllm", "max_model_len": 8192, "gpu_memory_utilization": 0.9, "seed": null,
            "defaulted": ["gpu_memory_utilization"], "extra_env": { "A": "***" }, "limit_mode": "enforce",
        });
        for (field, wanted) in [
            ("scopes", json!(["embeddings", "chat"])),
            ("scopes", json!("chat, embeddings")),
            ("ip_allowlist", json!(["10.0.0.5/32"])),
            ("expires_at", json!("2030-01-01T01:00:00+01:00")),
            ("engine_type", json!("primary")),
            ("max_model_len", json!(8192.0)),
            ("gpu_memory_utilization", json!(null)),
            ("seed", json!(null)),
            ("extra_env", json!({ "A": "secret" })),
            ("limit_mode", json!(null)),
        ] {
            assert!(same(field, &wanted, &record), "{field}: {wanted}");
        }
        for (field, wanted) in [
            ("scopes", json!("chat")),
            ("scopes", json!("nonsense")),
            ("ip_allowlist", json!(null)),
            ("max_model_len", json!(4096)),
            ("max_model_len", json!(null)),
            ("extra_env", json!({ "B": "secret" })),
            ("seed", json!(1)),
        ] {
            assert!(!same(field, &wanted, &record), "{field}: {wanted}");
        }
    }
}
