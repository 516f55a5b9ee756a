//! Folders of GGUF files and checkpoints: the answer of `inspect-folder`.

use std::fs;

use gantry_inspect::{
    TaskHint,
    folder::{self, GgufGroup, Inspection, Status},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    build::Gguf,
    fixtures::{self, write_sparse},
};

fn inspect(dir: &TempDir, rel: &str) -> Inspection {
    folder::inspect(dir.path(), rel).unwrap()
}

fn group<'a>(inspection: &'a Inspection, file: &str) -> &'a GgufGroup {
    inspection.gguf_groups.iter().find(|it| it.files.iter().any(|it| it == file)).unwrap()
}

fn add(dir: &TempDir, name: &str, built: Gguf) {
    let (head, size) = built.finish();
    write_sparse(&dir.path().join(name), &head, size);
}

#[test]
fn the_answer_has_the_specified_shape() {
    let dir = fixtures::some(&["tiny-llama-Q4_0.gguf"]);
    let answer = serde_json::to_value(inspect(&dir, "")).unwrap();
    assert_eq!(
        answer,
        json!({
            "has_gguf": true,
            "has_safetensors": false,
            "gguf_groups": [{
                "quant_type": "Q4_0",
                "files": ["tiny-llama-Q4_0.gguf"],
                "total_size_mb": 0.13,
                "is_multipart": false,
                "status": "ready",
                "metadata": {
                    "architecture": "llama",
                    "context_length": 2048,
                    "embedding_length": 64,
                    "block_count": 2,
                    "attention_head_count": 4,
                    "attention_head_count_kv": 2,
                    "vocab_size": 960,
                    "file_type": "Q4_0",
                    "name": "tiny-llama",
                    "gguf_version": 3,
                    "sliding_window": null,
                    "expert_count": null,
                    "expert_used_count": null,
                    "pooling_type": null,
                },
                "path": "tiny-llama-Q4_0.gguf",
                "size_bytes": 134_432,
                "expected_parts": 1,
                "tensor_bytes": 111_872,
                "parameter_count": 196_928,
                "task": "generate",
                "chat_template": true,
                "tokenizer": true,
                "errors": [],
                "warnings": [],
            }],
            "safetensor_info": null,
            "engine_recommendation": {
                "recommended_engine": "llamacpp",
                "recommended_format": "gguf",
                "reason": "A text-generation model in GGUF, Q4_0: llama.cpp serves it on GPU, CPU or both.",
                "has_multipart_gguf": false,
                "has_safetensors": false,
                "has_gguf": true,
                "path": "tiny-llama-Q4_0.gguf",
                "task": "generate",
                "settings": {
                    "engine_type": "llamacpp", "local_path": "tiny-llama-Q4_0.gguf", "task": "generate",
                },
            },
            "gguf_validation": {"total_files": 1, "valid_files": 1, "invalid_files": 0, "errors": []},
            "path": ".",
            "mmproj_files": [],
            "adapter_files": [],
            "warnings": [],
        })
    );
}

