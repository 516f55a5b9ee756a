//! Checks what the diagnosis finds in recorded logs of failed starts, and that every signature matches one of them.
//!
//! `tests/diagnosis/llamacpp-*` and `vllm-*` were written by llama-server b11434 and vLLM 0.32.0 (CPU build) when the
//! failure was provoked. Logs of more than 60 lines are cropped, and paths of the machine are replaced. `quoted-*` are
//! put together from the engines' sources and bug reports, because they need a GPU; `sim-*` come from the engine
//! simulator.

use std::{collections::HashSet, fs, path::Path};

use gantry_domain::{
    diagnosis::{Diagnosis, Input, Severity, Watch, diagnose, error_types, summary},
    model::{EngineKind, ModelConfig},
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// File, `error_type`, the first field and its value (`…` if there is none).
const LOGS: &str = include_str!("diagnosis/expected.txt");

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnosis").join(name).with_extension("log");
    assert!(path.exists(), "there is no {}", path.display());
    fs::read_to_string(path).unwrap_or_default()
}

fn engine_of(name: &str) -> EngineKind {
    if name.contains("llamacpp") { EngineKind::Llamacpp } else { EngineKind::Vllm }
}

fn config(value: Value) -> ModelConfig {
    let Value::Object(map) = value else { return ModelConfig::from_stored(Map::new()) };
    ModelConfig::from_stored(map)
}

fn failed(engine: EngineKind, log: &str, set: &Value) -> Diagnosis {
    let config = config(set.clone());
    diagnose(&Input {
        watch: Watch::Watched,
        engine,
        log,
        exit_code: Some(1),
        out_of_memory: false,
        reason: None,
        config: &config,
    })
}

fn without_log(engine: EngineKind, exit_code: Option<i64>, reason: Option<&str>) -> Diagnosis {
    let config = config(json!({}));
    diagnose(&Input {
        watch: Watch::Watched,
        engine,
        log: "",
        exit_code,
        out_of_memory: false,
        reason,
        config: &config,
    })
}

/// Returns the value of the first fix that has a field.
fn value(found: &Diagnosis) -> Option<Value> {
    found.fixes.iter().find(|it| it.field.is_some()).and_then(|it| it.value.clone())
}

