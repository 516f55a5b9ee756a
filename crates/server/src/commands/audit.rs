//! `gantry audit`: checks the audit log without a running gateway, and writes it to a file.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::ArgMatches;
use gantry_domain::{
    Timestamp,
    audit::{AuditRow, Broken, Chain, Link},
    hex::hex,
};
use gantry_settings::Settings;
use gantry_store::{Store, StoreError, StoreResult, Tx};

use crate::account;

/// Most rows that one query reads.
const PAGE: i64 = 1000;

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (name, sub) = matches.subcommand().context("say `verify`, `export` or `list`")?;
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let entered = || {
        let settings = load(sub)?;
        account::enter(&settings)?;
        Ok::<_, anyhow::Error>(settings)
    };
    let verdict = match (name, sub.try_get_one::<PathBuf>("file").ok().flatten()) {
        ("verify", Some(file)) => verify_file(file)?,
        ("export", _) => {
            let settings = entered()?;
            runtime()?.block_on(export(&settings))?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {
            let settings = entered()?;
            runtime()?.block_on(verify_database(&settings))?
        }
    };
    writeln!(std::io::stdout(), "{}", verdict.text).context("can't write the output")?;
    Ok(if verdict.holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns whether the verb works on the database or on a file, without asking a gateway.
pub(crate) fn is_offline(matches: &ArgMatches) -> bool {
    matches.subcommand_name() != Some("list")
}

struct Verdict {
    holds: bool,
    text: String,
}

/// Checks rows as they come.
struct Check {
    chain: Chain,
    anchor: Link,
    /// When the first and the last row were written.
    times: Option<(Timestamp, Timestamp)>,
}

impl Check {
    fn after(anchor: Link) -> Self {
        Self { chain: Chain::after(anchor), anchor, times: None }
    }

    fn take(&mut self, row: &AuditRow) -> Result<(), Broken> {
        self.chain.take(row)?;
        self.times = Some((self.times.map_or(row.at, |it| it.0), row.at));
        Ok(())
    }

    fn verdict(&self, end: Result<(), Broken>) -> Verdict {
        if let Err(broken) = end {
            let text = format!("BROKEN: {broken}\nrows before it hold: {}", self.chain.count());
            return Verdict { holds: false, text };
        }
        let (count, last) = (self.chain.count(), self.chain.last());
        let mut text = vec![format!("OK: {count} rows")];
        if let Some((first_at, last_at)) = self.times {
            let first = self.anchor.seq + 1;
            text.push(format!(", {first} to {}, written {first_at} to {last_at}", last.seq));
        }
        if self.anchor.seq > 0 {
            text.push(format!("\nrows up to {} are not included", self.anchor.seq));
        }
        text.push(format!("\nlast hash {}", hex(&last.hash)));
        Verdict { holds: true, text: text.concat() }
    }
}

async fn open(settings: &Settings) -> anyhow::Result<Store> {
    let url = settings.database();
    if let Some(file) = url.expose().strip_prefix("sqlite://") {
        // Opening would create a missing database.
        let there =
            Path::new(file).try_exists().with_context(|| format!("can't look at the database {file}"))?;
        anyhow::ensure!(there, "there is no database {file}");
    }
    Store::open_to_read(url.expose()).await.context("can't open the database")
}

/// Checks the rows of the database, all in one transaction, so that it sees one moment.
async fn verify_database(settings: &Settings) -> anyhow::Result<Verdict> {
    let store = open(settings).await?;
    let mut tx = store.read().await?;
    let (anchor, head) = tx.audit_ends().await?;
    let mut check = Check::after(anchor);
    let end = check_rows(&mut tx, &mut check).await?;
    drop(tx);
    store.close().await;
    Ok(check.verdict(end.and_then(|()| check.chain.end(head))))
}

async fn check_rows(tx: &mut Tx, check: &mut Check) -> StoreResult<Result<(), Broken>> {
    let mut page = PAGE;
    loop {
        let rows = match tx.audit_after(check.chain.last().seq, page).await {
            // Continue row by row, to find the row that can't be read.
            Err(StoreError::Corrupt { .. }) if page > 1 => {
                page = 1;
                continue;
            }
            Err(StoreError::Corrupt { what, .. }) => {
                return Ok(Err(Broken::Word { row: check.chain.last().seq + 1, what }));
            }
            read => read?,
        };
        if rows.is_empty() {
            return Ok(Ok(()));
        }
        if let Err(broken) = rows.iter().try_for_each(|row| check.take(row)) {
            return Ok(Err(broken));
        }
    }
}

/// Writes the rows to standard output. It goes as fast as its reader, which may pause. A transaction that stays open
/// would let the gateway's write-ahead log grow without bound, so each page has one of its own.
async fn export(settings: &Settings) -> anyhow::Result<()> {
    let store = open(settings).await?;
    let mut tx = store.read().await?;
    let (anchor, head) = tx.audit_ends().await?;
    tx.rollback().await?;
    let at_terminal = std::io::stdout().is_terminal();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut last, mut page) = (anchor.seq, PAGE);
    loop {
        let rows = match page_of(&store, last, page.min(head.seq - last)).await {
            // Continue row by row, up to the row that can't be read.
            Err(StoreError::Corrupt { .. }) if page > 1 => {
                page = 1;
                continue;
            }
            read => read?,
        };
        let Some(first) = rows.first() else { break };
        // Only retention is reported here. A check of the exported file finds rows that are missing for another
        // reason.
        if first.seq != last + 1 && anchor_of(&store).await? > last {
            anyhow::bail!("retention deleted rows behind number {last} meanwhile: export again");
        }
        for row in rows {
            last = row.seq;
            let mut line = serde_json::to_string(&row)?;
            // A row holds text from other people, which is made harmless for a terminal. A file keeps the text
            // unchanged, because the hashes cover the original.
            if at_terminal {
                line = gantry_cli::harmless(&line);
            }
            writeln!(out, "{line}").context("can't write the output")?;
        }
    }
    store.close().await;
    out.flush().context("can't write the output")
}

/// Reads one page in its own transaction. The transaction ends before the next one begins, because they share one
/// connection.
async fn page_of(store: &Store, after: i64, limit: i64) -> StoreResult<Vec<AuditRow>> {
    let mut tx = store.read().await?;
    let rows = tx.audit_after(after, limit).await;
    let ended = tx.rollback().await;
    let rows = rows?;
    ended?;
    Ok(rows)
}

async fn anchor_of(store: &Store) -> StoreResult<i64> {
    let mut tx = store.read().await?;
    let (anchor, _) = tx.audit_ends().await?;
    tx.rollback().await?;
    Ok(anchor.seq)
}

/// Checks an exported file. A file can't show what came before its first row, nor that its last row is the last of the
/// log.
fn verify_file(file: &Path) -> anyhow::Result<Verdict> {
    let lines = BufReader::new(File::open(file).with_context(|| format!("can't read {}", file.display()))?);
    let mut check: Option<Check> = None;
    for (n, line) in lines.lines().enumerate() {
        let line = line.with_context(|| format!("can't read {}", file.display()))?;
        if line.trim().is_empty() {
            continue;
        }
        let row: AuditRow = serde_json::from_str(&line)
            .with_context(|| format!("line {} is not a row of the audit log", n + 1))?;
        // The link before the first row, as that row states it.
        let before = Link { seq: row.seq.saturating_sub(1), hash: row.prev_hash };
        let check = check.get_or_insert_with(|| Check::after(before));
        if let Err(broken) = check.take(&row) {
            return Ok(check.verdict(Err(broken)));
        }
    }
    // An empty file is an error: no gateway has an empty log for long, and a file that was cut off at its beginning
    // looks like one.
    let check =
        check.with_context(|| format!("there is no row in {}: nothing was checked", file.display()))?;
    Ok(check.verdict(Ok(())))
}
