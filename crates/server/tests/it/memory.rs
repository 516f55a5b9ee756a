//! The memory estimate of dry runs, and the GPUs that it is about.

use std::{fs, path::Path};

use gantry_testkit::{Client, Gateway, Options};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::start;

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Runs of a real llama-server, with what was predicted and what it took (`| model | args | … |`).
const PAGE: &str = include_str!("../../../../docs/memory-estimate.md");
const GIB: f64 = 1024.0;

/// Weights are holes: nobody reads them.
fn add_gguf(models: &Path) {
    let fixtures = Path::new(CRATES).join("inspect/tests/fixtures/gguf");
    let sizes: Value = serde_json::from_slice(&fs::read(fixtures.join("sizes.json")).unwrap()).unwrap();
    for (name, size) in sizes.as_object().unwrap() {
        let to = models.join(name);
        fs::copy(fixtures.join(format!("{name}.head")), &to).unwrap();
        let file = fs::OpenOptions::new().write(true).open(to).unwrap();
        file.set_len(size.as_u64().unwrap()).unwrap();
    }
}

fn add_checkpoint(to: &Path) -> u64 {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf/tiny-llama-chat");
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let weights = fs::read(to.join("model.safetensors")).unwrap();
    let header = u64::from_le_bytes(*weights.first_chunk().unwrap());
    weights.len() as u64 - 8 - header
}

struct Story {
    gateway: Gateway,
    owner: Client,
    _dir: TempDir,
}

impl Story {
    /// On a machine with GPUs of this many MiB in all and in use; `None`: on this one.
    async fn with(gpus: Option<&[(u64, u64)]>) -> Self {
        let dir = TempDir::new().unwrap();
        let mut options = Options::default().env("CONTAINER_HOST", "unix:///nonexistent.sock");
        if let Some(gpus) = gpus {
            let gpu = |(index, (total, used)): (usize, &(u64, u64))| {
                json!({
                    "index": index, "name": "NVIDIA Test", "mem_total_mb": total, "mem_used_mb": used,
                    "compute_capability": "8.9",
                })
            };
            let list: Value = gpus.iter().enumerate().map(gpu).collect();
            let file = dir.path().join("gpus.json");
            fs::write(&file, list.to_string()).unwrap();
            options = options.env("GPU_INVENTORY_FILE", file.to_str().unwrap());
        }
        let gateway = start(options).await;
        add_gguf(&gateway.models_dir());
        let owner = gateway.owner().await;
        Self { gateway, owner, _dir: dir }
    }

    async fn dry_run(&self, body: &Value) -> Value {
        self.owner.post("/admin/models/dry-run", body).await.expect(200)
    }

    /// The warnings of category `vram`.
    async fn memory(&self, body: &Value) -> (Value, Vec<Value>) {
        let preview = self.dry_run(body).await;
        let all = preview["warnings"].as_array().unwrap();
        let mine = all.iter().filter(|it| it["category"] == "vram").cloned().collect();
        (preview["vram_estimate"].clone(), mine)
    }
}

/// All layers are asked for.
fn gguf(file: &str) -> Value {
    json!({ "served_name": "m", "engine_type": "llamacpp", "local_path": file, "fit_memory": "off" })
}

fn vllm(path: &str) -> Value {
    json!({ "served_name": "m", "engine_type": "vllm", "local_path": path })
}

fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The model that this row of the page was measured with, and `(weights, cache, compute, total)` in MiB as predicted.
fn row(line: &str) -> Option<(Value, [f64; 4])> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").collect();
    let [model, args, weights, cache, compute, total, _] = cells[..] else { return None };
    let args = args.strip_prefix('`')?.strip_suffix('`')?;
    // What llama-server does by itself, where the gateway has defaults of its own.
    let mut body = json!({
        "served_name": "m", "engine_type": "llamacpp", "local_path": format!("{model}.gguf"), "device": "cpu",
        "context_size": 0, "batch_size": 2048, "ubatch_size": 512, "flash_attn": "auto", "load_mode": "auto",
    });
    let mut words = args.split_whitespace();
    while let Some(word) = words.next() {
        let field = match word {
            "--embedding" => {
                body["task"] = json!("embed");
                continue;
            }
            "--reranking" => {
                (body["task"], body["pooling"]) = (json!("embed"), json!("rank"));
                continue;
            }
            "--kv-unified" => {
                body["extra_args"] = json!([word]);
                continue;
            }
            "-c" => "context_size",
            "-b" => "batch_size",
            "-ub" => "ubatch_size",
            "-np" => "parallel_slots",
            "-fa" => "flash_attn",
            "-ctk" => "cache_type_k",
            "-ctv" => "cache_type_v",
            "--load-mode" => "load_mode",
            other => panic!("what is {other}?"),
        };
        let value = words.next().unwrap();
        body[field] = value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number));
    }
    let predicted = |cell: &str| cell.split(" / ").next().unwrap().parse().ok();
    Some((body, [predicted(weights)?, predicted(cache)?, predicted(compute)?, predicted(total)?]))
}

#[tokio::test]
async fn a_dry_run_says_what_a_real_llama_server_was_measured_against() {
    let story = Story::with(None).await;
    let models = story.gateway.models_dir();
    let mut count = 0;
    for (body, predicted) in PAGE.lines().filter_map(row) {
        if !models.join(body["local_path"].as_str().unwrap()).exists() {
            continue;
        }
        let preview = story.dry_run(&body).await;
        let estimate = &preview["vram_estimate"];
        let names = ["weights_gb", "kv_cache_gb", "overhead_gb", "total_gb"];
        for (name, predicted) in names.into_iter().zip(predicted) {
            let said = estimate[name].as_f64().unwrap() * GIB;
            assert!((said - predicted).abs() < 0.01, "{body}\n{name}: {said} for {predicted}\n{estimate}");
        }
        assert_eq!(preview["vram_estimate_gb"], estimate["total_gb"]);
        assert_eq!(estimate["host_ram_gb"], estimate["total_gb"], "all of it is in RAM");
        assert_eq!((&estimate["per_gpu_gb"], &estimate["fits"]), (&json!([]), &json!(true)));
        count += 1;
    }
    assert_eq!(count, 249, "runs of models that are here");
}

