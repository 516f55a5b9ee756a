//! Tests that unchanged headers are not read again, and that changed ones are.

use std::{
    fs::{self, File, FileTimes},
    io::Write,
    path::Path,
    sync::Arc,
    time::Instant,
};

use gantry_inspect::{Cache, chat, folder};
use tempfile::TempDir;

use crate::build::{Gguf, text};

/// Makes a model of `layers` with a vocabulary of `tokens` texts, as the headers of real ones have.
fn model(layers: u32, tokens: u32) -> (Vec<u8>, u64) {
    let mut vocabulary = 8_u32.to_le_bytes().to_vec();
    vocabulary.extend(u64::from(tokens).to_le_bytes());
    vocabulary.extend((0..tokens).flat_map(|n| text(&format!("token-{n:06}"))));
    Gguf::llama(layers)
        .raw("tokenizer.ggml.merges", 9, &vocabulary)
        .tensor("token_embd.weight", &[64, 312_500_000], 1, 40_000_000_000)
        .finish()
}

fn write(path: &Path, (head, size): &(Vec<u8>, u64)) {
    let mut file = File::create(path).unwrap();
    file.write_all(head).unwrap();
    file.set_len(*size).unwrap();
}

fn layers(dir: &TempDir, cache: &Arc<Cache>) -> Vec<Option<u64>> {
    let found = folder::inspect_cached(dir.path(), "", cache).unwrap();
    found.gguf_groups.iter().map(|it| it.metadata.as_ref().and_then(|it| it.block_count)).collect()
}

#[test]
fn a_file_that_changed_is_read_again_whatever_its_times_say() {
    let (dir, cache) = (TempDir::new().unwrap(), Arc::default());
    let path = dir.path().join("m.gguf");
    write(&path, &model(3, 10));
    let before = fs::metadata(&path).unwrap();
    assert_eq!((layers(&dir, &cache), layers(&dir, &cache)), (vec![Some(3)], vec![Some(3)]));
    // The file is overwritten in place with the same length, and its old time is restored.
    write(&path, &model(5, 10));
    let file = File::options().write(true).open(&path).unwrap();
    file.set_times(FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), before.len());
    assert_eq!(layers(&dir, &cache), [Some(5)]);
    assert_eq!(chat::facts(dir.path(), "m.gguf", &cache).unwrap().context_length, Some(4096));
    // The name now refers to another file, then to a damaged one, then to none.
    write(&dir.path().join("n"), &model(7, 10));
    fs::rename(dir.path().join("n"), &path).unwrap();
    assert_eq!(layers(&dir, &cache), [Some(7)]);
    fs::write(&path, b"GGUF").unwrap();
    assert_eq!(layers(&dir, &cache), [None]);
    fs::remove_file(&path).unwrap();
    assert_eq!(layers(&dir, &cache), []);
}

/// Prints what it took (`--no-capture`); the numbers are no part of the verdict.
#[test]
fn many_files_are_the_same_the_second_time() {
    let (dir, cache) = (TempDir::new().unwrap(), Arc::default());
    let built = model(32, 30_000);
    // As many as a slow machine reads within the time that one look takes at most.
    for n in 0..20 {
        write(&dir.path().join(format!("model-{n:03}-F16.gguf")), &built);
    }
    let timed = |what: &str| {
        let start = Instant::now();
        let found = folder::inspect_cached(dir.path(), "", &cache).unwrap();
        println!("{what}: {:?}", start.elapsed());
        serde_json::to_value(found).unwrap()
    };
    let (cold, warm) = (timed("cold"), timed("warm"));
    assert!(cold == warm, "another answer the second time");
    assert_eq!(cold["gguf_validation"]["valid_files"], 20);
    // A second look does not find a file that can't be read any more, so it really did look again.
    fs::write(dir.path().join("model-000-F16.gguf"), b"").unwrap();
    assert_eq!(timed("one changed")["gguf_validation"]["valid_files"], 19);
}

#[test]
fn shards_are_remembered_with_what_they_add_up_to() {
    let (dir, cache) = (TempDir::new().unwrap(), Arc::default());
    let shard = |n: u32| {
        let json = format!(r#"{{"w{n}":{{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}}}"#);
        [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &[0; 8]].concat()
    };
    fs::write(dir.path().join("config.json"), r#"{"architectures":["LlamaForCausalLM"]}"#).unwrap();
    for n in 1..=3 {
        fs::write(dir.path().join(format!("model-{n:05}-of-00003.safetensors")), shard(n)).unwrap();
    }
    let parameters = || {
        let found = folder::inspect_cached(dir.path(), "", &cache).unwrap();
        found.safetensor_info.unwrap().parameter_count
    };
    assert_eq!((parameters(), parameters()), (Some(12), Some(12)));
    // These are the same files, read as packed ones.
    let packed =
        r#"{"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":"gptq","bits":4}}"#;
    fs::write(dir.path().join("config.json"), packed).unwrap();
    assert_eq!(parameters(), Some(12));
    fs::write(dir.path().join("model-00002-of-00003.safetensors"), b"").unwrap();
    assert_eq!(parameters(), None);
}
