//! `gantry restore`: puts a backup, the database of a package or a dump in the place of a database that no gateway uses.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::ArgMatches;
use gantry_cli::Exit;
use gantry_control::deployment::{DumpSource, OpenDump};
use gantry_domain::Clock;
use gantry_package::sign::PublicKey;
use gantry_settings::Settings;
use gantry_store::{DumpReport, DumpSecrets, Proof, Scratch, Store};
use serde_json::{Value, json};

use super::{backup, locked::Locks};
use crate::{
    account,
    dump_file::{self, BACKUPS, stamp},
    sealing, secrets,
};

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let path = matches.get_one::<PathBuf>("PATH").context("say what to restore")?;
    let settings = load(matches)?;
    account::enter(&settings)?;
    let asked = Asked {
        path,
        dry_run: matches.get_flag("dry-run"),
        no_backup: matches.get_flag("no-backup"),
        yes: matches.get_flag("yes"),
        json: matches.get_flag("json"),
    };
    let base = matches.get_one::<PathBuf>("base").map(PathBuf::as_path);
    let source = DumpSource::find(path, base).map_err(anyhow::Error::msg)?;
    if let Some(key) = &settings.engines.package_trusted_key {
        let key = PublicKey::parse(key).context("PACKAGE_TRUSTED_KEY")?;
        let refused = |why| anyhow::anyhow!("PACKAGE_TRUSTED_KEY asks for a signed package: {why}");
        source.check_signature(&key).map_err(refused)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(restore(&settings, &asked, source))
}

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Asked<'a> {
    path: &'a Path,
    dry_run: bool,
    no_backup: bool,
    yes: bool,
    json: bool,
}

async fn restore(settings: &Settings, asked: &Asked<'_>, source: DumpSource) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(&settings.data.data_dir).context("DATA_DIR can't be resolved")?;
    let target = Target::of(settings)?;
    // A dry run makes nothing, not even a data directory.
    let locks = if asked.dry_run { None } else { Some(Locks::take(settings).context(ONLINE)?) };
    if let Target::File(file) = &target {
        ensure!(!is_same(file, source.path()), "{} is the database itself", file.display());
    }
    let scratch = if data.is_dir() { data.clone() } else { std::env::temp_dir() };
    let now = Clock::default().now();
    let dump = source.open(&scratch, now).await.with_context(|| asked.path.display().to_string())?;
    let report = dump.check().with_context(|| asked.path.display().to_string())?;
    if !asked.json {
        say(&described(&dump, &report).join("\n"))?;
    }
    let proof = match report.proof.clone() {
        Some(proof) if report.problems.is_empty() => proof,
        _ => bail!("it can't be restored, and nothing was changed: {}", report.problems.join("; ")),
    };
    let mut outcome = json!({ "path": asked.path, "dry_run": asked.dry_run, "proof": proof });
    if asked.dry_run {
        let file = scratch.join(format!("gantry_restore_{}.db", uuid::Uuid::now_v7().simple()));
        let proven = Scratch::in_file(dump.read()?, &file, Some(&proof)).await;
        proven.context("it can't be restored")?.remove().await;
        return finished(asked, &outcome, "proven: it can be restored. Nothing was changed");
    }
    if target.is_used().await? {
        let question = format!("Replace everything in {target} by this?");
        if let Err(exit) = gantry_cli::confirmed(asked.yes, &question) {
            return Ok(ExitCode::from(exit.code()));
        }
    }
    let keys = take_secrets(settings, &data, asked.path)?;
    let kept = match &target {
        Target::File(file) => {
            let read = dump.read()?;
            let done = gantry_store::restore_file(read, file, Some(&proof), now).await;
            done.context("nothing was restored")?.kept
        }
        Target::Server(url) => replace_server(settings, &data, url, &dump, &proof, asked.no_backup).await?,
    };
    drop(locks);
    outcome["kept"] = json!(kept);
    let mut lines = vec![format!("restored and proven: {target} holds what is listed above")];
    lines.extend(keys);
    if let Some(kept) = kept {
        lines.push(format!("the database as it was: {}", kept.display()));
    }
    lines.push("now start the gateway; everybody has to sign in again".to_owned());
    finished(asked, &outcome, &lines.join("\n"))
}

/// Told after the reason, when a gateway holds the locks.
const ONLINE: &str = "the gateway must be stopped; `gantry package restore` restores a gateway that runs, and --dry-run changes nothing";

/// The database that is replaced.
enum Target {
    File(PathBuf),
    /// The address, which may have a password.
    Server(gantry_settings::DatabaseUrl),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(url) => write!(f, "{url:?}"),
        }
    }
}

impl Target {
    fn of(settings: &Settings) -> anyhow::Result<Self> {
        let url = settings.database();
        Ok(match url.expose().strip_prefix("sqlite://") {
            Some("") => bail!("DATABASE_URL names no file"),
            Some(file) => Self::File(std::path::absolute(file).context("DATABASE_URL can't be resolved")?),
            None => Self::Server(url),
        })
    }

