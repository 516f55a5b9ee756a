//! The secondary engine: the command line of llama-server for each build.

use secrecy::SecretString;

use super::{Args, Confinement, Cure, Launch, LaunchContext, gpus};
use crate::model::{Model, Task, check::below_models, fields::llamacpp_builds as builds};

/// Value of `ngl` that stands for all layers.
const ALL_LAYERS: i64 = 999;
/// Longest input of an embedding model, in tokens, unless a batch size is set. The compute buffers grow with it.
const EMBED_BATCH: i64 = 8192;

pub(super) fn launch(model: &Model, cx: &LaunchContext<'_>) -> Launch {
    let config = &model.config;
    let online = config.is_online();
    let gpus = gpus(model, cx.host);
    let mut args = Args::new(model, cx);
    // Without a model llama-server starts as a router that looks healthy and serves nothing.
    match (online, config.text("repo_id"), config.text("local_path")) {
        (true, Some(repo), _) => args.push(&["-hf", repo]),
        (_, _, Some(path)) => args.push(&["--model", &cx.place.model(path)]),
        _ => args.push(&["--model", "unset"]),
    }
    args.push(&[
        "--alias",
        &model.served_name,
        "--host",
        cx.place.host,
        "--port",
        &cx.place.port,
        "--metrics",
        "--no-webui",
    ]);

    let rerank = config.text("pooling") == Some("rank");
    let mut skip = Vec::new();
    if model.task == Task::Embed {
        args.push(&[if rerank { "--reranking" } else { "--embedding" }]);
        if rerank {
            // `--reranking` sets the pooling.
            skip.push("pooling");
        }
        batches(&mut args);
    }
    let drafting = draft(model, &mut args);
    if !drafting {
        skip.extend(["draft_n", "draft_p_min"]);
    }
    if gpus.is_empty() {
        without_gpu(&mut args, &mut skip);
    } else if leaves_layers_to_engine(&args) {
        skip.push("ngl");
    }
    super::warn_of_hardware(&mut args, cx.host, &gpus);
    args.table(&skip);
    threads(cx, &mut args);
    let locks_memory = memory(&mut args);
    if let Some(mode) = args.value_of("numa").filter(|it| it != "none") {
        args.push(&["--numa", &mode]);
    }
    if let Some(value) = args.value_of("flash_attn") {
        match (args.version >= builds::FLASH_ATTN_VALUE, value.as_str()) {
            (true, value) => args.push(&["--flash-attn", value]),
            (false, "on") => args.push(&["--flash-attn"]),
            (false, _) => {}
        }
    }
    files(&mut args);
    for name in ["tokenizer", "hub_config_path"] {
        if config.get(name).is_some() {
            args.warn(name, "llama.cpp reads the tokenizer and the configuration from the GGUF file");
        }
    }
    args.words.extend(config.texts("extra_args").map(str::to_owned));

    let env = environment(model, cx, online);
    let (args, warnings) = (args.words, args.warnings);
    Launch {
        image: cx.image.to_owned(),
        // The program's path differs between images (`/app/llama-server`, `/llama-server`), but the entry point of each
        // of them starts it.
        entrypoint: None,
        args,
        env,
        gpus,
        shm_bytes: None,
        mounts_hub_cache: online,
        locks_memory,
        confinement: Confinement::default(),
        warnings,
    }
}

/// Returns the environment of the engine: secrets, and where the hub and its cache are.
fn environment(model: &Model, cx: &LaunchContext<'_>, online: bool) -> Vec<(String, SecretString)> {
    let mut env: Vec<(String, SecretString)> = vec![("LLAMA_API_KEY".into(), cx.key.clone())];
    if online {
        env.push(("LLAMA_CACHE".into(), cx.place.hub_cache.as_str().into()));
        if let Some(endpoint) = cx.hub_endpoint {
            env.push(("HF_ENDPOINT".into(), endpoint.into()));
        }
        env.extend(model.hub_token.clone().map(|token| ("HF_TOKEN".to_owned(), token)));
        if cx.offline {
            env.push(("LLAMA_ARG_OFFLINE".into(), "1".into()));
            // The name of the variable in builds of 2025.
            env.push(("LLAMA_OFFLINE".into(), "1".into()));
        }
    }
    extra_env(model, &mut env);
    env
}

/// Sets both batch sizes to the longest input unless they are set. llama-server handles an input of an embedding model
/// in one piece: it refuses one that is longer than the physical batch with 500, and the physical batch is never above
/// the logical one.
fn batches(args: &mut Args<'_>) {
    let config = &args.model.config;
    let context = args.value_of("context_size").and_then(|it| it.parse::<i64>().ok()).filter(|it| *it > 0);
    let longest = context.unwrap_or(EMBED_BATCH).min(EMBED_BATCH);
    let physical = config.int("ubatch_size");
    let logical = config.int("batch_size").unwrap_or_else(|| longest.max(physical.unwrap_or(0)));
    if config.get("batch_size").is_none() {
        args.push(&["--batch-size", &logical.to_string()]);
    }
    if physical.is_none() {
        args.push(&["--ubatch-size", &logical.to_string()]);
    }
}

