//! The tuned profile: a better value for each field whose default makes models slower or more limited than necessary.
//!
//! The defaults are those of the specification. The better values are in the field table ([`Field::tuned`]). A record
//! that is created with the profile stores them as its own settings, so that they are all visible and can be changed.

use serde_json::{Map, Value};

use super::{
    EngineKind, Task,
    fields::{self, Field, Tuned},
};

/// Name of the profile in requests.
pub const PROFILE: &str = "tuned";

/// Returns the fields that have a better value than their default and that `set` leaves open, with that value. A
/// context is at most what the model was trained for, in tokens, if that is known.
pub fn open(
    engine: EngineKind,
    task: Task,
    set: &Map<String, Value>,
    trained_for: Option<u64>,
) -> Vec<(&'static Field, Tuned, Value)> {
    let value = |field: &'static Field| {
        let tuned = field.tuned.filter(|it| it.task.is_none_or(|only| only == task))?;
        let mut value = tuned.value.value()?;
        if field.name == "context_size" {
            let slots = set.get("parallel_slots").and_then(Value::as_i64).unwrap_or(1).max(1);
            let most = trained_for.and_then(|it| i64::try_from(it).ok()).map(|it| it.saturating_mul(slots));
            let length = value.as_i64()?.min(most.unwrap_or(i64::MAX));
            let default = field.default.value()?.as_i64()?;
            value = (length > default).then_some(length)?.into();
        }
        Some((field, tuned, value))
    };
    let is_set = |name: &str| set.get(name).is_some_and(|it| !it.is_null());
    // `load_mode` replaces both others.
    let replaced = |name: &str| matches!(name, "mlock" | "no_mmap") && is_set("load_mode");
    let unset = |field: &&Field| !is_set(field.name) && !replaced(field.name);
    fields::all().filter(|it| it.engine == Some(engine)).filter(unset).filter_map(value).collect()
}

/// Returns the same fields and values as [`open`], as fields of a request.
pub fn values(
    engine: EngineKind,
    task: Task,
    set: &Map<String, Value>,
    trained_for: Option<u64>,
) -> Map<String, Value> {
    let open = open(engine, task, set, trained_for).into_iter();
    open.map(|(field, _, value)| (field.name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_set_stays_and_a_context_is_not_longer_than_the_model_s() {
        let llama = |set: &Value, task, trained| {
            Value::Object(values(EngineKind::Llamacpp, task, set.as_object().unwrap(), trained))
        };
        assert_eq!(
            llama(&json!({}), Task::Generate, None),
            json!({ "context_size": 32_768, "batch_size": 2048, "mlock": false, "no_mmap": false, "numa": "none" })
        );
        assert_eq!(
            llama(&json!({ "batch_size": 64, "load_mode": "mlock" }), Task::Generate, Some(16_384)),
            json!({ "context_size": 16_384, "numa": "none" })
        );
        assert_eq!(llama(&json!({}), Task::Generate, Some(2048)).get("context_size"), None);
        assert_eq!(
            llama(&json!({ "parallel_slots": 2 }), Task::Generate, Some(8192))["context_size"],
            16_384
        );
        let embed = llama(&json!({}), Task::Embed, None);
        assert_eq!((embed.get("batch_size"), embed.get("context_size")), (None, None));
        assert_eq!(
            Value::Object(values(EngineKind::Vllm, Task::Generate, &Map::new(), None)),
            json!({ "max_num_batched_tokens": 8192, "enforce_eager": false })
        );
    }
}
