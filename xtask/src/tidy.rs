//! Rules of this project: which crate may import which, how long files are, how they begin, and what must not be in
//! them. What is beyond the bars of its structure is in [`structure`]; [`pages`] compares the documents with the repository.

mod bars;
mod dependencies;
mod egress;
mod figures;
mod modules;
mod pages;
mod source;
mod structure;
mod words;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use serde_json::Value;

/// Longest file in lines: the one bar that files of tests and examples have; [`structure`] has the one of code.
const LONGEST: usize = 600;

/// For each of our crates, those of ours that it may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("gantry-domain", &[]),
    ("gantry-settings", &["gantry-connect", "gantry-domain"]),
    ("gantry-store", &["gantry-domain", "gantry-settings"]),
    ("gantry-runtime", &["gantry-domain"]),
    ("gantry-image", &[]),
    ("gantry-package", &[]),
    ("gantry-sim", &["gantry-domain", "gantry-image"]),
    ("gantry-mapped", &[]),
    ("gantry-dataplane", &["gantry-connect", "gantry-domain", "gantry-mapped", "gantry-settings"]),
    (
        "gantry-control",
        &[
            "gantry-connect",
            "gantry-domain",
            "gantry-inspect",
            "gantry-package",
            "gantry-settings",
            "gantry-store",
            "gantry-runtime",
            "gantry-dataplane",
        ],
    ),
    ("gantry-connect", &[]),
    ("gantry-cli", &["gantry-connect", "gantry-domain", "gantry-package", "gantry-settings"]),
    ("gantry-inspect", &["gantry-domain"]),
    (
        "gantry-admin-api",
        &[
            "gantry-connect",
            "gantry-domain",
            "gantry-inspect",
            "gantry-package",
            "gantry-settings",
            "gantry-store",
        ],
    ),
    ("gantry-bench", &[]),
];

/// Foreign crates that only the listed crates of ours may use.
const HOMES: &[(&str, &[&str])] = &[
    ("bollard", &["gantry-runtime", "gantry-sim"]),
    ("sqlx", &["gantry-store", "gantry-testkit"]),
    ("sqlx-core", &["gantry-store"]),
    ("redis", &["gantry-control"]),
    ("opentelemetry-proto", &["gantry"]),
    ("clap", &["gantry", "gantry-cli", "gantry-sim", "gantry-bench"]),
];

/// Prints the figures of the code's structure.
pub(crate) fn figures(root: &Path) -> anyhow::Result<()> {
    println!("{}", figures::report(&structure::crates(root)?));
    Ok(())
}

/// Checks all rules.
///
/// # Errors
/// One of them is broken, or a file can't be read.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let metadata = metadata(root)?;
    let mut problems = layers(&metadata);
    problems.extend(dependencies::problems(&metadata)?);
    problems.extend(structure::problems(&structure::crates(root)?));
    let mut files = Vec::new();
    for dir in ["crates", "xtask", "bench"] {
        collect(&root.join(dir), &mut files)?;
    }
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        problems.extend(look_at(&name, &text));
    }
    problems.extend(egress::problems(root)?);
    problems.extend(words::problems(root)?);
    let pages = pages::look_at(root)?;
    println!("{}", pages.summary());
    problems.extend(pages.problems);
    if problems.is_empty() { Ok(()) } else { bail!("untidy:\n  {}", problems.join("\n  ")) }
}

fn look_at(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") && !text.starts_with("#!") {
        problems.push(format!("{name}: the first line must be a `//!` that says what the file is for"));
    }
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text).lines().count();
    if code > LONGEST {
        problems.push(format!("{name}: {code} lines; more than {LONGEST} is more than one subject"));
    }
    problems
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|it| it != "target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn metadata(root: &Path) -> anyhow::Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("can't run cargo metadata")?;
    serde_json::from_slice(&output.stdout).context("cargo metadata said nothing useful")
}

fn layers(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let normal = package["dependencies"].as_array().into_iter().flatten();
        for dependency in normal.filter(|it| it["kind"].is_null()).filter_map(|it| it["name"].as_str()) {
            let allowed = LAYERS.iter().find(|(it, _)| *it == name).map(|(_, allowed)| allowed);
            if dependency.starts_with("gantry-") && allowed.is_some_and(|it| !it.contains(&dependency)) {
                problems.push(format!("{name} must not depend on {dependency}"));
            }
            if let Some((_, homes)) = HOMES.iter().find(|(it, _)| *it == dependency)
                && !homes.contains(&name)
            {
                problems.push(format!("{dependency} belongs to {homes:?}, not to {name}"));
            }
        }
    }
    problems
}
