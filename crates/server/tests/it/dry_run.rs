//! What a dry run says of models that can't start, and of settings that don't go with their files.

use std::{fs, os::unix::fs::symlink, path::Path};

use gantry_testkit::{Client, Gateway, Options};
use serde_json::{Value, json};

use crate::support::start;

/// Headers of files that real engines were started with; what comes after them is a hole.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../inspect/tests/fixtures");
const LLAMACPP: &str = "ghcr.io/ggml-org/llama.cpp:server-b11434";

pub(crate) fn add_fixtures(models: &Path) {
    for kind in ["gguf", "hf"] {
        let from = Path::new(FIXTURES).join(kind);
        copy(&from, models);
        let sizes: Value = serde_json::from_slice(&fs::read(from.join("sizes.json")).unwrap()).unwrap();
        for (name, size) in sizes.as_object().unwrap() {
            let file = models.join(name);
            fs::rename(models.join(format!("{name}.head")), &file).unwrap();
            let file = fs::OpenOptions::new().write(true).open(file).unwrap();
            file.set_len(size.as_u64().unwrap()).unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

struct Story {
    gateway: Gateway,
    owner: Client,
}

impl Story {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    /// No container runtime is needed: versions are read from the images' tags.
    async fn with(options: Options) -> Self {
        let options = options.env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let gateway = start(options.env("SECONDARY_ENGINE_IMAGE", LLAMACPP)).await;
        add_fixtures(&gateway.models_dir());
        let owner = gateway.owner().await;
        Self { gateway, owner }
    }

    /// What is said but that no runtime answers here, as `severity field: message`.
    async fn said(&self, body: &Value) -> Vec<String> {
        lines(&self.owner.post("/admin/models/dry-run", body).await.expect(200))
    }

    /// The entry about `field`; everything else that is an error fails the test.
    async fn about(&self, body: &Value, field: &str) -> Value {
        let preview = self.owner.post("/admin/models/dry-run", body).await.expect(200);
        let all = preview["warnings"].as_array().unwrap();
        let found = all.iter().find(|it| it["field"] == field && it["category"] != "vram");
        found.unwrap_or_else(|| panic!("nothing about {field} in {preview:#}")).clone()
    }
}

fn lines(preview: &Value) -> Vec<String> {
    let all = preview["warnings"].as_array().unwrap();
    let errors = all.iter().any(|it| it["severity"] == "error");
    assert_eq!(preview["valid"], !errors, "{preview}");
    let text = |it: &Value| it.as_str().unwrap_or("-").to_owned();
    all.iter()
        .filter(|it| !["runtime", "vram", "defaults"].contains(&it["category"].as_str().unwrap()))
        .map(|it| format!("{} {}: {}", text(&it["severity"]), text(&it["field"]), text(&it["message"])))
        .collect()
}

fn llamacpp(path: &str) -> Value {
    json!({ "served_name": "m", "engine_type": "llamacpp", "local_path": path, "context_size": 512 })
}

fn vllm(path: &str) -> Value {
    json!({
        "served_name": "m", "engine_type": "vllm", "local_path": path, "engine_image": "vllm/vllm-openai:v0.32.0",
    })
}

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// That nothing but one error about `field` is said, and what it says.
fn only_error(said: &[String], field: &str, text: &str) {
    let start = format!("error {field}: ");
    assert!(
        said.len() == 1 && said[0].starts_with(&start) && said[0].contains(text),
        "{field} {text}: {said:#?}"
    );
}

/// Damaged files lack templates, too.
fn no_templates(said: Vec<String>) -> Vec<String> {
    said.into_iter().filter(|it| !it.starts_with("warning chat_template")).collect()
}

#[tokio::test]
async fn files_that_no_engine_loads_are_errors() {
    let story = Story::new().await;
    // What llama-server b11434 exits with, for each of them.
    for (file, text) in [
        ("bad-bigendian.gguf", "big-endian"),
        ("bad-empty.gguf", "the file is empty"),
        ("bad-magic.gguf", "from before GGUF"),
        ("bad-truncated-header.gguf", "ends inside its header"),
        ("bad-truncated.gguf", "ends before its tensors do"),
        ("bad-version-99.gguf", "GGUF version 99"),
        ("bad-no-tokenizer.gguf", "it has no tokenizer"),
        ("bad-missing-tensor.gguf", "blk.1.ffn_down.weight"),
        ("bad-unknown-arch.gguf", "does not know the architecture `zzama`"),
    ] {
        only_error(&no_templates(story.said(&llamacpp(file)).await), "local_path", text);
        // As a draft model they are no better.
        let draft = with(llamacpp("tiny-llama-F16.gguf"), &json!({ "draft_model_path": file }));
        only_error(&story.said(&draft).await, "draft_model_path", text);
    }
    for good in ["tiny-llama-F16.gguf", "tiny-moe-F16.gguf", "tiny-split-F16-00001-of-00002.gguf"] {
        assert_eq!(story.said(&llamacpp(good)).await, Vec::<String>::new(), "{good}");
    }
    // A newer engine may know the architecture.
    let newer = json!({ "engine_image": "ghcr.io/ggml-org/llama.cpp:server-b99999" });
    let said = story.said(&with(llamacpp("bad-unknown-arch.gguf"), &newer)).await;
    assert!(said.len() == 1 && said[0].starts_with("warning local_path: "), "{said:#?}");

    // A later part, with the value that helps; then a part that is missing.
    let second = "tiny-split-F16-00002-of-00002.gguf";
    let later = story.about(&llamacpp(second), "local_path").await;
    assert_eq!(later["severity"], "error");
    assert_eq!(later["set"], json!({ "local_path": "tiny-split-F16-00001-of-00002.gguf" }));
    assert_eq!(story.said(&with(llamacpp(second), &later["set"])).await, Vec::<String>::new());
    fs::remove_file(story.gateway.models_dir().join(second)).unwrap();
    let said = story.said(&llamacpp("tiny-split-F16-00001-of-00002.gguf")).await;
    only_error(&said, "local_path", "00002-of-00002.gguf: missing");
}

#[tokio::test]
async fn checkpoints_that_vllm_does_not_load_are_errors() {
    let story = Story::new().await;
    fs::create_dir(story.gateway.models_dir().join("empty")).unwrap();
    for (folder, field, text) in [
        ("bad-no-weights", "local_path", "there are no weights"),
        ("bad-truncated-safetensors", "local_path", "model.safetensors"),
        ("bad-no-tokenizer", "tokenizer", "no tokenizer"),
    ] {
        only_error(&no_templates(story.said(&vllm(folder)).await), field, text);
    }
    let said = story.said(&vllm("empty")).await;
    assert!(
        said.len() == 2 && said.iter().all(|it| it.starts_with("error local_path: `empty`: there ")),
        "{said:?}"
    );
    // Another tokenizer, another configuration, another format of weights.
    let other = with(vllm("bad-no-tokenizer"), &json!({ "tokenizer": "owner/other" }));
    assert_eq!(no_templates(story.said(&other).await), Vec::<String>::new());
    let told = json!({ "hub_config_path": "tiny-llama-chat", "extra_args": ["--load-format", "dummy"] });
    let said = story.said(&with(vllm("empty"), &told)).await;
    assert!(said.len() == 1 && said[0].starts_with("warning local_path: "), "{said:?}");
    assert_eq!(story.said(&vllm("tiny-llama-chat")).await, Vec::<String>::new());

    // Newer images and transformers know more: that is no error.
    let foreign = story.said(&vllm("bad-unsupported-arch")).await;
    assert!(foreign.len() == 1 && foreign[0].starts_with("warning local_path: "), "{foreign:?}");
    assert!(foreign[0].contains("FooBarForCausalLM"), "{foreign:?}");
    let base = story.about(&vllm("tiny-llama-base"), "chat_template").await;
    assert_eq!(base["severity"], "warning");
    assert!(base["message"].as_str().unwrap().contains("turns chats into completions"), "{base}");
    let set = with(vllm("tiny-llama-base"), &json!({ "chat_template": "{{ messages }}" }));
    assert_eq!(story.said(&set).await, Vec::<String>::new());

    // GGUF left vLLM in 0.24, and was read from single files before.
    let gguf = story.about(&vllm("tiny-llama-F16.gguf"), "local_path").await;
    assert_eq!(gguf["severity"], "error", "{gguf}");
    let old = json!({ "engine_image": "vllm/vllm-openai:v0.12.0" });
    assert_eq!(story.said(&with(vllm("tiny-llama-F16.gguf"), &old)).await, Vec::<String>::new());
    let split = story.about(&with(vllm("tiny-split-F16-00001-of-00002.gguf"), &old), "local_path").await;
    assert!(
        split["severity"] == "warning" && split["message"].as_str().unwrap().contains("2 files"),
        "{split}"
    );
}

#[tokio::test]
async fn side_files_are_looked_at_also_of_online_models() {
    let story = Story::new().await;
    let good = "tiny-llama-F16.gguf";
    only_error(
        &story.said(&with(llamacpp(good), &json!({ "mmproj": good }))).await,
        "mmproj",
        "not a projector",
    );
    let lora = json!({ "lora_adapters": [format!("a={good}")] });
    only_error(&story.said(&with(llamacpp(good), &lora)).await, "lora_adapters", "not a LoRA adapter");
    let folder = json!({ "lora_adapters": ["a=tiny-llama-base"] });
    let said = story.said(&with(vllm("tiny-llama-chat"), &folder)).await;
    only_error(&said, "lora_adapters", "adapter_config.json");

    for (engine, field, value) in [
        ("llamacpp", "draft_model_path", json!("not/there.gguf")),
        ("llamacpp", "mmproj", json!("not/there.gguf")),
        ("llamacpp", "chat_template_file", json!("not/there.jinja")),
        ("llamacpp", "lora_adapters", json!(["a=not/there.gguf"])),
        ("vllm", "lora_adapters", json!(["a=not/there"])),
        ("vllm", "hub_config_path", json!("not/there")),
    ] {
        let online =
            json!({ "served_name": "m", "engine_type": engine, "repo_id": "owner/name", field: value });
        only_error(&story.said(&online).await, field, "there is no `not/there");
    }

    // The preview names a projector that lies there and is not given.
    let projector = story.gateway.models_dir().join("eyes/mmproj-F16.gguf");
    fs::create_dir(projector.parent().unwrap()).unwrap();
    fs::write(&projector, "x").unwrap();
    let beside = projector.with_file_name("seeing.gguf");
    fs::copy(story.gateway.models_dir().join(good), beside).unwrap();
    let told = story.about(&llamacpp("eyes/seeing.gguf"), "mmproj").await;
    assert_eq!(told["severity"], "info", "{told}");
    assert!(told["fix"].as_str().unwrap().contains("set `mmproj` to `eyes/mmproj-F16.gguf`"), "{told}");

    // Somebody replaced it by a link that leads out, after it was saved.
    let outside = tempfile::tempdir().unwrap();
    let path = story.gateway.models_dir().join("moved.gguf");
    fs::copy(story.gateway.models_dir().join(good), outside.path().join("x.gguf")).unwrap();
    fs::copy(story.gateway.models_dir().join(good), &path).unwrap();
    let made = story.owner.post("/admin/models", &llamacpp("moved.gguf")).await.expect(201);
    let preview = format!("/admin/models/{}/dry-run", made["id"]);
    let said = lines(&story.owner.post(&preview, &json!({})).await.expect(200));
    assert_eq!(said, Vec::<String>::new());
    fs::remove_file(&path).unwrap();
    symlink(outside.path().join("x.gguf"), &path).unwrap();
    let said = lines(&story.owner.post(&preview, &json!({})).await.expect(200));
    assert_eq!(said, ["error local_path: `local_path` leaves the models base directory"]);
}

#[tokio::test]
async fn settings_that_do_not_go_with_the_files_are_told() {
    let story = Story::new().await;
    // An embedding model that is to chat, and the reverse.
    let bert = with(llamacpp("tiny-bert-embed-F16.gguf"), &json!({ "task": "generate" }));
    let task = story.about(&bert, "task").await;
    assert_eq!((&task["severity"], &task["set"]), (&json!("warning"), &json!({ "task": "embed" })));
    assert_eq!(story.said(&with(bert, &task["set"])).await, Vec::<String>::new());
    let embeds = with(vllm("tiny-llama-chat"), &json!({ "task": "embed" }));
    assert_eq!(story.about(&embeds, "task").await["set"], json!({ "task": "generate" }));

    // Trained for 2048 tokens: vLLM exits, llama-server cuts.
    let long = with(vllm("tiny-llama-chat"), &json!({ "max_model_len": 4096 }));
    let found = story.about(&long, "max_model_len").await;
    assert_eq!((&found["severity"], &found["set"]), (&json!("error"), &json!({ "max_model_len": 2048 })));
    assert_eq!(story.said(&with(long.clone(), &found["set"])).await, Vec::<String>::new());
    let allowed = with(long, &json!({ "extra_env": { "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1" } }));
    assert_eq!(story.about(&allowed, "max_model_len").await["severity"], "warning");
    let extra = with(vllm("tiny-llama-chat"), &json!({ "extra_args": ["--max_model_len", "4096"] }));
    assert_eq!(story.about(&extra, "max_model_len").await["severity"], "error");

    let chat = |more: Value| with(llamacpp("tiny-llama-F16.gguf"), &more);
    let found =
        story.about(&chat(json!({ "context_size": 8192, "parallel_slots": 2 })), "context_size").await;
    assert_eq!((&found["severity"], &found["set"]), (&json!("warning"), &json!({ "context_size": 4096 })));
    assert_eq!(
        story.said(&chat(json!({ "context_size": 4096, "parallel_slots": 2 }))).await,
        Vec::<String>::new()
    );
    // The gateway's own default is no mistake of the operator's.
    let default = story.about(&chat(json!({ "context_size": null })), "context_size").await;
    assert_eq!(default["severity"], "info");

    let plain = story.about(&llamacpp("tiny-llama-notemplate-F16.gguf"), "chat_template").await;
    assert!(plain["message"].as_str().unwrap().contains("ChatML"), "{plain}");
    // What llama-server exits with; as fields these are refused or not known to be wrong.
    let small = chat(json!({ "cache_type_k": "q8_0" }));
    let preview = story.owner.post("/admin/models/dry-run", &small).await.expect(200);
    let refused = preview["warnings"].as_array().unwrap().iter().find(|it| it["field"] == "cache_type_k");
    assert_eq!(
        (&refused.unwrap()["severity"], &preview["valid"]),
        (&json!("error"), &json!(false)),
        "{preview}"
    );
    let flash = chat(json!({ "flash_attn": "off", "extra_args": ["-ctv", "q4_0"] }));
    let preview = story.owner.post("/admin/models/dry-run", &flash).await.expect(200);
    let said = |it: &Value| it["severity"] == "error" && it["field"] == "cache_type_v";
    assert!(preview["warnings"].as_array().unwrap().iter().any(said), "{preview}");
}

#[tokio::test]
async fn arguments_that_are_not_written_word_by_word_are_told_with_the_words() {
    let story = Story::new().await;
    let body = |words: Value| with(llamacpp("tiny-llama-F16.gguf"), &json!({ "extra_args": words }));
    let written =
        json!(["--no-warmup", "--threads-http 2", " --verbose", "--chat-template-kwargs={\"a\": 1}"]);
    let found = story.about(&body(written.clone()), "extra_args").await;
    let fixed =
        json!(["--no-warmup", "--threads-http", "2", "--verbose", "--chat-template-kwargs={\"a\": 1}"]);
    assert_eq!((&found["severity"], &found["set"]["extra_args"]), (&json!("warning"), &fixed), "{found}");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("`--threads-http 2`, ` --verbose`"), "{message}");
    assert_eq!(found["fix"], "write `--threads-http`, `2`, `--verbose`");
    assert_eq!(story.said(&body(fixed)).await, Vec::<String>::new());
    // Words that would be refused are no values to set.
    let own = story.about(&body(json!(["--port 9000"])), "extra_args").await;
    assert_eq!((&own["severity"], &own["set"]), (&json!("warning"), &json!(null)), "{own}");
}

#[tokio::test]
async fn a_name_that_is_taken_and_a_model_that_cannot_be_fetched_are_errors() {
    let story = Story::with(Options::default().env("OFFLINE_MODE", "true")).await;
    let made = story.owner.post("/admin/models", &llamacpp("tiny-llama-F16.gguf")).await.expect(201);
    let taken = story.about(&llamacpp("tiny-moe-F16.gguf"), "served_name").await;
    assert_eq!(taken["severity"], "error");
    let whose = format!("the model `m` (id {})", made["id"]);
    assert!(taken["message"].as_str().unwrap().contains(&whose), "{taken}");
    let own = format!("/admin/models/{}/dry-run", made["id"]);
    let said = lines(&story.owner.post(&own, &json!({})).await.expect(200));
    assert!(said.iter().all(|it| !it.contains("served name")), "{said:?}");
    let engine = json!({ "served_name": "far", "url": "http://192.0.2.1:8000", "task": "generate" });
    story.owner.post("/admin/models/registry", &engine).await.expect(201);
    let far = with(llamacpp("tiny-moe-F16.gguf"), &json!({ "served_name": "far" }));
    let taken = story.about(&far, "served_name").await;
    assert!(taken["message"].as_str().unwrap().contains("an engine of the registry"), "{taken}");

    for engine in ["vllm", "llamacpp"] {
        let online = json!({ "served_name": "o", "engine_type": engine, "repo_id": "owner/name" });
        let found = story.about(&online, "repo_id").await;
        assert_eq!(found["severity"], "error", "{found}");
        assert!(found["message"].as_str().unwrap().contains("hub cache"), "{found}");
    }
    let cache = story.gateway.data_dir().join("hub-cache/hub/models--owner--name/snapshots/abc");
    fs::create_dir_all(cache).unwrap();
    let online = json!({ "served_name": "o", "engine_type": "vllm", "repo_id": "owner/name" });
    let said = story.said(&online).await;
    assert!(said.iter().all(|it| !it.contains("repo_id")), "{said:?}");
}

#[tokio::test]
async fn what_inspection_recommends_a_dry_run_accepts_and_what_it_refuses_too() {
    let story = Story::new().await;
    let (mut good, mut bad, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(story.gateway.models_dir()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("tiny-") && !name.starts_with("bad-") {
            continue;
        }
        let found = story.owner.get(&format!("/admin/models/inspect-folder?folder={name}")).await.expect(200);
        let advice = &found["engine_recommendation"];
        let engine = advice["recommended_engine"].as_str().unwrap();
        let own = if name.contains(".gguf") { llamacpp(&name) } else { vllm(&name) };
        let body = match engine {
            "none" => own,
            // The part that engines are given, and the task that it is for.
            _ => with(own, &advice["settings"]),
        };
        let said = no_templates(story.said(&body).await);
        let errors = said.iter().filter(|it| it.starts_with("error ")).count();
        let reason = advice["reason"].as_str().unwrap();
        if engine == "none" {
            assert!(errors > 0, "{name}: {reason} {said:#?}");
            bad.push(name);
        } else if reason.contains("does not know") {
            assert!(!said.is_empty(), "{name}: {reason}");
            open.push(name);
        } else {
            assert_eq!(said, Vec::<String>::new(), "{name}: {reason}");
            good.push(name);
        }
    }
    open.sort_unstable();
    assert_eq!(open, ["bad-unknown-arch.gguf", "bad-unsupported-arch"]);
    assert!(good.iter().all(|it| it.starts_with("tiny-")) && good.len() >= 10, "{good:?}");
    assert!(bad.iter().all(|it| it.starts_with("bad-")) && bad.len() >= 10, "{bad:?}");
}

#[tokio::test]
async fn advice_is_of_what_can_help() {
    let dir = tempfile::tempdir().unwrap();
    let none = dir.path().join("gpus.json");
    fs::write(&none, "[]").unwrap();
    let options = Options::default()
        .env("GPU_INVENTORY_FILE", none.to_str().unwrap())
        .env("ENGINE_IMAGE_ALLOWLIST", "vllm/*,ghcr.io/ggml-org/*,mirror.example/vllm/*,our/vllm");
    let story = Story::with(options).await;
    let fix = |warning: &Value| warning["fix"].as_str().unwrap().to_owned();
    // No image brings a GPU.
    for (set, field) in [
        (json!({ "selected_gpus": [0] }), "selected_gpus"),
        (json!({ "device": "cuda" }), "device"),
        (json!({ "ngl": 10 }), "ngl"),
    ] {
        let found = story.about(&with(llamacpp("tiny-llama-F16.gguf"), &set), field).await;
        let fix = fix(&found);
        assert!(fix.contains("visible to containers") && !fix.contains("engine_image"), "{field}: {fix}");
    }
    // Outside the range that is advised.
    for (batch, task, better) in [
        (64, "generate", Some(128)),
        (4096, "generate", Some(2048)),
        (4096, "embed", None),
        (128, "generate", None),
    ] {
        let body = with(llamacpp("tiny-llama-F16.gguf"), &json!({ "batch_size": batch, "task": task }));
        let preview = story.owner.post("/admin/models/dry-run", &body).await.expect(200);
        let found = preview["warnings"].as_array().unwrap().iter().find(|it| it["field"] == "batch_size");
        let set = better.map(|it| json!({ "batch_size": it }));
        assert_eq!(found.map(|it| it["set"].clone()), set, "{batch} {task}");
    }
    // What only some versions have.
    let older = json!({ "engine_image": "ghcr.io/ggml-org/llama.cpp:server-b5000", "fit_memory": "on" });
    let found = story.about(&with(llamacpp("tiny-llama-F16.gguf"), &older), "fit_memory").await;
    assert_eq!(fix(&found), "unset `fit_memory`, or use another `engine_image`", "{found}");
    // vLLM 0.24 and later: no image that its makers publish loads GGUF files, one of your own may have the plugin.
    for (image, severity) in [
        ("vllm/vllm-openai:v0.32.0", "error"),
        ("mirror.example/vllm/vllm-openai-cpu:v0.32.0", "error"),
        ("our/vllm:v0.32.0", "warning"),
    ] {
        let gguf = with(vllm("tiny-llama-F16.gguf"), &json!({ "engine_image": image }));
        let preview = story.owner.post("/admin/models/dry-run", &gguf).await.expect(200);
        let all = preview["warnings"].as_array().unwrap();
        let found = all.iter().find(|it| it["field"] == "local_path" && it["category"] == "engine").unwrap();
        assert_eq!(found["severity"], severity, "{image}: {found}");
        let fix = fix(found);
        assert!(
            fix.contains("`engine_type` to llamacpp") && fix.contains("plugin") && !fix.contains("unset"),
            "{fix}"
        );
    }
    let wide = with(vllm("tiny-llama-chat"), &json!({ "tensor_parallel_size": 8 }));
    let preview = story.owner.post("/admin/models/dry-run", &wide).await.expect(200);
    let all = preview["warnings"].as_array().unwrap();
    let found = all.iter().find(|it| it["field"] == "tensor_parallel_size").unwrap();
    assert_eq!(
        (fix(found).as_str(), &found["severity"]),
        ("set `tensor_parallel_size` to 1", &json!("warning"))
    );
    assert!(found["message"].as_str().unwrap().ends_with("the model is given no GPU"), "{found}");
    // The command can be pasted, whichever program the image starts by itself.
    let preview =
        story.owner.post("/admin/models/dry-run", &llamacpp("tiny-llama-F16.gguf")).await.expect(200);
    assert!(preview["command_str"].as_str().unwrap().starts_with("llama-server --model /models/tiny-llama"));
    assert_eq!(preview["command"][0], "--model");
    // Arguments that only the gateway sets are listed apart.
    assert_eq!(preview["gateway_options"], json!(["--model", "--alias", "--host", "--port", "--metrics"]));
}

#[tokio::test]
async fn a_path_in_another_spelling_is_told_to_be_that() {
    let story = Story::new().await;
    for path in ["./tiny-llama-F16.gguf", "a//tiny.gguf"] {
        let answer = story.owner.post("/admin/models/dry-run", &llamacpp(path)).await;
        assert_eq!((answer.status, answer.code()), (422, "validation_error"), "{}", answer.text);
        assert!(
            answer.text.contains("`local_path` must be written without `./` and `//`"),
            "{}",
            answer.text
        );
    }
}
