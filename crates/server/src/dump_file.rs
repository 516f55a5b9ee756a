//! Writes a dump of the database into a file that is worth having: complete, on the disk, and read back.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gantry_domain::Timestamp;
use gantry_store::{Proof, StoreResult, check_dump};

use crate::secrets::private_dir;

/// Folder in the data directory for the dumps and copies that the gateway makes by itself.
pub(crate) const BACKUPS: &str = "backups";
/// Bytes that are written or read at a time.
const PIECE: usize = 1 << 20;

/// Writes the dump that `dump` makes into a new file of mode 0600. The file has its name only once it was read back and
/// compared.
///
/// # Errors
/// The database or the disk fails, or what was read back is not what was written. Then nothing is left.
pub(crate) async fn write(
    path: &Path,
    dump: impl AsyncFnOnce(&mut (dyn Write + Send)) -> StoreResult<Proof>,
) -> anyhow::Result<Proof> {
    let folder = path.parent().unwrap_or(Path::new("."));
    private_dir(folder)?;
    let part = PathBuf::from(format!("{}.part", path.display()));
    let written = write_part(&part, dump).await;
    if written.is_err() {
        // What is half-written must not look like a backup.
        let _ = fs::remove_file(&part);
    }
    let proof = written.with_context(|| format!("can't write {}", path.display()))?;
    let placed = fs::rename(&part, path).and_then(|()| File::open(folder)?.sync_all());
    placed.with_context(|| format!("can't write {}", path.display()))?;
    Ok(proof)
}

async fn write_part(
    part: &Path,
    dump: impl AsyncFnOnce(&mut (dyn Write + Send)) -> StoreResult<Proof>,
) -> anyhow::Result<Proof> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)?;
    let mut to = BufWriter::with_capacity(PIECE, file);
    let proof = dump(&mut to).await?;
    to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    let report = check_dump(BufReader::with_capacity(PIECE, File::open(part)?));
    // A database without an owner is still worth a backup, so only what differs counts here.
    match report.proof.map(|it| it.differences(&proof)) {
        Some(none) if none.is_empty() => Ok(proof),
        Some(differences) => bail!("read back, it differs: {}", differences.join("; ")),
        None => bail!("read back, it is damaged: {}", report.problems.join("; ")),
    }
}

/// Returns a time as it is part of file names: `20261121T090500Z`, so that names sort by age.
pub(crate) fn stamp(now: Timestamp) -> String {
    let text = now.rfc3339();
    let seconds = text.split('.').next().unwrap_or_default();
    let digits = seconds.trim_end_matches('Z').chars().filter(char::is_ascii_alphanumeric);
    format!("{}Z", digits.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_time_to_the_second() {
        assert_eq!(stamp(Timestamp(1_795_255_500_123)), "20261121T100500Z");
        assert_eq!(stamp(Timestamp(1_795_255_500_000)), "20261121T100500Z");
    }
}
