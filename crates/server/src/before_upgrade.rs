//! The backup that is made before a start changes the schema of the database, and what there is to go back to.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context, anyhow};
use gantry_domain::Clock;
use gantry_settings::Settings;
use gantry_store::{DumpSecrets, Inspection, finish_pending};
use tracing::{info, warn};

use crate::{
    data_dir,
    database_wait::patiently,
    dump_file::{self, BACKUPS, stamp},
    sealing,
    secrets::private_dir,
};

/// Begins the names of these backups: `before-upgrade-<old version>-<new version>-<time>`, with the ending `.db` for SQLite
/// and `.sql` for Postgres.
const PREFIX: &str = "before-upgrade-";
/// How many of them are kept.
const KEPT: usize = 3;
/// How a start goes on without the backup.
const WITHOUT: &str = "make room, or set UPGRADE_BACKUP=off if you have a backup of your own; `gantry upgrade check` says how much room is needed";

/// Backs the database up if this program would change its schema.
///
/// # Errors
/// The backup fails: then the database must not be opened. Or the database is of a newer program.
pub(crate) async fn back_up(settings: &Settings, home: &Path) -> anyhow::Result<()> {
    let database = settings.database();
    let (url, patience) = (database.expose(), settings.data.database_wait_sec.0);
    let file = url.strip_prefix("sqlite://").map(Path::new);
    if let Some(file) = file {
        // A restore that was interrupted decides which file is the database.
        finish_pending(file).context("can't open the database")?;
    }
    // A database that can't be looked at must not be opened either: it would be upgraded without a backup.
    let found = patiently(url, patience, || gantry_store::inspect(url)).await;
    let found = match file {
        Some(file) => found.with_context(|| data_dir::describe_database(file)),
        None => found.map_err(anyhow::Error::new),
    };
    let Inspection { version: Some(old), newest, .. } = found.context("can't open the database")? else {
        return Ok(());
    };
    if old > newest {
        return Err(anyhow!(newer(home, old, newest, file)).context("can't open the database"));
    }
    if old == newest {
        return Ok(());
    }
    if !settings.data.upgrade_backup {
        warn!(from = old, to = newest, "the schema is upgraded without a backup: UPGRADE_BACKUP is off");
        return Ok(());
    }
    let (begin, dir) = (Instant::now(), home.join(BACKUPS));
    let path = dir.join(format!("{PREFIX}{old}-{newest}-{}", stamp(Clock::default().now())));
    let path = path.with_extension(if file.is_some() { "db" } else { "sql" });
    let written = if file.is_some() { copy(url, &path).await } else { dump(settings, home, &path).await };
    written.with_context(|| {
        format!(
            "the database was not upgraded from schema version {old} to {newest}, because the backup before that failed: \
             nothing was changed; {WITHOUT}"
        )
    })?;
    info!(path = %path.display(), from = old, to = newest, ms = begin.elapsed().as_millis() as u64, "the database is backed up, and now upgraded");
    if let Err(error) = forget_old(&dir) {
        warn!(%error, "old backups from before upgrades could not be removed");
    }
    Ok(())
}

async fn copy(url: &str, path: &Path) -> anyhow::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    private_dir(dir)?;
    let part = PathBuf::from(format!("{}.part", path.display()));
    // What a crash left is no backup.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context(part.display().to_string());
        }
        _ => {}
    }
    gantry_store::back_up(url, &part).await?;
    let placed = fs::rename(&part, path).and_then(|()| fs::File::open(dir)?.sync_all());
    placed.with_context(|| path.display().to_string())
}

async fn dump(settings: &Settings, data_dir: &Path, path: &Path) -> anyhow::Result<()> {
    let (url, now) = (settings.database(), Clock::default().now());
    let seal = sealing::existing(settings, data_dir)?;
    let dump = async |to: &mut (dyn Write + Send)| {
        gantry_store::dump_server(url.expose(), DumpSecrets::Sealed, seal, now, to).await
    };
    dump_file::write(path, dump).await.map(drop)
}

/// A backup of this kind.
struct Found {
    path: PathBuf,
    /// Schema version of the database in it.
    version: i64,
    /// Time of its making, as in its name.
    stamp: String,
}

/// Returns the backups in a folder, newest first.
fn all(dir: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let is_whole = path.extension().is_some_and(|it| it == "db" || it == "sql");
        let name = path.file_stem().and_then(|it| it.to_str()).and_then(|it| it.strip_prefix(PREFIX));
        let mut parts = name.into_iter().filter(|_| is_whole).flat_map(|it| it.splitn(3, '-'));
        let (version, _, stamp) = (parts.next(), parts.next(), parts.next());
        if let (Some(version), Some(stamp)) = (version.and_then(|it| it.parse().ok()), stamp) {
            found.push(Found { stamp: stamp.to_owned(), path: path.clone(), version });
        }
    }
    found.sort_by(|one, other| other.stamp.cmp(&one.stamp));
    Ok(found)
}

/// Removes all but the newest.
fn forget_old(dir: &Path) -> io::Result<()> {
    for old in all(dir)?.into_iter().skip(KEPT) {
        fs::remove_file(&old.path)?;
        info!(path = %old.path.display(), "an old backup from before an upgrade is removed");
    }
    Ok(())
}

/// Says how to go on with a database that a newer program made.
fn newer(data_dir: &Path, found: i64, newest: i64, file: Option<&Path>) -> String {
    let backup =
        all(&data_dir.join(BACKUPS)).ok().and_then(|all| all.into_iter().find(|it| it.version <= newest));
    let back = match (backup, file) {
        (Some(it), Some(_)) => format!(
            "or go back to before its upgrade, without what happened since: gantry restore {}",
            it.path.display()
        ),
        (Some(it), None) => format!(
            "or go back to before its upgrade, without what happened since: name an empty database in DATABASE_URL, and then \
             gantry restore {}",
            it.path.display()
        ),
        (None, _) => format!(
            "there is no backup from before its upgrade in {}, so a backup of your own is the only way back",
            data_dir.join(BACKUPS).display()
        ),
    };
    format!(
        "it has schema version {found}, which a newer program made, and this one knows {newest}: use the newer program; {back}"
    )
}

/// Returns the room that the backup of a database takes, in bytes, as far as that is known: for a file.
pub(crate) fn size(file: &Path) -> Option<u64> {
    let of = |suffix: &str| fs::metadata(format!("{}{suffix}", file.display())).map(|it| it.len());
    Some(of("").ok()? + of("-wal").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_three_are_kept_whatever_versions_they_are_of() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "before-upgrade-9-13-20260101T000000Z.db",
            "before-upgrade-12-13-20260301T000000Z.sql",
            "before-upgrade-13-14-20260201T000000Z.db",
            "before-upgrade-2-9-20251201T000000Z.db",
        ];
        let others = [
            "before-upgrade-13-14-20260401T000000Z.db.part",
            "mine.db",
            "before-restore-20260101T000000Z.sql",
        ];
        for name in names.iter().chain(&others) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        forget_old(dir.path()).unwrap();
        let left = |name: &&&str| dir.path().join(name).exists();
        assert_eq!(names.iter().filter(left).collect::<Vec<_>>(), names[..3].iter().collect::<Vec<_>>());
        assert_eq!(others.iter().filter(left).count(), 3);
        assert!(newer(dir.path(), 99, 13, None).contains("no backup from before"));
    }
}