/// Reasons that the gateway gives if no container ran or if it ended one, and their expected signatures.
const REASONS: &[(&str, &str)] = &[
    (
        "start_failed: `mmproj`: there is no `a/mmproj.gguf` below the models base directory",
        "model_file_not_found",
    ),
    (
        "start_failed: `local_path`: `a/b` can't be reached: the gateway may not enter a folder on the way to it",
        "model_file_unreachable",
    ),
    ("start_failed: the models base directory does not exist", "models_dir_missing"),
    ("start_failed: the program `llama-server` is not on this machine", "engine_not_installed"),
    (
        "start_failed: image a/b:1 is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it",
        "image_not_allowed",
    ),
    (
        "start_failed: image a/b:1 is not used: it is Gantry's simulator under the name of an engine",
        "simulator_misnamed",
    ),
    (
        "start_failed: the container engine refused to create the container: invalid mount config for type \"bind\": bind source path does not exist: …",
        "models_dir_missing",
    ),
    (
        "start_failed: image vllm/vllm-openai:v0.32.0 is not available locally and the system is in offline mode",
        "image_not_available",
    ),
    ("start_failed: image `x:1` is not on this machine; pull or load it first", "image_not_available"),
    (
        "start_failed: image x:1 could not be pulled: the container engine refused to pull the image: manifest for x:1 not found: manifest unknown: manifest unknown",
        "image_not_found",
    ),
    (
        "start_failed: image x:1 could not be pulled: the container engine refused to pull the image: no matching manifest for linux/arm64/v8 in the manifest list entries",
        "image_wrong_platform",
    ),
    (
        "start_failed: image x:1 could not be pulled: the container engine refused to pull the image: toomanyrequests: rate limit",
        "image_pull_failed",
    ),
    (
        "start_failed: permission denied: the gateway's user may not use `unix:///var/run/docker.sock`; add it to the group `docker`, or set `DOCKER_HOST` to a rootless engine",
        "docker_permission_denied",
    ),
    (
        "start_failed: the container engine can't be reached: there is no socket at `unix:///var/run/docker.sock`",
        "docker_unreachable",
    ),
    ("start_failed: the container engine did not finish `start the container` in time", "docker_timeout"),
    (
        "start_failed: the container engine can't provide GPUs, is nvidia-container-toolkit installed? (failed to create task for container: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version)",
        "gpu_driver_too_old",
    ),
    (
        "start_failed: the container engine can't provide GPUs, is nvidia-container-toolkit installed? (nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown)",
        "gpu_driver_not_loaded",
    ),
    (
        "start_failed: the container engine can't provide GPUs, is nvidia-container-toolkit installed? (nvidia-container-cli: device error: 7: unknown device: unknown)",
        "gpu_unknown",
    ),
    (
        "start_failed: the container engine can't provide GPUs, is nvidia-container-toolkit installed? (could not select device driver \"nvidia\" with capabilities: [[gpu]])",
        "gpu_toolkit_missing",
    ),
    (
        "start_failed: the container engine refused to start the container: driver failed programming external connectivity on endpoint: Bind for 127.0.0.1:32768 failed: port is already allocated",
        "port_allocated",
    ),
    (
        "start_failed: the container engine refused to make the network: could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network",
        "docker_no_address_range",
    ),
    (
        "start_failed: the container engine refused to make the network: all predefined address pools have been fully subnetted",
        "docker_no_address_range",
    ),
    ("start_failed: container name `primary-model-7` is in use by another program", "container_name_in_use"),
    (
        "start_failed: the container engine refused to start the container: OCI runtime create failed: error setting rlimits for ready process: error setting rlimit type 8: operation not permitted",
        "memlock_limit",
    ),
    (
        "start_failed: the container engine refused to start the container: OCI runtime create failed: runc create failed: unable to start container process: exec: \"vllm\": executable file not found in $PATH: unknown",
        "entrypoint_missing",
    ),
    (
        "start_failed: the container engine refused to create the container: write …: no space left on device",
        "host_disk_full",
    ),
    ("start_failed: the engine refuses the gateway's internal key", "key_mismatch"),
    ("engine_unhealthy: the engine refuses the gateway's internal key", "key_mismatch"),
    ("engine_unhealthy: container removed", "container_removed"),
    ("engine_unhealthy: 3 probes in a row got no answer", "engine_not_answering"),
    (
        "engine_unhealthy: 3 probes in a row got no good answer, the last: /health answers 500",
        "engine_answers_wrongly",
    ),
    ("stop_failed: the container runtime did not stop the container in time", "stop_failed"),
    ("startup_timeout_after_600s", "startup_timeout"),
    ("container_exited: out of memory (exit code 137)", "host_out_of_memory"),
    ("container_exited: killed (exit code 137)", "killed"),
    ("container_exited: exit code 132", "illegal_instruction"),
    ("engine_unhealthy: container exit code 139", "segfault"),
    ("container_exited: exit code 127", "program_not_startable"),
    ("container_exited: exit code 143", "terminated"),
];

