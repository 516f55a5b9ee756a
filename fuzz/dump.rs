//! What the fuzz target of the reader of dumps does with its input. The contract tests of `crates/store` run the same on
//! the corpus.

use gantry_store::check_dump;

/// Reads `data` as a dump, and as the data of a dump whose beginning is right.
pub(crate) fn dump(data: &[u8]) {
    let report = check_dump(data);
    assert!(report.proof.is_some() || report.problems.len() == 1);
    for problem in &report.problems {
        // Problems are shown to people, whatever the dump held.
        assert!(problem.len() < 4000 && !problem.contains('\0'), "{problem}");
    }
    let header = r#"-- gantry-dump: {"format":1,"schema_version":12,"instance":null,"created_at":"","gateway_version":"","database":"sqlite","secrets":"redacted"}"#;
    let meta = "\nCOPY public.meta (key, value) FROM stdin;\n";
    let within = [header.as_bytes(), meta.as_bytes(), data].concat();
    let report = check_dump(&within[..]);
    assert_eq!(report.schema_version, Some(12));
}
