//! Sessions that `gantry login` keeps: `$XDG_CONFIG_HOME/gantry/session.json` (else below `~/.config`), mode 0600, one for
//! each gateway.

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

    pub(crate) fn keep(&self, url: &str, username: &str, cookie: &SecretString) -> Outcome<()> {
        // One that can't be read holds nothing worth keeping.
        let mut file = self.read().unwrap_or_default();
        let kept = Kept { username: username.to_owned(), cookie: cookie.expose_secret().to_owned() };
        file.insert(url.to_owned(), kept);
        self.write(&file)
    }

    pub(crate) fn forget(&self, url: &str) -> Outcome<()> {
        let mut file = self.read()?;
        if file.remove(url).is_some() {
            self.write(&file)?;
        }
        Ok(())
    }

    fn read(&self) -> Outcome<File> {
        match fs::read(&self.0) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|_| {
                Failure::Failed(format!("{} is damaged: run `gantry login` again", self.0.display()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(File::new()),
            Err(error) => Err(Failure::Failed(format!("can't read {}: {error}", self.0.display()))),
        }
    }

    /// Nobody else may read it at any moment, and a crash leaves the old one.
    fn write(&self, file: &File) -> Outcome<()> {
        let wrong = |error: io::Error| Failure::Failed(format!("can't write {}: {error}", self.0.display()));
        let text = serde_json::to_vec_pretty(file).map_err(|error| wrong(error.into()))?;
        if let Some(dir) = self.0.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(wrong)?;
        }
        let part = self.0.with_extension(format!("json.{}", std::process::id()));
        let mut new =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part).map_err(wrong)?;
        let done =
            new.write_all(&text).and_then(|()| new.sync_all()).and_then(|()| fs::rename(&part, &self.0));
        done.inspect_err(|_| drop(fs::remove_file(&part))).map_err(wrong)
    }
}
