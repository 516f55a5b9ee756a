//! The arguments and variables of an engine that only the gateway may set, so that an operator's own ones are refused:
//! where the engine listens, its key, which model it serves under which name, and whether it may use the network.
//!
//! All spellings that the engines' own parsers accept are covered. vLLM (argparse) takes any unambiguous beginning of
//! an option, `_` for `-`, `--option=value` and `--option.key`. llama-server takes `_` for `-` in long options, and
//! every alias.

use crate::model::EngineKind;

const VLLM_ARGS: &[&str] = &[
    "--host",
    "--port",
    "--uds",
    "--fd",
    "--root-path",
    "--grpc",
    "--grpc-port",
    "--headless",
    "--api-key",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--ssl-ca-certs",
    "--ssl-cert-reqs",
    "--ssl-ciphers",
    "--enable-ssl-refresh",
    "--model",
    "--served-model-name",
    "--hf-token",
    // This option names a file with more arguments.
    "--config",
];
/// Arguments of vLLM that must be set through their field, because the gateway uses the value for more than the
/// command.
const VLLM_FIELDS: &[(&str, &str)] = &[("--trust-remote-code", "trust_remote_code")];
const LLAMACPP_ARGS: &[&str] = &[
    "--host",
    "--port",
    "--path",
    "--api-prefix",
    "--metrics",
    "--api-key",
    "--api-key-file",
    "--ssl-key-file",
    "--ssl-cert-file",
    "-m",
    "--model",
    "-mu",
    "--model-url",
    "-dr",
    "--docker-repo",
    "-hf",
    "-hfr",
    "--hf-repo",
    "-hff",
    "--hf-file",
    "-hfv",
    "-hfrv",
    "--hf-repo-v",
    "-hffv",
    "--hf-file-v",
    "-hfd",
    "-hfrd",
    "--hf-repo-draft",
    "--spec-draft-hf",
    "-hft",
    "--hf-token",
    "-mmu",
    "--mmproj-url",
    "-a",
    "--alias",
    "--offline",
    "--models-dir",
    "--models-preset",
    "--models-max",
    "--models-autoload",
    "--no-models-autoload",
    "--rpc",
    "--slot-save-path",
    "--log-file",
    "--log-prompts-dir",
];

/// Full names of variables that the gateway sets, or that change which program runs or what it exposes to clients.
const VARIABLES: &[&str] = &[
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "BASH_ENV",
    "ENV",
    "TRANSFORMERS_OFFLINE",
    "TRANSFORMERS_CACHE",
    "VLLM_API_KEY",
    "VLLM_PORT",
    "VLLM_HOST_IP",
    "VLLM_MODEL_REDIRECT_PATH",
    "VLLM_USE_MODELSCOPE",
    "VLLM_SKIP_MODEL_NAME_VALIDATION",
    "VLLM_RUST_FRONTEND_PATH",
    "VLLM_SERVER_DEV_MODE",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
    "VLLM_ALLOW_INSECURE_SERIALIZATION",
    "VLLM_DEBUG_LOG_API_SERVER_RESPONSE",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH",
];
/// Prefixes of refused variables. Every argument of llama-server has a `LLAMA_ARG_` variable, so nothing is lost:
/// `extra_args` can say the same.
const VARIABLE_PREFIXES: &[&str] = &["LLAMA_", "HF_", "HUGGINGFACE_", "HUGGING_FACE_", "LD_"];
/// Variables with these prefixes that are allowed, because they only tune downloads.
const HARMLESS: &[&str] = &[
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_ETAG_TIMEOUT",
    "HF_HUB_DISABLE_PROGRESS_BARS",
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_XET",
    "HF_HUB_ENABLE_HF_TRANSFER",
    "HF_HUB_VERBOSITY",
    "HF_XET_HIGH_PERFORMANCE",
];

/// Returns the argument of the gateway's that `word` would set, if `word` is such an option.
pub fn argument(engine: EngineKind, word: &str) -> Option<&'static str> {
    if !word.starts_with('-') || word.trim_matches('-').is_empty() {
        return None;
    }
    let flag = word.split('=').next().unwrap_or(word);
    match engine {
        EngineKind::Vllm => VLLM_ARGS.iter().find(|it| vllm_reads(flag, it)).copied(),
        EngineKind::Llamacpp => {
            let flag = if flag.starts_with("--") { flag.replace('_', "-") } else { flag.to_owned() };
            // `--gpt-oss-20b-default` and similar options choose and fetch a model of their own.
            // `--spec-default` only sets how the engine drafts.
            let presets = (flag.ends_with("-default") && flag != "--spec-default") || flag.ends_with("-spec");
            LLAMACPP_ARGS.iter().find(|it| **it == flag).copied().or(presets.then_some("--model"))
        }
    }
}

/// Returns the field to use instead of the argument `word`.
pub fn field(engine: EngineKind, word: &str) -> Option<&'static str> {
    let flag = word.split('=').next().unwrap_or(word);
    match engine {
        EngineKind::Vllm => VLLM_FIELDS.iter().find(|it| vllm_reads(flag, it.0)).map(|it| it.1),
        EngineKind::Llamacpp => None,
    }
}

/// Whether vLLM's parser may read `flag` as `option`. Its short options have several letters and are not abbreviations
/// of long ones.
fn vllm_reads(flag: &str, option: &str) -> bool {
    let flag = flag.split('.').next().unwrap_or(flag).replace('_', "-");
    option == flag || (flag.starts_with("--") && flag.len() > 2 && option.starts_with(&flag))
}

/// Whether only the gateway may set this environment variable.
pub fn variable(name: &str) -> bool {
    VARIABLES.contains(&name)
        || (VARIABLE_PREFIXES.iter().any(|it| name.starts_with(it)) && !HARMLESS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_the_engines_accept_are_recognised() {
        let vllm = |word| argument(EngineKind::Vllm, word);
        for word in ["--api-key", "--api-k", "--api_key=x", "--api_key.a", "--served", "--mod", "--config=x"]
        {
            assert!(vllm(word).is_some(), "{word}");
        }
        for word in
            ["--model-impl", "--max-model-len", "-tp", "-", "--", "port", "8000", "--api-server-count"]
        {
            assert_eq!(vllm(word), None, "{word}");
        }
        let llama = |word| argument(EngineKind::Llamacpp, word);
        for word in ["-m", "--api_key", "--hf-repo", "-hft", "--gpt-oss-20b-default", "--fim-qwen-7b-spec"] {
            assert!(llama(word).is_some(), "{word}");
        }
        for word in ["-md", "--spec-default", "--api-k", "--mod", "--cache-ram", "-c"] {
            assert_eq!(llama(word), None, "{word}");
        }
    }

    #[test]
    fn variables_that_tune_are_free() {
        for name in ["LLAMA_ARG_HOST", "LLAMA_CACHE", "HF_ENDPOINT", "HF_TOKEN_PATH", "LD_PRELOAD", "PATH"] {
            assert!(variable(name), "{name}");
        }
        for name in ["VLLM_CPU_KVCACHE_SPACE", "HF_HUB_DOWNLOAD_TIMEOUT", "NCCL_P2P_DISABLE", "LLAMAX"] {
            assert!(!variable(name), "{name}");
        }
    }
}
