//! `gantry db promote`: copies the database into another one, from SQLite to Postgres or back.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::ArgMatches;
use gantry_domain::{Clock, Timestamp};
use gantry_settings::{DatabaseUrl, Settings, Value as _};
use gantry_store::{DumpSecrets, Proof, Store, StoreError};
use serde_json::json;

use super::locked::Locks;
use crate::account;

/// Largest part of a file with an address that is read, in bytes.
const MAX_FILE: usize = 4096;

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (_, sub) = matches.subcommand().context("say `promote`")?;
    let to = target(sub)?;
    let settings = load(sub)?;
    account::enter_with(&settings, &to)?;
    let from = settings.database();
    ensure!(from.expose() != to.expose(), "that is the database itself");
    let data = std::path::absolute(&settings.data.data_dir).context("DATA_DIR can't be resolved")?;
    ensure!(
        data.is_dir(),
        "there is no DATA_DIR {}: run this with the settings of the gateway",
        data.display()
    );
    // What a gateway wrote after the copy began would be lost.
    let _locks = Locks::take(&settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let proof = runtime.block_on(promote(&from, &to, &data))?;
    let rows: u64 = proof.rows.values().sum();
    let text = if sub.get_flag("json") {
        let outcome = json!({ "from": format!("{from:?}"), "to": format!("{to:?}"), "proof": proof });
        serde_json::to_string_pretty(&outcome)?
    } else {
        format!(
            "copied and proven: {to:?} has the same rows ({rows}), sums and audit log as {from:?}, which is unchanged\n\
             now set DATABASE_URL to that address and start the gateway with the same DATA_DIR, which has the keys of the \
             secrets; everybody has to sign in again"
        )
    };
    writeln!(io::stdout(), "{text}").context("can't write the output")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the address of the new database.
fn target(matches: &ArgMatches) -> anyhow::Result<DatabaseUrl> {
    let text = match (matches.get_one::<String>("to"), matches.get_one::<PathBuf>("to-file")) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => {
            let said = || format!("can't read the address from {}", file.display());
            let text = fs::read_to_string(file).with_context(said)?;
            ensure!(text.len() <= MAX_FILE, "{} is too large for an address", file.display());
            text.trim().to_owned()
        }
        (None, None) => bail!("say --to or --to-file"),
    };
    DatabaseUrl::parse(&text).with_context(|| format!("--to must be {}", DatabaseUrl::ALLOWED))
}

async fn promote(from: &DatabaseUrl, to: &DatabaseUrl, data: &Path) -> anyhow::Result<Proof> {
    let now = Clock::default().now();
    let old = Store::open_to_read(from.expose()).await.context("can't open the database")?;
    let new = Store::open(to.expose()).await.with_context(|| format!("can't open {to:?}"));
    let new = match new {
        Ok(new) => new,
        Err(error) => {
            old.close().await;
            return Err(error);
        }
    };
    let done = copy(&old, &new, data, now).await.with_context(|| format!("nothing was copied to {to:?}"));
    old.close().await;
    new.close().await;
    done
}

async fn copy(old: &Store, new: &Store, data: &Path, now: Timestamp) -> anyhow::Result<Proof> {
    match new.check_unused().await {
        // A run that was killed after the copy was in place only lacks its last look.
        Err(StoreError::Exists) => {
            let proof = old.dump(DumpSecrets::AsStored, now, &mut io::sink()).await?;
            let same = prove(new, &proof, now).await;
            return same.context("it has users already: name an empty database").map(|()| proof);
        }
        other => other?,
    }
    // The id and the shared keys of a gateway stay in its database, and those of the old one would be lost.
    let own = new.read().await?.meta_get("instance_id").await?;
    ensure!(own.is_none(), "a gateway was started on it already: name an empty database");
    ensure!(!old.read().await?.is_claimed().await?, "a gateway runs on the old database: stop it first");
    let mut file = nameless(data)?;
    let mut to = BufWriter::with_capacity(1 << 20, &mut file);
    let proof = old.dump(DumpSecrets::AsStored, now, &mut to).await?;
    to.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    let from = BufReader::with_capacity(1 << 20, file);
    // What a run that was killed left. Nobody else uses it, for the locks are held.
    new.remove_scratch(data).await?;
    let scratch = new.load(from, data, "promote", Some(&proof)).await?;
    new.swap(scratch, false, None).await?;
    prove(new, &proof, now).await?;
    Ok(proof)
}

/// Counts in the new database itself, row by row, and compares that with the old one.
async fn prove(new: &Store, proof: &Proof, now: Timestamp) -> anyhow::Result<()> {
    let found = new.dump(DumpSecrets::AsStored, now, &mut io::sink()).await?;
    let differences = found.differences(proof);
    ensure!(differences.is_empty(), "the copy differs: {}", differences.join("; "));
    Ok(())
}

/// Makes a file without a name, of which nothing is left when it is closed. It holds secrets.
fn nameless(dir: &Path) -> anyhow::Result<File> {
    let path = dir.join(format!("promote-{}.part", uuid::Uuid::now_v7().simple()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("can't make {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("can't remove {}", path.display()))?;
    Ok(file)
}
