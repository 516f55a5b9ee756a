//! The output of the engines while they start, and the ways in which a start fails.

use std::fmt::Write as _;

use gantry_domain::engine::quantization;

use crate::args::{Exit, Given};
use crate::config::{Config, TRAINED_CONTEXT, is_gguf_for_new_vllm, model_is_missing};
use crate::faults::{CrashLog, Faults};
use crate::flavour::{Flavour, Version};

/// Further methods that `--quantization` of vLLM 0.32 takes: it quantises by itself while it loads.
const ONLINE_QUANTIZATIONS: &[&str] =
    &["online", "fp8_per_tensor", "fp8_per_block", "int8_per_channel_weight_only"];

/// Returns the first line of every run, which shows that the log is not from a real engine.
pub(crate) fn banner(flavour: Flavour, version: &str) -> String {
    let engine = match flavour {
        Flavour::Vllm => "vLLM",
        Flavour::Llamacpp => "llama.cpp",
    };
    format!("engine simulator (not a real engine): answers like {engine} {version}, made by gantry\n")
}

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

/// Returns the log before the model is loaded.
pub(crate) fn loading_lines(config: &Config) -> String {
    let model = &config.model;
    match config.flavour {
        Flavour::Vllm => format!(
            "(APIServer pid=1) INFO 11-21 00:05:43 [api_utils.py:347] version {} model {model}\n\
             (APIServer pid=1) INFO 11-21 00:05:44 [model.py:2152] Using max model len {}\n\
             (EngineCore pid=101) INFO 11-21 00:05:45 [core.py:133] Initializing a V1 LLM engine (v{}) with config: \
             model='{model}'\n",
            config.version, config.context, config.version
        ),
        Flavour::Llamacpp if config.router => {
            "0.00.036.313 I srv  llama_server: starting server in router mode. models will be automatically loaded \
             on-demand\n"
                .to_owned()
        }
        Flavour::Llamacpp => {
            let mut text = String::from("0.00.006.453 I srv  llama_server: initializing ...\n");
            if config.keys.is_empty() {
                text.push_str("0.00.010.128 W srv  llama_server: security: no API key is set and CORS allows all origins\n");
            }
            let _ = writeln!(text, "0.00.015.197 I srv    load_model: loading model '{model}'");
            text
        }
    }
}

/// Returns the log after the model is loaded, with the address that was bound.
pub(crate) fn ready_lines(config: &Config, address: &str) -> String {
    match config.flavour {
        Flavour::Vllm => format!(
            "(APIServer pid=1) INFO 11-21 00:09:55 [entry.py:140] Starting vLLM server on http://{address}\n\
             INFO:     Started server process [1]\nINFO:     Application startup complete.\n"
        ),
        Flavour::Llamacpp => format!(
            "0.00.656.346 I srv    load_model: initializing, n_slots = {}, n_ctx_slot = {}\n\
             0.00.873.090 I srv  llama_server: model loaded\n\
             0.00.875.405 I srv  llama_server: listening on http://{address}\n",
            config.slots, config.context
        ),
    }
}
