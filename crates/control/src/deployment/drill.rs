//! Restore drills: from time to time the newest backup is restored into a scratch file and proven, so that a backup that
//! can't be restored is found before it is needed. The live database is not touched; only the result is stored in it.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use gantry_domain::{Timestamp, deployment::Drill};
use gantry_package::{
    contents::{DUMP, RESTORE_BACKUPS},
    hashing::Hasher,
    manifest::MANIFEST,
    package::Package,
};
use gantry_store::{Scratch, StoreResult, in_time};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{broadcast, oneshot},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    dump_source::{BACKUP_DATABASE, DumpSource, Hashed},
    restore::told,
    thread,
};
use crate::Control;

/// Folder in the data directory where the gateway puts backups, and where people may put theirs.
const BACKUPS: &str = "backups";
/// The scratch file in the data directory.
const SCRATCH: &str = "restore-drill.db";
/// Longest time until a drill that failed is repeated.
const AGAIN: Duration = Duration::from_hours(1);
/// How deep below an export folder packages are looked for.
const DEPTH: usize = 3;
/// After this many periods without a success, readiness is degraded.
const PERIODS: u32 = 2;
/// Why a drill fails without a backup.
const NOTHING: &str = "there is nothing to restore from: make a backup (`gantry backup`) in DATA_DIR/backups, or export a package";

/// What is known of the drills of this gateway.
#[derive(Debug)]
pub struct Drills {
    /// `None` if there are none.
    period: Option<Duration>,
    /// Key of the last result in the table of facts. Each gateway has its own, because each sees its own backups.
    key: String,
    started_at: Timestamp,
    last: Mutex<Option<Drill>>,
    updates: broadcast::Sender<Drill>,
}

impl Drills {
    /// `home` is the id of the data directory.
    pub fn new(period: Option<Duration>, home: &str, started_at: Timestamp) -> Self {
        let (updates, _) = broadcast::channel(16);
        Self { period, key: format!("restore_drill/{home}"), started_at, last: Mutex::default(), updates }
    }

    /// Returns the last drill.
    pub fn last(&self) -> Option<Drill> {
        self.last.lock().clone()
    }

    /// Returns a receiver of each drill that ends from now on.
    pub fn updates(&self) -> broadcast::Receiver<Drill> {
        self.updates.subscribe()
    }

    /// Whether there are drills.
    pub fn are_on(&self) -> bool {
        self.period.is_some()
    }