#[test]
fn all_gguf_fixtures_in_one_folder_are_told_apart() {
    let dir = fixtures::all();
    let found = inspect(&dir, "gguf");
    let status = |file: &str| group(&found, file).status;
    for ready in
        ["tiny-llama-F16.gguf", "tiny-moe-F16.gguf", "tiny-bert-rerank-F16.gguf", "bad-unknown-arch.gguf"]
    {
        assert_eq!(status(ready), Status::Ready, "{ready}");
    }
    for invalid in [
        "bad-magic.gguf",
        "bad-truncated.gguf",
        "bad-empty.gguf",
        "bad-no-tokenizer.gguf",
        "bad-missing-tensor.gguf",
    ] {
        assert_eq!(status(invalid), Status::Invalid, "{invalid}");
    }
    let split = group(&found, "tiny-split-F16-00001-of-00002.gguf");
    assert_eq!((split.status, split.is_multipart, split.files.len()), (Status::Ready, true, 2));
    assert_eq!((split.tensor_bytes, split.parameter_count), (Some(394_496), Some(196_928)));
    assert_eq!(group(&found, "tiny-bert-rerank-F16.gguf").task, TaskHint::Rerank);

    let validation = &found.gguf_validation;
    assert_eq!((validation.total_files, validation.valid_files, validation.invalid_files), (19, 11, 8));
    let all = validation.errors.join("\n");
    for expected in [
        "bad-bigendian.gguf: this is a big-endian GGUF file",
        "bad-empty.gguf: the file is empty",
        "bad-magic.gguf: this is a GGML file",
        "bad-missing-tensor.gguf: tensors that the other layers have are missing: blk.1.ffn_down.weight",
        "bad-no-tokenizer.gguf: it has no tokenizer",
        "bad-truncated-header.gguf: the file ends inside its header",
        "bad-truncated.gguf: the file ends before its tensors do: 417056 bytes",
        "bad-version-99.gguf: GGUF version 99",
    ] {
        assert!(all.contains(expected), "{expected} not in\n{all}");
    }
    let warnings = found.warnings.join("\n");
    for expected in [
        "bad-unknown-arch.gguf: llama.cpp b11434 does not know the architecture `zzama`",
        "tiny-llama-notemplate-F16.gguf: no chat template",
    ] {
        assert!(warnings.contains(expected), "{expected} not in\n{warnings}");
    }
    // Usable ones first, larger ones first.
    assert_eq!(found.gguf_groups[0].files, ["tiny-moe-F16.gguf"]);
    assert!(!all.contains("/tmp") && !warnings.contains("/tmp"));
}

#[test]
fn a_missing_part_is_named() {
    let dir = fixtures::some(&["tiny-split-F16-00001-of-00002.gguf"]);
    let found = inspect(&dir, "");
    assert_eq!(found.gguf_groups[0].status, Status::Incomplete);
    assert_eq!(found.gguf_groups[0].expected_parts, 2);
    assert_eq!(found.gguf_groups[0].quant_type, "F16");
    let error = "tiny-split-F16-00002-of-00002.gguf: missing; the download is incomplete";
    assert_eq!(found.gguf_validation.errors, [error]);
    assert_eq!(found.engine_recommendation.recommended_engine, "none");
    assert!(found.engine_recommendation.reason.contains("files are missing"));

    let dir = fixtures::some(&["tiny-split-F16-00002-of-00002.gguf"]);
    let found = inspect(&dir, "");
    assert_eq!(found.gguf_groups[0].status, Status::Incomplete);
    assert!(found.gguf_groups[0].metadata.is_none());
}

#[test]
fn a_number_of_parts_beyond_all_reason_is_bounded() {
    let dir = TempDir::new().unwrap();
    add(&dir, "x-00001-of-99999.gguf", Gguf::llama(1).tensor("token_embd.weight", &[32], 0, 128));
    let error = &inspect(&dir, "").gguf_validation.errors[0];
    assert!(error.len() < 300 && error.contains("and 99993 more: missing"), "{error}");
}

