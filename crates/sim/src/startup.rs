//! The output of the engines while they start.

use std::fmt::Write as _;

use crate::config::Config;
use crate::flavour::Flavour;

/// Returns the first line of every run, which shows that the log is not from a real engine.
pub(crate) fn banner(flavour: Flavour, version: &str) -> String {
    let engine = match flavour {
        Flavour::Vllm => "vLLM",
        Flavour::Llamacpp => "llama.cpp",
    };
    format!("engine simulator (not a real engine): answers like {engine} {version}, made by gantry\n")
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