#[tokio::test]
async fn a_model_is_spread_over_the_gpus_that_it_is_given() {
    let story = Story::with(Some(&[(24_000, 0), (24_000, 1000)])).await;
    let (estimate, warnings) = story.memory(&gguf("tiny-llama-F16.gguf")).await;
    assert_eq!(warnings, Vec::<Value>::new());
    let number = |it: &Value| it.as_f64().unwrap();
    let shares: Vec<f64> = estimate["per_gpu_gb"].as_array().unwrap().iter().map(number).collect();
    assert!(shares.len() == 2 && shares.iter().all(|it| *it > 0.4), "{estimate}");
    for (parts, share) in estimate["gpu_parts"].as_array().unwrap().iter().zip(&shares) {
        let names = ["weights_gb", "kv_cache_gb", "overhead_gb"];
        let sum: f64 = names.iter().map(|it| number(&parts[*it])).sum();
        assert!((sum - share).abs() < 1e-5, "{estimate}");
    }
    let of_all: f64 =
        estimate["gpu_parts"].as_array().unwrap().iter().map(|it| number(&it["kv_cache_gb"])).sum();
    assert!(of_all > 0.0 && (of_all - number(&estimate["kv_cache_gb"])).abs() < 1e-5, "{estimate}");
    let sum = shares.iter().sum::<f64>() + number(&estimate["host_ram_gb"]);
    assert!((sum - number(&estimate["total_gb"])).abs() < 1e-5, "{estimate}");
    assert_eq!(estimate["fits"], true);
    assert!((number(&estimate["available_gb"]) - 47_000.0 / GIB).abs() < 1e-5, "{estimate}");
    let types = estimate["weights_by_type_gb"].as_object().unwrap();
    assert!(types.contains_key("F16") && types.contains_key("F32"), "{estimate}");

    let one = with(gguf("tiny-llama-F16.gguf"), &json!({ "selected_gpus": [1] }));
    let (estimate, _) = story.memory(&one).await;
    assert_eq!(estimate["gpu_indexes"], json!([1]));
    assert!((number(&estimate["available_gb"]) - 23_000.0 / GIB).abs() < 1e-5, "{estimate}");
    let main = json!({ "split_mode": "none", "main_gpu": 1 });
    let (estimate, _) = story.memory(&with(gguf("tiny-llama-F16.gguf"), &main)).await;
    assert_eq!(estimate["per_gpu_gb"][0], 0.0);
    assert!(number(&estimate["per_gpu_gb"][1]) > 0.4);

    // A split for more GPUs than it is given.
    let split = json!({ "tensor_split": "0.5,0.5" });
    assert_eq!(story.memory(&with(gguf("tiny-llama-F16.gguf"), &split)).await.1, Vec::<Value>::new());
    let (_, warnings) = story.memory(&with(one, &split)).await;
    assert_eq!(
        (&warnings[0]["severity"], &warnings[0]["field"]),
        (&json!("warning"), &json!("tensor_split"))
    );
    assert!(warnings[0]["message"].as_str().unwrap().contains("2 parts"), "{warnings:?}");

    // On a CPU by choice: the GPUs don't count.
    let cpu = with(gguf("tiny-llama-F16.gguf"), &json!({ "device": "cpu" }));
    let (estimate, warnings) = story.memory(&cpu).await;
    assert_eq!((&estimate["per_gpu_gb"], &estimate["fits"]), (&json!([]), &json!(true)));
    assert_eq!((&warnings[0]["severity"], &warnings[0]["field"]), (&json!("info"), &json!("device")));

    // All parts of a split model count, from the first one on.
    let (split, _) = story.memory(&gguf("tiny-split-F16-00001-of-00002.gguf")).await;
    assert_eq!(split["weights_gb"], story.memory(&gguf("tiny-llama-F16.gguf")).await.0["weights_gb"]);
    fs::remove_file(story.gateway.models_dir().join("tiny-split-F16-00002-of-00002.gguf")).unwrap();
    let (split, warnings) = story.memory(&gguf("tiny-split-F16-00001-of-00002.gguf")).await;
    assert_eq!(split, Value::Null);
    assert!(warnings[0]["message"].as_str().unwrap().contains("00002-of-00002"), "{warnings:?}");
}

/// What the warning says to set; it must be about `field`.
fn remedy(warnings: &[Value], field: &str) -> Value {
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let warning = &warnings[0];
    assert_eq!((&warning["severity"], &warning["field"]), (&json!("warning"), &json!(field)), "{warning}");
    let value = &warning["set"][field];
    assert!(warning["fix"].as_str().unwrap().contains(&format!("`{field}` to {value}")), "{warning}");
    warning["set"].clone()
}

#[tokio::test]
async fn what_does_not_fit_is_told_with_a_value_that_does() {
    // The driver's share is 500 MiB of each GPU.
    let story = Story::with(Some(&[(502, 0), (1000, 498)])).await;
    let model = with(gguf("tiny-llama-F16.gguf"), &json!({ "batch_size": 512 }));
    let (estimate, warnings) = story.memory(&model).await;
    assert_eq!(estimate["fits"], false, "{estimate}");
    assert_eq!(estimate["per_gpu_gb"].as_array().unwrap().len(), 2);
    assert!(estimate["trained_for"].is_u64(), "{estimate}");
    assert!(warnings[0]["message"].as_str().unwrap().contains("GPU 0 would hold"), "{warnings:?}");
    let set = remedy(&warnings, "context_size");
    let longest = set["context_size"].as_u64().unwrap();
    assert_eq!(estimate["max_context_that_fits"], longest);
    let (estimate, warnings) = story.memory(&with(model.clone(), &set)).await;
    assert_eq!((&estimate["fits"], warnings), (&json!(true), vec![]), "{estimate}");
    let more = json!({ "context_size": longest + 256 });
    let (estimate, _) = story.memory(&with(model.clone(), &more)).await;
    assert_eq!(estimate["fits"], false, "{longest} is the longest");

    // An extra argument has the last word over the field.
    let stubborn = with(model, &json!({ "extra_args": ["-c", "8192"] }));
    let (estimate, warnings) = story.memory(&stubborn).await;
    assert_eq!((&estimate["fits"], &warnings[0]["field"]), (&json!(false), &json!("extra_args")));

    // Not even the driver's share is free: only RAM is left.
    let story = Story::with(Some(&[(400, 0)])).await;
    let set = remedy(&story.memory(&gguf("tiny-llama-F16.gguf")).await.1, "ngl");
    let (estimate, _) = story.memory(&with(gguf("tiny-llama-F16.gguf"), &set)).await;
    assert_eq!((&estimate["fits"], &estimate["per_gpu_gb"]), (&json!(true), &json!([0.0])), "{set}");
}

