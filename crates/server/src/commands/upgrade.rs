//! `gantry upgrade check`: what the next start of this program would do to the database, tried on a copy.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::ArgMatches;
use gantry_cli::{
    Exit,
    doctor::{self, Check},
};
use gantry_domain::{
    Clock, Role,
    model::{Model, ModelDraft, PortableModel},
};
use gantry_settings::{Entry, Settings, SettingsError};
use gantry_store::{DumpSecrets, Inspection, Store, dump_file, dump_server};

use crate::{account, before_upgrade, dump_file::BACKUPS, sealing};

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> Result<(Settings, Vec<Entry>), SettingsError>,
) -> anyhow::Result<Exit> {
    let (_, sub) = matches.subcommand().context("say `check`")?;
    let settings = match load(sub) {
        Ok((settings, _)) => settings,
        Err(error) => {
            let check = Check::fail(
                "settings",
                error.to_string(),
                "This program does not start with them, and nothing else can be checked.",
                "correct or remove the setting; docs/reference/settings.md lists all of them",
            );
            return Ok(doctor::report(&[check], sub));
        }
    };
    account::enter(&settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(doctor::report(&runtime.block_on(checks(&settings)), sub))
}

async fn checks(settings: &Settings) -> Vec<Check> {
    let mut checks = vec![Check::ok("settings", "this program accepts all of them")];
    let url = settings.database();
    let found = match gantry_store::inspect(url.expose()).await {
        Ok(found) => found,
        Err(error) => {
            let why = format!("{:#}", anyhow::Error::new(error));
            checks.push(Check::fail(
                "schema",
                why,
                "Without its database a gateway does not start.",
                "start the database, correct DATABASE_URL, or restore a backup: gantry restore",
            ));
            return checks;
        }
    };
    checks.push(schema(&found));
    let Some(version) = found.version.filter(|it| *it <= found.newest) else { return checks };
    if version < found.newest {
        checks.push(room(settings));
    }
    checks.extend(trial(settings).await);
    checks
}

fn schema(found: &Inspection) -> Check {
    const NAME: &str = "schema";
    let (kind, newest) = (found.kind, found.newest);
    match found.version {
        None => Check::ok(NAME, format!("{kind}: empty; the start makes schema version {newest}")),
        Some(version) if version > newest => Check::fail(
            NAME,
            format!("{kind}: schema version {version}, and this program knows {newest}"),
            "A newer program made it: this one does not start on it.",
            "use the newer program, or restore the backup from before its upgrade: gantry restore",
        ),
        Some(version) if version == newest => {
            Check::ok(NAME, format!("{kind}: schema version {version}, which stays"))
        }
        Some(version) => {
            let steps = gantry_store::migration_versions().filter(|it| it.0 > version);
            let steps: Vec<_> = steps.map(|it| it.1).collect();
            let found_is = format!("{kind}: schema version {version} becomes {newest}: {}", steps.join(", "));
            if found.may_create {
                return Check::ok(NAME, found_is);
            }
            Check::fail(
                NAME,
                found_is,
                "The role of the gateway may not create tables (CREATE) in the schema: it does not start.",
                "as the owner of the database: GRANT CREATE ON SCHEMA … TO …",
            )
        }
    }
}

/// Checks whether there is room for the backup before the upgrade, which is made first.
fn room(settings: &Settings) -> Check {
    const NAME: &str = "backup";
    if !settings.data.upgrade_backup {
        return Check::warn(
            NAME,
            "UPGRADE_BACKUP is off",
            "The schema is changed without a backup: there is no way back but one of your own.",
            "gantry backup DIR, or set UPGRADE_BACKUP=on",
        );
    }
    let dir = settings.data.data_dir.join(BACKUPS);
    let url = settings.database();
    let size = url.expose().strip_prefix("sqlite://").and_then(|it| before_upgrade::size(Path::new(it)));
    let free = free(&dir);
    let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1 << 20));
    match (size, free) {
        (Some(size), Some(free)) if size > free => Check::fail(
            NAME,
            format!(
                "the backup before the upgrade needs {}, and {} are free in {}",
                mib(size),
                mib(free),
                dir.display()
            ),
            "The gateway does not start: it changes no schema without a backup.",
            "make room, or set UPGRADE_BACKUP=off if you have a backup of your own",
        ),
        (Some(size), Some(free)) => Check::ok(
            NAME,
            format!(
                "the start first writes {} into {}, where {} are free",
                mib(size),
                dir.display(),
                mib(free)
            ),
        ),
        (_, free) => Check::ok(
            NAME,
            format!(
                "the start first writes a dump into {}, where {} are free",
                dir.display(),
                free.map_or_else(|| "an unknown number of MiB".to_owned(), mib)
            ),
        ),
    }
}

