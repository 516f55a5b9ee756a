//! Runs every input that fuzzing of image archives found worth keeping through the checks that fuzzing makes.

use std::{fs, path::Path};

#[path = "../../../../fuzz/images.rs"]
mod target;

#[test]
fn the_images_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/images");
    let mut inputs = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        target::images(&fs::read(entry.unwrap().path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 5, "the corpus is gone");
}
