//! Makes the body of a request from options, assignments and files. Types come from the field table. Values that do
//! not fit are sent unchanged, so that the gateway reports all errors at once.

use std::io::Read;

use clap::ArgMatches;
use gantry_domain::model::{
    EngineKind,
    fields::{self, Kind},
    tuned,
};
use serde_json::{Map, Value};

use crate::{
    exit::{Failure, Outcome},
    options::{has, text, texts},
    text::clean,
};

pub(super) const EXAMPLES: &str = "\
gantry models create --path qwen3-8b-q4_k_m.gguf --start --wait
gantry models create --path big --tuned -s tensor_parallel_size=2 -s extra_args=--foo,--bar
gantry models show qwen --json | gantry models create --file - --served-name qwen-2

Engine, task, pooling and served name come from the files unless they are given. Lists are written with commas, or as JSON
like objects. Put a hub token in a file, not on the command line.";

/// Fields that records show, but requests may not contain.
const SHOWN_ONLY: &[&str] = &[
    "id",
    "state",
    "state_reason",
    "needs_apply",
    "needs_apply_reason",
    "rolled_back",
    "diagnosis",
    "restart",
    "simulator",
    "hub_token_set",
    "defaulted",
    "created_at",
    "updated_at",
    "revision",
];

const OPTIONS: &[(&str, &str)] = &[
    ("served-name", "served_name"),
    ("name", "name"),
    ("engine", "engine_type"),
    ("task", "task"),
    ("path", "local_path"),
    ("repo", "repo_id"),
];

/// Returns whether any option that makes a body is given.
pub(super) fn is_given(matches: &ArgMatches) -> bool {
    let names = OPTIONS.iter().map(|(option, _)| *option).chain(["file"]);
    has(matches, "tuned")
        || names.clone().any(|it| text(matches, it).is_some())
        || !texts(matches, "set").is_empty()
}

/// Returns the body for a new model.
pub(super) fn of_new(matches: &ArgMatches) -> Outcome<Value> {
    let mut record = record(matches)?;
    // Records show unset fields as `null`. A new model has nothing to unset.
    record.retain(|_, value| !value.is_null());
    body(matches, record, None)
}

/// Returns the body of a change to a model of this engine. `null` in a file unsets its field, as in the API.
pub(super) fn of_change(matches: &ArgMatches, engine: Option<&str>) -> Outcome<Value> {
    body(matches, record(matches)?, engine)
}

fn body(matches: &ArgMatches, mut body: Map<String, Value>, engine: Option<&str>) -> Outcome<Value> {
    for (option, field) in OPTIONS {
        if let Some(value) = text(matches, option) {
            body.insert((*field).to_owned(), value.into());
        }
    }
    let assignments: Vec<_> = texts(matches, "set").into_iter().map(split).collect::<Outcome<_>>()?;
    let named = assignments.iter().rev().find(|(name, _)| *name == "engine_type").map(|(_, value)| *value);
    let in_body = body.get("engine_type").and_then(Value::as_str).map(str::to_owned);
    let engine = named.or(in_body.as_deref()).or(engine).and_then(EngineKind::parse);
    for (name, value) in assignments {
        body.insert(name.to_owned(), typed(name, value, engine.unwrap_or(EngineKind::Vllm)));
    }
    if has(matches, "tuned") {
        body.insert("profile".to_owned(), tuned::PROFILE.into());
    }
    if has(matches, "force") {
        body.insert("force".to_owned(), true.into());
    }
    Ok(Value::Object(body))
}

/// Returns values as options for a shell: `-s task=embed -s pooling=rank`. `null` unsets.
pub(super) fn assignments(values: &Map<String, Value>) -> String {
    let one = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("-s {}", quoted(&clean(&format!("{name}={value}"))))
    };
    values.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&it);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the options of this command line that make a body, quoted for a shell, without the served name.
pub(super) fn given(matches: &ArgMatches) -> String {
    let options = OPTIONS
        .iter()
        .filter(|it| it.1 != "served_name")
        .filter_map(|(option, _)| Some(format!("--{option} {}", quoted(&clean(text(matches, option)?)))));
    let set = texts(matches, "set").into_iter().map(|it| format!("-s {}", quoted(&clean(it))));
    let tuned = has(matches, "tuned").then(|| "--tuned".to_owned());
    options.chain(set).chain(tuned).collect::<Vec<_>>().join(" ")
}

