//! Compares `docs/package-format.md` with a dump: the fields of its first and its last line.

use std::collections::BTreeSet;

use gantry_store::DumpSecrets;
use serde_json::Value;

use crate::{
    filled::{dump, fill},
    harness::{Database, on_both},
};

const PAGE: &str = include_str!("../../../../docs/package-format.md");

/// Returns the names in the first column of the table with this head.
fn names(head: &str) -> BTreeSet<String> {
    let (_, table) = PAGE.split_once(&format!("| {head} | Meaning |\n|---|---|\n")).unwrap();
    let rows = table.lines().map_while(|it| it.strip_prefix("| `"));
    rows.map(|it| it.split_once('`').unwrap().0.to_owned()).collect()
}

/// Returns the names of all fields: `a.b`, and `a.*` for the keys of a map.
fn fields(of: &Value, maps: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, value) in of.as_object().unwrap() {
        found.insert(name.clone());
        let key = |key: &String| if maps.contains(&name.as_str()) { "*".to_owned() } else { key.clone() };
        let inner = value.as_object().into_iter().flatten();
        found.extend(inner.map(|(it, _)| format!("{name}.{}", key(it))));
    }
    found
}

on_both! {
    async fn the_page_names_every_field_of_the_first_and_the_last_line(db: &Database) {
        fill(&db.store).await;
        let (text, _) = dump(db, DumpSecrets::Redacted).await;
        let text = String::from_utf8(text).unwrap();
        let header = text.lines().next().unwrap().strip_prefix("-- gantry-dump: ").unwrap();
        let proof = text.lines().last().unwrap().strip_prefix("-- gantry-proof: ").unwrap();
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(names("Field of the header"), fields(&json(header), &[]));
        let maps = ["rows", "digests", "sequences", "rollups", "redacted"];
        assert_eq!(names("Field of the proof"), fields(&json(proof), &maps));
    }
}