/// Returns the free bytes where a folder is or would be.
fn free(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|it| it.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Upgrades a copy of the database, and looks at what became of it.
async fn trial(settings: &Settings) -> Vec<Check> {
    let data = &settings.data.data_dir;
    let dir = if data.is_dir() { data.clone() } else { std::env::temp_dir() };
    let copy = dir.join(format!("upgrade-check-{}", uuid::Uuid::now_v7().simple()));
    let tried = try_on(settings, &copy).await;
    let _ = fs::remove_dir_all(&copy);
    match tried {
        Ok(Tried::NoOwner) => {
            vec![Check::ok("upgrade", "nobody can sign in yet, so there is nothing to prove an upgrade with")]
        }
        Ok(Tried::Models(models, unread)) => {
            let n = models.len();
            let mut checks =
                vec![Check::ok("upgrade", "a copy was upgraded, and proven to have the same rows and sums")];
            let mut refused: Vec<Check> = models.iter().filter_map(refused).collect();
            if unread > 0 {
                refused.push(Check::fail(
                    "models",
                    format!("records of models that this program can't read: {unread}"),
                    "They would be left out.",
                    "keep the present program; `gantry models list` of the present one shows all of them",
                ));
            }
            if refused.is_empty() {
                checks.push(Check::ok(
                    "models",
                    format!("this program accepts the settings of all models: {n}"),
                ));
            }
            checks.extend(refused);
            checks
        }
        Err(error) => vec![Check::fail(
            "upgrade",
            format!("a copy of the database can't be upgraded: {error:#}"),
            "The gateway would not start with this program, or not with everything.",
            "keep the present program, and report this",
        )],
    }
}

/// What became of the copy.
enum Tried {
    /// The database has no owner yet, and can't be proven.
    NoOwner,
    /// Its models, and how many records could not be read.
    Models(Vec<Model>, usize),
}

/// Dumps the database, restores the dump into a file in the new folder `dir`, which upgrades it, and reads its models.
async fn try_on(settings: &Settings, dir: &Path) -> anyhow::Result<Tried> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    fs::DirBuilder::new().mode(0o700).create(dir).with_context(|| dir.display().to_string())?;
    let (path, database): (PathBuf, PathBuf) = (dir.join("dump.sql"), dir.join("copy.db"));
    let (url, now) = (settings.database(), Clock::default().now());
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    let mut to = std::io::BufWriter::with_capacity(1 << 20, file);
    let proof = if let Some(file) = url.expose().strip_prefix("sqlite://") {
        dump_file(Path::new(file), now, &mut to).await?
    } else {
        let seal = sealing::existing(settings, &settings.data.data_dir)?;
        dump_server(url.expose(), DumpSecrets::Sealed, seal, now, &mut to).await?
    };
    to.flush()?;
    drop(to);
    if proof.enabled_owners == 0 {
        return Ok(Tried::NoOwner);
    }
    let from = std::io::BufReader::with_capacity(1 << 20, fs::File::open(&path)?);
    gantry_store::restore_file(from, &database, Some(&proof), now).await?;
    let store = Store::open_to_read(&format!("sqlite://{}", database.display())).await?;
    let store = store.with_seal(sealing::existing(settings, &settings.data.data_dir)?);
    let read = async { store.read().await?.models_for_reconcile().await };
    let read = read.await;
    store.close().await;
    let read = read?;
    Ok(Tried::Models(read.rows.into_iter().map(|it| it.model).collect(), read.bad.len()))
}

/// Returns the check of a model whose settings this program refuses.
fn refused(model: &Model) -> Option<Check> {
    let error = ModelDraft::create(&PortableModel::of(model, true).body, Role::Owner).err()?;
    let why: Vec<_> = error.iter().map(|it| format!("{}: {}", it.param, it.message)).collect();
    Some(Check::fail(
        "models",
        format!("{} (id {}): {}", model.served_name, model.id, why.join("; ")),
        "The model can't be started or changed with this program until that is corrected.",
        "correct it before the upgrade, as `gantry models set` does",
    ))
}