#[test]
fn parts_that_do_not_belong_together_are_invalid() {
    let part = |no: u16, count: u16| {
        Gguf::llama(1).u16("split.no", no).u16("split.count", count).u32("split.tensors.count", 2)
    };
    let dir = TempDir::new().unwrap();
    // The file is renamed: its header says that it is part 1 of 3.
    add(&dir, "a-00001-of-00002.gguf", part(0, 2).tensor("token_embd.weight", &[32], 0, 128));
    add(&dir, "a-00002-of-00002.gguf", part(0, 3).tensor("output.weight", &[32], 0, 128));
    // The same part is there twice, in different case.
    add(&dir, "b-00001-of-00001.gguf", Gguf::llama(1).tensor("token_embd.weight", &[32], 0, 128));
    // The name of this part does not show that it is one.
    add(&dir, "c.gguf", part(1, 2).tensor("x.weight", &[32], 0, 128));
    // These parts hold more tensors than promised.
    add(&dir, "d-00001-of-00002.gguf", part(0, 2).tensor("a", &[32], 0, 128).tensor("b", &[32], 0, 128));
    add(&dir, "d-00002-of-00002.gguf", part(1, 2).tensor("c", &[32], 0, 128));
    let found = inspect(&dir, "");
    let errors = |file: &str| group(&found, file).errors.join("; ");
    assert!(errors("a-00001-of-00002.gguf").contains("inside it says part 1 of 3"));
    assert_eq!(group(&found, "b-00001-of-00001.gguf").status, Status::Ready);
    assert!(errors("c.gguf").contains("it is part 2 of 2 of a split model but not named so"));
    assert!(errors("d-00001-of-00002.gguf").contains("its parts hold 3 tensors, the first one promises 2"));
}

#[test]
fn encoders_adapters_and_matrices_are_no_models() {
    let dir = TempDir::new().unwrap();
    let side = |kind: &str, arch: &str| {
        Gguf::new().str("general.type", kind).str("general.architecture", arch).tensor("a", &[32], 0, 128)
    };
    add(&dir, "mmproj-F16.gguf", side("mmproj", "clip"));
    add(&dir, "lora.gguf", side("adapter", "llama").str("general.base_model.0.name", "Llama 3"));
    add(&dir, "imatrix.gguf", side("imatrix", "llama"));
    let found = inspect(&dir, "");
    assert!(found.gguf_groups.is_empty());
    assert_eq!(found.mmproj_files[0].path, "mmproj-F16.gguf");
    assert_eq!(found.adapter_files[0].base_model.as_deref(), Some("Llama 3"));
    assert!(found.warnings[0].starts_with("imatrix.gguf: this is an importance matrix"));
    assert!(found.engine_recommendation.reason.starts_with("Only adapters or encoders"));
    assert_eq!(found.gguf_validation.valid_files, 3);
}

#[test]
fn one_file_can_be_selected_and_brings_its_parts() {
    let dir = fixtures::all();
    let found = inspect(&dir, "gguf/tiny-split-F16-00002-of-00002.gguf");
    assert_eq!(found.gguf_groups.len(), 1);
    assert_eq!(found.gguf_groups[0].status, Status::Ready);
    assert_eq!(found.gguf_groups[0].path, "gguf/tiny-split-F16-00001-of-00002.gguf");
    assert_eq!(found.path, "gguf/tiny-split-F16-00002-of-00002.gguf");
    assert_eq!(inspect(&dir, "gguf/tiny-draft-F16.gguf").gguf_validation.total_files, 1);
}

#[test]
fn safetensors_beat_gguf_unless_they_are_damaged() {
    let dir = fixtures::all();
    let chat = dir.path().join("hf/tiny-llama-chat");
    fs::rename(dir.path().join("gguf/tiny-llama-Q4_0.gguf"), chat.join("q.gguf")).unwrap();
    let found = inspect(&dir, "hf/tiny-llama-chat");
    assert_eq!(found.engine_recommendation.recommended_engine, "vllm");
    assert_eq!(found.engine_recommendation.path.as_deref(), Some("hf/tiny-llama-chat"));
    assert!(found.engine_recommendation.has_gguf && found.has_safetensors);
    fs::write(chat.join("model.safetensors"), b"").unwrap();
    let found = inspect(&dir, "hf/tiny-llama-chat");
    assert_eq!(found.engine_recommendation.recommended_engine, "llamacpp");
    assert_eq!(found.safetensor_info.unwrap().status, Status::Invalid);
}