fn split(assignment: &str) -> Outcome<(&str, &str)> {
    assignment
        .split_once('=')
        .map(|(name, value)| (name.trim(), value))
        .ok_or_else(|| Failure::Usage(format!("`{}` is not FIELD=VALUE", clean(assignment))))
}

/// Reads the record from `--file`, without fields that requests may not contain; empty without `--file`.
fn record(matches: &ArgMatches) -> Outcome<Map<String, Value>> {
    let Some(path) = text(matches, "file") else { return Ok(Map::new()) };
    let wrong = |error: std::io::Error| Failure::Usage(format!("can't read {path}: {error}"));
    let text = if path == "-" {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text).map_err(wrong)?;
        text
    } else {
        std::fs::read_to_string(path).map_err(wrong)?
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(mut record)) => {
            // Values that the gateway filled in are not settings to copy to another model.
            for name in record.get("defaulted").and_then(Value::as_array).cloned().into_iter().flatten() {
                record.shift_remove(name.as_str().unwrap_or_default());
            }
            record.retain(|name, _| !SHOWN_ONLY.contains(&name.as_str()));
            Ok(record)
        }
        Ok(_) => Err(Failure::Usage(format!("{path} does not hold a JSON object"))),
        Err(error) => Err(Failure::Usage(format!("{path} is not valid JSON: {error}"))),
    }
}

/// Converts text to the type of its field. Empty text unsets the field.
fn typed(name: &str, text: &str, engine: EngineKind) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    let as_is = || Value::from(text);
    let json = || serde_json::from_str::<Value>(text).ok();
    let Some(field) = fields::find(name, engine) else {
        // Fields outside the table: columns of the record, and unknown names.
        return match (name, text.parse::<bool>()) {
            ("archived", Ok(flag)) => flag.into(),
            _ => as_is(),
        };
    };
    let items = || text.split(',').map(str::trim).filter(|it| !it.is_empty());
    match field.kind {
        Kind::Bool => match text {
            "true" | "yes" | "on" => true.into(),
            "false" | "no" | "off" => false.into(),
            _ => as_is(),
        },
        Kind::Int { .. } | Kind::IntOneOf(_) | Kind::Float { .. } => {
            json().filter(Value::is_number).unwrap_or_else(as_is)
        }
        Kind::IntList { .. } => json().filter(Value::is_array).unwrap_or_else(|| {
            items().map(|it| it.parse::<i64>().map_or_else(|_| Value::from(it), Value::from)).collect()
        }),
        Kind::TextList { .. } | Kind::NamedPaths { .. } => {
            json().filter(Value::is_array).unwrap_or_else(|| items().map(Value::from).collect())
        }
        Kind::TextMap => json().filter(Value::is_object).unwrap_or_else(|| {
            let pairs =
                items().map(|it| it.split_once('=').map(|(name, value)| (name.to_owned(), value.into())));
            pairs.collect::<Option<Map<_, _>>>().map_or_else(as_is, Value::Object)
        }),
        Kind::Object => json().unwrap_or_else(as_is),
        Kind::Text { .. }
        | Kind::Lines { .. }
        | Kind::OneOf(_)
        | Kind::Repo
        | Kind::RepoOrPath
        | Kind::Path
        | Kind::ModelPath => as_is(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_take_the_type_of_their_field() {
        let typed = |name, text| typed(name, text, EngineKind::Vllm);
        for (name, text, value) in [
            ("tensor_parallel_size", "2", json!(2)),
            ("tensor_parallel_size", "two", json!("two")),
            ("gpu_memory_utilization", "0.9", json!(0.9)),
            ("enforce_eager", "true", json!(true)),
            ("max_model_len", "", Value::Null),
            ("selected_gpus", "0,2", json!([0, 2])),
            ("extra_args", "--a,--b=1", json!(["--a", "--b=1"])),
            ("extra_args", r#"["--a,b"]"#, json!(["--a,b"])),
            ("extra_env", "A=1,B=x=y", json!({ "A": "1", "B": "x=y" })),
            ("request_defaults", r#"{"temperature":0}"#, json!({ "temperature": 0 })),
            ("local_path", "1", json!("1")),
            ("archived", "true", json!(true)),
            ("no_such_field", "1", json!("1")),
        ] {
            assert_eq!(typed(name, text), value, "{name}={text}");
        }
    }
}
