//! JSON files of one user in `$XDG_CONFIG_HOME/gantry` (else `~/.config/gantry`), mode 0600. A process that changes a
//! file holds a lock beside it, so that two changes at once lose nothing; a crash leaves the file as it was.

use std::{
    fs,
    io::{self, Write},
    marker::PhantomData,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::exit::{Failure, Outcome};

#[derive(Debug)]
pub(crate) struct PrivateFile<T> {
    path: PathBuf,
    /// Advice for a damaged file.
    remedy: &'static str,
    kind: PhantomData<T>,
}

impl<T: Default + Serialize + DeserializeOwned> PrivateFile<T> {
    pub(crate) fn new(path: PathBuf, remedy: &'static str) -> Self {
        Self { path, remedy, kind: PhantomData }
    }

    /// # Errors
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub(crate) fn of_user(name: &str, remedy: &'static str) -> Outcome<Self> {
        let dir = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|it| it.join(".config")));
        let config = config.ok_or_else(|| {
            Failure::Failed("HOME is not set, so there is nowhere to keep a session".to_owned())
        })?;
        Ok(Self::new(config.join("gantry").join(name), remedy))
    }

    /// Returns the file's value, or the default if there is no file.
    pub(crate) fn read(&self) -> Outcome<T> {
        self.parse()?
            .ok_or_else(|| Failure::Failed(format!("{} is damaged: {}", self.path.display(), self.remedy)))
    }

    /// Returns `None` if the file is damaged.
    fn parse(&self) -> Outcome<Option<T>> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(T::default())),
            Err(error) => Err(Failure::Failed(format!("can't read {}: {error}", self.path.display()))),
        }
    }

    /// Changes the file under its lock. A damaged file is replaced by a new one, because nothing in it can be kept.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> Outcome<R> {
        let _lock = self.lock().map_err(|error| self.unwritten(&error))?;
        let mut value = self.parse()?.unwrap_or_default();
        let done = change(&mut value);
        self.write(&value).map_err(|error| self.unwritten(&error))?;
        Ok(done)
    }

    /// Waits for the lock, which another process holds only during its change. The lock ends when the returned file is
    /// dropped or the process ends.
    fn lock(&self) -> io::Result<fs::File> {
        if let Some(dir) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        Failure::Failed(format!("can't write {}: {error}", self.path.display()))
    }

    /// Writes the file so that no other user can read it at any moment. The caller must hold the lock.
    fn write(&self, value: &T) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(value)?;
        let part = self.path.with_extension("json.new");
        // A crash may have left this file, with secrets in it.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let done =
            new.write_all(&text).and_then(|()| new.sync_all()).and_then(|()| fs::rename(&part, &self.path));
        done.inspect_err(|_| drop(fs::remove_file(&part)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn changes_that_are_made_at_once_are_all_kept() {
        let dir = tempfile::TempDir::new().unwrap();
        let file: PrivateFile<BTreeMap<String, u32>> =
            PrivateFile::new(dir.path().join("gantry/session.json"), "");
        for round in 0..4 {
            std::thread::scope(|scope| {
                for n in 0..8 {
                    let file = &file;
                    scope.spawn(move || file.change(|it| it.insert(n.to_string(), round)).unwrap());
                }
            });
            let kept = file.read().unwrap();
            assert!(kept.len() == 8 && kept.values().all(|it| *it == round), "{kept:?}");
        }
    }
}
