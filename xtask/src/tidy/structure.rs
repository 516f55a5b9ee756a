//! The bars of the code's structure: how long files and functions are, how deep blocks lie in each other, and which
//! files use each other in a circle. What was beyond a bar when the bars were drawn is in a table with its figure, so
//! that nothing gets worse.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use super::{
    bars::{CLEAN, CYCLES, DEEP, LONG_FILES, LONG_FUNCTIONS, TABLES},
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
    let bar = allowed(LONG_FILES, name).unwrap_or(FILE_LINES);
    if source.lines > bar {
        problems.push(format!("{name}: {} lines; more than {bar} is more than one subject", source.lines));
    }
    for function in &source.functions {
        let key = format!("{name} {}", function.name);
        let place = format!("{name}:{}: `{}`", function.line, function.name);
        let bar = allowed(LONG_FUNCTIONS, &key).unwrap_or(FUNCTION_LINES);
        if function.lines > bar && !TABLES.iter().any(|(table, _)| *table == key) {
            problems
                .push(format!("{place} has {} lines; at most {bar}, unless it is a table", function.lines));
        }
        let bar = allowed(DEEP, &key).unwrap_or(NESTING);
        if function.nesting > bar {
            problems.push(format!("{place} has {} blocks in each other; at most {bar}", function.nesting));
        }
    }
    problems
}

/// Compares the circles of one crate with what it may have.
fn circles(folder: &str, cycles: &[Vec<&str>]) -> Option<String> {
    let files: usize = cycles.iter().map(Vec::len).sum();
    let bar = allowed(CYCLES, folder).unwrap_or(0);
    let known = CLEAN.contains(&folder) || allowed(CYCLES, folder).is_some();
    let named = cycles.iter().map(|it| it.join(" ")).collect::<Vec<_>>().join("; ");
    match (known, files > bar) {
        (false, _) => {
            Some(format!("{folder}: it is in no table of xtask/src/tidy/bars.rs; put it into CLEAN"))
        }
        (true, true) => {
            Some(format!("{folder}: {files} files use each other in a circle, {bar} may: {named}"))
        }
        (true, false) => None,
    }
}

/// Returns the exceptions that nothing needs any more: what got better must not get worse again.
fn stale(crates: &[Crate]) -> Vec<String> {
    let files = || crates.iter().flat_map(|it| it.names.iter().zip(&it.sources));
    let file = |key: &str| files().any(|(name, it)| name == key && it.lines > FILE_LINES);
    let function = |key: &str, over: &dyn Fn(&source::Function) -> bool| {
        files()
            .any(|(name, it)| it.functions.iter().any(|it| format!("{name} {}", it.name) == key && over(it)))
    };
    let long = |key: &str| function(key, &|it| it.lines > FUNCTION_LINES);
    let deep = |key: &str| function(key, &|it| it.nesting > NESTING);
    let circle = |key: &str| crates.iter().any(|it| it.folder == key && !it.cycles().is_empty());
    let mut stale = unneeded("LONG_FILES", LONG_FILES, file);
    stale.extend(unneeded("LONG_FUNCTIONS", LONG_FUNCTIONS, long));
    stale.extend(unneeded("TABLES", TABLES, long));
    stale.extend(unneeded("DEEP", DEEP, deep));
    stale.extend(unneeded("CYCLES", CYCLES, circle));
    stale
}

fn unneeded<T>(name: &str, table: &[(&str, T)], is_needed: impl Fn(&str) -> bool) -> Vec<String> {
    let unneeded = table.iter().filter(|it| !is_needed(it.0));
    unneeded.map(|(key, _)| format!("{name}: `{key}` is within the bar now; remove it")).collect()
}

fn allowed(table: &[(&str, usize)], key: &str) -> Option<usize> {
    table.iter().find(|it| it.0 == key).map(|it| it.1)
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
    fn a_crate_is_in_one_of_the_tables() {
        assert!(circles("crates/inspect", &[]).is_none());
        assert!(circles("crates/inspect", &[vec!["a.rs", "b.rs"]]).is_some());
        assert!(circles("crates/unheard-of", &[]).is_some());
    }
}
