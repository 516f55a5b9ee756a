//! The job that puts the content of a dump in place of the database's.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use gantry_domain::{ApiError, audit::AuditEntry, deployment::RestoreRequest};
use gantry_package::{
    checksums::Sha256Sum,
    contents::{DUMP, Database, RESTORE_BACKUPS},
    hashing::Hasher,
    package::{OpenError, Package},
    path::PackagePath,
    verify::Progress,
};
use gantry_store::{DumpSecrets, Proof, StoreError, SwapRecord, check_dump};
use serde::Serialize;

use super::{
    artifacts,
    dump_source::describes,
    failed, selection,
    thread::{Work, cancelled},
};

/// Bytes of a dump that are read or written at a time.
const PIECE: usize = 1 << 20;

/// What a restore did, as the job's record has it.
#[derive(Serialize)]
struct Made {
    /// What was proven of the database that is now in place.
    proof: Proof,
    /// Where the database as it was is, relative to `output_dir`; `None` if no backup was asked for.
    backup: Option<String>,
    /// When the dump was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    dumped_at: Option<String>,
}

/// Restores the dump. Until the swap the database is untouched; after it, it is the dump's and proven, and has the end of
/// the job and a row of the audit log (`did`; the row from before is in the old database, or in its backup).
pub(super) fn run(work: &Work, request: &RestoreRequest, did: &AuditEntry) -> Result<(), ApiError> {
    let store = &work.control.store;
    work.job.step("looking at the dump");
    let (expected, package) = expected(work, request)?;
    if !request.drop_existing {
        work.wait(store.check_unused())?.map_err(|error| unrestored(&error))?;
    }
    let (from, size) = opened(&request.file, package.as_ref())
        .map_err(|error| failed(format!("the dump can't be read: {error}")))?;
    work.job.set_total(size);
    let backup = request.backup_first.then(|| back_up(work, &request.dir)).transpose()?;
    work.job.step("loading the dump into a scratch database, and proving it");
    let dir = &work.control.config.data_dir;
    let tidy = async { store.remove_scratch(dir).await };
    work.wait(tidy)?.map_err(|error| unrestored(&error))?;
    let mut dump = Dump {
        from: BufReader::with_capacity(PIECE, from),
        progress: &work.progress,
        hasher: Hasher::default(),
    };
    let name = format!("job{}", work.job.id());
    let loaded = work.wait(store.load(&mut dump, dir, &name, None))?;
    let scratch =
        loaded.map_err(|error| if work.is_cancelled() { cancelled() } else { unrestored(&error) })?;
    let sum = dump.hasher.finish();
    if let Err(why) = expected.compare(&sum, scratch.proof()) {
        work.wait(scratch.remove())?;
        return Err(failed(format!("the dump is not the one that the package's manifest describes: {why}")));
    }
    let (proof, dumped_at) = (scratch.proof().clone(), scratch.header().map(|it| it.created_at.clone()));
    work.job.step("putting the restored database in place");
    work.job.made(artifacts(&Made { proof, backup, dumped_at }));
    let now = work.control.clock.now();
    let record = SwapRecord { job: &work.job.completed(now), did, now };
    // The swap is one transaction. If the job is cancelled meanwhile, whichever ends the job's record first wins.
    let swapped = work.wait_whatever(store.swap(scratch, request.drop_existing, Some(&record)));
    swapped.map_err(|error| unrestored(&error))?;
    work.control.restores.send_modify(|n| *n += 1);
    Ok(())
}

/// What the package's manifest says of the dump.
struct Expected(Option<(Sha256Sum, Option<Database>)>);

/// Returns what the package says of the dump, if the dump is part of one, and the package if it has the dump in pieces. With a
/// trusted key the dump must be part of a package.
fn expected(
    work: &Work,
    request: &RestoreRequest,
) -> Result<(Expected, Option<(Package, PackagePath)>), ApiError> {
    let package = match Package::open(&request.dir) {
        Ok(_) => selection::open(&work.control, &request.dir, request.base.as_deref())?,
        Err(error) if work.control.config.engines.package_trusted_key.is_some() => {
            return Err(failed(format!(
                "PACKAGE_TRUSTED_KEY asks for a signed package, and there is none in the folder: {error}"
            )));
        }
        Err(OpenError::NoManifest(_)) => return Ok((Expected(None), None)),
        // What a damaged manifest says of the dump is not known, and it is no reason to do without it.
        Err(error) => {
            return Err(failed(format!(
                "the package's manifest can't be used, so nothing proves that the dump is the one of the package: {error}. Verify the \
                 package, or put the dump into a folder without a manifest"
            )));
        }
    };
    let name = request.file.strip_prefix(&request.dir).ok().and_then(Path::to_str);
    let name = name.and_then(|it| PackagePath::new(it).ok());
    let entry = name.as_ref().and_then(|it| package.manifest().files.get(it)).copied();
    match (entry, name) {
        (Some(entry), Some(name)) => {
            let of_dump = name.as_str() == DUMP;
            let database = package.manifest().contents.database.clone().filter(|_| of_dump);
            let expected = Expected(Some((entry.sha256, database)));
            Ok((expected, entry.in_base.then_some((package, name))))
        }
        _ if work.control.config.engines.package_trusted_key.is_some() => Err(failed(
            "PACKAGE_TRUSTED_KEY asks for a signed package, and the dump is not part of it; `gantry restore` on this machine \
             restores it",
        )),
        _ => Ok((Expected(None), None)),
    }
}