#[test]
fn recorded_logs_are_explained() {
    let mut wrong = Vec::new();
    for line in LOGS.lines() {
        let [name, id, field, wanted] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("four words: {line}");
        };
        let found = failed(engine_of(name), &read(name), &json!({}));
        let shown = value(&found).map_or("…".to_owned(), |it| it.to_string());
        let seen = (&*found.error_type, found.field.as_deref().unwrap_or("…"), shown.as_str());
        if seen != (id, field, wanted) || !found.detected || found.evidence.is_empty() {
            wrong.push(format!("{name}: {seen:?}, {:?}", found.evidence));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_gateways_own_reasons_are_explained() {
    for engine in EngineKind::ALL {
        for (reason, id) in REASONS {
            let found = without_log(engine, None, Some(reason));
            assert_eq!(&*found.error_type, *id, "{reason}");
            assert_eq!(found.evidence, [*reason]);
        }
    }
}

#[test]
fn an_engine_that_ended_with_the_machine_is_not_blamed() {
    let config = config(json!({}));
    let of = |watch, reason, out_of_memory, log| {
        let engine = EngineKind::Llamacpp;
        let reason = Some(reason);
        let input = Input { watch, engine, log, exit_code: None, out_of_memory, reason, config: &config };
        diagnose(&input).error_type.0
    };
    let killed = "engine_unhealthy: container killed (exit code 137)";
    assert_eq!(of(Watch::Unwatched, killed, false, ""), "ended_unwatched");
    assert_eq!(of(Watch::Rebooted, killed, false, ""), "machine_restarted");
    assert_eq!(
        of(Watch::Rebooted, "engine_unhealthy: container exit code 0", false, ""),
        "machine_restarted"
    );
    // A more specific cause takes precedence.
    assert_eq!(of(Watch::Unwatched, killed, true, ""), "host_out_of_memory");
    let bad_magic = read("llamacpp-bad-magic");
    assert_eq!(of(Watch::Unwatched, killed, false, &bad_magic), "llamacpp_not_gguf");
    assert_eq!(of(Watch::Unwatched, "engine_unhealthy: container exit code 139", false, ""), "segfault");
    assert_eq!(of(Watch::Watched, killed, false, ""), "killed");
}

#[test]
fn every_signature_is_hit_by_a_log_or_a_reason() {
    let mut hit: HashSet<&str> = LOGS.lines().filter_map(|it| it.split_whitespace().nth(1)).collect();
    hit.extend(REASONS.iter().map(|it| it.1));
    let offline = tokenizer_offline();
    hit.insert(&*offline.error_type);
    hit.extend(["machine_restarted", "ended_unwatched"]);
    let missing: Vec<_> = error_types().filter(|it| !hit.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The recorded logs have other lines, too, by which the failure is known.
#[test]
fn a_line_that_stands_alone_is_enough() {
    for (line, error_type) in [
        (
            "Entry Not Found for url: https://huggingface.co/a/b/resolve/main/config.json.",
            "hub_file_not_found",
        ),
        ("Repository Not Found for url: https://huggingface.co/a/b.", "hub_repository_not_found"),
        ("Client error '404 Not Found' for url 'https://huggingface.co/a/b'", "hub_repository_not_found"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "no_gpu"),
    ] {
        assert_eq!(&*failed(EngineKind::Vllm, line, &json!({})).error_type, error_type, "{line}");
    }
}

#[test]
fn every_recorded_log_is_in_the_table() {
    let listed: HashSet<&str> = LOGS.lines().filter_map(|it| it.split_whitespace().next()).collect();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnosis")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_log = path.extension().is_some_and(|it| it == "log");
        assert!(!is_log || name.contains("-ok-") || listed.contains(name.as_str()), "{name}");
    }
}

#[test]
fn healthy_starts_are_not_failures() {
    let names = "vllm-ok-startup vllm-ok-container llamacpp-ok-container llamacpp-ok-defaults llamacpp-ok-draft \
        llamacpp-ok-embed llamacpp-ok-moe llamacpp-ok-notemplate llamacpp-ok-np2 llamacpp-ok-np2-unified \
        llamacpp-ok-override-tensor llamacpp-ok-q4 llamacpp-ok-q8 llamacpp-ok-rerank llamacpp-ok-split-part1";
    let config = config(json!({}));
    for name in names.split_whitespace() {
        let (engine, log) = (engine_of(name), read(name));
        let input = Input {
            watch: Watch::Watched,
            engine,
            log: &log,
            exit_code: None,
            out_of_memory: false,
            reason: None,
            config: &config,
        };
        let found = diagnose(&input);
        assert!(!found.detected, "{name}: {found:?}");
        assert_eq!(found.severity, Severity::Info, "{name}");
        assert!(found.fixes.is_empty());
        assert!(summary(&log).contains("ready"), "{name}: {}", summary(&log));
        assert!(!summary(&log).contains("then"), "{name}: {}", summary(&log));
    }
}

#[test]
fn values_are_made_from_what_is_set() {
    let cases = [
        ("sim-vllm-oom", json!({"max_model_len": 32_768}), "max_model_len", json!(16_384)),
        (
            "llamacpp-bad-split-part2",
            json!({"local_path": "q/m-00002-of-00003.gguf"}),
            "local_path",
            json!("q/m-00001-of-00003.gguf"),
        ),
        ("llamacpp-wide-oom", json!({"context_size": 100_000}), "context_size", json!(49_920)),
        ("vllm-tp-not-divisible", json!({"tensor_parallel_size": 3}), "tensor_parallel_size", json!(2)),
        ("quoted-vllm-world-size", json!({"pipeline_parallel_size": 2}), "tensor_parallel_size", json!(1)),
        (
            "vllm-kv-cache-too-small",
            json!({"gpu_memory_utilization": 0.5}),
            "gpu_memory_utilization",
            json!(0.55),
        ),
        ("llamacpp-removed-mlock", json!({"mlock": true}), "mlock", json!(false)),
        (
            "llamacpp-bad-template",
            json!({"chat_template_file": "a.jinja"}),
            "chat_template_file",
            json!(null),
        ),
        ("llamacpp-tmpl-bad", json!({"chat_template_file": "a.jinja"}), "chat_template_file", json!(null)),
        ("llamacpp-tmpl-unknown", json!({"chat_template": "foo"}), "chat_template", json!(null)),
    ];
    for (name, set, field, wanted) in cases {
        let found = failed(engine_of(name), &read(name), &set);
        assert_eq!(found.field.as_deref(), Some(field), "{name}");
        assert_eq!(value(&found), Some(wanted), "{name}");
    }
}

#[test]
fn a_path_points_to_the_field_that_holds_it() {
    let set = json!({"local_path": "tiny-llama-F16.gguf", "draft_model_path": "none.gguf"});
    let found = failed(EngineKind::Llamacpp, &read("llamacpp-draft-missing"), &set);
    assert_eq!(
        (&*found.error_type, found.field.as_deref()),
        ("llamacpp_file_not_found", Some("draft_model_path"))
    );
    let set = json!({"local_path": "tiny-llama-F16.gguf", "mmproj": "none.gguf"});
    let found = failed(EngineKind::Llamacpp, &read("llamacpp-mmproj-missing"), &set);
    assert_eq!(found.field.as_deref(), Some("mmproj"));
}

#[test]
fn an_operators_own_argument_is_named() {
    let set = json!({"extra_args": ["--frobnicate"]});
    let found = failed(EngineKind::Llamacpp, &read("llamacpp-unknown-flag"), &set);
    assert_eq!(found.field.as_deref(), Some("extra_args"));
}

fn tokenizer_offline() -> Diagnosis {
    let set = json!({"local_path": "m", "tokenizer": "org/none"});
    failed(EngineKind::Vllm, &read("vllm-tokenizer-missing"), &set)
}

#[test]
fn a_tokenizer_from_the_hub_is_told_from_a_model() {
    let found = tokenizer_offline();
    assert_eq!((&*found.error_type, found.field.as_deref()), ("hub_tokenizer_not_cached", Some("tokenizer")));
}

#[test]
fn fewer_layers_are_proposed_where_that_changes_the_command() {
    for (set, field, value) in [
        (json!({"fit_memory": "off"}), "fit_memory", json!("on")),
        (json!({"ngl": 999, "fit_memory": "off"}), "fit_memory", json!("on")),
        (json!({"ngl": 33}), "ngl", json!(16)),
        (json!({"ngl": 33, "fit_memory": "on"}), "ngl", json!(16)),
        (json!({"ngl": 1}), "ngl", json!(0)),
        // The engine has already chosen the value.
        (json!({}), "context_size", json!(4096)),
        (json!({"ngl": 999}), "context_size", json!(4096)),
        (json!({"fit_memory": "on"}), "context_size", json!(4096)),
        (json!({"ngl": 0}), "context_size", json!(4096)),
    ] {
        let found = failed(EngineKind::Llamacpp, &read("sim-llamacpp-oom"), &set);
        assert_eq!((found.field.as_deref(), self::value(&found)), (Some(field), Some(value)), "{set}");
    }
}

#[test]
fn pages_that_the_kernel_may_drop_are_proposed_where_they_are_held() {
    let proposed = |set: Value| {
        let config = config(set);
        let found = diagnose(&Input {
            watch: Watch::Watched,
            engine: EngineKind::Llamacpp,
            log: "",
            exit_code: Some(137),
            out_of_memory: true,
            reason: None,
            config: &config,
        });
        assert_eq!(&*found.error_type, "host_out_of_memory");
        let fix = found.fixes.into_iter().find(|it| it.field.as_deref() == Some("load_mode"));
        fix.and_then(|it| it.value)
    };
    // Locking is the default, and so is a copy instead of a map.
    for held in
        [json!({}), json!({"no_mmap": false}), json!({"mlock": false}), json!({"load_mode": "mmap+mlock"})]
    {
        assert_eq!(proposed(held.clone()), Some(json!("mmap")), "{held}");
    }
    for free in [
        json!({"mlock": false, "no_mmap": false}),
        json!({"load_mode": "mmap"}),
        json!({"load_mode": "auto"}),
    ] {
        assert_eq!(proposed(free.clone()), None, "{free}");
    }
}

#[test]
fn an_option_that_comes_from_defaults_is_left_out_by_the_field_that_overrides_them() {
    let log = "error: invalid argument: --load-mode\n";
    let found = failed(EngineKind::Llamacpp, log, &json!({}));
    assert_eq!((found.field.as_deref(), value(&found)), (Some("load_mode"), Some(json!("auto"))));
}

#[test]
fn a_split_is_proposed_that_also_shares_out_the_other_heads() {
    for (heads, size, wanted) in [(40, 6, 4), (14, 8, 2), (32, 3, 2), (15, 4, 1), (28, 5, 4)] {
        let log = format!(
            "ValueError: Total number of attention heads ({heads}) must be divisible by tensor parallel size ({size}).\n"
        );
        let found = failed(EngineKind::Vllm, &log, &json!({"tensor_parallel_size": size}));
        assert_eq!(value(&found), Some(json!(wanted)), "{heads} over {size}");
    }
}

#[test]
fn what_the_log_does_not_say_leaves_no_gap() {
    for (engine, log, message) in [
        (EngineKind::Vllm, "torch.AcceleratorError: CUDA error: out of memory\n", "the GPU's memory ran out"),
        (
            EngineKind::Vllm,
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.\n",
            "the model is to be split over more GPUs than the container has",
        ),
        (
            EngineKind::Vllm,
            "ValueError: World size (4) is larger than the number of available GPUs (2) in this node.\n",
            "the model is to be split over more GPUs than the container has: 4 of 2",
        ),
        (
            EngineKind::Llamacpp,
            "0.00.031.719 E llama_model_load: error: cannot find tokenizer merges in model file\n",
            "the file has no usable tokenizer: a faulty conversion, or not a language model",
        ),
    ] {
        assert_eq!(failed(engine, log, &json!({})).message, message);
    }
}

#[test]
fn a_cpu_that_was_asked_for_is_no_warning() {
    let found = failed(EngineKind::Llamacpp, &read("llamacpp-ngl-999-cpu"), &json!({"device": "cpu"}));
    assert!(!found.detected, "{found:?}");
}

#[test]
fn the_cause_counts_more_than_the_end() {
    let config = config(json!({}));
    let log = read("llamacpp-bad-magic");
    let mut input = Input {
        watch: Watch::Watched,
        engine: EngineKind::Llamacpp,
        log: &log,
        exit_code: Some(137),
        out_of_memory: false,
        reason: Some("startup_timeout_after_300s"),
        config: &config,
    };
    assert_eq!(&*diagnose(&input).error_type, "llamacpp_not_gguf");
    input.out_of_memory = true;
    assert_eq!(&*diagnose(&input).error_type, "host_out_of_memory");
    input.reason = Some("start_failed: the models base directory does not exist");
    assert_eq!(&*diagnose(&input).error_type, "models_dir_missing");
}

#[test]
fn what_stands_before_ready_is_not_why_it_crashed() {
    let log = format!("{}{}", read("llamacpp-bad-magic"), read("llamacpp-ok-q8"));
    let found = failed(EngineKind::Llamacpp, &log, &json!({}));
    assert!(!found.detected, "{found:?}");
}

#[test]
fn an_unknown_failure_quotes_the_first_error() {
    let log = "0.00.031.719 E llama_model_load: error loading model: the moon is full\n\
               0.00.031.720 E llama_model_load_from_file_impl: failed to load model\n";
    let found = failed(EngineKind::Llamacpp, log, &json!({}));
    assert!(!found.detected);
    assert_eq!(&*found.error_type, "unknown");
    assert_eq!(found.message, "the first error in the log is: the moon is full");
    assert_eq!(found.evidence, ["llama_model_load: error loading model: the moon is full"]);
    assert_eq!(summary(log), "failed: the moon is full");
}

#[test]
fn the_shape_is_the_apis() {
    let shape =
        serde_json::to_value(failed(EngineKind::Llamacpp, &read("llamacpp-kv-quant-no-fa"), &json!({})));
    let expected = json!({
        "detected": true,
        "title": "Cache type needs flash attention",
        "message": "a quantised V cache works only with flash attention",
        "fixes": [
            {"text": "switch flash attention on", "field": "flash_attn", "value": "on"},
            {"text": "or don't quantise the V cache", "field": "cache_type_v", "value": "f16"},
        ],
        "field": "flash_attn",
        "severity": "error",
        "error_type": "llamacpp_kv_quant_needs_flash_attn",
        "evidence": ["llama_init_from_model: quantized V cache requires flash_attn to be enabled"],
    });
    assert_eq!(shape.unwrap(), expected);
}

#[test]
fn summaries_fit_one_line() {
    let said = summary(&read("vllm-ok-startup"));
    assert_eq!(
        said,
        "vLLM 0.32.0; LlamaForCausalLM; loading /models/hf/tiny-llama-chat; KV cache of 4,194,304 tokens; ready; 15 warnings"
    );
    assert_eq!(
        summary(&read("llamacpp-bad-unknown-arch")),
        "loading /models/bad-unknown-arch.gguf; failed: unknown model architecture: 'zzama'; 2 warnings"
    );
}

/// The log has 8 MiB of the text that is hardest to search; quadratic work would take minutes.
#[test]
fn a_huge_log_is_searched_to_its_end() {
    // Work that is more than linear takes hours here, and the test runner's time limit ends it.
    let hard = [
        "error while handling argument \"".repeat(270_000),
        "CUDA error: \n".repeat(600_000),
        "\u{1b}[".repeat(2 << 20),
        "(".repeat(8 << 20),
        "\n".repeat(8 << 20),
        "max seq len (1), (1 GiB KV cache is needed\n".repeat(190_000),
    ];
    for log in hard {
        for engine in EngineKind::ALL {
            failed(engine, &log, &json!({}));
        }
        summary(&log);
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(log in any::<String>(), reason in proptest::option::of(any::<String>()), code in any::<i64>()) {
        let config = config(json!({"local_path": log.clone(), "extra_args": [log.clone()]}));
        for engine in EngineKind::ALL {
            let input = Input { watch: Watch::Watched, engine, log: &log, exit_code: Some(code), out_of_memory: false, reason: reason.as_deref(), config: &config };
            let found = diagnose(&input);
            prop_assert!(found.evidence.len() <= 5 && found.evidence.iter().all(|it| it.len() <= 500));
        }
        prop_assert!(summary(&log).len() <= 400);
    }

    /// The logs are real ones with lines cut, doubled and mixed with others.
    #[test]
    fn damaged_logs_are_survived(pieces in proptest::collection::vec((0..100usize, 0..60usize, 0..400usize), 1..12)) {
        let names: Vec<&str> = LOGS.lines().filter_map(|it| it.split_whitespace().next()).collect();
        let mut log = String::new();
        for (file, line, cut) in pieces {
            let text = read(names[file % names.len()]);
            let line = text.lines().nth(line).unwrap_or("\u{1b}[31m{");
            log.extend(line.chars().skip(cut % 7).take(cut));
            log.push('\n');
        }
        for engine in EngineKind::ALL {
            let found = failed(engine, &log, &json!({}));
            prop_assert!(found.evidence.len() <= 5 && found.evidence.iter().all(|it| it.len() <= 500));
        }
    }
}
