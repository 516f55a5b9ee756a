//! The bars of the code's structure: how long files and functions are, how deep blocks lie in each other, and which
//! files use each other in a circle. Public items have a doc comment.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use super::{
    bars::TABLES,
    modules::{self, Edges},
    source::{self, ModulePath, Source},
};

/// Longest file in lines, without its tests. A longer file has more than one subject.
pub(crate) const FILE_LINES: usize = 450;
/// Longest function in lines, unless it is a table.
pub(crate) const FUNCTION_LINES: usize = 60;
/// Deepest block in a function.
pub(crate) const NESTING: usize = 4;

/// The code of one crate, without tests.
pub(crate) struct Crate {
    /// Folder below the repository's root, as in `crates/domain`.
    pub(crate) folder: String,
    /// Names of the files, below the repository's root.
    pub(crate) names: Vec<String>,
    /// The files, in the order of `names`.
    pub(crate) sources: Vec<Source>,
    /// Which files each one uses.
    pub(crate) edges: Edges,
}

impl Crate {
    /// Returns the groups of files that use each other in a circle.
    pub(crate) fn cycles(&self) -> Vec<Vec<&str>> {
        let named = |group: Vec<usize>| group.into_iter().map(|it| &*self.names[it]).collect();
        modules::cycles(&self.edges).into_iter().map(named).collect()
    }
}

/// Reads all crates.
///
/// # Errors
/// A file can't be read or parsed.
pub(crate) fn crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let mut folders = vec![root.join("bench"), root.join("xtask")];
    for entry in fs::read_dir(root.join("crates")).context("can't read crates")? {
        folders.push(entry?.path());
    }
    folders.sort();
    // Each crate on a thread of its own: parsing is most of what a check costs.
    std::thread::scope(|scope| {
        let readers: Vec<_> = folders.iter().map(|it| scope.spawn(move || read_crate(root, it))).collect();
        let joined =
            readers.into_iter().map(|it| it.join().map_err(|_| anyhow::anyhow!("a reader panicked"))?);
        joined.collect()
    })
}

/// Returns what is beyond the bars.
pub(crate) fn problems(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for it in crates {
        for (name, source) in it.names.iter().zip(&it.sources) {
            problems.extend(look_at(name, source));
        }
        problems.extend(circles(&it.folder, &it.cycles()));
    }
    problems.extend(stale(crates));
    problems
}

fn look_at(name: &str, source: &Source) -> Vec<String> {
    let mut problems = Vec::new();
    if source.lines > FILE_LINES {
        problems
            .push(format!("{name}: {} lines; more than {FILE_LINES} is more than one subject", source.lines));
    }
    problems.extend(source.undocumented.iter().map(|it| format!("{name}: {it}: write a doc comment")));
    for function in &source.functions {
        let key = format!("{name} {}", function.name);
        let place = format!("{name}:{}: `{}`", function.line, function.name);
        if function.lines > FUNCTION_LINES && !TABLES.iter().any(|(table, _)| *table == key) {
            problems.push(format!(
                "{place} has {} lines; at most {FUNCTION_LINES}, unless it is a table",
                function.lines
            ));
        }
        if function.nesting > NESTING {
            problems
                .push(format!("{place} has {} blocks in each other; at most {NESTING}", function.nesting));
        }
    }
    problems
}

fn circles(folder: &str, cycles: &[Vec<&str>]) -> Vec<String> {
    let named = cycles.iter().map(|it| it.join(" "));
    named.map(|files| format!("{folder}: these files use each other in a circle: {files}")).collect()
}

/// Returns the exceptions that nothing needs any more: what got better must not get worse again.
fn stale(crates: &[Crate]) -> Vec<String> {
    let files = || crates.iter().flat_map(|it| it.names.iter().zip(&it.sources));
    let is_long = |key: &str| {
        let named = |name: &str, it: &source::Function| format!("{name} {}", it.name) == key;
        files().any(|(name, it)| it.functions.iter().any(|it| named(name, it) && it.lines > FUNCTION_LINES))
    };
    let unneeded = TABLES.iter().filter(|it| !is_long(it.0));
    unneeded.map(|(key, _)| format!("TABLES: `{key}` is within the bar now; remove it")).collect()
}

fn read_crate(root: &Path, folder: &Path) -> anyhow::Result<Crate> {
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let src = folder.join("src");
    let mut files: Vec<PathBuf> = Vec::new();
    super::collect(&src, &mut files)?;
    files.sort();
    let mut read = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
        let path = module_path(file.strip_prefix(&src).unwrap_or(&file));
        let source = source::read(&text, path).with_context(|| relative(&file))?;
        read.push((relative(&file), source));
    }
    let tests: Vec<ModulePath> = read.iter().flat_map(|it| it.1.test_modules.clone()).collect();
    read.retain(|(_, source)| !tests.iter().any(|it| source.path().starts_with(it)));
    let (names, sources): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    let edges = modules::edges(&sources);
    Ok(Crate { folder: relative(folder), names, sources, edges })
}

/// Returns the module of a file in `src`: `a/b.rs` and `a/b/mod.rs` are `a::b`, `lib.rs` and `main.rs` the root.
fn module_path(file: &Path) -> ModulePath {
    let mut path: ModulePath =
        file.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if path.last().is_some_and(|it| it == "mod") || matches!(&*path, [it] if it == "lib" || it == "main") {
        path.pop();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_modules() {
        for (file, module) in [
            ("lib.rs", ""),
            ("main.rs", ""),
            ("a.rs", "a"),
            ("a/mod.rs", "a"),
            ("a/b.rs", "a::b"),
            ("a/main.rs", "a::main"),
        ] {
            assert_eq!(module_path(Path::new(file)).join("::"), module, "{file}");
        }
    }

    #[test]
    fn long_and_deep_functions_are_named() {
        let lines = "    g();\n".repeat(FUNCTION_LINES);
        let text = format!(
            "fn long() {{\n{lines}}}\nfn deep() {{ if a {{ if b {{ if c {{ if d {{ if e {{}} }} }} }} }} }}"
        );
        let source = source::read(&text, Vec::new()).unwrap();
        let found = look_at("a.rs", &source);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: `long` has 62 lines"), "{found:?}");
        assert!(found[1].contains("`deep` has 5 blocks"), "{found:?}");
    }

    #[test]
    fn circles_of_files_are_named() {
        assert!(circles("crates/inspect", &[]).is_empty());
        assert_eq!(
            circles("crates/inspect", &[vec!["a.rs", "b.rs"]]),
            ["crates/inspect: these files use each other in a circle: a.rs b.rs"]
        );
    }
}