/// Opens the dump: the file, or that of a package that has it in pieces. Returns its size, too.
fn opened<'a>(
    file: &Path,
    package: Option<&'a (Package, PackagePath)>,
) -> io::Result<(Box<dyn Read + Send + 'a>, u64)> {
    if let Some((package, name)) = package {
        let size = package.manifest().files.get(name).map_or(0, |it| it.size);
        return Ok((Box::new(package.content(name)?), size));
    }
    let file = File::open(file)?;
    let size = file.metadata()?.len();
    Ok((Box::new(file), size))
}

impl Expected {
    fn compare(&self, sum: &Sha256Sum, proof: &Proof) -> Result<(), String> {
        let Some((wanted, database)) = &self.0 else { return Ok(()) };
        if sum != wanted {
            return Err("its SHA-256 is another one".to_owned());
        }
        let Some(database) = database else { return Ok(()) };
        describes(database, proof)
    }
}

/// Writes the database as it is beside the package, reads it back, and returns its name relative to the package's folder.
fn back_up(work: &Work, dir: &Path) -> Result<String, ApiError> {
    work.job.step("backing up the database as it is");
    let now = work.control.clock.now();
    let digits: String = now.rfc3339().chars().filter(char::is_ascii_digit).collect();
    let name = format!("{RESTORE_BACKUPS}/gantry-{digits}.sql");
    let (path, part) = (dir.join(&name), dir.join(format!("{name}.part")));
    let unwritten = |error: io::Error| failed(format!("the backup can't be written: {error}"));
    if let Some(folder) = path.parent() {
        private_folders(folder).map_err(unwritten)?;
    }
    let written = write_backup(work, &part);
    if written.is_err() {
        // What is half-written must not look like a backup.
        let _ = fs::remove_file(&part);
    }
    written?;
    fs::rename(&part, &path).map_err(unwritten)?;
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    File::open(folder).and_then(|it| it.sync_all()).map_err(unwritten)?;
    work.job.log(format!("the database as it was is in {name}, read back and proven"));
    Ok(name)
}

fn write_backup(work: &Work, part: &Path) -> Result<(), ApiError> {
    let unwritten = |error: io::Error| failed(format!("the backup can't be written: {error}"));
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part);
    let file = BufWriter::with_capacity(PIECE, file.map_err(unwritten)?);
    let mut to = Stoppable { file, progress: &work.progress };
    let now = work.control.clock.now();
    let dumped = work.wait(work.control.store.dump(DumpSecrets::Sealed, now, &mut to))?;
    let proof = dumped.map_err(|error| {
        if work.is_cancelled() {
            return cancelled();
        }
        failed(format!("the database can't be backed up: {}", told(&error)))
    })?;
    let file = to.file.into_inner().map_err(|error| unwritten(error.into_error()))?;
    file.sync_all().map_err(unwritten)?;
    let back = File::open(part).map_err(unwritten)?;
    let report =
        check_dump(Stoppable { file: BufReader::with_capacity(PIECE, back), progress: &work.progress });
    if work.is_cancelled() {
        return Err(cancelled());
    }
    let problem = report.problems.first().cloned().or_else(|| {
        let read = report.proof?;
        read.differences(&proof).into_iter().next()
    });
    match problem {
        None => Ok(()),
        Some(why) => Err(failed(format!("the backup is not what was written: {why}"))),
    }
}

fn private_folders(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Says why nothing was restored.
fn unrestored(error: &StoreError) -> ApiError {
    failed(format!("nothing was restored: {}", told(error)))
}

/// Returns an error with its causes in one line.
pub(super) fn told(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors have their cause in their own text.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A dump that is read for a restore: counted, hashed, and cut off when the job is cancelled.
struct Dump<'a> {
    from: BufReader<Box<dyn Read + Send + 'a>>,
    progress: &'a Arc<Progress>,
    hasher: Hasher,
}

impl Read for Dump<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.progress.go_on()?;
        let n = self.from.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        self.progress.bytes.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

/// A file that is cut off when the job is cancelled. The work on it may never wait for anything else, where it could be ended.
struct Stoppable<'a, T> {
    file: T,
    progress: &'a Progress,
}

impl<T: Read> Read for Stoppable<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.progress.go_on()?;
        self.file.read(buffer)
    }
}

impl<T: Write> Write for Stoppable<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.progress.go_on()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