    /// Checks that the last drill succeeded, and not too long ago.
    ///
    /// # Errors
    /// What is wrong, in one line that anybody may see.
    pub fn check(&self, now: Timestamp) -> Result<(), String> {
        let Some(period) = self.period else { return Ok(()) };
        let last = self.last.lock();
        match last.as_ref() {
            Some(Drill { error: Some(_), backup: None, .. }) => return Err(NOTHING.to_owned()),
            Some(Drill { error: Some(_), .. }) => {
                return Err(
                    "the newest backup could not be restored for a trial: the gateway's log says why"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let since = last.as_ref().and_then(|it| it.proven_at).unwrap_or(self.started_at);
        if now > since.plus(period * PERIODS) {
            return Err(format!("no backup was proven since {}", since.rfc3339()));
        }
        Ok(())
    }

    /// Returns the time until the next drill.
    fn due_in(&self, now: Timestamp, period: Duration) -> Duration {
        let last = self.last.lock();
        let Some(drill) = last.as_ref() else { return Duration::ZERO };
        let pause = if drill.error.is_some() { period.min(AGAIN) } else { period };
        let left = drill.at.plus(pause).0 - now.0;
        // A clock that was set back must not put drills off for years.
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(period)
    }
}

/// Does the drills until `stop`.
pub async fn run(control: Arc<Control>, stop: CancellationToken) {
    let Some(period) = control.drills.period else { return stop.cancelled().await };
    remember(&control).await;
    // After a failure somebody may have fixed it before they started the gateway again.
    let mut at_once = control.drills.last().is_some_and(|it| it.error.is_some());
    loop {
        let due_in = control.drills.due_in(control.clock.now(), period);
        let pause = if std::mem::take(&mut at_once) { Duration::ZERO } else { due_in };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        let Some(drill) = drill(&control, &stop).await else { return };
        match &drill.error {
            None => info!(backup = drill.backup, "the newest backup was restored for a trial, and proven"),
            Some(why) => error!(backup = drill.backup, why, "the restore drill failed"),
        }
        *control.drills.last.lock() = Some(drill.clone());
        if let Err(error) = in_time(store(&control, &drill)).await {
            warn!(
                error = &error as &dyn std::error::Error,
                "the result of the restore drill could not be stored"
            );
        }
        // Nobody may be listening.
        let _ = control.drills.updates.send(drill);
    }
}

/// Reads the last result from before the start.
async fn remember(control: &Control) {
    let read = in_time(async { control.store.read().await?.meta_get(&control.drills.key).await }).await;
    let text = read.unwrap_or_else(|error| {
        warn!(error = &error as &dyn std::error::Error, "the result of the last restore drill can't be read");
        None
    });
    *control.drills.last.lock() = text.and_then(|it| serde_json::from_str(&it).ok());
}

async fn store(control: &Control, drill: &Drill) -> StoreResult<()> {
    let mut tx = control.store.write().await?;
    tx.meta_set(&control.drills.key, &serde_json::to_string(drill).unwrap_or_default()).await?;
    tx.commit().await
}

/// Does one drill. `None` if it was stopped.
async fn drill(control: &Control, stop: &CancellationToken) -> Option<Drill> {
    let (data_dir, now, until) = (control.config.data_dir.clone(), control.clock.now(), stop.clone());
    let mut export_dirs = control.config.engines.export_dirs.0.clone();
    if export_dirs.is_empty() {
        export_dirs.push(data_dir.join("exports"));
    }
    let runtime = Handle::current();
    let (done, ended) = oneshot::channel();
    let started = thread::start(move || {
        let Some(backup) = newest(&data_dir, &export_dirs) else {
            let _ = done.send((None, Some(NOTHING.to_owned())));
            return;
        };
        let proven = runtime.block_on(until.run_until_cancelled(prove(&backup, &data_dir, now, &until)));
        let _ = fs::remove_file(data_dir.join(SCRATCH));
        // Without a result it was stopped.
        if let Some(proven) = proven.filter(|_| !until.is_cancelled()) {
            let _ = done.send((Some(backup.path.display().to_string()), proven.err()));
        }
    });
    let (backup, error) = match started {
        Ok(()) => ended.await.ok()?,
        Err(error) => (None, Some(format!("a thread could not be started: {error}"))),
    };
    let before = control.drills.last().and_then(|it| it.proven_at);
    let at = control.clock.now();
    let proven_at = if error.is_none() { Some(at) } else { before };
    Some(Drill { at, backup, error, proven_at })
}

/// Restores a backup into the scratch file, and removes that.
async fn prove(backup: &Backup, dir: &Path, now: Timestamp, stop: &CancellationToken) -> Result<(), String> {
    let scratch = dir.join(SCRATCH);
    match fs::remove_file(&scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", scratch.display()));
        }
        _ => {}
    }
    let source = DumpSource::find(&backup.path, backup.base.as_deref())?;
    let dump = source.open(dir, now).await.map_err(|error| told(&error))?;
    let from = dump.read().map_err(|error| error.to_string())?;
    let mut from = Hashed { from: UntilStopped { from, stop }, hasher: Hasher::default() };
    let made = Scratch::in_file(&mut from, &scratch, None).await.map_err(|error| told(&error))?;
    let compared = dump.compare(&from.hasher.finish(), made.proof());
    made.remove().await;
    compared
}

/// A dump that is cut off when the gateway stops.
struct UntilStopped<'a, R> {
    from: R,
    stop: &'a CancellationToken,
}

impl<R: Read> Read for UntilStopped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the gateway stops"));
        }
        self.from.read(buffer)
    }
}

/// Something to restore from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Backup {
    path: PathBuf,
    /// The folder of the package's base, for a difference.
    base: Option<PathBuf>,
}

/// What was found in the folders of backups and packages.
#[derive(Default)]
struct Finds {
    /// With the time of the file that was written last.
    backups: Vec<(SystemTime, Backup)>,
    /// Folders with a manifest.
    packages: Vec<PathBuf>,
}

/// Returns the newest backup: what lies in `backups` in the data directory, the dumps that restores made, and packages
/// with a database. A difference counts if its base lies in one of the folders, too.
fn newest(data_dir: &Path, export_dirs: &[PathBuf]) -> Option<Backup> {
    let mut found = Finds::default();
    for path in entries(&data_dir.join(BACKUPS)) {
        if is_backup_file(&path) {
            found.note(&path, None, &path);
        }
        for file in [BACKUP_DATABASE, DUMP] {
            found.note(&path, None, &path.join(file));
        }
    }
    for dir in export_dirs {
        found.look(dir, DEPTH);
    }
    found.note_packages();
    found.backups.into_iter().max().map(|it| it.1)
}

impl Finds {
    /// Looks for packages and what belongs to them, in folders below `dir`.
    fn look(&mut self, dir: &Path, depth: usize) {
        for path in entries(dir).into_iter().filter(|it| it.is_dir()) {
            for dump in entries(&path.join(RESTORE_BACKUPS)).into_iter().filter(|it| is_backup_file(it)) {
                self.note(&dump, None, &dump);
            }
            if path.join(MANIFEST).is_file() {
                self.packages.push(path);
            } else if depth > 1 {
                self.look(&path, depth - 1);
            }
        }
    }