#[tokio::test]
async fn layers_that_the_engine_leaves_in_ram_are_told() {
    // It leaves a GiB of each GPU free, and the driver takes 500 MiB.
    for (free, layers) in [(1600, None), (1524, Some(0))] {
        let story = Story::with(Some(&[(free, 0)])).await;
        let (estimate, warnings) =
            story.memory(&with(gguf("tiny-llama-F16.gguf"), &json!({ "fit_memory": null }))).await;
        assert_eq!((&estimate["fits"], &estimate["layers_on_gpus"]), (&json!(true), &json!(layers)));
        let said: Vec<_> = warnings.iter().map(|it| it["message"].as_str().unwrap()).collect();
        assert_eq!(said.len(), usize::from(layers.is_some()), "{said:?}");
        assert!(said.iter().all(|it| it.contains("about 0 of 2 layers fit on the GPUs")), "{said:?}");
    }
}

#[tokio::test]
async fn what_is_left_out_of_the_estimate_leaves_it_open_whether_it_fits() {
    let story = Story::with(Some(&[(502, 0)])).await;
    let model = gguf("tiny-moe-F16.gguf");
    let (plain, warnings) = story.memory(&model).await;
    assert_eq!((&plain["fits"], warnings.len()), (&json!(false), 1), "{plain}");
    // Where a pattern puts the tensors is not known: no verdict, no advice.
    let placed = with(model.clone(), &json!({ "override_tensor": "blk.0.=CPU" }));
    let (estimate, warnings) = story.memory(&placed).await;
    assert_eq!((&estimate["fits"], warnings), (&Value::Null, vec![]), "{estimate}");
    assert!(estimate["notes"].to_string().contains("whether it fits is unknown"), "{estimate}");
    // That of all experts is.
    let experts = with(model.clone(), &json!({ "override_tensor": "exps=CPU" }));
    let same = with(model, &json!({ "n_cpu_moe": 9999 }));
    assert_eq!(story.memory(&experts).await, story.memory(&same).await);

    // The weights of a draft model count, its cache is open.
    let roomy = Story::with(Some(&[(24_000, 0)])).await;
    let model = gguf("tiny-llama-F16.gguf");
    let number = |it: &Value| it.as_f64().unwrap();
    let alone = roomy.memory(&model).await.0;
    let draft = with(model, &json!({ "draft_model_path": "tiny-draft-F16.gguf" }));
    let (both, warnings) = roomy.memory(&draft).await;
    let draft = roomy.memory(&gguf("tiny-draft-F16.gguf")).await.0;
    let sum: f64 = draft["weights_by_type_gb"].as_object().unwrap().values().map(number).sum();
    let more = number(&both["per_gpu_gb"][0]) - number(&alone["per_gpu_gb"][0]);
    assert!((more - sum).abs() < 1e-5 && sum > 0.0, "{both}");
    assert_eq!((&alone["fits"], &both["fits"], warnings), (&json!(true), &Value::Null, vec![]));

    // Quantised while it is loaded, it may well fit.
    add_checkpoint(&story.gateway.models_dir().join("tiny"));
    let narrow = with(vllm("tiny"), &json!({ "gpu_memory_utilization": 0.05 }));
    assert_eq!(story.memory(&narrow).await.0["fits"], false);
    let (estimate, warnings) = story.memory(&with(narrow, &json!({ "quantization": "fp8" }))).await;
    assert_eq!((&estimate["fits"], warnings), (&Value::Null, vec![]), "{estimate}");
}

