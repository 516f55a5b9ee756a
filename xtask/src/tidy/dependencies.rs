//! Dependencies that nothing names. A crate that is in a manifest and in no source costs every build and every review.

use std::{fs, path::Path};

use anyhow::Context;
use serde_json::Value;

/// Dependencies that are there for another reason than their names: `(our crate, dependency, reason)`.
const UNNAMED: &[(&str, &str, &str)] = &[];

/// Returns the dependencies that no source of their crate names: ordinary ones in `src`, those for tests anywhere.
///
/// # Errors
/// A source can't be read.
pub(crate) fn problems(metadata: &Value) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().context("a manifest lies in a folder")?;
        let (all, code) = (read(folder)?, read(&folder.join("src"))?);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let original = dependency["name"].as_str().unwrap_or_default();
            let known = dependency["rename"].as_str().unwrap_or(original);
            let texts = if dependency["kind"].is_null() { &code } else { &all };
            let excused = UNNAMED.iter().any(|it| (it.0, it.1) == (name, original));
            let named = texts.iter().any(|it| names(it, &known.replace('-', "_")));
            if named == excused {
                let wrong = if named { "is named, but listed in UNNAMED" } else { "is named nowhere" };
                problems.push(format!("{name}: the dependency {original} {wrong}"));
            }
        }
    }
    Ok(problems)
}

fn read(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    super::collect(folder, &mut files)?;
    let read = |it: &std::path::PathBuf| fs::read_to_string(it).with_context(|| it.display().to_string());
    files.iter().map(read).collect()
}

/// Whether a path outside of comments begins with the crate's name.
fn names(text: &str, name: &str) -> bool {
    let inside = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    let begins =
        |line: &str, at: usize| !line[..at].ends_with(inside) && line[at + name.len()..].starts_with("::");
    let mut code = text.lines().filter(|it| !it.trim_start().starts_with("//"));
    code.any(|line| line.match_indices(name).any(|(at, _)| begins(line, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_a_path_that_begins_with_it() {
        for named in ["use http::Uri;", "    let a = http::Uri::new();", "#[derive(http::Uri)]"] {
            assert!(names(named, "http"), "{named}");
        }
        let unnamed = [
            "// http::Uri",
            "    /// [`http::Uri`]",
            "use super::http::Uri;",
            "use http_body::A;",
            "let http = 1;",
        ];
        for unnamed in unnamed {
            assert!(!names(unnamed, "http"), "{unnamed}");
        }
    }
}
