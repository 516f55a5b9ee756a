//! Computes the values to try from the log and the current settings.

use serde_json::Value;

use super::context::MatchContext;
use crate::model::{
    ModelConfig,
    fields::{self, Default},
};

/// Returns a number as JSON, as an integer if it is a whole number.
pub(super) fn json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// Returns the value that keeps the current field out of the command: `null`, or the opposite of a default that would
/// otherwise be sent. Returns nothing if the default is always sent.
pub(super) fn leave_out(found: &MatchContext<'_>) -> Option<Value> {
    match default(found) {
        Some(Default::Bool(on)) => Some(Value::Bool(!on)),
        _ if found.field == Some("numa") => Some(Value::from("none")),
        // The option comes from the defaults of two other fields, which this one overrides.
        _ if found.field == Some("load_mode") => Some(Value::from("auto")),
        Some(Default::Engine) => Some(Value::Null),
        Some(_) | None => None,
    }
}

/// Returns `null` if the field is set.
pub(super) fn unset(found: &MatchContext<'_>) -> Option<Value> {
    found.config.get(found.field?).map(|_| Value::Null)
}

/// Returns half of the current value, for lengths in multiples of 256.
pub(super) fn half(found: &MatchContext<'_>) -> Option<Value> {
    let now = current(found)? as i64;
    let half = if now >= 1024 { now / 2 / 256 * 256 } else { now / 2 };
    (half >= 1).then(|| half.into())
}

/// Returns the field that keeps layers off a GPU: `ngl` if it is set below 999, else `fit_memory` if that is off.
pub(super) fn layers_field(config: &ModelConfig) -> Option<&'static str> {
    match (config.int("ngl"), config.text("fit_memory")) {
        (Some(1..999), _) => Some("ngl"),
        (_, Some("off")) if config.int("ngl") != Some(0) => Some("fit_memory"),
        _ => None,
    }
}

/// Returns the value for that field: `on` for `fit_memory`, which lets the engine choose, or half of the layers for
/// `ngl`.
pub(super) fn fewer_layers(found: &MatchContext<'_>) -> Option<Value> {
    match found.field? {
        "fit_memory" => Some("on".into()),
        _ => half(found).or(Some(0.into())),
    }
}

/// Returns twice the current value.
pub(super) fn double(found: &MatchContext<'_>) -> Option<Value> {
    let known = current(found).or_else(|| found.number("seconds"))?;
    Some(json((known * 2.0).min(86_400.0)))
}

/// Returns a larger share of the GPU: 0.05 more, at most 0.95.
pub(super) fn more_memory(found: &MatchContext<'_>) -> Option<Value> {
    let now = current(found)?;
    (now < 0.95).then(|| hundredths((now + 0.05).min(0.95)))
}

/// Returns the share of the GPU that was free, less 0.02 for what the driver takes, rounded down.
pub(super) fn free_share(found: &MatchContext<'_>) -> Option<Value> {
    let share = found.number("free")? / found.number("total")?;
    let share = ((share - 0.02) * 100.0).floor() / 100.0;
    (0.05..=0.98).contains(&share).then(|| hundredths(share))
}

/// Returns half of the RAM that was free, in bytes.
pub(super) fn half_of_free(found: &MatchContext<'_>) -> Option<Value> {
    let free = found.number("free")?;
    let half = (free / 2.0).floor();
    (1.0..1e6).contains(&half).then(|| ((half as i64) << 30).into())
}

/// Returns `load_mode` if weights are locked in RAM or copied into it now, so that the kernel can't take that memory
/// back.
pub(super) fn held_in_ram(config: &ModelConfig) -> Option<&'static str> {
    let on = |name| config.bool(name) != Some(false);
    let held = match config.text("load_mode") {
        Some(mode) => !matches!(mode, "auto" | "mmap"),
        None => on("mlock") || on("no_mmap"),
    };
    held.then_some("load_mode")
}

/// Returns `chat_template` if no template file is set, which would override it.
pub(super) fn own_template(config: &ModelConfig) -> Option<&'static str> {
    config.get("chat_template_file").is_none().then_some("chat_template")
}

/// Returns the largest power of two below the current number of GPUs that divides the attention heads. It must also
/// divide the number of key and value heads or be a multiple of it; the log does not show that number, but it is nearly
/// always a power of two.
pub(super) fn divisor(found: &MatchContext<'_>) -> Option<Value> {
    let heads = found.number("heads")? as i64;
    let size = found.number("size")? as i64;
    if !(1..=4096).contains(&heads) {
        return None;
    }
    let powers = [64, 32, 16, 8, 4, 2, 1];
    powers.into_iter().find(|it| *it < size.max(2) && heads % it == 0).map(Value::from)
}

/// Returns the number of GPUs in the machine, divided by the stages of the pipeline.
pub(super) fn gpus_there(found: &MatchContext<'_>) -> Option<Value> {
    let stages = found.config.int("pipeline_parallel_size").unwrap_or(1).max(1);
    Some((found.number("gpus")? as i64 / stages).max(1).into())
}

/// Returns the path of the first part of a split file, if the configured file is another part.
pub(super) fn first_part(found: &MatchContext<'_>) -> Option<Value> {
    let path = found.config.text("local_path").or_else(|| found.capture("path")?.strip_prefix("/models/"))?;
    let (stem, count) = path.rsplit_once("-of-")?;
    let stem = stem.strip_suffix(|it: char| it.is_ascii_digit())?;
    let stem = stem.trim_end_matches(|it: char| it.is_ascii_digit());
    stem.ends_with('-').then(|| format!("{stem}00001-of-{count}").into())
}

/// Returns the current value of the field, or else its default.
fn current(found: &MatchContext<'_>) -> Option<f64> {
    if let Some(value) = found.config.get(found.field?) {
        return value.as_f64();
    }
    match default(found)? {
        Default::Int(it) => Some(it as f64),
        Default::Float(it) => Some(it),
        _ => None,
    }
}

fn default(found: &MatchContext<'_>) -> Option<Default> {
    fields::find(found.field?, found.engine).map(|it| it.default)
}

fn hundredths(share: f64) -> Value {
    Value::from((share * 100.0).round() / 100.0)
}
