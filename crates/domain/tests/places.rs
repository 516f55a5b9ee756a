//! A new field is one row in one file: the places where a field's name stands outside its row are counted, and each is
//! a special case that this file knows.
#![expect(clippy::unwrap_used, reason = "what helps a test fails like one")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use gantry_domain::model::fields;

/// Places where fields are read by name, and which fields. Validation, the API's view, forms, the reference page and
/// the command line come from the row alone.
const SPECIAL: &[(&str, &str)] = &[
    // Where a model's files are, and whose code it runs.
    (
        "crates/domain/src/model/config.rs",
        "mode repo_id local_path trust_remote_code extra_args lora_adapters",
    ),
    // Rules over several fields, and what an engine refuses about one.
    (
        "crates/domain/src/model/draft.rs",
        "mode repo_id local_path tokenizer hub_config_path pooling chat_template chat_template_file max_model_len \
         max_num_seqs max_num_batched_tokens cuda_graph_sizes enable_chunked_prefill tool_call_parser \
         enable_auto_tool_choice tensor_split override_tensor jinja cache_type_v flash_attn",
    ),
    // An argument that has to be given as a field.
    ("crates/domain/src/engine/owned.rs", "trust_remote_code"),
    // `Emit::Special`: fields that become arguments together, or not as they are; and when a row does not apply.
    ("crates/domain/src/engine/mod.rs", "device selected_gpus engine_image memory_limit_gib read_only_root"),
    (
        "crates/domain/src/engine/vllm.rs",
        "repo_id local_path tokenizer hub_config_path chat_template chat_template_file lora_adapters extra_args \
         enforce_eager cuda_graph_sizes gguf_weight_format mode extra_env gpu_memory_utilization \
         kv_cache_memory_bytes pooling", // `pooling` is a word of vLLM's own
    ),
    (
        "crates/domain/src/engine/llamacpp.rs",
        "repo_id local_path tokenizer hub_config_path chat_template chat_template_file lora_adapters extra_args \
         extra_env context_size ngl batch_size ubatch_size fit_memory threads flash_attn mlock no_mmap load_mode numa draft_model_path draft_n \
         draft_p_min mmproj pooling jinja",
    ),
    // What of a model is carried to another gateway: its files, and no secrets.
    ("crates/admin-api/src/deployment/import.rs", "local_path repo_id"),
    ("crates/admin-api/src/deployment/manifests.rs", "local_path repo_id"),
    ("crates/admin-api/src/deployment/wanted.rs", "local_path repo_id"),
    ("crates/control/src/deployment/plan.rs", "repo_id"),
    ("crates/domain/src/model/portable.rs", "extra_env"),
    ("crates/store/src/dump/redact.rs", "extra_env"),
    // Fields that are the gateway's own business, not the engine's.
    ("crates/control/src/lib.rs", "engine_image startup_timeout_sec"),
    ("crates/control/src/preview.rs", "engine_image memory_limit_gib read_only_root"),
    // The rules for restarts.
    ("crates/domain/src/model/lifecycle/again.rs", "autostart restart_limit restart_policy"),
    ("crates/control/src/reconcile/worker/again.rs", "autostart"),
    // Names that adapters take.
    ("crates/store/src/names.rs", "lora_adapters"),
    ("crates/control/src/engine_ops.rs", "pooling"),
    (
        "crates/control/src/publish/routes.rs",
        "request_timeout_sec stream_idle_timeout_sec request_defaults max_model_len",
    ),
    ("crates/control/src/reconcile/start.rs", "local_path"),
    (
        "crates/admin-api/src/models/mod.rs",
        "engine_image startup_timeout_sec extra_env local_path lora_adapters",
    ),
    ("crates/admin-api/src/models/view.rs", "mode extra_env restart_policy"),
    ("crates/admin-api/src/system/images.rs", "engine_image"),
    // Facts about a model for the chat page.
    (
        "crates/admin-api/src/playground.rs",
        "chat_template chat_template_file context_size extra_args local_path max_model_len mmproj request_defaults",
    ),
    // The tuned profile: a context is no longer than the model's, and one field replaces two.
    ("crates/domain/src/model/tuned.rs", "context_size parallel_slots load_mode mlock no_mmap"),
    // The memory estimate: where the files are, and which value of which field would make it fit. `pooling` is a word of
    // vLLM's command.
    (
        "crates/admin-api/src/models/estimate.rs",
        "context_size device extra_args extra_env fit_memory local_path max_model_len repo_id draft_model_path lora_adapters mmproj",
    ),
    // Fields that are filled in from the files of a new model.
    ("crates/admin-api/src/models/fill.rs", "local_path mode pooling repo_id"),
    ("crates/domain/src/memory/refusal.rs", "cache_type_k cache_type_v"),
    // Files that a dry run looks into, and settings that have to go with what they are.
    (
        "crates/admin-api/src/models/file_checks.rs",
        "local_path draft_model_path mmproj lora_adapters hub_config_path tokenizer chat_template chat_template_file \
         context_size max_model_len extra_args pooling",
    ),
    ("crates/domain/src/memory/command.rs", "pooling"),
    (
        "crates/domain/src/memory/remedy.rs",
        "context_size gpu_memory_utilization kv_cache_memory_bytes max_model_len ngl tensor_parallel_size",
    ),
    // Other things of the same name: a key of the hub's answer, a folder of the kernel's.
    ("crates/control/src/hub.rs", "repo_id"),
    ("crates/control/src/machine/amd.rs", "device"),
    // Advice before a start, and the record that `--demo` makes.
    (
        "crates/admin-api/src/models/dry_run/mod.rs",
        "batch_size engine_image tensor_parallel_size pipeline_parallel_size tensor_split device extra_env local_path repo_id",
    ),
    // Elements that hold more than one word of the command.
    ("crates/admin-api/src/models/dry_run/extra_args.rs", "extra_args"),
    ("crates/server/src/demo.rs", "local_path engine_image tool_call_parser enable_auto_tool_choice"),
];
/// Advice about logs names the fields that would help; a new field works without any.
const ADVICE: &str = "crates/domain/src/diagnosis";
const ROWS: &str = "crates/domain/src/model/fields";
/// Schemas and examples of answers also name fields.
const DOCS: &str = "crates/admin-api/src/doc";
/// The crates that know model records.
const ROOTS: &[&str] = &[
    "crates/domain/src",
    "crates/control/src",
    "crates/runtime/src",
    "crates/admin-api/src",
    "crates/server/src",
    "crates/store/src",
    "xtask/src",
];