#[tokio::test]
async fn a_checkpoint_is_weighed_by_its_tensors_and_split_for_vllm() {
    let story = Story::with(Some(&[(24_000, 0), (24_000, 9000)])).await;
    let bytes = add_checkpoint(&story.gateway.models_dir().join("tiny"));
    let (estimate, warnings) = story.memory(&vllm("tiny")).await;
    assert_eq!(warnings, Vec::<Value>::new());
    let weights = estimate["weights_gb"].as_f64().unwrap() * GIB * GIB * GIB;
    assert!((weights - bytes as f64).abs() < 1000.0, "{weights} for {bytes}");
    // The engine fills its share, by default nine tenths.
    let shares = &estimate["per_gpu_gb"];
    assert!((shares[0].as_f64().unwrap() * GIB - 0.9 * 24_000.0).abs() < 0.01, "{estimate}");
    assert_eq!((&shares[1], &estimate["max_context_that_fits"]), (&json!(0.0), &json!(2048)));
    // Twice as wide, twice as heavy.
    let wide = with(vllm("tiny"), &json!({ "dtype": "float32" }));
    let (estimate, _) = story.memory(&wide).await;
    let wide = estimate["weights_gb"].as_f64().unwrap() * GIB * GIB * GIB;
    assert!((wide - 2.0 * bytes as f64).abs() < 1000.0, "{wide} for {bytes}");

    // Other processes hold more than a tenth of the second GPU.
    let two = with(vllm("tiny"), &json!({ "tensor_parallel_size": 2 }));
    let (estimate, warnings) = story.memory(&two).await;
    assert_eq!(estimate["per_gpu_gb"].as_array().unwrap().len(), 2);
    let set = remedy(&warnings, "gpu_memory_utilization");
    assert_eq!(set, json!({ "gpu_memory_utilization": 0.62 }), "15,000 of 24,000 MiB");
    let (estimate, warnings) = story.memory(&with(two, &set)).await;
    assert_eq!((&estimate["fits"], warnings), (&json!(true), vec![]));

    // A cache of 100 blocks: two layers, one head of 32 keys and values of 2 bytes.
    let small = json!({ "kv_cache_memory_bytes": 100 * 16 * 2 * (32 + 32) * 2, "block_size": 16 });
    let small = with(vllm("tiny"), &small);
    let set = remedy(&story.memory(&small).await.1, "max_model_len");
    assert_eq!(set, json!({ "max_model_len": 1600 }));
    assert_eq!(story.memory(&with(small, &set)).await.0["fits"], true);

    for (wanted, field, value) in [
        (json!({ "tensor_parallel_size": 4 }), "tensor_parallel_size", "to 2 or less"),
        (json!({ "tensor_parallel_size": 2, "pipeline_parallel_size": 2 }), "pipeline_parallel_size", "to 1"),
    ] {
        let (estimate, warnings) = story.memory(&with(vllm("tiny"), &wanted)).await;
        assert_eq!(estimate, Value::Null);
        assert_eq!((&warnings[0]["severity"], &warnings[0]["field"]), (&json!("error"), &json!(field)));
        assert!(warnings[0]["fix"].as_str().unwrap().contains(value), "{warnings:?}");
    }
}

/// RAM of this machine, in whole GiB.
fn all_ram() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let total = text.lines().find_map(|it| it.strip_prefix("MemTotal:")).unwrap();
    total.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 20
}

