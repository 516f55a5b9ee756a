//! Finds models in a hub cache: the files that an engine fetched for a repository.
//!
//! Layout: `huggingface_hub` `docs/source/en/guides/manage-cache.md` (`models--<org>--<name>`, with `refs` and
//! `snapshots`). With `HF_HOME` (vLLM) it is below `hub`; with `LLAMA_CACHE` (llama.cpp builds of 2026) it is in the
//! directory itself.

use std::{io::Read, path::Path};

use gantry_domain::memory::Unknown;

use super::{MAX_ENTRIES, Status, inspect};
use crate::base::{Base, EntryKind, InspectError};

/// Longest `refs` file that is read.
const MAX_REF: u64 = 256;
/// Most revisions that are examined.
const MAX_REVISIONS: usize = 1000;

/// Returns the folder, relative to `cache`, of the revision of `repo` (as in `org/name`) that an engine would use
/// without a network.
///
/// # Errors
/// The repository is not there, or it can't be determined which revision the engine would use.
pub fn cached_snapshot(cache: &Path, repo: &str) -> Result<String, Unknown> {
    let absent = || Unknown::because(format!("the files of `{repo}` are not in the hub cache yet"));
    let base = Base::open(cache).map_err(|_| absent())?;
    let folder = format!("models--{}", repo.replace('/', "--"));
    let homes = [format!("hub/{folder}"), folder];
    let found = homes.iter().find(|it| base.resolve(&format!("{it}/snapshots")).is_ok_and(|it| it.is_dir()));
    let home = found.ok_or_else(absent)?;
    if let Some(commit) = main(&base, home) {
        let snapshot = format!("{home}/snapshots/{commit}");
        return base.resolve(&snapshot).map(|_| snapshot).map_err(|_| absent());
    }
    let snapshots = format!("{home}/snapshots");
    let listing = base
        .resolve(&snapshots)
        .and_then(|path| {
            let unreadable = |source| InspectError::Io { path: snapshots.clone(), source };
            base.list(&path, MAX_REVISIONS).map_err(unreadable)
        })
        .map_err(|error| Unknown::because(error.to_string()))?;
    let mut revisions = listing.entries.iter().filter(|it| matches!(it.kind, EntryKind::Folder));
    match (revisions.next(), revisions.next()) {
        (Some(only), None) => Ok(format!("{snapshots}/{}", only.name)),
        (None, _) => Err(absent()),
        _ => Err(Unknown::because(format!("the hub cache has several revisions of `{repo}`"))),
    }
}

/// Whether any file of `repo` (as in `org/name`, or with `:<quantisation>`) was ever fetched into `cache`.
pub fn is_cached(cache: &Path, repo: &str) -> bool {
    let repo = repo.split_once(':').map_or(repo, |it| it.0);
    let Ok(base) = Base::open(cache) else { return false };
    let folder = format!("models--{}", repo.replace('/', "--"));
    let has = |home: &str| {
        let path = base.resolve(&format!("{home}/snapshots")).ok()?;
        let listing = base.list(&path, MAX_REVISIONS).ok()?;
        listing.entries.iter().any(|it| matches!(it.kind, EntryKind::Folder)).then_some(())
    };
    if has(&format!("hub/{folder}")).or_else(|| has(&folder)).is_some() {
        return true;
    }
    // llama.cpp before 2026 put `<org>_<name>_<file>` and `manifest=<org>=<name>=<tag>.json` into one folder.
    let flat = [format!("{}_", repo.replace('/', "_")), format!("manifest={}=", repo.replace('/', "="))];
    let names = base.resolve("").and_then(|it| base.list(&it, MAX_ENTRIES).map_err(InspectError::Base));
    names.is_ok_and(|it| it.entries.iter().any(|it| flat.iter().any(|start| it.name.starts_with(start))))
}

/// Returns the revision that the branch `main` points to.
fn main(base: &Base, home: &str) -> Option<String> {
    let opened = base.open_file(&base.resolve(&format!("{home}/refs/main")).ok()?).ok()?;
    let mut text = String::new();
    opened.file.take(MAX_REF).read_to_string(&mut text).ok()?;
    let commit = text.trim();
    commit.bytes().all(|it| it.is_ascii_alphanumeric()).then(|| commit.to_owned()).filter(|it| !it.is_empty())
}

/// Returns the GGUF file, relative to `cache`, that llama-server would load for `repo`, which may end in
/// `:<quantisation>`.
///
/// # Errors
/// The file is not there, or it can't be determined which one the engine would load.
pub fn cached_gguf(cache: &Path, repo: &str) -> Result<String, Unknown> {
    let (repo, tag) = match repo.split_once(':') {
        Some((repo, tag)) => (repo, Some(tag)),
        None => (repo, None),
    };
    let snapshot = cached_snapshot(cache, repo)?;
    let found = inspect(cache, &snapshot).map_err(|error| Unknown::because(error.to_string()))?;
    let mut usable = found
        .gguf_groups
        .iter()
        .filter(|it| it.status == Status::Ready)
        .filter(|it| tag.is_none_or(|tag| it.quant_type.eq_ignore_ascii_case(tag)));
    match (usable.next(), usable.next()) {
        (Some(only), None) => Ok(only.path.clone()),
        (None, _) => Err(Unknown::because(format!("the files of `{repo}` are not in the hub cache yet"))),
        _ => {
            Err(Unknown::because(format!("the hub cache has several models of `{repo}`; name one with `:`")))
        }
    }
}