#[test]
fn what_can_be_loaded_comes_before_what_cannot() {
    let dir = fixtures::all();
    // Three damaged checkpoints come first by name.
    let found = inspect(&dir, "hf");
    assert_eq!(found.safetensor_info.unwrap().path, "hf/tiny-bert-embed");
    assert_eq!(found.engine_recommendation.path.as_deref(), Some("hf/tiny-bert-embed"));
    assert!(
        found.warnings[0].contains("tiny-bert-embed, which can be loaded, is shown"),
        "{:?}",
        found.warnings
    );

    // vLLM does not start without a tokenizer, and may not know another architecture.
    let silent = inspect(&dir, "hf/bad-no-tokenizer");
    let info = silent.safetensor_info.unwrap();
    assert_eq!(info.status, Status::Invalid);
    assert!(
        info.errors[0].contains("no tokenizer") && info.errors[0].contains("set `tokenizer`"),
        "{:?}",
        info.errors
    );
    assert_eq!(silent.engine_recommendation.recommended_engine, "none");
    let foreign = inspect(&dir, "hf/bad-unsupported-arch").engine_recommendation;
    assert_eq!(foreign.recommended_engine, "vllm");
    assert!(
        foreign.reason.contains("`FooBarForCausalLM`, which vLLM 0.32 does not know"),
        "{}",
        foreign.reason
    );
    // A GGUF file beside it is the safer choice.
    fs::rename(
        dir.path().join("gguf/tiny-llama-Q4_0.gguf"),
        dir.path().join("hf/bad-unsupported-arch/q.gguf"),
    )
    .unwrap();
    let beside = inspect(&dir, "hf/bad-unsupported-arch").engine_recommendation;
    assert_eq!(beside.path.as_deref(), Some("hf/bad-unsupported-arch/q.gguf"));
    let zzama = inspect(&dir, "gguf/bad-unknown-arch.gguf").engine_recommendation;
    assert!(zzama.reason.contains("does not know its architecture: only a newer one"), "{}", zzama.reason);
}

#[test]
fn a_reranker_gets_the_settings_that_work() {
    let dir = fixtures::all();
    let found = inspect(&dir, "gguf/tiny-bert-rerank-F16.gguf").engine_recommendation;
    assert_eq!(
        serde_json::to_value(found.settings).unwrap(),
        json!({
            "engine_type": "llamacpp", "local_path": "gguf/tiny-bert-rerank-F16.gguf", "task": "embed",
            "pooling": "rank",
        })
    );
}

