//! Sessions that `gantry login` keeps: `$XDG_CONFIG_HOME/gantry/session.json` (else below `~/.config`), mode 0600, one for
//! each gateway. Who changes it holds a lock on `session.lock` beside it: two at once must not lose a session.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Outcome};

#[derive(Serialize, Deserialize)]
struct Kept {
    username: String,
    /// `name=value`.
    cookie: String,
}

type File = BTreeMap<String, Kept>;

/// Which file.
#[derive(Debug)]
pub(crate) struct Sessions(PathBuf);

impl Sessions {
    /// # Errors
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub(crate) fn of_user() -> Outcome<Self> {
        let dir = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let config = dir("XDG_CONFIG_HOME").or_else(|| dir("HOME").map(|it| it.join(".config")));
        let config = config.ok_or_else(|| {
            Failure::Failed("HOME is not set, so that there is no place for a session".to_owned())
        })?;
        Ok(Self(config.join("gantry/session.json")))
    }

    /// The cookie for this gateway.
    pub(crate) fn cookie(&self, url: &str) -> Outcome<Option<SecretString>> {
        Ok(self.read()?.remove(url).map(|it| it.cookie.into()))
    }

    /// Keeps the cookie in the place of the one that this gives back.
    pub(crate) fn keep(
        &self,
        url: &str,
        username: &str,
        cookie: &SecretString,
    ) -> Outcome<Option<SecretString>> {
        let kept = Kept { username: username.to_owned(), cookie: cookie.expose_secret().to_owned() };
        let before = self.change(|file| file.insert(url.to_owned(), kept))?;
        Ok(before.map(|it| it.cookie.into()))
    }

    /// Forgets this session; one that somebody began meanwhile stays.
    pub(crate) fn forget(&self, url: &str, cookie: &SecretString) -> Outcome<()> {
        self.change(|file| {
            if file.get(url).is_some_and(|it| it.cookie == cookie.expose_secret()) {
                file.remove(url);
            }
        })
    }

    fn read(&self) -> Outcome<File> {
        self.parse()?.ok_or_else(|| {
            Failure::Failed(format!("{} is damaged: run `gantry login` again", self.0.display()))
        })
    }

    /// `None` if it is damaged.
    fn parse(&self) -> Outcome<Option<File>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(File::new())),
            Err(error) => Err(Failure::Failed(format!("can't read {}: {error}", self.0.display()))),
        }
    }

    /// Changes the file while nobody else does.
    fn change<T>(&self, change: impl FnOnce(&mut File) -> T) -> Outcome<T> {
        let _lock = self.lock().map_err(|error| self.unwritten(&error))?;
        // A damaged one holds nothing worth keeping.
        let mut file = self.parse()?.unwrap_or_default();
        let done = change(&mut file);
        self.write(&file).map_err(|error| self.unwritten(&error))?;
        Ok(done)
    }

    /// Waits for whoever has it, for the moment that a change takes; ends with the value, and with the process.
    fn lock(&self) -> io::Result<fs::File> {
        if let Some(dir) = self.0.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut options = fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.0.with_extension("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn unwritten(&self, error: &io::Error) -> Failure {
        Failure::Failed(format!("can't write {}: {error}", self.0.display()))
    }

    /// Nobody else may read it at any moment, and a crash leaves the old one. For who has the lock.
    fn write(&self, file: &File) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(file)?;
        let part = self.0.with_extension("json.new");
        // One that a crash left, with a session in it.
        match fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let done =
            new.write_all(&text).and_then(|()| new.sync_all()).and_then(|()| fs::rename(&part, &self.0));
        done.inspect_err(|_| drop(fs::remove_file(&part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_kept_at_once_are_all_kept() {
        let dir = tempfile::TempDir::new().unwrap();
        let sessions = Sessions(dir.path().join("gantry/session.json"));
        let urls: Vec<String> = (0..8).map(|n| format!("http://box-{n}")).collect();
        for round in 0..4 {
            std::thread::scope(|scope| {
                for url in &urls {
                    let cookie = SecretString::from(format!("svc_session={url} {round}"));
                    scope.spawn(|| sessions.keep(url, "ada", &{ cookie }).unwrap());
                }
            });
            for url in &urls {
                let kept = sessions.cookie(url).unwrap().unwrap();
                assert_eq!(kept.expose_secret(), format!("svc_session={url} {round}"));
            }
        }
    }
}
