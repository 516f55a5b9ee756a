//! Where settings come from, and the refusal of what is unknown.

use std::{collections::BTreeMap, fmt, io, path::Path};

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Default,
    EnvFile,
    Environment,
    /// A file named by `<NAME>_FILE`.
    SecretFile,
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::EnvFile => ".env",
            Self::Environment => "environment",
            Self::SecretFile => "secret file",
            Self::Flag => "flag",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("{name} (from {origin}) must be {allowed}")]
    Malformed { name: String, origin: Origin, allowed: &'static str },
    #[error("there is no setting {name} ({origin}){}", did_you_mean(.near.as_ref()))]
    Unknown { name: String, origin: Origin, near: Option<String> },
    #[error("{name} {why}")]
    Refused { name: &'static str, why: String },
    #[error("can't read {what}")]
    Unreadable {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("line {line} of the .env file is not NAME=value")]
    EnvFile { line: usize },
}

fn did_you_mean(near: Option<&String>) -> String {
    near.map(|it| format!("; did you mean {it}?")).unwrap_or_default()
}

/// Raw texts by name, for each origin.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub flags: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    pub env_file: BTreeMap<String, String>,
}

/// Variables of other programs that count where ours is not set.
const ALIASES: &[(&str, &str)] = &[("CONTAINER_HOST", "DOCKER_HOST")];
/// Variables of this prefix are ours, so an unknown one is a typing error.
const OURS: &str = "GATEWAY_";

impl Sources {
    /// Takes the process's environment, and the `.env` file in `dir` if there is one.
    ///
    /// # Errors
    /// The file can't be read, or a line of it is malformed.
    pub fn from_process(
        flags: BTreeMap<String, String>,
        environment: impl Iterator<Item = (String, String)>,
        dir: &Path,
    ) -> Result<Self, SettingsError> {
        let path = dir.join(".env");
        let env_file = match std::fs::read_to_string(&path) {
            Ok(text) => parse_env_file(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(SettingsError::Unreadable { what: ".env".to_owned(), source }),
        };
        Ok(Self { flags, environment: environment.collect(), env_file })
    }

    /// The text of setting `name` with where it came from.
    pub(crate) fn get(&self, name: &str, default: &str) -> Result<(String, Origin), SettingsError> {
        if let Some(text) = self.flags.get(name) {
            return Ok((text.clone(), Origin::Flag));
        }
        let alias = ALIASES.iter().find(|(it, _)| *it == name).map(|(_, alias)| *alias);
        for name in [Some(name), alias].into_iter().flatten() {
            if let Some(text) = self.environment.get(name) {
                return Ok((text.clone(), Origin::Environment));
            }
        }
        if let Some(path) = self.environment.get(&format!("{name}_FILE")) {
            let text = std::fs::read_to_string(path)
                .map_err(|source| SettingsError::Unreadable { what: format!("{name}_FILE"), source })?;
            return Ok((text.trim_end_matches(['\r', '\n']).to_owned(), Origin::SecretFile));
        }
        if let Some(text) = self.env_file.get(name) {
            return Ok((text.clone(), Origin::EnvFile));
        }
        let home = self.environment.get("HOME").map_or("/", String::as_str);
        Ok((default.replacen('~', home, 1), Origin::Default))
    }

    pub(crate) fn refuse_unknown(&self, names: &[String], secrets: &[String]) -> Result<(), SettingsError> {
        let known = |name: &String| {
            names.contains(name)
                || name.strip_suffix("_FILE").is_some_and(|it| secrets.iter().any(|s| s == it))
        };
        let strangers = self
            .flags
            .keys()
            .map(|it| (it, Origin::Flag))
            .chain(self.env_file.keys().map(|it| (it, Origin::EnvFile)))
            .chain(
                self.environment.keys().filter(|it| it.starts_with(OURS)).map(|it| (it, Origin::Environment)),
            );
        match strangers.into_iter().find(|(name, _)| !known(name)) {
            None => Ok(()),
            Some((name, origin)) => {
                let near = names.iter().min_by_key(|it| distance(it, name)).cloned();
                let near = near.filter(|it| distance(it, name) <= 4);
                Err(SettingsError::Unknown { name: name.clone(), origin, near })
            }
        }
    }
}

/// `NAME=value` lines; `#` begins a comment line; a value may stand in quotes.
fn parse_env_file(text: &str) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut values = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line
            .strip_prefix("export ")
            .unwrap_or(line)
            .split_once('=')
            .ok_or(SettingsError::EnvFile { line: index + 1 })?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|it| value.strip_prefix(*it)?.strip_suffix(*it));
        values.insert(name.trim().to_owned(), quoted.unwrap_or(value).to_owned());
    }
    Ok(values)
}

