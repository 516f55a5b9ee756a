//! Addresses of the database and of Redis. They may contain a password, which is never shown.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use crate::value::Value;

/// `sqlite://path` or `postgres://…`.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    /// Returns the address of a SQLite file.
    pub fn sqlite(path: &std::path::Path) -> Self {
        Self(format!("sqlite://{}", path.display()).into())
    }

    /// Returns the address with the password that it may contain.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

impl Value for DatabaseUrl {
    const ALLOWED: &'static str = "sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE";
    const ALLOWED_DE: &'static str = "sqlite://DATEI oder postgres://BENUTZER:PASSWORT@HOST/DATENBANK";
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let known = ["sqlite://", "postgres://", "postgresql://"].iter().any(|it| text.starts_with(it));
        known.then(|| Self(text.to_owned().into()))
    }

    fn show(&self) -> String {
        without_password(self.expose())
    }
}

/// Parameters of database and Redis addresses that are not secret. The values of all others are not shown.
const PLAIN_PARAMETERS: &[&str] = &[
    "application_name",
    "db",
    "dbname",
    "host",
    "hostaddr",
    "mode",
    "port",
    "protocol",
    "sslcert",
    "sslmode",
    "sslrootcert",
    "ssl-mode",
    "statement-cache-capacity",
    "user",
];

/// Returns the address without its password, which may be before the `@` or in a parameter.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    if scheme == "sqlite" {
        return url.to_owned();
    }
    let (head, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // The password was not percent-encoded, so its end can't be determined.
    if query.contains('@') {
        return format!("{scheme}://***");
    }
    let head = match head.rsplit_once('@') {
        Some((user, host)) => format!("{}:***@{host}", user.split(':').next().unwrap_or_default()),
        None => head.to_owned(),
    };
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if !PLAIN_PARAMETERS.contains(&name) => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let query = match query.strip_prefix('?') {
        Some(pairs) => format!("?{}", pairs.split('&').map(shown).collect::<Vec<_>>().join("&")),
        None if query.is_empty() => String::new(),
        None => "#***".to_owned(),
    };
    format!("{scheme}://{head}{query}")
}

/// `redis://…`
#[derive(Clone)]
pub struct RedisUrl(SecretString);

impl RedisUrl {
    /// Returns the address with the password that it may contain.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

impl Value for RedisUrl {
    const ALLOWED: &'static str = "redis://USER:PASSWORD@HOST:PORT/DATABASE, rediss:// for TLS, or unix:///PATH?pass=PASSWORD&db=DATABASE";
    const ALLOWED_DE: &'static str = "redis://BENUTZER:PASSWORT@HOST:PORT/DATENBANK, rediss:// für TLS, oder unix:///PFAD?pass=PASSWORT&db=DATENBANK";
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let schemes = ["redis", "rediss", "valkey", "valkeys", "unix"];
        // The client library would take the text after `#` as a request not to check the certificate.
        let known = text.split_once("://").is_some_and(|(scheme, rest)| {
            schemes.contains(&scheme) && !rest.is_empty() && !rest.contains('#')
        });
        known.then(|| Self(text.to_owned().into()))
    }

    fn show(&self) -> String {
        let shown = without_password(self.expose());
        // The password of a socket address is among the parameters.
        let Some((before, rest)) = shown.split_once("pass=") else { return shown };
        let after = rest.find('&').map_or("", |end| &rest[end..]);
        format!("{before}pass=***{after}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_redis_are_not_shown_and_certificates_not_optional() {
        for (url, shown) in [
            ("rediss://ada:hunter2@h:1/2", "rediss://ada:***@h:1/2"),
            ("valkeys://:hunter2@h", "valkeys://:***@h"),
            ("unix:///run/r.sock?pass=hunter2&db=1", "unix:///run/r.sock?pass=***&db=1"),
            ("unix:///run/r.sock?db=1&pass=hunter2", "unix:///run/r.sock?db=1&pass=***"),
            ("redis://h", "redis://h"),
        ] {
            let parsed = RedisUrl::parse(url).unwrap();
            assert_eq!((parsed.expose(), parsed.show().as_str()), (url, shown));
        }
        for bad in ["http://h", "rediss://h/#insecure", "redis://", "h:6379"] {
            assert!(RedisUrl::parse(bad).is_none(), "{bad}");
        }
    }
}
