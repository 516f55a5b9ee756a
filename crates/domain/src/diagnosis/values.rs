//! Values to try, made from what the log says and what is set.

use serde_json::Value;

use super::signature::Found;
use crate::model::{
    ModelConfig,
    fields::{self, Default},
};

/// A number as JSON, whole where it is whole.
pub(super) fn json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

/// What keeps the field at hand out of the command: `null`, or the opposite of a default that would be sent again;
/// nothing where the default is always sent.
pub(super) fn leave_out(found: &Found<'_>) -> Option<Value> {
    match default(found) {
        Some(Default::Bool(on)) => Some(Value::Bool(!on)),
        _ if found.field == Some("numa") => Some(Value::from("none")),
        // It comes from the defaults of two other fields, which this one overrides.
        _ if found.field == Some("load_mode") => Some(Value::from("auto")),
        Some(Default::Engine) => Some(Value::Null),
        Some(_) | None => None,
    }
}

/// `null` for a field that is set.
pub(super) fn unset(found: &Found<'_>) -> Option<Value> {
    found.config.get(found.field?).map(|_| Value::Null)
}

/// Half of what is set, for lengths in multiples of 256.
pub(super) fn half(found: &Found<'_>) -> Option<Value> {
    let now = current(found)? as i64;
    let half = if now >= 1024 { now / 2 / 256 * 256 } else { now / 2 };
    (half >= 1).then(|| half.into())
}

/// What keeps layers off a GPU: `fit_memory`, whose effect begins where no smaller `ngl` is set, or that.
pub(super) fn layers_field(config: &ModelConfig) -> Option<&'static str> {
    match (config.int("ngl"), config.text("fit_memory")) {
        (Some(1..999), _) => Some("ngl"),
        (_, Some("off")) if config.int("ngl") != Some(0) => Some("fit_memory"),
        _ => None,
    }
}

/// The value for it: the engine's choice, or half of the layers.
pub(super) fn fewer_layers(found: &Found<'_>) -> Option<Value> {
    match found.field? {
        "fit_memory" => Some("on".into()),
        _ => half(found).or(Some(0.into())),
    }
}

/// Twice what is set.
pub(super) fn double(found: &Found<'_>) -> Option<Value> {
    let known = current(found).or_else(|| found.number("seconds"))?;
    Some(json((known * 2.0).min(86_400.0)))
}

/// A larger share of the GPU: 0.05 more, at most 0.95.
pub(super) fn more_memory(found: &Found<'_>) -> Option<Value> {
    let now = current(found)?;
    (now < 0.95).then(|| hundredths((now + 0.05).min(0.95)))
}

/// The share of the GPU that was free, rounded down, and 0.02 less for what the driver takes.
pub(super) fn free_share(found: &Found<'_>) -> Option<Value> {
    let share = found.number("free")? / found.number("total")?;
    let share = ((share - 0.02) * 100.0).floor() / 100.0;
    (0.05..=0.98).contains(&share).then(|| hundredths(share))
}

/// Half of the RAM that was free, in bytes.
pub(super) fn half_of_free(found: &Found<'_>) -> Option<Value> {
    let free = found.number("free")?;
    let half = (free / 2.0).floor();
    (1.0..1e6).contains(&half).then(|| ((half as i64) << 30).into())
}

/// What gets weights out of RAM that the kernel wants back, unless they are neither locked nor copied now.
pub(super) fn held_in_ram(config: &ModelConfig) -> Option<&'static str> {
    let on = |name| config.bool(name) != Some(false);
    let held = match config.text("load_mode") {
        Some(mode) => !matches!(mode, "auto" | "mmap"),
        None => on("mlock") || on("no_mmap"),
    };
    held.then_some("load_mode")
}

/// A template of the record, which no template file stands in for.
pub(super) fn own_template(config: &ModelConfig) -> Option<&'static str> {
    config.get("chat_template_file").is_none().then_some("chat_template")
}

/// The largest power of two below the current number of GPUs that divides the attention heads. Heads of keys and values,
/// which the log does not tell, have to go up in it, too, or it in them; their number is nearly always one.
pub(super) fn divisor(found: &Found<'_>) -> Option<Value> {
    let heads = found.number("heads")? as i64;
    let size = found.number("size")? as i64;
    if !(1..=4096).contains(&heads) {
        return None;
    }
    let powers = [64, 32, 16, 8, 4, 2, 1];
    powers.into_iter().find(|it| *it < size.max(2) && heads % it == 0).map(Value::from)
}

/// The number of GPUs that there are, over the stages of the pipeline.
pub(super) fn gpus_there(found: &Found<'_>) -> Option<Value> {
    let stages = found.config.int("pipeline_parallel_size").unwrap_or(1).max(1);
    Some((found.number("gpus")? as i64 / stages).max(1).into())
}

/// The path of the first part of a split file, when the configured one is another part.
pub(super) fn first_part(found: &Found<'_>) -> Option<Value> {
    let path = found.config.text("local_path").or_else(|| found.capture("path")?.strip_prefix("/models/"))?;
    let (stem, count) = path.rsplit_once("-of-")?;
    let stem = stem.strip_suffix(|it: char| it.is_ascii_digit())?;
    let stem = stem.trim_end_matches(|it: char| it.is_ascii_digit());
    stem.ends_with('-').then(|| format!("{stem}00001-of-{count}").into())
}

/// What is set for the field at hand, else its default.
fn current(found: &Found<'_>) -> Option<f64> {
    if let Some(value) = found.config.get(found.field?) {
        return value.as_f64();
    }
    match default(found)? {
        Default::Int(it) => Some(it as f64),
        Default::Float(it) => Some(it),
        _ => None,
    }
}

fn default(found: &Found<'_>) -> Option<Default> {
    fields::find(found.field?, found.engine).map(|it| it.default)
}

fn hundredths(share: f64) -> Value {
    Value::from((share * 100.0).round() / 100.0)
}