fn tests(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    name.ends_with("tests.rs")
        || name == "simulation.rs"
        || path.components().any(|it| it.as_os_str() == "tests")
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !tests(&path) {
            found.push(path);
        }
    }
}

#[test]
fn a_new_field_is_one_row_in_one_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ROOTS {
        sources(&root.join(dir), &mut files);
    }
    let names: BTreeSet<&str> = fields::all().map(|it| it.name).collect();
    let (mut seen, mut rows) = (BTreeSet::new(), Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests may name any field.
        let text = text.split("#[cfg(test)]").next().unwrap();
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        for name in names.iter().filter(|it| text.contains(&format!("\"{it}\""))) {
            if path.starts_with(ROWS) {
                rows.push(*name);
            } else if !path.starts_with(ADVICE) && !path.starts_with(DOCS) {
                seen.insert((path.clone(), *name));
            }
        }
    }
    rows.sort_unstable();
    assert_eq!(rows, names.iter().copied().collect::<Vec<_>>(), "each name has one row, in one file");
    let known: BTreeSet<(String, &str)> = SPECIAL
        .iter()
        .flat_map(|(path, names)| names.split_whitespace().map(|it| ((*path).to_owned(), it)))
        .collect();
    let new: Vec<_> = seen.difference(&known).collect();
    assert!(new.is_empty(), "read by name, and not listed above as a special case: {new:?}");
    let gone: Vec<_> = known.difference(&seen).collect();
    assert!(gone.is_empty(), "listed above, and no longer read: {gone:?}");
    let special: BTreeSet<&str> = seen.iter().map(|it| it.1).collect();
    println!("{} fields, {} of them are nowhere but in their row", names.len(), names.len() - special.len());
    assert!(special.len() * 5 < names.len() * 4, "special cases have become the rule: {special:?}");
}
