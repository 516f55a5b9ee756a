//! Both databases have the same schema, and every method of the store has a test.

use std::{fs, path::Path};

use gantry_store::migration_versions;

use crate::harness::Database;

fn files(folder: &str, extension: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut paths: Vec<_> = entries(&folder).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(entries(&path));
            continue;
        }
        if path.extension().is_some_and(|it| it == extension) {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn every_method_is_called_by_the_contract() {
    let tests: String = files("tests/contract", "rs").into_iter().map(|(_, text)| text).collect();
    let mut methods = Vec::new();
    for (file, text) in files("src", "rs") {
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("    pub async fn ") {
                methods.push((file.clone(), rest.split(['(', '<']).next().unwrap().to_owned()));
            }
        }
    }
    assert!(methods.len() > 50, "the search found only {}", methods.len());
    methods
        .retain(|(_, name)| !tests.contains(&format!(".{name}(")) && !tests.contains(&format!("::{name}(")));
    assert!(methods.is_empty(), "no test calls {methods:?}");
}

#[test]
fn both_databases_have_the_same_versions() {
    let names = |folder| files(folder, "sql").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let built: Vec<_> = migration_versions().map(|(_, name)| name.to_owned()).collect();
    assert_eq!(names("migrations/sqlite"), built);
    assert_eq!(names("migrations/postgres"), built);
    for (at, (number, name)) in migration_versions().enumerate() {
        assert_eq!(number, at as i64 + 1, "{name} is out of order");
        assert!(name.starts_with(&format!("{number:04}_")), "{name}");
    }
}

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_and_indexes() {
    let sqlite = Database::sqlite().await;
    let (columns, indexes) = (sqlite.columns().await, sqlite.indexes().await);
    sqlite.remove().await;
    assert!(columns.contains(&"models.phase".to_owned()), "{columns:?}");
    assert!(indexes.contains(&"models_served_name".to_owned()), "{indexes:?}");
    if let Some(postgres) = Database::postgres().await {
        assert_eq!(postgres.columns().await, columns);
        assert_eq!(postgres.indexes().await, indexes);
        postgres.remove().await;
    }
}