/// Levenshtein distance, for "did you mean".
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(corner + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn sources(environment: &[(&str, &str)]) -> Sources {
        let pairs = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Sources { environment: pairs.collect(), ..Sources::default() }
    }

    fn error(environment: &[(&str, &str)]) -> String {
        let loaded = Settings::load(&sources(environment)).and_then(|(it, _)| it.check());
        loaded.unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_safe_and_complete() {
        let (settings, entries) = Settings::load(&sources(&[("HOME", "/home/me")])).unwrap();
        settings.check().unwrap();
        assert_eq!(settings.gateway_listen.to_string(), "127.0.0.1:8084");
        assert_eq!(settings.database().expose(), "sqlite:///home/me/.local/share/gantry/gantry.db");
        assert!(!settings.gateway_dev_allow_all_keys);
        assert!(entries.iter().all(|it| it.doc.len() > 10 && it.origin == Origin::Default));
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file() {
        let mut sources = sources(&[("STOP_TIMEOUT_SEC", "20"), ("HEALTH_POLL_SEC", "7")]);
        sources.env_file =
            parse_env_file("# x\nexport HEALTH_POLL_SEC='9'\nLOG_FORMAT = \"json\"\n").unwrap();
        sources.flags.insert("STOP_TIMEOUT_SEC".into(), "30".into());
        let (settings, _) = Settings::load(&sources).unwrap();
        assert_eq!(settings.stop_timeout_sec.as_secs(), 30);
        assert_eq!(settings.health_poll_sec.as_secs(), 7);
        assert_eq!(settings.log_format, crate::LogFormat::Json);
    }

    #[test]
    fn wrong_values_and_names_are_refused_by_name() {
        assert_eq!(
            error(&[("GATEWAY_LISTEN", "8084")]),
            "GATEWAY_LISTEN (from environment) must be an address such as 127.0.0.1:8084"
        );
        assert_eq!(
            error(&[("GATEWAY_LISTN", "x")]),
            "there is no setting GATEWAY_LISTN (environment); did you mean GATEWAY_LISTEN?"
        );
        assert!(error(&[("CORS_ALLOW_ORIGINS", "*")]).contains("`*` is refused"));
        assert!(error(&[("HEALTH_POLL_SEC", "0")]).contains("from 1 to"));
        assert!(
            error(&[("GATEWAY_LISTEN", "0.0.0.0:80"), ("GATEWAY_DEV_ALLOW_ALL_KEYS", "true")])
                .contains("GATEWAY_DEV_ALLOW_REMOTE")
        );
    }

    #[test]
    fn secrets_are_never_shown_and_may_lie_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, "a-very-secret-value\n").unwrap();
        let (settings, entries) = Settings::load(&sources(&[
            ("SESSION_SECRET_FILE", path.to_str().unwrap()),
            ("DATABASE_URL", "postgres://me:hunter2@db/gantry"),
        ]))
        .unwrap();
        let shown = format!("{settings:?} {entries:?}");
        assert!(!shown.contains("very-secret") && !shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("postgres://me:***@db/gantry"));
        assert!(error(&[("SESSION_SECRET", "short")]).contains("16 to 512"));
    }
}
