//! Starts of a real llama-server that fail, provoked through the public API, and what Gantry says of each of them.

use std::fs;

use serde_json::json;

use super::{
    Engine, broken,
    diagnosed::{Case, case},
    fixture, image, llama,
};

const GOOD: &str = "tiny-llama-F16.gguf";
/// Containers that are made at the same time; more of them make a busy Docker engine slow to answer.
const TOGETHER: usize = 6;

/// Writes the files; gives the cases about them.
fn files(engine: &Engine) -> Vec<Case> {
    let good = fs::read(fixture(&format!("gguf/{GOOD}"))).unwrap();
    let dir = engine.gateway.models_dir();
    fs::write(dir.join(GOOD), &good).unwrap();
    fs::create_dir(dir.join("folder.gguf")).unwrap();
    fs::write(dir.join("broken.jinja"), "{% for m in messages %}{{ m.content }").unwrap();

    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 394496\n";
    let broken = [
        ("truncated", broken::truncated(&good), "llamacpp_file_truncated", "local_path"),
        ("bad-magic", broken::renamed(&good, "GGUF", "GGML"), "llamacpp_not_gguf", "local_path"),
        ("web-page", b"<html>please sign in</html>".to_vec(), "llamacpp_html_page", "local_path"),
        ("lfs-pointer", lfs.into(), "llamacpp_git_lfs_pointer", "local_path"),
        ("empty-file", Vec::new(), "llamacpp_file_empty", "local_path"),
        ("version-99", broken::of_version(&good, [99, 0, 0, 0]), "llamacpp_gguf_too_new", "engine_image"),
        ("big-endian", broken::of_version(&good, [0, 0, 0, 3]), "llamacpp_big_endian", "local_path"),
        (
            "architecture",
            broken::of_architecture(&good, "other"),
            "llamacpp_architecture_unsupported",
            "engine_image",
        ),
        (
            "no-tokenizer",
            broken::renamed(&good, "tokenizer.ggml.model", "tokenizer.ggml.xodel"),
            "llamacpp_tokenizer_missing",
            "local_path",
        ),
        (
            "tensor-missing",
            broken::renamed(&good, "blk.1.ffn_up", "blk.1.ffn_xx"),
            "llamacpp_tensor_missing",
            "engine_image",
        ),
        (
            "tensor-shape",
            broken::with_number(&good, "llama.feed_forward_length", 64),
            "llamacpp_tensor_shape",
            "engine_image",
        ),
        (
            "tensor-type",
            broken::of_tensor_type(&good, "blk.0.attn_q.weight", 999),
            "llamacpp_tensor_type_unknown",
            "engine_image",
        ),
        (
            "fewer-layers",
            broken::with_number(&good, "llama.block_count", 1),
            "llamacpp_tensor_count",
            "engine_image",
        ),
        (
            "metadata-missing",
            broken::renamed(&good, "llama.block_count", "llama.block_xxxxx"),
            "llamacpp_metadata_missing",
            "local_path",
        ),
    ];
    let mut cases = Vec::new();
    for (name, bytes, error_type, field) in broken {
        let file = format!("{name}.gguf");
        fs::write(dir.join(&file), bytes).unwrap();
        cases.push(case(name, json!({ "local_path": file }), error_type, Some(field)));
    }
    let (first, second) = ("half-00001-of-00002.gguf", "whole-00002-of-00002.gguf");
    fs::write(dir.join(first), broken::part(&good, 0, 2)).unwrap();
    fs::write(dir.join(second), broken::part(&good, 1, 2)).unwrap();
    cases.extend([
        case("folder", json!({ "local_path": "folder.gguf" }), "llamacpp_file_empty", Some("local_path")),
        case(
            "part-missing",
            json!({ "local_path": first }),
            "llamacpp_split_part_missing",
            Some("local_path"),
        ),
        case("second-part", json!({ "local_path": second }), "llamacpp_not_first_part", Some("local_path"))
            .offers(json!("whole-00001-of-00002.gguf")),
    ]);
    cases
}

/// Returns cases of a good file with settings that do not fit the file or the machine.
fn settings() -> Vec<Case> {
    // The override says that the model was trained for long contexts. Otherwise the engine shortens the context.
    let memory = json!({
        "context_size": 500_000, "batch_size": 65_536, "ubatch_size": 65_536, "flash_attn": "off",
        "extra_args": ["--override-kv", "llama.context_length=int:500000"],
    });
    vec![
        case("projector", json!({ "mmproj": GOOD }), "llamacpp_projector_not_usable", Some("mmproj"))
            .cured_by(json!(null)),
        case(
            "draft-missing",
            json!({ "draft_model_path": "nowhere.gguf" }),
            "model_file_not_found",
            Some("draft_model_path"),
        ),
        case(
            "lora",
            json!({ "lora_adapters": [format!("a={GOOD}")] }),
            "llamacpp_lora_not_usable",
            Some("lora_adapters"),
        ),
        case(
            "template",
            json!({ "chat_template_file": "broken.jinja" }),
            "llamacpp_chat_template_invalid",
            Some("chat_template_file"),
        )
        .cured_by(json!(null)),
        case(
            "argument-unknown",
            json!({ "extra_args": ["--frobnicate"] }),
            "llamacpp_unknown_argument",
            Some("extra_args"),
        ),
        case(
            "argument-removed",
            json!({ "extra_args": ["--draft-max", "4"] }),
            "llamacpp_argument_removed",
            Some("extra_args"),
        ),
        case(
            "argument-value",
            json!({ "extra_args": ["--threads", "many"] }),
            "llamacpp_invalid_value",
            Some("extra_args"),
        ),
        case(
            "tensor-device",
            json!({ "override_tensor": "ffn=CUDA7" }),
            "llamacpp_unknown_buffer_type",
            Some("override_tensor"),
        )
        .cured_by(json!(null)),
        case(
            "cache-without-flash",
            // As a field it is refused when it is saved.
            json!({ "flash_attn": "off", "extra_args": ["--cache-type-v", "q4_0"] }),
            "llamacpp_kv_quant_needs_flash_attn",
            Some("flash_attn"),
        )
        .offers(json!("on")),
        case(
            "cache-block",
            json!({ "cache_type_k": "q8_0" }),
            "llamacpp_kv_quant_block",
            Some("cache_type_k"),
        )
        .cured_by(json!("f16")),
        case("memory", memory, "llamacpp_out_of_memory", Some("context_size")).offers(json!(249_856)),
    ]
}

#[tokio::test]
async fn llamacpp_failures_are_diagnosed() {
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: failed starts of llama.cpp") else { return };
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image).await;
    let mut cases = files(&engine);
    cases.extend(settings());
    let models = engine.fail_all(&cases, &llama("", GOOD), TOGETHER, gantry_testkit::PATIENCE).await;
    for (case, model) in cases.iter().zip(&models).filter(|it| it.0.cures) {
        case.cure(&engine.owner, model).await;
    }
}
