//! The keys of secrets in the database, and `gantry secrets rotate`.

use std::{io::Write, path::Path, process::ExitCode};

use anyhow::{Context, ensure};
use clap::ArgMatches;
use gantry_settings::Settings;
use gantry_store::{Seal, Store};
use secrecy::{ExposeSecret, SecretString};
use tracing::{error, info};

use crate::{account, commands::locked::Locks, secrets};

/// File in `DATA_DIR/secrets`: one key a line, the first one encrypts.
pub(crate) const FILE: &str = "database-keys";

/// Loads the keys from the settings or the data directory; makes a new key if there is none.
pub(crate) fn load(settings: &Settings, data_dir: &Path) -> anyhow::Result<Seal> {
    let given = settings.data.secrets_key.as_ref().map(|it| &it.0);
    let dir = data_dir.join("secrets");
    let keys = secrets::load_or_make(&dir, FILE, given)?;
    Seal::parse(&keys).with_context(|| match given {
        Some(_) => "SECRETS_KEY can't be used".to_owned(),
        None => format!("can't use the secret file {}", dir.join(FILE).display()),
    })
}

/// Loads the keys like [`load`], and makes none: without any, the seal can't encrypt.
pub(crate) fn existing(settings: &Settings, data_dir: &Path) -> anyhow::Result<Seal> {
    let file = data_dir.join("secrets").join(FILE);
    let none = settings.data.secrets_key.is_none()
        && !file.try_exists().with_context(|| format!("can't look at {}", file.display()))?;
    if none { Ok(Seal::default()) } else { load(settings, data_dir) }
}

/// Adds the keys of a backup behind those in the folder `dir`, so that they decrypt and don't encrypt. Returns how many
/// were new.
pub(crate) fn add_keys(dir: &Path, more: &SecretString) -> anyhow::Result<usize> {
    let own = secrets::load_or_make(dir, FILE, None)?;
    let known: Vec<&str> = own.expose_secret().lines().map(str::trim).collect();
    let more = more.expose_secret().lines().map(str::trim).filter(|it| !it.is_empty());
    let new: Vec<&str> = more.filter(|it| !known.contains(it)).collect();
    if new.is_empty() {
        return Ok(0);
    }
    let all: SecretString = format!("{}\n{}\n", own.expose_secret().trim(), new.join("\n")).into();
    Seal::parse(&all).context("the keys of the backup can't be used")?;
    secrets::replace(dir, FILE, &all)?;
    Ok(new.len())
}

/// Encrypts secrets that are stored in plain text, from before there were keys, or under an older key. Logs the
/// secrets that can't be decrypted.
pub(crate) async fn at_start(store: &Store) -> anyhow::Result<()> {
    let done = store.reseal().await.context("can't encrypt the secrets in the database")?;
    if done.sealed > 0 {
        info!(n = done.sealed, "secrets in the database were encrypted with the present key");
    }
    for what in done.unreadable {
        error!(
            "can't decrypt {what}: this gateway lacks that key; put it into DATA_DIR/secrets/{FILE}, or set the secret again"
        );
    }
    Ok(())
}

/// `gantry secrets rotate`: makes a new key and encrypts every secret with it.
pub(crate) fn run(
    matches: &ArgMatches,
    load_settings: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (_, sub) = matches.subcommand().context("say `rotate`")?;
    let settings = load_settings(sub)?;
    account::enter(&settings)?;
    ensure!(
        settings.data.secrets_key.is_none(),
        "the keys come from SECRETS_KEY: put a new key in front of the present one there, separated by a comma, and \
         restart every gateway; the first one that starts encrypts everything with it"
    );
    let data_dir = std::path::absolute(&settings.data.data_dir).context("DATA_DIR can't be resolved")?;
    let dir = data_dir.join("secrets");
    ensure!(
        dir.join(FILE).try_exists().unwrap_or(false),
        "there is no {}: run this with the settings of the gateway, as its user",
        dir.join(FILE).display()
    );
    // Locked, because a running gateway would know only the old keys.
    let _locks = Locks::take(&settings)?;
    let database = settings.database();
    let old = secrets::load_or_make(&dir, FILE, None)?;
    Seal::parse(&old).with_context(|| format!("can't use the secret file {}", dir.join(FILE).display()))?;
    let keys: SecretString =
        format!("{}\n{}\n", secrets::random().expose_secret(), old.expose_secret().trim()).into();
    let seal = Seal::parse(&keys)?;
    let id = seal.id().unwrap_or_default().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(async {
        let refused = "can't open the database";
        // Refuses any schema but this program's.
        Store::open_to_read(database.expose()).await.context(refused)?.close().await;
        let store = Store::open(database.expose()).await.context(refused)?.with_seal(seal);
        // Store the key before the rows: otherwise a crash could leave rows that no stored key can decrypt.
        secrets::replace(&dir, FILE, &keys)?;
        let text = rotate(&store, sub.get_flag("forget-lost"), &id).await;
        store.close().await;
        text
    })?;
    writeln!(std::io::stdout(), "{text}").context("can't write the output")?;
    Ok(ExitCode::SUCCESS)
}

async fn rotate(store: &Store, forget: bool, id: &str) -> anyhow::Result<String> {
    let done = store.reseal().await.context("can't encrypt the secrets in the database")?;
    let mut lines = vec![format!("{} secrets are encrypted with the new key {id}", done.sealed)];
    if forget {
        let mut tx = store.write().await?;
        let gone = tx.forget_unreadable().await?;
        tx.commit().await?;
        lines.extend(gone.into_iter().map(|it| format!("deleted, because no key here decrypts it: {it}")));
    } else {
        let left = done.unreadable.into_iter();
        lines.extend(left.map(|it| format!("can't be decrypted, and stays as it is: {it}")));
    }
    lines.push(format!(
        "other gateways on this database need the new DATA_DIR/secrets/{FILE} before they start again"
    ));
    Ok(lines.join("\n"))
}