#[test]
fn a_folder_of_too_many_files_leaves_some_to_those_beside_it() {
    let dir = fixtures::some(&["tiny-llama-Q4_0.gguf"]);
    let root = dir.path();
    for folder in ["many", "parts", "z-good"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    fs::rename(root.join("tiny-llama-Q4_0.gguf"), root.join("z-good/tiny-Q4_0.gguf")).unwrap();
    for n in 1..=2100 {
        fs::File::create(root.join(format!("many/{n:04}.gguf"))).unwrap();
        fs::File::create(root.join(format!("parts/x-{n:05}-of-02100.gguf"))).unwrap();
    }
    let found = inspect(&dir, "");
    assert_eq!(found.engine_recommendation.path.as_deref(), Some("z-good/tiny-Q4_0.gguf"));
    assert_eq!(found.gguf_validation.total_files, 2000);
    let said =
        "parts/x-00001-of-02100.gguf and 2200 more GGUF files were not read: at most 2000 are read at once";
    assert!(found.warnings.iter().any(|it| it.starts_with(said)), "{:?}", found.warnings);

    let alone = inspect(&dir, "parts");
    assert!(alone.has_gguf && alone.gguf_groups.is_empty());
    let reason = &alone.engine_recommendation.reason;
    assert!(reason.contains("2100 GGUF files were not; see the warnings"), "{reason}");
    assert!(alone.warnings[0].contains("at most 2000 are read at once"), "{:?}", alone.warnings);
}

#[test]
fn what_is_there_in_place_of_a_model_is_named() {
    let reason = |names: &[&str]| {
        let dir = TempDir::new().unwrap();
        for name in names {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let found = inspect(&dir, "").engine_recommendation;
        assert_eq!(found.recommended_engine, "none");
        found.reason
    };
    assert_eq!(
        reason(&["x.gguf.part2of2", "x.gguf.part1of2"]),
        "x.gguf: it is in 2 parts; join them with `cat x.gguf.part1of2 x.gguf.part2of2 > x.gguf`. Then inspect again."
    );
    let spaced = reason(&["a b.gguf.part1of2", "a b.gguf.part2of2"]);
    assert!(spaced.contains("`cat 'a b.gguf.part1of2' 'a b.gguf.part2of2' > 'a b.gguf'`"), "{spaced}");
    assert!(reason(&["x.gguf.part1of3", "x.gguf.part3of3"]).contains("x.gguf: part 2 of 3 is missing"));
    assert!(reason(&["x.gguf.part1of9999999999"]).contains("part 2 of 9999999999 is missing"));
    for name in ["x.gguf.part", "x.gguf.incomplete", "x.gguf.aria2", "sub/x.gguf.crdownload"] {
        let said = reason(&[name]);
        assert!(said.starts_with(&format!("There is no whole model here. {name}: unfinished")), "{said}");
    }
    let pipeline = reason(&["model_index.json", "unet/config.json", "unet/diffusion.safetensors"]);
    assert!(pipeline.starts_with("A pipeline of diffusers"), "{pipeline}");

    let dir = TempDir::new().unwrap();
    std::os::unix::fs::symlink("../../blobs/gone", dir.path().join("model.safetensors")).unwrap();
    let said = inspect(&dir, "").engine_recommendation.reason;
    assert!(said.contains("model.safetensors: links to what is not there"), "{said}");
}

#[test]
fn an_empty_folder_says_so() {
    let dir = TempDir::new().unwrap();
    let found = inspect(&dir, "");
    assert!(!found.has_gguf && !found.has_safetensors && found.safetensor_info.is_none());
    assert_eq!(found.engine_recommendation.recommended_engine, "none");
    assert_eq!(found.engine_recommendation.reason, "There are no model files (.gguf or .safetensors) here.");
}

#[test]
fn a_walk_stops_at_its_bounds_and_says_so() {
    let dir = TempDir::new().unwrap();
    let deep = dir.path().join("a/b/c/d/e");
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("x.gguf"), b"").unwrap();
    let found = inspect(&dir, "");
    assert!(!found.has_gguf && found.warnings[0].starts_with("only the first 10000 entries, 4 folders deep"));
    let wide = dir.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for n in 0..10_050 {
        fs::File::create(wide.join(format!("{n}.txt"))).unwrap();
    }
    assert!(inspect(&dir, "wide").warnings[0].starts_with("only the first 10000 entries"));
}

#[test]
fn folders_are_listed_with_what_they_hold() {
    let dir = fixtures::all();
    let root = dir.path();
    fs::create_dir_all(root.join("org/model-GGUF")).unwrap();
    write_sparse(&root.join("org/model-GGUF/x.gguf"), b"GGUF", 1000);
    write_sparse(&root.join("loose.gguf"), b"GGUF", 500);
    fs::create_dir_all(root.join(".hidden")).unwrap();
    let folders = folder::local_folders(root).unwrap();
    let names: Vec<&str> = folders.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names[..2], [".", "gguf"]);
    assert_eq!(names[names.len() - 2..], ["org", "org/model-GGUF"]);
    assert!(names.contains(&"hf/tiny-llama-chat") && !names.contains(&".hidden"));
    let org = folders.iter().find(|it| it.name == "org/model-GGUF").unwrap();
    assert!(org.has_gguf && !org.has_safetensors && org.size_bytes == 1000);
    // `inspect` accepts every one of these paths.
    for folder in &folders {
        inspect(&dir, &folder.path);
    }
    let one = serde_json::to_value(&folders[0]).unwrap();
    assert_eq!(
        one,
        json!({"name": ".", "path": ".", "has_gguf": true, "has_safetensors": false, "size_bytes": 500})
    );
}
