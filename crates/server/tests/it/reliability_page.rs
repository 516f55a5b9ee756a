//! `docs/reliability.md` names tests, and they exist.

use std::path::Path;

/// Where they are: folders of tests, and of code with tests beside it.
const FOLDERS: &[&str] = &[
    "server/tests/it",
    "dataplane/tests/it",
    "runtime/tests/contract",
    "store/tests/contract",
    "package/tests/it",
    "control/src/reconcile",
];

#[test]
fn every_test_that_it_names_exists_and_every_row_says_what_was_measured() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(crates.join("../docs/reliability.md")).unwrap();
    let mut n_tests = 0;
    for word in page.split('`').skip(1).step_by(2).filter(|it| it.contains("::")) {
        let (file, name) = word.split_once("::").unwrap();
        let exists = FOLDERS.iter().any(|folder| {
            let text = std::fs::read_to_string(crates.join(folder).join(format!("{file}.rs")));
            text.is_ok_and(|it| it.contains(&format!("fn {name}(")))
        });
        assert!(exists, "`{word}` is no test");
        n_tests += 1;
    }
    assert!(n_tests > 80, "{n_tests}");
    for row in page.lines().filter(|it| it.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.iter().all(|it| !it.is_empty() || cells[0].is_empty()), "an empty cell: {row}");
    }
}
