//! Writes a dump.

use std::{io, path::Path, sync::Arc};

use gantry_domain::Timestamp;

use crate::{
    Proof, Seal, Store, StoreError, StoreResult,
    dump::{
        filter::Filter,
        header::{DumpHeader, DumpSecrets, FORMAT, HEADER, TRAILER},
        lexer::KEPT_CAPACITY,
        proof::Tally,
        redact::{Done, Redactor},
        row::Row,
        schema::{Schema, Table},
        source::{Conn, Reading, check_line},
    },
};

/// Bytes that are collected before they are written.
const BUFFER: usize = 256 << 10;
/// For people who open a dump.
const ABOUT: &str = "--\n\
                     -- The data of a Gantry installation. `gantry restore` reads it, into SQLite or Postgres.\n\
                     -- The last line proves that it is complete and unchanged.\n\
                     --\n\n";

impl Store {
    /// Writes the whole database into `to`, as it is at one moment; the gateway goes on working. What belongs to the
    /// running gateway is left out: sessions, jobs that run, who supervises, the counter of changes. `to` may block, so
    /// call this on a thread of its own. Flushes `to`.
    ///
    /// # Errors
    /// [`StoreError::Sink`] if `to` fails; [`StoreError::Schema`] if the tables were changed by hand, or a row is larger
    /// than 64 MiB or holds a NUL byte.
    pub async fn dump(
        &self,
        secrets: DumpSecrets,
        now: Timestamp,
        to: &mut (dyn io::Write + Send),
    ) -> StoreResult<Proof> {
        let from = Reading::to_read(self).await?;
        write(from, secrets, self.seal(), now, to).await
    }
}

/// Writes a SQLite file like [`Store::dump`], without changing it. The file may be one of an older program. Its secrets
/// are written as they are, for the file is copied to be restored on the same machine.
///
/// # Errors
/// Those of [`Store::dump`]; [`StoreError::Schema`] also for a file of a newer program, and for one that has no tables
/// of Gantry.
pub async fn dump_file(path: &Path, now: Timestamp, to: &mut (dyn io::Write + Send)) -> StoreResult<Proof> {
    let from = Reading::file_to_read(path).await?;
    write(from, DumpSecrets::AsStored, Arc::default(), now, to).await
}

pub(super) async fn write(
    mut from: Reading,
    secrets: DumpSecrets,
    seal: Arc<Seal>,
    now: Timestamp,
    to: &mut (dyn io::Write + Send),
) -> StoreResult<Proof> {
    let mut conn = from.conn();
    let (version, schema) = conn.schema().await?;
    let mut dump = Dump {
        filter: Filter::new(&schema),
        redactor: Redactor::new(&schema, secrets, seal),
        tally: Tally::new(&schema),
        out: Vec::with_capacity(BUFFER * 2),
        line: Vec::new(),
        to,
    };
    let header = DumpHeader {
        format: FORMAT,
        schema_version: version,
        instance: instance(&mut conn, &schema).await?,
        created_at: now.rfc3339(),
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        database: conn.kind(),
        secrets,
    };
    dump.text(&format!("{HEADER}{}\n{ABOUT}", json(&header)?))?;
    for (at, table) in schema.tables.iter().enumerate() {
        dump.text(&format!("COPY public.{} ({}) FROM stdin;\n", table.name, table.column_list()))?;
        if !dump.filter.leaves_out_table(at) {
            conn.each_row(table, &mut |row| dump.row(at, table, row)).await?;
        }
        dump.text("\\.\n\n")?;
    }
    for (at, table) in schema.tables.iter().enumerate().filter(|it| it.1.counts) {
        let last = conn.sequence(table).await?;
        let last = last.unwrap_or(0).max(dump.tally.last(at));
        dump.tally.sequence(at, last);
        let (name, key) = (&table.name, &table.columns[table.key].name);
        let (number, called) = (last.max(1), last > 0);
        dump.text(&format!("SELECT pg_catalog.setval('public.{name}_{key}_seq', {number}, {called});\n"))?;
    }
    let proof = dump.tally.proof(&schema);
    dump.text(&format!("\n{TRAILER}{}\n", json(&proof)?))?;
    dump.flush()?;
    dump.to.flush().map_err(StoreError::Sink)?;
    Ok(proof)
}

struct Dump<'a> {
    filter: Filter,
    redactor: Redactor,
    tally: Tally,
    out: Vec<u8>,
    line: Vec<u8>,
    to: &'a mut (dyn io::Write + Send),
}

impl Dump<'_> {
    fn text(&mut self, text: &str) -> StoreResult<()> {
        self.out.extend_from_slice(text.as_bytes());
        if self.out.len() < BUFFER { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> StoreResult<()> {
        self.to.write_all(&self.out).map_err(StoreError::Sink)?;
        self.out.clear();
        Ok(())
    }

    fn row(&mut self, at: usize, table: &Table, row: &mut Row) -> StoreResult<()> {
        if self.filter.leaves_out(at, row) {
            return Ok(());
        }
        match self.redactor.redact(at, row)? {
            Done::Kept => {}
            Done::OfMachine => return Ok(()),
            Done::Redacted => self.tally.redacted(&table.name),
            Done::LeftOut => {
                self.tally.redacted(&table.name);
                return Ok(());
            }
        }
        self.tally.add(at, row);
        self.line.clear();
        self.line.shrink_to(KEPT_CAPACITY);
        row.write_copy(table, &mut self.line);
        check_line(&self.line, table)?;
        self.out.extend_from_slice(&self.line);
        if self.out.len() < BUFFER {
            return Ok(());
        }
        self.flush()?;
        self.out.shrink_to(KEPT_CAPACITY);
        Ok(())
    }
}

/// Returns the id of the installation.
async fn instance(conn: &mut Conn<'_>, schema: &Schema) -> StoreResult<Option<String>> {
    let Some(meta) = schema.index("meta").map(|it| &schema.tables[it]) else { return Ok(None) };
    let mut found = None;
    conn.each_row(meta, &mut |row| {
        if row.text(0) == "instance_id" {
            found = Some(row.text(1).to_owned());
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

fn json(value: &impl serde::Serialize) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|it| StoreError::Sink(it.into()))
}