/// Whether the engine chooses how many layers fit: `--fit` changes only arguments that are not given.
fn leaves_layers_to_engine(args: &Args<'_>) -> bool {
    let config = &args.model.config;
    args.version >= builds::FIT
        && config.text("fit_memory") != Some("off")
        && config.int("ngl").is_none_or(|it| it >= ALL_LAYERS)
}

/// Leaves out the default of `ngl`, which stands for "all that fit". Without a GPU llama-server would only warn about
/// it.
fn without_gpu(args: &mut Args<'_>, skip: &mut Vec<&str>) {
    match args.model.config.int("ngl") {
        None => skip.push("ngl"),
        Some(0) => {}
        Some(_) => {
            let cure =
                format!("set `ngl` to 0 or unset it; for a GPU, `device` may not be cpu: {}", super::NO_GPU);
            let cure = Cure::Advice(cure);
            args.warn_with("ngl", "the engine gets no GPU, so all layers stay in RAM", cure);
        }
    }
}

/// Adds the operator's own variables. Both engines use this.
pub(super) fn extra_env(model: &Model, env: &mut Vec<(String, SecretString)>) {
    let extra = model.config.get("extra_env").and_then(serde_json::Value::as_object);
    env.extend(
        extra.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.into()))),
    );
}

/// Adds projector, chat template and adapters.
fn files(args: &mut Args<'_>) {
    let config = &args.model.config;
    if let Some(path) = config.text("mmproj") {
        if args.version >= builds::MMPROJ {
            args.push(&["--mmproj", &args.file(path)]);
        } else {
            args.warn_of_version("mmproj", "this build of llama-server has no multimodal input");
        }
    }
    if let Some(file) = config.text("chat_template_file") {
        if args.version < builds::JINJA_DEFAULT && config.get("jinja").is_none() {
            args.push(&["--jinja"]);
        }
        args.push(&["--chat-template-file", &args.file(file)]);
    } else if let Some(template) = config.text("chat_template") {
        if args.version < builds::JINJA_DEFAULT && template.contains('{') && config.get("jinja").is_none() {
            // These builds know their own templates by name; other templates need `--jinja` before them.
            args.push(&["--jinja"]);
        }
        args.push(&["--chat-template", template]);
    }
    for entry in config.texts("lora_adapters") {
        let path = entry.split_once('=').map_or(entry, |(_, path)| path);
        args.push(&["--lora", &args.file(path)]);
    }
}

/// Adds speculative decoding. Returns `false` if there is no draft model.
fn draft(model: &Model, args: &mut Args<'_>) -> bool {
    let Some(path) = model.config.text("draft_model_path") else { return false };
    args.push(&["--model-draft", &args.file(below_models(path))]);
    if args.version >= builds::SPEC_TYPE {
        // Without this option newer builds load the draft model and never use it.
        args.push(&["--spec-type", "draft-simple"]);
    }
    true
}

fn threads(cx: &LaunchContext<'_>, args: &mut Args<'_>) {
    let wanted = args.value_of("threads").and_then(|it| it.parse::<usize>().ok()).unwrap_or(cx.host.cpus);
    let used = wanted.clamp(1, cx.host.cpus.max(1));
    if used < wanted && args.model.config.get("threads").is_some() {
        let message = format!("this machine has {} CPUs, so {used} threads are used", cx.host.cpus);
        args.warn_with(
            "threads",
            message,
            Cure::Advice(format!("set `threads` to {used} or less, or unset it")),
        );
    }
    args.push(&["--threads", &used.to_string()]);
}

/// Writes `mlock`, `no_mmap` and `load_mode` as options of this build. Returns whether the weights are locked in RAM.
fn memory(args: &mut Args<'_>) -> bool {
    let on = |args: &Args<'_>, name| args.value_of(name).as_deref() == Some("true");
    let (mlock, no_mmap) = (on(args, "mlock"), on(args, "no_mmap"));
    let mode = args.model.config.text("load_mode").map(str::to_owned);
    if args.version >= builds::LOAD_MODE {
        let mode = mode.as_deref().or(match (mlock, no_mmap) {
            (true, true) => Some("mlock"),
            (true, false) => Some("mmap+mlock"),
            (false, true) => Some("none"),
            (false, false) => None,
        });
        // `auto` is the engine's own default, also in builds that don't know the option.
        if let Some(mode) = mode.filter(|it| *it != "auto") {
            args.push(&["--load-mode", mode]);
        }
        return mode.is_some_and(|it| it.ends_with("mlock"));
    }
    let (mlock, no_mmap) = match mode.as_deref() {
        None => (mlock, no_mmap),
        Some("mlock") => (true, true),
        Some("mmap+mlock") => (true, false),
        Some("none") => (false, true),
        Some("dio") => {
            args.warn_of_version("load_mode", "this build of llama-server has no `dio`: the file is mapped");
            (false, false)
        }
        Some(_) => (false, false),
    };
    if mlock {
        args.push(&["--mlock"]);
    }
    if no_mmap {
        args.push(&["--no-mmap"]);
    }
    mlock
}
