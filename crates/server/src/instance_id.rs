//! The identity of this gateway: an id in its data directory. The id distinguishes a database from a copy of it, and
//! gateways that share a database from each other.

use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::Context;
use gantry_store::{DatabaseKind, Store};
use secrecy::SecretString;
use tracing::warn;
use uuid::Uuid;

/// File in the data directory with the id, and the path that the directory had when the file was written.
const FILE: &str = "gateway-id";
/// File in the data directory with the id of the database, which is the label of our containers.
const INSTANCE: &str = "instance";
/// Files of a data directory that say which engines belong to it. A backup includes them.
pub(crate) const FILES: [&str; 2] = [FILE, INSTANCE];

/// Returns the id of the data directory (a UUID), and makes it at the first call. A directory that was moved keeps its
/// id. A copy gets a new id while the original is still at its old path.
pub(crate) fn of_data_dir(dir: &Path) -> anyhow::Result<String> {
    let file = dir.join(FILE);
    let said = || format!("can't use {}", file.display());
    let here = dir.canonicalize().with_context(said)?;
    let here = here.to_string_lossy();
    let known = read(dir).with_context(said)?;
    let id = match known {
        Some((id, place)) if place == here => return Ok(id),
        Some((id, place)) => {
            let original = read(Path::new(&place)).ok().flatten();
            if original.is_none_or(|(there, _)| there != id) { id } else { Uuid::now_v7().to_string() }
        }
        None => Uuid::now_v7().to_string(),
    };
    let part = dir.join(format!("{FILE}.part"));
    let mut options = fs::OpenOptions::new();
    let mut out =
        options.write(true).create(true).truncate(true).mode(0o600).open(&part).with_context(said)?;
    writeln!(out, "{id}\n{here}").and_then(|()| out.sync_all()).with_context(said)?;
    fs::rename(&part, &file).with_context(said)?;
    Ok(id)
}

fn read(dir: &Path) -> std::io::Result<Option<(String, String)>> {
    match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => {
            let found = text.trim_end().split_once('\n');
            Ok(found.map(|(id, place)| (id.to_owned(), place.to_owned())))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the id of the database, which is the label of our containers. A SQLite file belongs to one data directory.
/// A copy in another directory gets its own id, so that its gateway leaves the containers of the original alone.
pub(crate) async fn of_database(store: &Store, dir: &Path, home: &str) -> anyhow::Result<String> {
    let mut tx = store.write().await?;
    let instance = match store.kind() {
        DatabaseKind::Postgres => tx.instance_id().await?,
        DatabaseKind::Sqlite => {
            let known = fs::read_to_string(dir.join(INSTANCE)).ok();
            let (id, is_copy) = tx.claim_home(home, known.as_deref().map(str::trim)).await?;
            if is_copy {
                warn!(
                    instance = %id,
                    "the database was copied from another data directory: engines that were started from there are \
                     left alone, and the models are stopped here"
                );
            }
            id
        }
    };
    tx.commit().await?;
    // Written so that an operator (and our tests) can tell which containers belong to which gateway.
    fs::write(dir.join(INSTANCE), instance.to_string()).context("can't write into DATA_DIR")?;
    Ok(instance.to_string())
}

/// Returns the API key of the engines. All gateways on one Postgres must share it: one of them supervises and starts
/// engines, the others send requests to these engines and may take over supervision.
pub(crate) async fn engine_key(store: &Store, own: SecretString) -> anyhow::Result<SecretString> {
    if store.kind() == DatabaseKind::Sqlite {
        return Ok(own);
    }
    let mut tx = store.write().await?;
    let key = tx.shared_secret("engine-key", &own).await?;
    tx.commit().await?;
    Ok(key)
}

/// Returns a readable name of this gateway: its machine and its data directory.
pub(crate) fn readable_name(dir: &Path) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), dir.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_moves_is_the_same_and_a_copy_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("first")).unwrap();
        let first = of_data_dir(&at("first")).unwrap();
        assert_eq!(of_data_dir(&at("first")).unwrap(), first);
        fs::rename(at("first"), at("moved")).unwrap();
        assert_eq!(of_data_dir(&at("moved")).unwrap(), first);
        fs::create_dir(at("copy")).unwrap();
        fs::copy(at("moved").join(FILE), at("copy").join(FILE)).unwrap();
        let copy = of_data_dir(&at("copy")).unwrap();
        assert_ne!(copy, first);
        assert_eq!((of_data_dir(&at("copy")).unwrap(), of_data_dir(&at("moved")).unwrap()), (copy, first));
    }
}
