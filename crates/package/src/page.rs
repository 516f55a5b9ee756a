//! Compares the tables of `docs/package-format.md` with the types of this crate: a field that is not on the page, or is on
//! the page only, fails the test. All values are written out field by field, so that a new field does not compile without
//! being here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    checksums::Sha256Sum,
    contents::{Contents, Database, Gateway, Image, Model, Program},
    manifest::{Base, FORMAT_VERSION, FileEntry, Manifest, Parts, Piece, Pieces, SMALLEST_PART},
    model_manifest::ModelManifest,
    path::{LinkTarget, PackagePath},
    writer::{
        Ident,
        journal::{Line, Partial},
    },
};

const PAGE: &str = include_str!("../../../docs/package-format.md");

/// Returns the names in the first column of the table with this head.
fn names(head: &str) -> BTreeSet<String> {
    let (_, table) = PAGE.split_once(&format!("| {head} | Meaning |\n|---|---|\n")).unwrap();
    let rows = table.lines().map_while(|it| it.strip_prefix("| `"));
    rows.map(|it| it.split_once('`').unwrap().0.to_owned()).collect()
}

/// Adds the names of all fields of a value: `a.b`, `a[]` for elements, `a.*` for the keys of a map. Names of the package
/// and of tables are keys of maps.
fn fields(of: &Value, name: &str, maps: &[&str], found: &mut BTreeSet<String>) {
    match of {
        Value::Object(object) => {
            for (key, value) in object {
                let key = if maps.contains(&name) { "*" } else { key };
                let name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
                // An entry of `files` has no line of its own.
                if !value.is_object() || key != "*" {
                    found.insert(name.clone());
                }
                fields(value, &name, maps, found);
            }
        }
        Value::Array(list) => {
            let name = format!("{name}[]");
            for it in list {
                if !it.is_object() {
                    found.insert(name.clone());
                }
                fields(it, &name, maps, found);
            }
        }
        _ => {}
    }
}

fn path(name: &str) -> PackagePath {
    PackagePath::new(name).unwrap()
}

fn sum() -> Sha256Sum {
    Sha256Sum::of(b"")
}

fn entry() -> FileEntry {
    FileEntry { size: 1, sha256: sum(), modified_at: Some(1), at: Some(0), in_base: true }
}

fn image() -> Image {
    Image {
        reference: String::new(),
        config: String::new(),
        layers: vec![String::new()],
        manifest: sum(),
        manifest_size: 1,
        size: 1,
        version: Some(String::new()),
        architecture: String::new(),
    }
}

fn contents() -> Contents {
    Contents {
        database: Some(Database {
            schema_version: 1,
            kind: String::new(),
            rows: BTreeMap::from([("users".to_owned(), 1)]),
            requests: 0,
            prompt_tokens: 0,
            completion_tokens: 0,
            audit_head: String::new(),
        }),
        images: vec![image()],
        models: vec![Model {
            id: 1,
            name: String::new(),
            served_name: String::new(),
            manifest: path("manifests/model-1.json"),
            image: Some(String::new()),
            weights: vec![path("models/a")],
        }],
        programs: vec![Program {
            engine: String::new(),
            command: String::new(),
            version: Some(String::new()),
        }],
        gateway: Some(Gateway { version: String::new(), platform: String::new() }),
        hub_cache: true,
        settings: true,
    }
}

#[test]
fn the_page_names_every_field_of_the_manifest() {
    let piece = Piece { size: 1, sha256: sum(), in_base: true };
    let pieces = Pieces { list: vec![piece], rest: Some(path("db/dump.pieces")) };
    let manifest = Manifest {
        format_version: FORMAT_VERSION,
        id: String::new(),
        created_at: String::new(),
        gateway_version: String::new(),
        base: Some(Base { id: String::new(), manifest_sha256: sum() }),
        parts: Some(Parts { size: SMALLEST_PART, sha256: vec![sum()], modified_at: 0 }),
        contents: contents(),
        files: BTreeMap::from([(path("models/a"), entry())]),
        links: BTreeMap::from([(path("models/b"), LinkTarget::new("a"))]),
        pieces: BTreeMap::from([(path("db/dump.sql"), pieces)]),
    };
    let mut found = BTreeSet::new();
    let maps = ["files", "links", "pieces", "contents.database.rows"];
    fields(&serde_json::to_value(manifest).unwrap(), "", &maps, &mut found);
    assert_eq!(names("Field of the manifest"), found);
}

#[test]
fn the_page_names_every_field_of_a_model() {
    let model = ModelManifest {
        format_version: FORMAT_VERSION,
        created_at: String::new(),
        gateway_version: String::new(),
        id: 1,
        model: serde_json::Map::new(),
        redacted: vec![String::new()],
        image: Some(String::new()),
        weights: vec![path("models/a")],
    };
    let mut found = BTreeSet::new();
    fields(&serde_json::to_value(model).unwrap(), "", &[], &mut found);
    assert_eq!(names("Field of a model"), found);
}

#[test]
fn the_page_names_every_line_of_the_journal() {
    let source = Ident::of(&std::fs::metadata(".").unwrap());
    let partial = Partial {
        path: path("a"),
        source,
        done: 1,
        hasher: String::new(),
        at: Some(0),
        part_hasher: Some(String::new()),
    };
    let lines = [
        Line::Begin { part_size: None },
        Line::File { path: path("a"), entry: entry() },
        Line::Part { index: 0, sha256: sum() },
        Line::Rewritten { from: 0 },
        Line::Image(image()),
        Line::Partial(partial),
    ];
    // A new kind of line does not compile without being here.
    for line in &lines {
        match line {
            Line::Begin { .. }
            | Line::File { .. }
            | Line::Part { .. }
            | Line::Rewritten { .. }
            | Line::Image(_)
            | Line::Partial(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    for line in lines {
        fields(&serde_json::to_value(line).unwrap(), "", &[], &mut found);
    }
    // Entries of the manifest have lines of their own there.
    let is_own =
        |it: &String| !["file.entry.", "image.", "partial.source."].iter().any(|of| it.starts_with(of));
    found
        .retain(|it| is_own(it) && !["begin", "file", "part", "partial", "rewritten"].contains(&it.as_str()));
    assert_eq!(names("Line of the journal"), found);
}
