//! Restores the committed fixtures to complete files.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

fn source(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kind)
}

pub(crate) fn json(path: &str) -> serde_json::Value {
    serde_json::from_slice(&fs::read(source(path)).unwrap()).unwrap()
}

/// Returns the first bytes of a GGUF fixture: its header.
pub(crate) fn gguf_head(name: &str) -> Vec<u8> {
    fs::read(source("gguf").join(format!("{name}.head"))).unwrap()
}

fn sizes(kind: &str) -> BTreeMap<String, u64> {
    serde_json::from_value(json(&format!("{kind}/sizes.json"))).unwrap()
}

/// Returns the size of the whole GGUF fixture.
pub(crate) fn gguf_size(name: &str) -> u64 {
    *sizes("gguf").get(name).unwrap()
}

/// Writes a sparse file: `head`, then zeros.
pub(crate) fn write_sparse(path: &Path, head: &[u8], size: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(head).unwrap();
    file.set_len(size).unwrap();
}

/// Makes a base directory with `gguf/` and `hf/` as in the shared fixtures.
pub(crate) fn all() -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, size) in sizes("gguf") {
        write_sparse(&dir.path().join("gguf").join(&name), &gguf_head(&name), size);
    }
    copy(&source("hf"), &dir.path().join("hf"));
    for (rel, size) in sizes("hf") {
        let path = dir.path().join("hf").join(rel);
        let mut head = path.clone().into_os_string();
        head.push(".head");
        write_sparse(&path, &fs::read(&head).unwrap(), size);
        fs::remove_file(head).unwrap();
    }
    dir
}

/// Makes a base directory with these GGUF fixtures and nothing else.
pub(crate) fn some(names: &[&str]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for name in names {
        write_sparse(&dir.path().join(name), &gguf_head(name), gguf_size(name));
    }
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "sizes.json" {
            fs::write(&target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}