    /// Notes the packages that are a backup of the database. One without a database, or whose export has not ended, is none.
    fn note_packages(&mut self) {
        let ids = |path: PathBuf| {
            let package = Package::open(&path).ok()?;
            let manifest = package.manifest();
            Some((path, manifest.id.clone(), manifest.base.as_ref().map(|it| it.id.clone())))
        };
        let packages: Vec<_> = std::mem::take(&mut self.packages).into_iter().filter_map(ids).collect();
        for (path, _, base_id) in &packages {
            let base = packages.iter().find(|(_, id, _)| Some(id) == base_id.as_ref()).map(|it| it.0.clone());
            if DumpSource::find(path, base.as_deref()).is_ok() {
                self.note(path, base, &path.join(MANIFEST));
            }
        }
    }

    /// Notes a backup with the time of the file that was written last, if that is there.
    fn note(&mut self, path: &Path, base: Option<PathBuf>, file: &Path) {
        let modified =
            fs::metadata(file).ok().filter(fs::Metadata::is_file).and_then(|it| it.modified().ok());
        self.backups.extend(modified.map(|it| (it, Backup { path: path.to_owned(), base })));
    }
}

fn is_backup_file(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "db" || it == "sql")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().filter_map(|it| Some(it.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn at(days: i64) -> Timestamp {
        Timestamp(days * 86_400_000)
    }

    fn after(drill: Option<Drill>) -> Drills {
        let drills = Drills::new(Some(DAY), "home", at(0));
        *drills.last.lock() = drill;
        drills
    }

    #[expect(clippy::unnecessary_wraps, reason = "what was seen last may be nothing")]
    fn ended(day: i64, error: Option<&str>, proven: Option<i64>) -> Option<Drill> {
        let backup = Some("/b".to_owned());
        Some(Drill { at: at(day), backup, error: error.map(str::to_owned), proven_at: proven.map(at) })
    }

    #[test]
    fn readiness_wants_a_success_within_two_periods() {
        assert!(after(None).check(at(2)).is_ok(), "the first one may still come");
        assert!(after(None).check(at(3)).is_err());
        assert!(after(ended(5, None, Some(5))).check(at(7)).is_ok());
        assert!(after(ended(5, None, Some(5))).check(at(8)).is_err());
        let failed = after(ended(5, Some("/secret/path is damaged"), Some(4))).check(at(5)).unwrap_err();
        assert!(!failed.contains("/secret"), "{failed}");
        let nothing = Drill { backup: None, ..ended(5, Some(NOTHING), None).unwrap() };
        assert!(after(Some(nothing)).check(at(5)).unwrap_err().contains("nothing to restore from"));
        assert!(Drills::new(None, "home", at(0)).check(at(99)).is_ok());
    }

    #[test]
    fn a_drill_that_failed_is_repeated_sooner() {
        assert_eq!(after(None).due_in(at(0), DAY), Duration::ZERO);
        assert_eq!(after(ended(5, None, Some(5))).due_in(at(5), DAY), DAY);
        assert_eq!(after(ended(5, Some("x"), None)).due_in(at(5), DAY), AGAIN);
        assert_eq!(after(ended(5, None, Some(5))).due_in(at(9), DAY), Duration::ZERO);
        assert_eq!(after(ended(500, None, Some(500))).due_in(at(9), DAY), DAY, "the clock was set back");
    }

    #[test]
    fn the_newest_of_all_places_is_taken_and_nothing_half_made() {
        let dir = tempfile::tempdir().unwrap();
        let (data, exports) = (dir.path().join("data"), dir.path().join("exports"));
        let write = |path: &Path, age: u64| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = fs::File::create(path).unwrap();
            let epoch = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
            file.set_modified(epoch - Duration::from_secs(age)).unwrap();
        };
        let found = || newest(&data, std::slice::from_ref(&exports)).map(|it| it.path);
        assert_eq!(found(), None);
        write(&data.join("backups/before-upgrade-1-2-x.db"), 90);
        assert_eq!(found(), Some(data.join("backups/before-upgrade-1-2-x.db")));
        write(&data.join("backups/half.db.part"), 1);
        write(&data.join("backups/note.txt"), 1);
        write(&exports.join("p/manifest.json"), 1);
        assert_eq!(found(), Some(data.join("backups/before-upgrade-1-2-x.db")));
        write(&data.join("backups/folder/gantry.db"), 80);
        assert_eq!(found(), Some(data.join("backups/folder")));
        write(&exports.join("a/b/db/pre_restore_backup/gantry-1.sql"), 70);
        assert_eq!(found(), Some(exports.join("a/b/db/pre_restore_backup/gantry-1.sql")));
    }
}
