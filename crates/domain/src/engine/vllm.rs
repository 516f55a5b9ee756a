//! The primary engine: the command line of vLLM for each version.

use secrecy::SecretString;

use super::{Args, Confinement, Cure, Launch, LaunchContext, Place, gpus, text};
use crate::model::{Model, Task};

/// The first version that has both `--runner` and `--convert`, which replaced `--task` (measured in the wheels; 0.13.0
/// has no `--task` any more).
const RUNNER: [u32; 3] = [0, 10, 2];
/// The first version without GGUF support: 0.24.0.
const NO_GGUF: [u32; 3] = [0, 24, 0];

/// Variable that sets the size of the KV cache on a machine without GPUs, in GiB. It takes precedence over
/// `--kv-cache-memory-bytes`.
pub const CPU_CACHE: &str = "VLLM_CPU_KVCACHE_SPACE";
/// The value that the gateway gives it, in GiB.
const CPU_CACHE_GIB: u32 = 4;

pub(super) fn launch(model: &Model, cx: &LaunchContext<'_>) -> Launch {
    let config = &model.config;
    let online = config.is_online();
    let mut args = Args::new(model, cx);
    let source = match (online, config.text("repo_id"), config.text("local_path")) {
        (true, Some(repo), _) => repo.to_owned(),
        (_, _, Some(path)) => cx.place.model(path),
        // Such a record is refused when it is saved. If there is one all the same, the engine will report that there is
        // no such model.
        _ => "unset".to_owned(),
    };
    let gguf = source.to_ascii_lowercase().ends_with(".gguf");
    // `vllm serve MODEL` takes the model as its first argument.
    args.push(&[&source, "--served-model-name", &model.served_name]);
    args.push(&["--host", cx.place.host, "--port", &cx.place.port]);
    if model.task == Task::Embed {
        if args.version >= RUNNER {
            args.push(&["--runner", "pooling", "--convert", "embed"]);
        } else {
            args.push(&["--task", "embed"]);
        }
    }
    let mut skip = Vec::new();
    if config.bool("enforce_eager") != Some(false) && config.get("cuda_graph_sizes").is_some() {
        skip.push("cuda_graph_sizes");
        args.warn(
            "cuda_graph_sizes",
            "CUDA graphs are off while `enforce_eager` is on, so their sizes are not used",
        );
    }
    let gpus = gpus(model, cx.host);
    if gpus.is_empty() && config.get("gpu_memory_utilization").is_none() {
        // Without GPUs this is the share of the machine's RAM that must be free, and vLLM takes all of it.
        skip.push("gpu_memory_utilization");
    }
    super::warn_of_hardware(&mut args, cx.host, &gpus);
    args.table(&skip);
    if let Some(tokenizer) = config.text("tokenizer") {
        args.push(&["--tokenizer", &cx.place.seen_below_models(tokenizer)]);
    }
    if let Some(path) = config.text("hub_config_path") {
        args.push(&["--hf-config-path", &args.file(path)]);
    }
    match config.text("gguf_weight_format") {
        Some("gguf") if args.version < NO_GGUF => args.push(&["--load-format", "gguf"]),
        Some("gguf") => {
            args.warn_of_version("gguf_weight_format", "vLLM 0.24 and later can\'t load GGUF files");
        }
        Some("ggml") => args.warn("gguf_weight_format", "vLLM never had a load format `ggml`"),
        _ => {}
    }
    if gguf && args.version >= NO_GGUF {
        let cure = Cure::Advice(
            "set `engine_type` to llamacpp, or use an `engine_image` of vLLM before 0.24 or with the plugin for GGUF"
                .to_owned(),
        );
        args.warn_with("local_path", "vLLM 0.24 and later can't load GGUF files by itself", cure);
    }
    if let Some(file) = config.text("chat_template_file") {
        args.push(&["--chat-template", &args.file(file)]);
    } else if let Some(template) = config.text("chat_template") {
        args.push(&["--chat-template", template]);
    }
    let adapters: Vec<String> = config.texts("lora_adapters").map(|it| adapter(it, cx.place)).collect();
    if !adapters.is_empty() {
        args.push(&["--enable-lora", "--lora-modules"]);
        args.words.extend(adapters);
    }
    args.words.extend(config.texts("extra_args").map(str::to_owned));

    // A local GGUF file may take its tokenizer from the hub.
    let from_hub = online || config.text("tokenizer").is_some_and(|it| !it.starts_with('/'));
    let env = environment(model, cx, from_hub, &gpus);
    let (args, warnings) = (args.words, args.warnings);
    Launch {
        image: cx.image.to_owned(),
        // Images before about 0.11 start a module that does not accept the model as an argument.
        entrypoint: Some(text(&["vllm", "serve"])),
        args,
        env,
        gpus,
        shm_bytes: Some(1 << 30),
        mounts_hub_cache: from_hub,
        locks_memory: false,
        confinement: Confinement::default(),
        warnings,
    }
}

/// Returns the environment of the engine: secrets, where the hub and its cache are, and settings that have no argument.
fn environment(
    model: &Model,
    cx: &LaunchContext<'_>,
    from_hub: bool,
    gpus: &[u32],
) -> Vec<(String, SecretString)> {
    let mut env: Vec<(String, SecretString)> = vec![("VLLM_API_KEY".into(), cx.key.clone())];
    if from_hub {
        env.push(("HF_HOME".into(), cx.place.hub_cache.as_str().into()));
        if let Some(endpoint) = cx.hub_endpoint {
            env.push(("HF_ENDPOINT".into(), endpoint.into()));
        }
        env.extend(model.hub_token.clone().map(|token| ("HF_TOKEN".to_owned(), token)));
    }
    // `offline` means that only local files are used, and the hub cache consists of local files.
    if !from_hub || cx.offline || model.config.text("mode") == Some("offline") {
        env.push(("HF_HUB_OFFLINE".into(), "1".into()));
        env.push(("TRANSFORMERS_OFFLINE".into(), "1".into()));
    }
    if gpus.is_empty() {
        env.extend(cpu_cache(model));
    }
    super::llamacpp::extra_env(model, &mut env);
    env
}

/// Sets the size of the KV cache of an engine without GPUs, unless a setting does. By default vLLM takes 0.92 of all
/// RAM (0.32.0: `v1/worker/cpu_worker.py`) and does not start if less is free. A variable is used because it is the
/// older way (`platforms/cpu.py` calls it that), so that versions without the argument obey it too.
fn cpu_cache(model: &Model) -> Option<(String, SecretString)> {
    let config = &model.config;
    let variables = config.get("extra_env").and_then(serde_json::Value::as_object);
    let said = ["gpu_memory_utilization", "kv_cache_memory_bytes"].iter().any(|it| config.get(it).is_some())
        || variables.is_some_and(|it| it.contains_key(CPU_CACHE));
    (!said).then(|| (CPU_CACHE.to_owned(), CPU_CACHE_GIB.to_string().into()))
}

/// Returns `name=folder` with the folder as the engine sees it.
fn adapter(entry: &str, place: &Place) -> String {
    match entry.split_once('=') {
        Some((name, path)) => format!("{name}={}", place.model(path)),
        None => entry.to_owned(),
    }
}
