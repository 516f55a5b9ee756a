//! `package show`: what is in a package. Reads the manifest and the signature, and no other file.

use clap::{ArgMatches, Command};
use gantry_package::{
    manifest::Manifest,
    path::PackagePath,
    sign::{Signature, SignatureError},
};
use serde_json::{Value, json};

use super::{dir, json, open};
use crate::{
    exit::{Failure, Outcome},
    gateway_options::output,
    options::text,
    output::{Out, Table},
    text::bytes,
};

pub(super) fn command() -> Command {
    Command::new("show").about("Shows what is in a package").args([dir(), json(), output()]).after_help(
        "It reads the manifest only, so it is fast, and it checks nothing: `gantry package verify` does.",
    )
}

pub(super) fn run(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let package = open(text(matches, "DIR").unwrap_or_default(), &[])?;
    let signature = match Signature::read(package.dir()) {
        Ok(it) => it.map(|it| it.key_id().to_string()),
        Err(error @ SignatureError::Unreadable(_)) => return Err(Failure::Failed(error.to_string())),
        Err(error) => return Err(Failure::Damaged(error.to_string())),
    };
    let manifest = package.manifest();
    let sizes = Sizes::of(manifest);
    out.either(&value(manifest, signature.as_deref(), &sizes), || {
        facts(manifest, signature.as_deref(), out)?;
        images(manifest, out)?;
        models(manifest, &sizes, out)?;
        programs(manifest, out)
    })
}

fn value(manifest: &Manifest, key_id: Option<&str>, sizes: &Sizes) -> Value {
    let Manifest { format_version, id, created_at, gateway_version, base, parts, contents, .. } = manifest;
    let weights = contents.models.iter().map(|it| json!({ "model": it.id, "bytes": sizes.at(&it.weights) }));
    json!({
        "format_version": format_version,
        "id": id,
        "created_at": created_at,
        "gateway_version": gateway_version,
        "base": base,
        "part_size": parts.as_ref().map(|it| it.size),
        "files": manifest.own_files().count(),
        "bytes": manifest.size(),
        "files_in_base": manifest.files.len() - manifest.own_files().count(),
        "links": manifest.links.len(),
        "signature": { "signed": key_id.is_some(), "key_id": key_id },
        "weights": weights.collect::<Vec<_>>(),
        "contents": contents,
    })
}

fn facts(manifest: &Manifest, key_id: Option<&str>, out: &Out) -> Outcome<()> {
    let Manifest { id, created_at, gateway_version, base, parts, contents, .. } = manifest;
    let n_own = manifest.own_files().count();
    let parts = parts.as_ref().map_or_else(String::new, |it| format!(", in parts of {}", bytes(it.size)));
    let size = format!("{} in {n_own} files{parts}", bytes(manifest.size()));
    let base = base.as_ref().map_or_else(
        || "none: the package is complete by itself".to_owned(),
        |it| format!("{}: needed, it has {} more files", it.id, manifest.files.len() - n_own),
    );
    let signature = key_id.map_or_else(
        || "none".to_owned(),
        |it| format!("by {it}, not checked: `gantry package verify --key` does"),
    );
    let database = contents.database.as_ref().map_or_else(
        || "not in it".to_owned(),
        |it| {
            let rows = it.rows.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
            let (kind, version, tables) = (&it.kind, it.schema_version, it.rows.len());
            format!("{kind}, schema version {version}, {rows} rows in {tables} tables")
        },
    );
    let gateway = contents
        .gateway
        .as_ref()
        .map_or_else(|| "not in it".to_owned(), |it| format!("{} for {}", it.version, it.platform));
    let is_in = |it: bool| if it { "in it" } else { "not in it" }.to_owned();
    out.pairs(&[
        ("package", id.clone()),
        ("created", out.time(&json!(created_at))),
        ("by", format!("Gantry {gateway_version}")),
        ("base", base),
        ("size", size),
        ("signature", signature),
        ("program", gateway),
        ("database", database),
        ("settings", is_in(contents.settings)),
        ("hub cache", is_in(contents.hub_cache)),
    ])
}

