//! Reads how a checkpoint's weights were quantised.
//!
//! File formats: transformers `src/transformers/utils/quantization_config.py`, compressed-tensors
//! `quantization/quant_config.py`, `ModelOpt`'s `hf_quant_config.json`, `AutoGPTQ`'s `quantize_config.json`.

use serde_json::Value;

use super::config::{text, whole};

/// Method and bits, as far as the files state them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantization {
    /// The method, as in `gptq`, `awq`, `fp8`, `compressed-tensors`; `mlx` for Apple's format, which does not name
    /// itself.
    pub method: String,
    /// Bits of one weight.
    pub bits: Option<u64>,
    /// Type in which keys and values are cached, if the checkpoint asks for one.
    pub kv_cache: Option<String>,
}

impl Quantization {
    /// Returns a label, as in `gptq 4-bit`.
    pub fn label(&self) -> String {
        match self.bits {
            Some(bits) => format!("{} {bits}-bit", self.method),
            None => self.method.clone(),
        }
    }

    /// Whether one stored number holds several weights.
    pub(super) fn packs(&self) -> bool {
        self.bits.is_some_and(|it| it < 8)
    }
}

/// The method of a file that has settings of a quantisation and does not name it.
const UNKNOWN: &str = "unknown";

/// Reads the quantisation from `config.json`.
pub(crate) fn of_config(config: &Value) -> Option<Quantization> {
    let nested = config.get("text_config").and_then(|it| it.get("quantization_config"));
    let found = config.get("quantization_config").or_else(|| config.get("compression_config")).or(nested);
    // MLX states only a group size and bits, sometimes in both places.
    let mlx = config.get("quantization").filter(|it| it.get("group_size").is_some());
    match (found.and_then(Value::as_object).filter(|it| !it.is_empty()), mlx) {
        (Some(_), None) => of_object(found?, Some(UNKNOWN)),
        (Some(_), Some(_)) => of_object(found?, Some("mlx")),
        (None, mlx) => of_object(mlx?, Some("mlx")),
    }
}

/// Reads the quantisation from a file beside `config.json`.
pub(super) fn of_file(value: &Value) -> Option<Quantization> {
    match value.get("quantization").filter(|it| it.is_object()) {
        Some(inner) => of_object(inner, Some("modelopt")),
        None => of_object(value, value.get("group_size").map(|_| "gptq")),
    }
}

fn of_object(value: &Value, unnamed: Option<&str>) -> Option<Quantization> {
    let method = text(value, "quant_method").or_else(|| unnamed.map(str::to_owned))?;
    let flag = |key: &str| value.get(key).and_then(Value::as_bool) == Some(true);
    let algorithm = text(value, "quant_algo").unwrap_or_default();
    let bits = whole(value, "bits")
        .or_else(|| whole(value, "w_bit"))
        .or_else(|| flag("load_in_4bit").then_some(4))
        .or_else(|| flag("load_in_8bit").then_some(8))
        .or_else(|| group_bits(value))
        .or(match (method.as_str(), algorithm.as_str()) {
            ("fp8" | "fbgemm_fp8", _) | (_, "FP8") => Some(8),
            ("mxfp4", _) | (_, "NVFP4" | "W4A16_AWQ") => Some(4),
            _ => None,
        });
    Some(Quantization { method, bits, kv_cache: text(value, "kv_cache_quant_algo") })
}

/// Returns the bits of the first group's weights, for compressed-tensors.
fn group_bits(value: &Value) -> Option<u64> {
    let groups = value.get("config_groups")?.as_object()?;
    groups.values().find_map(|it| whole(it.get("weights")?, "num_bits"))
}