#[tokio::test]
async fn without_gpus_vllm_reserves_its_cache_in_ram() {
    let story = Story::with(Some(&[])).await;
    add_checkpoint(&story.gateway.models_dir().join("tiny"));
    let gib = |it: &Value, name: &str| it[name].as_f64().unwrap();
    // What the gateway itself sets, and nearly 2 GiB of Python.
    let preview = story.dry_run(&vllm("tiny")).await;
    assert_eq!(preview["env"]["VLLM_CPU_KVCACHE_SPACE"], "4");
    let estimate = &preview["vram_estimate"];
    assert_eq!(estimate["kv_cache_gb"], 4.0);
    assert!((5.8..6.2).contains(&gib(estimate, "host_ram_gb")), "{estimate}");
    let info = preview["warnings"].to_string();
    assert!(info.contains("6.0 GiB") || info.contains("5.9 GiB"), "{info}");

    let more = all_ram() + 1;
    for set in [
        json!({ "kv_cache_memory_bytes": more << 30 }),
        json!({ "extra_env": { "VLLM_CPU_KVCACHE_SPACE": more.to_string() } }),
    ] {
        let (estimate, warnings) = story.memory(&with(vllm("tiny"), &set)).await;
        assert_eq!((&estimate["fits"], gib(&estimate, "kv_cache_gb")), (&json!(false), more as f64), "{set}");
        assert_eq!((warnings.len(), &warnings[0]["title"]), (1, &json!("It does not fit")), "{warnings:?}");
        assert!(warnings[0]["message"].as_str().unwrap().contains("RAM would hold"), "{warnings:?}");
    }
    let odd = json!({ "extra_env": { "VLLM_CPU_KVCACHE_SPACE": "4GB" } });
    let (estimate, warnings) = story.memory(&with(vllm("tiny"), &odd)).await;
    assert_eq!((&estimate, warnings.len()), (&Value::Null, 1));
    assert!(warnings[0]["message"].as_str().unwrap().contains("4GB"), "{warnings:?}");
}