fn images(manifest: &Manifest, out: &Out) -> Outcome<()> {
    let mut table = Table::new(&["IMAGE", "VERSION", "FOR", "SIZE>"]);
    for it in &manifest.contents.images {
        let version = it.version.clone().unwrap_or_else(|| "-".to_owned());
        table.row([it.reference.clone(), version, it.architecture.clone(), bytes(it.size)]);
    }
    below("images", manifest.contents.images.len(), &table, out)
}

fn models(manifest: &Manifest, sizes: &Sizes, out: &Out) -> Outcome<()> {
    let mut table = Table::new(&["MODEL", "SERVED NAME", "RUNS IN", "WEIGHTS>"]);
    for it in &manifest.contents.models {
        let runs_in = it.image.clone().unwrap_or_else(|| "a program".to_owned());
        let weights = match &it.weights[..] {
            [] => "not in it".to_owned(),
            places => bytes(sizes.at(places)),
        };
        table.row([it.name.clone(), it.served_name.clone(), runs_in, weights]);
    }
    below("models", manifest.contents.models.len(), &table, out)
}

fn programs(manifest: &Manifest, out: &Out) -> Outcome<()> {
    let mut table = Table::new(&["ENGINE", "COMMAND", "VERSION"]);
    for it in &manifest.contents.programs {
        let version = it.version.clone().unwrap_or_else(|| "-".to_owned());
        table.row([it.engine.clone(), it.command.clone(), version]);
    }
    below("programs that the other side must install", manifest.contents.programs.len(), &table, out)
}

/// Prints a table below its heading, unless it is empty.
fn below(heading: &str, n_rows: usize, table: &Table, out: &Out) -> Outcome<()> {
    if n_rows == 0 {
        return Ok(());
    }
    out.line("")?;
    out.line(&format!("{heading}: {n_rows}"))?;
    out.table(table)
}

/// The sizes of files and folders. There may be half a million files and a thousand models.
struct Sizes<'a> {
    /// All files, sorted by name, each with the bytes of all before it.
    files: Vec<(&'a str, u64)>,
    total: u64,
}

impl<'a> Sizes<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let mut total = 0_u64;
        let files = manifest.files.iter().map(|(path, file)| {
            let before = total;
            total = total.saturating_add(file.size);
            (path.as_str(), before)
        });
        Self { files: files.collect(), total }
    }

    /// Returns the bytes of the files at these places: of the files with these names, and of all in these folders.
    fn at(&self, places: &[PackagePath]) -> u64 {
        let sums = places.iter().map(|place| {
            let file = self.between(place.as_str(), &format!("{place}\0"));
            // `0` follows `/`.
            file.saturating_add(self.between(&format!("{place}/"), &format!("{place}0")))
        });
        sums.fold(0, u64::saturating_add)
    }

    fn between(&self, first: &str, end: &str) -> u64 {
        let before = |name: &str| {
            let n = self.files.partition_point(|(it, _)| *it < name);
            self.files.get(n).map_or(self.total, |it| it.1)
        };
        before(end).saturating_sub(before(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_at_a_place_is_that_of_the_file_or_of_all_in_the_folder() {
        let files: Vec<_> = [
            ("models/a", 1),
            ("models/a-b/x", 10),
            ("models/c/x", 100),
            ("models/c/y/z", 1000),
            ("models/d", 10_000),
        ]
        .map(|(name, size)| {
            let sum = "0".repeat(64);
            format!("\"{name}\": {{\"size\": {size}, \"sha256\": \"{sum}\"}}")
        })
        .into();
        let text = format!(
            r#"{{"format_version": 1, "id": "x", "created_at": "", "gateway_version": "", "files": {{{}}}}}"#,
            files.join(",")
        );
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        let sizes = Sizes::of(&manifest);
        let at = |places: &[&str]| {
            let places: Vec<_> = places.iter().map(|it| PackagePath::new(it).unwrap()).collect();
            sizes.at(&places)
        };
        assert_eq!((at(&["models/a"]), at(&["models/c"]), at(&["models/d"])), (1, 1100, 10_000));
        assert_eq!((at(&["models"]), at(&["models/c/x", "models/a"]), at(&["nothing"])), (11_111, 101, 0));
    }
}
