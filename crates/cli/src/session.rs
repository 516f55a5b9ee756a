//! Logins that `gantry login` stores: a session or a token for each gateway, in `session.json`.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::{exit::Outcome, http::Login, private_file::PrivateFile};

#[derive(Serialize, Deserialize)]
struct Kept {
    username: String,
    /// `name=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cookie: Option<String>,
    /// A token for the admin API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Kept {
    fn new(username: &str, login: &Login) -> Self {
        let text = |it: &SecretString| Some(it.expose_secret().to_owned());
        let (cookie, token) = match login {
            Login::Nobody => (None, None),
            Login::Session(it) => (text(it), None),
            Login::Bearer(it) => (None, text(it)),
        };
        Self { username: username.to_owned(), cookie, token }
    }

    fn login(self) -> Login {
        match (self.cookie, self.token) {
            (Some(cookie), _) => Login::Session(cookie.into()),
            (None, Some(token)) => Login::Bearer(token.into()),
            (None, None) => Login::Nobody,
        }
    }

    fn is(&self, login: &Login) -> bool {
        let same = |kept: &Option<String>, it: &SecretString| kept.as_deref() == Some(it.expose_secret());
        match login {
            Login::Nobody => false,
            Login::Session(it) => same(&self.cookie, it),
            Login::Bearer(it) => same(&self.token, it),
        }
    }
}

/// Stored logins by the name that [`crate::target::Target::key`] returns.
#[derive(Debug)]
pub(crate) struct Sessions(PrivateFile<BTreeMap<String, Kept>>);

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("username", &self.username).finish_non_exhaustive()
    }
}

impl Sessions {
    /// # Errors
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub(crate) fn of_user() -> Outcome<Self> {
        Ok(Self(PrivateFile::of_user("session.json", "run `gantry login` again")?))
    }

    pub(crate) fn login(&self, key: &str) -> Outcome<Login> {
        Ok(self.0.read()?.remove(key).map_or(Login::Nobody, Kept::login))
    }

    /// Stores a login, and returns the login that it replaces.
    pub(crate) fn keep(&self, key: &str, username: &str, login: &Login) -> Outcome<Login> {
        let kept = Kept::new(username, login);
        let before = self.0.change(|file| file.insert(key.to_owned(), kept))?;
        Ok(before.map_or(Login::Nobody, Kept::login))
    }

    /// Forgets this login. A newer login that replaced it meanwhile stays.
    pub(crate) fn forget(&self, key: &str, login: &Login) -> Outcome<()> {
        self.0.change(|file| {
            if file.get(key).is_some_and(|it| it.is(login)) {
                file.remove(key);
            }
        })
    }

    /// Forgets the login that is stored for a place, and returns it.
    pub(crate) fn drop(&self, key: &str) -> Outcome<Login> {
        Ok(self.0.change(|file| file.remove(key))?.map_or(Login::Nobody, Kept::login))
    }
}
