//! Runs every input that fuzzing found worth keeping through the checks that fuzzing makes.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

use std::{fs, path::Path};

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 5, "the corpus of {target} is gone");
}

#[test]
fn the_gguf_corpus_passes() {
    replay("gguf", targets::gguf);
}

#[test]
fn the_safetensors_corpus_passes() {
    replay("safetensors", targets::safetensors);
}

#[test]
fn the_config_corpus_passes() {
    replay("config", targets::config);
}
