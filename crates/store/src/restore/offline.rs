//! Restores a SQLite file while no gateway runs on it: the file may be damaged, and is kept under another name.

use std::{
    fs::{self, File},
    io::{self, Read, Seek},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use gantry_domain::Timestamp;

use crate::{
    Proof, StoreError, StoreResult,
    dump::write::dump_file,
    restore::{
        files::{self, with_suffix},
        pending::{NEW, Pending, at, finish_pending, mark},
        scratch::{Base, Scratch},
        sqlite,
    },
};

/// The first bytes of a SQLite file (<https://sqlite.org/fileformat.html>).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// What [`restore_file`] did.
#[derive(Debug)]
pub struct RestoredFile {
    pub proof: Proof,
    /// Where the old database is now; `None` if there was none.
    pub kept: Option<PathBuf>,
}

/// Opens a dump, or a SQLite file of Gantry as a dump of it. The dump of a file is written into `dir` and has no name
/// there. May block.
///
/// # Errors
/// Those of [`dump_file`]; [`StoreError::Dump`] if the file can't be read.
pub async fn open_dump(path: &Path, dir: &Path, now: Timestamp) -> StoreResult<File> {
    let unreadable = |error: io::Error| StoreError::Dump(error.into());
    let mut file = File::open(path).map_err(unreadable)?;
    let mut first = [0; MAGIC.len()];
    let read = file.read(&mut first).map_err(unreadable)?;
    if first[..read] != MAGIC[..] {
        return File::open(path).map_err(unreadable);
    }
    let name = dir.join(format!("gantry_restore_{}.db.sql", uuid::Uuid::now_v7().simple()));
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let mut dump = options.open(&name).map_err(StoreError::Sink)?;
    fs::remove_file(&name).map_err(StoreError::Sink)?;
    dump_file(path, now, &mut dump).await?;
    dump.rewind().map_err(unreadable)?;
    Ok(dump)
}

/// Loads a dump into a new file and proves it, and then puts that in the place of the SQLite file `target`, which no
/// process may have open. The old file is kept beside it. If the process is killed, the old or the new file counts;
/// the next [`crate::Store::open`] completes what was begun.
///
/// # Errors
/// Those of [`crate::Store::load`]. After an error the old file counts, unless it says otherwise.
pub async fn restore_file(
    from: impl Read,
    target: &Path,
    expected: Option<&Proof>,
    now: Timestamp,
) -> StoreResult<RestoredFile> {
    finish_pending(target)?;
    let new = with_suffix(target, NEW);
    files::remove(&new).map_err(|error| at(target, &error))?;
    let scratch = Scratch::in_file(from, &new, expected).await?;
    let proof = scratch.proof().clone();
    let Base::File { conn, file } = scratch.base else { return Err(StoreError::KindDiffers) };
    sqlite::close(conn, file.path()).await?;
    let digits: String = now.rfc3339().chars().filter(char::is_ascii_digit).collect();
    let name = target.file_name().and_then(|it| it.to_str());
    let name = name.ok_or_else(|| StoreError::Address(format!("{} is not UTF-8 text", target.display())))?;
    let pending = Pending { kept: format!("{name}.before-restore-{digits}") };
    let kept = target.exists().then(|| target.with_file_name(&pending.kept));
    mark(target, &pending).map_err(|error| at(target, &error))?;
    file.keep();
    finish_pending(target)?;
    Ok(RestoredFile { proof, kept })
}
