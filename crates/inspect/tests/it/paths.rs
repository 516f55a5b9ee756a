//! Tests that no path leads out of the base directory.

use std::{fs, os::unix::fs::symlink};

use gantry_inspect::{
    folder::{self, InspectError},
    hf,
};
use tempfile::TempDir;

use crate::fixtures::{gguf_head, gguf_size, write_sparse};

/// Makes a base directory beside a folder that must not be seen.
fn world() -> TempDir {
    let dir = TempDir::new().unwrap();
    let name = "tiny-draft-F16.gguf";
    for folder in ["base/model", "secret"] {
        write_sparse(&dir.path().join(folder).join(name), &gguf_head(name), gguf_size(name));
    }
    dir
}

fn refusal(dir: &TempDir, rel: &str) -> InspectError {
    folder::inspect(&dir.path().join("base"), rel).unwrap_err()
}

#[test]
fn traversal_is_not_allowed_wherever_it_leads() {
    let dir = world();
    let absolute = dir.path().join("base/model").to_str().unwrap().to_owned();
    for rel in [
        "..",
        "../secret",
        "model/..",
        "model/../model",
        "./../secret",
        "/etc",
        "/",
        "//etc",
        absolute.as_str(),
        "model/../../secret/tiny-draft-F16.gguf",
        "mo\0del",
        &"a/".repeat(3000),
    ] {
        let error = refusal(&dir, rel);
        assert!(matches!(error, InspectError::NotAllowed { .. }), "{rel}: {error}");
        assert!(error.to_string().len() < 300);
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let dir = world();
    for rel in ["nothing", "model/nothing", "model/tiny-draft-F16.gguf/x", "%2e%2e/secret", "..\\secret"] {
        assert!(matches!(refusal(&dir, rel), InspectError::NotFound { .. }), "{rel}");
    }
    fs::write(dir.path().join("base/notes.txt"), "x").unwrap();
    assert!(matches!(refusal(&dir, "notes.txt"), InspectError::NotAFolder { .. }));
    assert!(!refusal(&dir, "nothing").to_string().contains("/tmp"));
}

#[test]
fn links_that_leave_are_refused_as_a_selector_and_skipped_in_a_folder() {
    let dir = world();
    let base = dir.path().join("base");
    symlink(dir.path().join("secret"), base.join("out")).unwrap();
    symlink("../../secret/tiny-draft-F16.gguf", base.join("model/out.gguf")).unwrap();
    symlink("/etc", base.join("model/etc")).unwrap();
    for rel in ["out", "out/tiny-draft-F16.gguf", "model/out.gguf", "model/etc"] {
        let error = refusal(&dir, rel);
        assert!(matches!(error, InspectError::NotAllowed { .. }), "{rel}");
        assert!(
            error.to_string().starts_with(&format!("`{rel}` leads out of the models directory by a link"))
        );
    }
    let found = folder::inspect(&base, "model").unwrap();
    assert_eq!(found.gguf_validation.total_files, 1);
    assert_eq!(found.warnings, ["etc, out.gguf: links out of the models directory, not followed"]);
    let names: Vec<_> = folder::local_folders(&base).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["model"]);
}

#[test]
fn a_checkpoint_is_not_read_through_links_that_leave() {
    let dir = world();
    let base = dir.path().join("base");
    fs::write(dir.path().join("secret/config.json"), r#"{"model_type":"secret"}"#).unwrap();
    fs::write(dir.path().join("secret/tokenizer.json"), "{}").unwrap();
    for name in ["config.json", "tokenizer.json"] {
        symlink(dir.path().join("secret").join(name), base.join("model").join(name)).unwrap();
    }
    let base = folder::Base::open(&base).unwrap();
    let found = hf::read_folder(&base, "model").unwrap();
    assert!(found.config.is_none() && !found.has_tokenizer);
}

#[test]
fn links_within_the_base_are_followed_as_in_a_hub_cache() {
    let dir = world();
    let base = dir.path().join("base");
    let snapshot = base.join("models--a--b/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(base.join("models--a--b/blobs")).unwrap();
    fs::rename(base.join("model/tiny-draft-F16.gguf"), base.join("models--a--b/blobs/0123")).unwrap();
    symlink("../../blobs/0123", snapshot.join("tiny-draft-F16.gguf")).unwrap();
    let found = folder::inspect(&base, "models--a--b").unwrap();
    // The path uses the link's meaningful name.
    assert_eq!(found.gguf_groups[0].path, "models--a--b/snapshots/abc/tiny-draft-F16.gguf");
    let found = folder::inspect(&base, &found.gguf_groups[0].path).unwrap();
    assert_eq!(found.gguf_groups[0].path, "models--a--b/snapshots/abc/tiny-draft-F16.gguf");
    // Two names of one file count once.
    let listed = folder::local_folders(&base).unwrap();
    let cache = listed.iter().find(|it| it.name == "models--a--b").unwrap();
    assert_eq!(cache.size_bytes, gguf_size("tiny-draft-F16.gguf"));
}

#[test]
fn loops_pipes_and_broken_links_do_no_harm() {
    let dir = world();
    let base = dir.path().join("base");
    symlink(".", base.join("model/self")).unwrap();
    symlink("..", base.join("model/up")).unwrap();
    symlink("b", base.join("model/a")).unwrap();
    symlink("a", base.join("model/b")).unwrap();
    symlink("nowhere", base.join("model/broken.gguf")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(base.join("model/pipe.gguf")).status().unwrap();
    assert!(status.success());
    let found = folder::inspect(&base, "model").unwrap();
    assert_eq!(found.gguf_validation.total_files, 1);
    assert!(matches!(refusal(&dir, "model/a"), InspectError::NotAllowed { .. }));
    assert!(matches!(refusal(&dir, "model/broken.gguf"), InspectError::BrokenLink { .. }));
    assert!(
        found.warnings.contains(&"broken.gguf: links to what is not there".to_owned()),
        "{:?}",
        found.warnings
    );
    assert!(matches!(refusal(&dir, "model/pipe.gguf"), InspectError::NotAFolder { .. }));
}