    /// Whether there is something that would be replaced.
    async fn is_used(&self) -> anyhow::Result<bool> {
        match self {
            Self::File(file) => Ok(file.try_exists().with_context(|| file.display().to_string())?),
            Self::Server(url) => {
                let found =
                    gantry_store::inspect(url.expose()).await.context("can't look at the database")?;
                if let Some(version) = found.version.filter(|it| *it > found.newest) {
                    bail!(
                        "the database is of schema version {version}, which this program does not know (it knows {}): use the \
                         newer program, or name an empty database in DATABASE_URL",
                        found.newest
                    );
                }
                Ok(found.version.is_some())
            }
        }
    }
}

/// Replaces what is in a Postgres database. Returns the file of the dump that was written first.
async fn replace_server(
    settings: &Settings,
    data: &Path,
    url: &gantry_settings::DatabaseUrl,
    dump: &OpenDump,
    proof: &Proof,
    no_backup: bool,
) -> anyhow::Result<Option<PathBuf>> {
    let store = Store::open(url.expose()).await.context("can't open the database")?;
    let store = store.with_seal(sealing::existing(settings, data)?);
    let done = async {
        ensure!(
            !store.read().await?.is_claimed().await?,
            "a gateway supervises the models on this database: stop it, or restore with `gantry package restore` there"
        );
        let used = store.check_unused().await.is_err();
        let now = Clock::default().now();
        let kept = data.join(BACKUPS).join(format!("before-restore-{}.sql", stamp(now)));
        let kept = (used && !no_backup).then_some(kept);
        if let Some(kept) = &kept {
            let write = async |to: &mut (dyn Write + Send)| store.dump(DumpSecrets::Sealed, now, to).await;
            dump_file::write(kept, write)
                .await
                .context("the database as it is could not be backed up (--no-backup goes without)")?;
        }
        let scratch = store.load(dump.read()?, data, "offline", Some(proof)).await;
        let scratch = scratch.context("nothing was restored")?;
        store.swap(scratch, true, None).await.context("nothing was restored")?;
        Ok(kept)
    };
    let done = done.await;
    store.close().await;
    done
}

/// Takes the secrets of a backup that the data directory lacks, and the keys with which the backup's database is encrypted.
/// Returns a line for each.
fn take_secrets(settings: &Settings, data: &Path, from: &Path) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    if !from.is_dir() {
        return Ok(lines);
    }
    let (from, to) = (from.join(backup::SECRETS), data.join(backup::SECRETS));
    for name in backup::secrets(&from)? {
        let target = to.join(&name);
        if !target.try_exists()? {
            secrets::private_dir(&to)?;
            backup::copy(&from.join(&name), &target)?;
            lines.push(format!("from the backup: {}", target.display()));
        } else if name == sealing::FILE && settings.data.secrets_key.is_none() {
            let added = sealing::add_keys(&to, &fs::read_to_string(from.join(&name))?.into())?;
            lines.extend(
                (added > 0).then(|| format!("keys that were added to {}: {added}", target.display())),
            );
        }
    }
    Ok(lines)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.canonicalize(), other.canonicalize());
    matches!((one, other), (Ok(one), Ok(other)) if one == other)
}

/// Says what a dump holds, a line for each fact.
fn described(dump: &OpenDump, report: &DumpReport) -> Vec<String> {
    let source = dump.source();
    let written = match &report.header {
        Some(it) if source.is_database() => {
            format!("a SQLite database of Gantry, installation {}", it.instance.as_deref().unwrap_or("-"))
        }
        Some(it) => format!("written {} by Gantry {} on {}", it.created_at, it.gateway_version, it.database),
        None => format!("written by {}", report.kind),
    };
    let part = source.package_id().map(|id| format!(", in package {id}")).unwrap_or_default();
    let mut lines =
        vec![format!("dump       {}{part}", source.path().display()), format!("           {written}")];
    if let Some(version) = report.schema_version {
        lines.push(format!("schema     version {version}"));
    }
    let Some(proof) = &report.proof else { return lines };
    let rows = |table: &str| proof.rows.get(table).copied().unwrap_or(0);
    lines.push(format!(
        "rows       {} in {} tables; users {}, models {}, keys {}",
        proof.rows.values().sum::<u64>(),
        proof.rows.len(),
        rows("users"),
        rows("models"),
        rows("api_keys"),
    ));
    lines.push(format!(
        "usage      requests {}, prompt tokens {}, completion tokens {}",
        proof.usage.requests, proof.usage.prompt_tokens, proof.usage.completion_tokens
    ));
    lines.extend(report.warnings.iter().map(|it| format!("warning    {it}")));
    let chain = if proof.audit.verifies { "each follows from the one before" } else { "broken" };
    lines.push(format!("audit log  rows {}, {chain}", proof.audit.rows));
    lines.push(format!("owners     that may sign in: {}", proof.enabled_owners));
    for (table, n) in &proof.redacted {
        lines.push(format!("left out   secrets of `{table}` that have to be set again: {n}"));
    }
    lines
}

fn finished(asked: &Asked<'_>, outcome: &Value, text: &str) -> anyhow::Result<ExitCode> {
    if asked.json {
        say(&serde_json::to_string_pretty(outcome)?)?;
    } else {
        say(text)?;
    }
    Ok(ExitCode::from(Exit::Done.code()))
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{text}").context("can't write the output")
}
