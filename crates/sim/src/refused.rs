//! Starts that fail: what the engines refuse once they have parsed their arguments, and the logs of recorded failures.

use std::path::Path;

use gantry_domain::engine::quantization;

use crate::args::{Exit, Given, vllm_flags};
use crate::faults::{CrashLog, Faults};
use crate::flavour::{Flavour, Version};
use crate::text::TRAINED_CONTEXT;

/// Further methods that `--quantization` of vLLM 0.32 takes: it quantises by itself while it loads.
const ONLINE_QUANTIZATIONS: &[&str] =
    &["online", "fp8_per_tensor", "fp8_per_block", "int8_per_channel_weight_only"];

/// Returns the recorded log of a failed start.
pub(crate) fn crash_log(flavour: Flavour, kind: CrashLog, model: &str, version: Version) -> String {
    let log = match (flavour, kind) {
        (Flavour::Vllm, CrashLog::Oom) => include_str!("logs/vllm-oom.log"),
        (Flavour::Vllm, CrashLog::UnsupportedArch) => include_str!("logs/vllm-unsupported-arch.log"),
        (Flavour::Vllm, CrashLog::MissingFile) => include_str!("logs/vllm-missing-file.log"),
        (Flavour::Llamacpp, CrashLog::Oom) => include_str!("logs/llamacpp-oom.log"),
        (Flavour::Llamacpp, CrashLog::UnsupportedArch) => include_str!("logs/llamacpp-unsupported-arch.log"),
        (Flavour::Llamacpp, CrashLog::MissingFile) => include_str!("logs/llamacpp-missing-file.log"),
    };
    log.replace("@MODEL@", model).replace("@VERSION@", &version.to_string())
}

/// Refuses what vLLM refuses after it has parsed its arguments.
pub(crate) fn check_vllm(model: &str, given: &Given, version: Version, faults: &Faults) -> Result<(), Exit> {
    if let Some(code) = faults.crash_at_start {
        return Err(Exit::failure(code, crash_log(Flavour::Vllm, faults.crash_log, model, version)));
    }
    if model_is_missing(model, faults) {
        return Err(Exit::failure(1, crash_log(Flavour::Vllm, CrashLog::MissingFile, model, version)));
    }
    if is_gguf_for_new_vllm(model, version) {
        let text = format!("OSError: It looks like the config file at '{model}' is not a valid JSON file.\n");
        return Err(traceback(&text));
    }
    let invalid = |of: &str, what: &str| {
        traceback(&format!(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for {of}\n{what}\n    \
             For further information visit https://errors.pydantic.dev/2.14/v/value_error\n"
        ))
    };
    if let Some(share) = given.number::<f64>("--gpu-memory-utilization")
        && share > 1.0
    {
        let what = format!(
            "gpu_memory_utilization\n  Input should be less than or equal to 1 \
             [type=less_than_equal, input_value={share}, input_type=float]"
        );
        return Err(invalid("CacheConfig", &what));
    }
    let length = given.one("--max-model-len").and_then(crate::args::vllm::size);
    if let Some(length) = length.filter(|length| *length > u64::from(TRAINED_CONTEXT)) {
        let what = format!(
            "  Value error, User-specified max_model_len ({length}) is greater than the derived max_model_len \
             (max_position_embeddings={TRAINED_CONTEXT}.0 or model_max_length=None in model's config.json). To allow \
             overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. [type=value_error, \
             input_value=ArgsKwargs((), {{'model': '{model}'}}), input_type=ArgsKwargs]"
        );
        return Err(invalid("ModelConfig", &what));
    }
    if let Some(method) = given.one("--quantization")
        && !knows_quantization(method, version)
    {
        let listed: Vec<String> = quantizations().map(|name| format!("'{name}'")).collect();
        let what = format!(
            "  Value error, Unknown quantization method: {method}. Must be one of [{}]. [type=value_error, \
             input_value=ArgsKwargs((), {{'model': '{model}'}}), input_type=ArgsKwargs]",
            listed.join(", ")
        );
        return Err(invalid("ModelConfig", &what));
    }
    Ok(())
}

fn quantizations() -> impl Iterator<Item = &'static str> {
    quantization::VLLM.iter().chain(ONLINE_QUANTIZATIONS).copied()
}

/// Whether this version loads the method: `bitsandbytes` was removed in 0.28 and `gguf` in 0.24.
fn knows_quantization(method: &str, version: Version) -> bool {
    match method {
        "gguf" => version < Version(0, 24, 0),
        "bitsandbytes" => version < Version(0, 28, 0),
        other => quantizations().any(|it| it == other),
    }
}

fn traceback(last: &str) -> Exit {
    let text = format!(
        "Traceback (most recent call last):\n  File \"/opt/venv/bin/vllm\", line 8, in <module>\n    \
         sys.exit(main())\n             ^^^^^^\n{last}"
    );
    Exit::failure(1, text)
}

/// Refuses what llama-server refuses while it loads the model.
pub(crate) fn check_llama(model: &str, given: &Given, faults: &Faults, version: Version) -> Result<(), Exit> {
    if let Some(code) = faults.crash_at_start {
        return Err(Exit::failure(code, crash_log(Flavour::Llamacpp, faults.crash_log, model, version)));
    }
    if model_is_missing(model, faults) {
        return Err(Exit::failure(1, crash_log(Flavour::Llamacpp, CrashLog::MissingFile, model, version)));
    }
    let quantised = given.one("--cache-type-v").is_some_and(|kind| !matches!(kind, "f32" | "f16" | "bf16"));
    if quantised && given.one("--flash-attn") == Some("off") {
        let mut text = String::from("0.00.006.453 I srv  llama_server: initializing ...\n");
        text.push_str(
            "0.00.030.001 E llama_init_from_model: quantized V cache requires flash_attn to be enabled\n",
        );
        text.push_str("0.00.031.217 E srv  llama_server: exiting due to model loading error\n");
        return Err(Exit::failure(1, text));
    }
    Ok(())
}

/// Returns whether the model is missing.
///
/// Only paths under `/models` are looked up, since a gateway mounts its model folder there; `/models/simulated`
/// (`.gguf`), names that start with `sim:` and `GANTRY_SIM_ANY_MODEL=1` are exempt.
fn model_is_missing(model: &str, faults: &Faults) -> bool {
    let pretended = matches!(model, "/models/simulated" | "/models/simulated.gguf");
    let exempt = faults.any_model || model.starts_with("sim:") || pretended;
    model.starts_with("/models/") && !exempt && !Path::new(model).exists()
}

/// Returns whether this is a GGUF file for a vLLM that can't load it: that load format was removed in vLLM 0.24.
fn is_gguf_for_new_vllm(model: &str, version: Version) -> bool {
    Path::new(model).extension().is_some_and(|extension| extension == "gguf")
        && vllm_flags::load_formats(version).is_none()
}