#[tokio::test]
async fn what_can_not_be_known_is_null_with_the_reason() {
    let story = Story::with(Some(&[(24_000, 0)])).await;
    let models = story.gateway.models_dir();
    add_checkpoint(&models.join("cut"));
    let weights = fs::OpenOptions::new().write(true).open(models.join("cut/model.safetensors")).unwrap();
    weights.set_len(100_000).unwrap();
    fs::create_dir(models.join("empty")).unwrap();
    fs::write(models.join("empty/config.json"), r#"{ "model_type": "llama" }"#).unwrap();
    let online = json!({ "served_name": "m", "engine_type": "vllm", "repo_id": "org/tiny" });
    let gguf_online = json!({ "served_name": "m", "engine_type": "llamacpp", "repo_id": "org/tiny-GGUF" });
    for (body, said) in [
        (vllm("cut"), "model.safetensors"),
        (vllm("empty"), "no safetensors"),
        (vllm("nothing"), "nothing"),
        (gguf("bad-truncated-header.gguf"), "bad-truncated-header.gguf"),
        (gguf("bad-empty.gguf"), "bad-empty.gguf"),
        (with(gguf("tiny-llama-F16.gguf"), &json!({ "extra_args": ["-ctk", "q9"] })), "q9"),
        (online.clone(), "not in the hub cache"),
        (gguf_online.clone(), "not in the hub cache"),
    ] {
        let preview = story.dry_run(&body).await;
        assert_eq!((&preview["vram_estimate"], &preview["vram_estimate_gb"]), (&Value::Null, &Value::Null));
        let (_, warnings) = story.memory(&body).await;
        assert_eq!((warnings.len(), &warnings[0]["severity"]), (1, &json!("info")), "{warnings:?}");
        assert!(warnings[0]["message"].as_str().unwrap().contains(said), "{said}: {warnings:?}");
    }

    // Once the engine has fetched them, they are read where the engine keeps them.
    let cache = story.gateway.data_dir().join("hub-cache");
    let home = cache.join("hub/models--org--tiny");
    add_checkpoint(&home.join("snapshots/c0ffee"));
    fs::create_dir(home.join("refs")).unwrap();
    fs::write(home.join("refs/main"), "c0ffee").unwrap();
    let (estimate, warnings) = story.memory(&online).await;
    assert_eq!((&estimate["fits"], warnings), (&json!(true), vec![]), "{estimate}");
    let snapshot = cache.join("models--org--tiny-GGUF/snapshots/c0ffee");
    fs::create_dir_all(&snapshot).unwrap();
    fs::copy(models.join("tiny-llama-Q8_0.gguf"), snapshot.join("tiny-Q8_0.gguf")).unwrap();
    let (estimate, _) = story.memory(&gguf_online).await;
    assert_eq!(estimate["fits"], true);
    // The tuned context, too, is no longer than that of the model.
    let preview = story.dry_run(&gguf_online).await;
    let mut warnings = preview["warnings"].as_array().unwrap().iter();
    let told = warnings.find(|it| it["category"] == "defaults").unwrap();
    assert_eq!(told["set"].get("context_size"), None, "{told}");
    fs::copy(models.join("tiny-llama-Q4_0.gguf"), snapshot.join("tiny-Q4_0.gguf")).unwrap();
    assert_eq!(story.memory(&gguf_online).await.0, Value::Null, "which one, only the engine knows");
    let named = with(gguf_online, &json!({ "repo_id": "org/tiny-GGUF:Q8_0" }));
    assert_eq!(story.memory(&named).await.0, estimate);
}

#[tokio::test]
async fn gpus_are_shown_and_can_be_recorded() {
    let story = Story::with(Some(&[(81_559, 1234)])).await;
    let shown = story.owner.get("/admin/system/gpus").await.expect(200);
    let wanted = json!([{
        "index": 0, "name": "NVIDIA Test", "mem_total_mb": 81_559, "mem_used_mb": 1234,
        "compute_capability": "8.9", "architecture": "Ada", "flash_attention_supported": true,
        "vendor": "nvidia", "util_pct": null, "temperature_c": null, "power_w": null, "processes": [],
    }]);
    assert_eq!(shown, wanted);
    // What is shown is what the setting takes, also where little is known.
    let file = story.gateway.data_dir().join("gpus.json");
    let old = json!({
        "index": 3, "name": "Old", "mem_total_mb": null, "mem_used_mb": null, "compute_capability": "7.5",
        "architecture": "Turing", "flash_attention_supported": false, "vendor": "nvidia",
        "util_pct": null, "temperature_c": null, "power_w": null,
        "processes": [{ "pid": 7, "mem_mb": 512, "model_id": null, "served_name": null }],
    });
    let amd = json!({
        "index": 4, "name": "AMD", "mem_total_mb": 16_000, "mem_used_mb": 1, "compute_capability": null,
        "architecture": null, "flash_attention_supported": false, "vendor": "amd", "util_pct": null,
        "temperature_c": null, "power_w": null, "processes": [],
    });
    let all = json!([shown[0], old, amd]);
    fs::write(&file, all.to_string()).unwrap();
    let mut gateway = story.gateway;
    gateway.set_env("GPU_INVENTORY_FILE", file.to_str().unwrap());
    gateway.kill_and_restart().await;
    let owner = gateway.owner().await;
    assert_eq!(owner.get("/admin/system/gpus").await.expect(200), all);
    // A GPU of unknown memory makes the estimate unknown; an AMD GPU is not given to containers.
    let preview = owner.post("/admin/models/dry-run", &gguf("tiny-llama-F16.gguf")).await.expect(200);
    assert_eq!(preview["vram_estimate"], Value::Null);
    let first = with(gguf("tiny-llama-F16.gguf"), &json!({ "selected_gpus": [0, 4] }));
    let preview = owner.post("/admin/models/dry-run", &first).await.expect(200);
    assert_eq!(preview["vram_estimate"]["gpu_indexes"], json!([0]));

    let story = Story::with(None).await;
    let shown = story.owner.get("/admin/system/gpus").await.expect(200);
    let none = !Path::new("/dev/nvidiactl").exists() && !Path::new("/sys/class/drm/card0").exists();
    assert!(shown.is_array() && (!none || shown == json!([])), "{shown}");
}
