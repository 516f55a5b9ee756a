//! Whether a dump can be restored, found out without a database.

use std::{collections::BTreeMap, io::Read};

use crate::{
    Proof,
    dump::{
        header::{DumpHeader, DumpKind},
        reader::Reader,
    },
};

/// What [`check_dump`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct DumpReport {
    pub kind: DumpKind,
    /// The first line, if Gantry wrote the dump.
    pub header: Option<DumpHeader>,
    /// Version of its schema; `None` if the dump is damaged before it says so.
    pub schema_version: Option<i64>,
    /// Number of rows by table, as far as the dump could be read.
    pub tables: BTreeMap<String, u64>,
    /// Why the dump can't be restored; empty if it can.
    pub problems: Vec<String>,
    /// What is wrong with it, though it can be restored: a gateway would leave out these rows.
    pub warnings: Vec<String>,
    /// What the dump holds; `None` if it is damaged.
    pub proof: Option<Proof>,
}

/// Reads a whole dump and checks it, in bounded memory.
pub fn check_dump(from: impl Read) -> DumpReport {
    let mut report = DumpReport {
        kind: DumpKind::PgDump,
        header: None,
        schema_version: None,
        tables: BTreeMap::new(),
        problems: Vec::new(),
        warnings: Vec::new(),
        proof: None,
    };
    let mut reader = match Reader::new(from) {
        Ok(reader) => reader,
        Err(error) => {
            report.problems.push(error.to_string());
            return report;
        }
    };
    let end = loop {
        match reader.next_row() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    report.kind = reader.kind();
    report.header = reader.header().cloned();
    report.schema_version = reader.version();
    let (proof, unreadable) = reader.proof();
    report.tables.clone_from(&proof.rows);
    if let Some(error) = end {
        report.problems.push(error.to_string());
    } else {
        report.problems.extend(faults(&proof));
        report.warnings = unreadable;
        report.proof = Some(proof);
    }
    report
}

/// Returns why a database with these rows can't be used, though it is complete.
pub(crate) fn faults(proof: &Proof) -> Vec<String> {
    let mut faults = Vec::new();
    if proof.enabled_owners == 0 {
        faults.push("no owner is in it who could sign in".to_owned());
    }
    if !proof.audit.verifies {
        faults
            .push("the chain of its audit log does not verify: rows were changed or are missing".to_owned());
    }
    faults
}
