//! Starts of a real vLLM that fail, and what Gantry says of them. Each takes a minute: `ENGINES=vllm make test-engines`.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use super::{
    Engine,
    diagnosed::{Case, case},
    fixture, image,
};
use gantry_testkit::copy;

/// How long a failure may take.
const LIMIT: Duration = Duration::from_mins(10);
/// Engines that start at the same time; each takes some 2 GB.
const TOGETHER: usize = 3;

/// A copy of the good checkpoint without these files.
fn without(base: &Path, name: &str, files: &[&str]) -> String {
    copy(&fixture("hf/tiny-llama-chat"), &base.join(name));
    for file in files {
        fs::remove_file(base.join(name).join(file)).unwrap();
    }
    name.to_owned()
}

/// A copy of the good checkpoint with another `config.json`.
fn with_config(base: &Path, name: &str, change: impl FnOnce(&mut Value)) -> String {
    without(base, name, &[]);
    let path = base.join(name).join("config.json");
    let mut config = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut config);
    fs::write(path, config.to_string()).unwrap();
    name.to_owned()
}

fn cases(base: &Path) -> Vec<Case> {
    let good = without(base, "good", &[]);
    let no_tokenizer = without(base, "no-tokenizer", &["tokenizer.json", "tokenizer_config.json"]);
    let no_config = without(base, "no-config", &["config.json"]);
    let no_weights = without(base, "no-weights", &["model.safetensors"]);
    let damaged = without(base, "damaged", &[]);
    let weights = base.join("damaged/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let other = with_config(base, "other", |it| {
        it["model_type"] = json!("other");
        it["architectures"] = json!(["OtherForCausalLM"]);
    });
    let at = |path: String| json!({ "local_path": path });
    vec![
        case("v-tokenizer-missing", at(no_tokenizer), "vllm_tokenizer_not_found", Some("tokenizer")),
        case("v-config-missing", at(no_config), "vllm_config_missing", Some("local_path")),
        case("v-architecture", at(other), "vllm_architecture_unsupported", Some("engine_image")),
        case("v-weights-missing", at(no_weights), "vllm_weights_missing", Some("local_path")),
        case("v-weights-damaged", at(damaged), "vllm_weights_damaged", Some("local_path")),
        case(
            "v-context",
            json!({ "local_path": good, "max_model_len": 100_000 }),
            "vllm_context_too_long",
            Some("max_model_len"),
        )
        .offers(json!(2048)),
        case(
            "v-quantization",
            json!({ "local_path": "good", "quantization": "awq" }),
            "vllm_not_quantized",
            Some("quantization"),
        )
        .offers(json!(null)),
        case(
            "v-heads",
            json!({ "local_path": "good", "tensor_parallel_size": 3 }),
            "heads_not_divisible",
            Some("tensor_parallel_size"),
        )
        .offers(json!(2)),
        case(
            "v-argument",
            json!({ "local_path": "good", "extra_args": ["--frobnicate"] }),
            "vllm_unknown_argument",
            Some("extra_args"),
        ),
    ]
}

#[tokio::test]
async fn vllm_failures_are_diagnosed() {
    let Some(image) = image("GANTRY_TEST_VLLM_IMAGE", "engines: failed starts of vLLM") else { return };
    let engine = Engine::start("PRIMARY_ENGINE_IMAGE", &image).await;
    let cases = cases(&engine.gateway.models_dir());
    let common = json!({
        "engine_type": "vllm", "device": "cpu", "dtype": "float32", "max_model_len": 512, "startup_timeout_sec": 900,
    });
    engine.fail_all(&cases, &common, TOGETHER, LIMIT).await;
}
