//! Reads settings from their sources and refuses unknown ones.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The id of the user `root`.
const ROOT: u32 = 0;

use gantry_domain::spelling::distance;

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// [`SYSTEM_FILE`]: the settings of the service that the package installs.
    SystemFile,
    /// A line of the `.env` file.
    EnvFile,
    /// An environment variable.
    Environment,
    /// A file named by `<NAME>_FILE`.
    SecretFile,
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::SystemFile => "settings file",
            Self::EnvFile => ".env",
            Self::Environment => "environment",
            Self::SecretFile => "secret file",
            Self::Flag => "flag",
        })
    }
}

/// Why the settings can't be used. Each message names the setting and where it comes from, never a secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The value has another form.
    #[error("{name} (from {origin}) must be {allowed}")]
    Malformed { name: String, origin: Origin, allowed: &'static str },
    /// There is no such setting.
    #[error("there is no setting {name} ({origin}){}", did_you_mean(.near.as_ref()))]
    Unknown { name: String, origin: Origin, near: Option<String> },
    /// A variable of the environment is almost a setting.
    #[error(
        "there is no setting {name} (environment); did you mean {near}? If it is another program's, start gantry \
         without it: `env -u {name} gantry`"
    )]
    Mistyped { name: String, near: String },
    /// `…_FILE` of a setting that is no secret.
    #[error(
        "{name} (from {origin}) counts for nothing: {setting} can't be given as a file. If it is another program's, start \
         gantry without it: `env -u {name} gantry`"
    )]
    NoFile { name: String, setting: String, origin: Origin },
    /// The values do not go together.
    #[error("{name} {why}")]
    Refused { name: &'static str, why: String },
    /// A file of a secret can't be read.
    #[error("can't read {what}")]
    Unreadable {
        what: String,
        #[source]
        source: io::Error,
    },
    /// A line of the `.env` file has another form.
    #[error("line {line} of {file} is not NAME=value")]
    EnvFile { file: String, line: usize },
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
    pub system_file: BTreeMap<String, String>,
    /// The reason, as a sentence, why an existing `.env` file was not read.
    pub passed_over: Option<String>,
}

/// The settings of the gateway that this machine runs as a service. Commands in a shell read it too, so that they refer
/// to the same gateway.
pub const SYSTEM_FILE: &str = "/etc/gantry/gantry.env";
/// The environment variable that names another file instead; an empty value reads no file.
pub const SYSTEM_FILE_VARIABLE: &str = "GANTRY_SETTINGS_FILE";

/// Variables of other programs that are used if ours is not set.
const ALIASES: &[(&str, &str)] = &[("CONTAINER_HOST", "DOCKER_HOST")];
/// Variables with this prefix are ours, so an unknown one is a typing error.
const OURS: &str = "GATEWAY_";
/// Variables of other programs that look like misspelt settings.
const FOREIGN: &[&str] =
    &["DATABASE_URI", "DATA_DIRS", "DATE_DIR", "MODEL_DIR", "REDIS_URI", "RUST_LOG_FILE"];

impl Sources {
    /// Takes the process's environment; the `.env` file in `dir`, if it exists and no other user can have written it
    /// (its settings decide which programs the gateway runs); and [`SYSTEM_FILE`], if it exists and this user may read
    /// it.
    ///
    /// # Errors
    /// Error if a file can't be read, or a line of it is malformed.
    pub fn from_process(
        flags: BTreeMap<String, String>,
        environment: impl Iterator<Item = (String, String)>,
        dir: &Path,
    ) -> Result<Self, SettingsError> {
        let (env_file, passed_over) = match env_file(&dir.join(".env")) {
            Ok(Ok(text)) => (parse_env_file(".env", &text)?, None),
            Ok(Err(why)) => {
                (BTreeMap::new(), Some(format!(".env in the working directory is not read: {why}")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (BTreeMap::new(), None),
            Err(source) => return Err(SettingsError::Unreadable { what: ".env".to_owned(), source }),
        };
        let environment: BTreeMap<_, _> = environment.collect();
        let named = environment.get(SYSTEM_FILE_VARIABLE);
        let system_file = system_file(named.map_or(SYSTEM_FILE, String::as_str), named.is_some())?;
        Ok(Self { flags, environment, env_file, system_file, passed_over })
    }

    /// Returns the text of setting `name` and where it came from. With `in_file`, a source may instead set
    /// `<NAME>_FILE` to the path of a file that holds the text.
    pub(crate) fn get(
        &self,
        name: &str,
        default: &str,
        in_file: bool,
    ) -> Result<(String, Origin), SettingsError> {
        let alias = ALIASES.iter().find(|(it, _)| *it == name).map(|(_, alias)| *alias);
        let sources = [
            (&self.flags, Origin::Flag),
            (&self.environment, Origin::Environment),
            (&self.env_file, Origin::EnvFile),
            (&self.system_file, Origin::SystemFile),
        ];
        for (texts, origin) in sources {
            let alias = alias.filter(|_| origin == Origin::Environment);
            if let Some(text) = [Some(name), alias].into_iter().flatten().find_map(|it| texts.get(it)) {
                return Ok((text.clone(), origin));
            }
            let file = format!("{name}_FILE");
            if let Some(path) = texts.get(&file).filter(|_| in_file) {
                let text = fs::read_to_string(path)
                    .map_err(|source| SettingsError::Unreadable { what: file, source })?;
                return Ok((text.trim_end_matches(['\r', '\n']).to_owned(), Origin::SecretFile));
            }
        }
        // Without `HOME`, `~` becomes the empty text, so that the path starts at the root. A trailing `/` is cut, so
        // that no path begins with `//`.
        let home = self.environment.get("HOME").map_or("", |it| it.trim_end_matches('/'));
        Ok((default.replacen('~', home, 1), Origin::Default))
    }

    /// Refuses unknown names. Flags and lines of files are all ours. The environment is shared with other programs: a
    /// name with our prefix is ours, and a name that is a typing error away from a setting was most likely meant to be
    /// it. Such a setting may be a limit that is off unless it is set.
    pub(crate) fn refuse_unknown(&self, names: &[String]) -> Result<(), SettingsError> {
        let nearest = |name: &str| {
            let all = names.iter().map(|it| (distance(it, name), it));
            all.min().map(|(distance, near)| (distance, near.clone()))
        };
        // Somebody believes that it is read.
        let given = [
            (&self.flags, Origin::Flag),
            (&self.environment, Origin::Environment),
            (&self.env_file, Origin::EnvFile),
            (&self.system_file, Origin::SystemFile),
        ];
        for (texts, origin) in given {
            for name in texts.keys().filter(|it| !names.contains(it) && !FOREIGN.contains(&it.as_str())) {
                if let Some(setting) =
                    name.strip_suffix("_FILE").filter(|it| names.iter().any(|name| name == it))
                {
                    let (name, setting) = (name.clone(), setting.to_owned());
                    return Err(SettingsError::NoFile { name, setting, origin });
                }
            }
        }
        let own = self.environment.keys().filter(|it| it.starts_with(OURS));
        let strangers = (self.flags.keys().map(|it| (it, Origin::Flag)))
            .chain(self.env_file.keys().map(|it| (it, Origin::EnvFile)))
            .chain(self.system_file.keys().map(|it| (it, Origin::SystemFile)))
            .chain(own.map(|it| (it, Origin::Environment)));
        if let Some((name, origin)) = strangers.into_iter().find(|(name, _)| !names.contains(name)) {
            let near = nearest(name).filter(|(distance, _)| *distance <= 4).map(|(_, near)| near);
            return Err(SettingsError::Unknown { name: name.clone(), origin, near });
        }
        let comparable =
            |it: &&String| it.len() >= 8 && !names.contains(it) && !FOREIGN.contains(&it.as_str());
        for name in self.environment.keys().filter(comparable) {
            // In a short name, two mistakes can make another word.
            let mistakes = if name.len() < 12 { 1 } else { 2 };
            if let Some((_, near)) = nearest(name).filter(|(distance, _)| *distance <= mistakes) {
                return Err(SettingsError::Mistyped { name: name.clone(), near });
            }
        }
        Ok(())
    }
}

/// Returns the lines of the machine's settings file. If only the service may read the file, this user gets the
/// defaults. A file that was `named` must exist.
fn system_file(path: &str, named: bool) -> Result<BTreeMap<String, String>, SettingsError> {
    if path.is_empty() {
        return Ok(BTreeMap::new());
    }
    match fs::read_to_string(path) {
        Ok(text) => parse_env_file(path, &text),
        Err(source) if named => Err(SettingsError::Unreadable { what: path.to_owned(), source }),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(BTreeMap::new())
        }
        Err(source) => Err(SettingsError::Unreadable { what: path.to_owned(), source }),
    }
}

/// Returns the text of the file, or why it is not read.
fn env_file(path: &Path) -> io::Result<Result<String, String>> {
    // A link that another user made may lead to a file of root's that is meant for something else.
    let link = fs::symlink_metadata(path)?;
    // Reading a named pipe would block for ever.
    if !fs::metadata(path)?.is_file() {
        return Ok(Err("it is not a file".to_owned()));
    }
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let stranger = [link.uid(), found.uid()].into_iter().find(|it| *it != user && *it != ROOT);
    if let Some(stranger) = stranger {
        return Ok(Err(format!("it belongs to the user with the id {stranger}, not to yours or to root")));
    }
    // Many systems give each user a private group. Then group write permission lets no other user write.
    let private = group == user && found.gid() == group;
    let foreign = if private { 0o002 } else { 0o022 };
    if found.mode() & foreign != 0 {
        return Ok(Err(format!(
            "others may write to it (mode {:o}); `chmod go-w .env`",
            found.mode() & 0o777
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Ok(text))
}

/// Reads `NAME=value` lines. `#` begins a comment line; a value may be in quotes.
fn parse_env_file(file: &str, text: &str) -> Result<BTreeMap<String, String>, SettingsError> {
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
            .ok_or_else(|| SettingsError::EnvFile { file: file.to_owned(), line: index + 1 })?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|it| value.strip_prefix(*it)?.strip_suffix(*it));
        values.insert(name.trim().to_owned(), quoted.unwrap_or(value).to_owned());
    }
    Ok(values)
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
        assert_eq!(settings.listening.gateway_listen.to_string(), "127.0.0.1:8084");
        assert_eq!(settings.database().expose(), "sqlite:///home/me/.local/share/gantry/gantry.db");
        assert!(!settings.sign_in.gateway_dev_allow_all_keys);
        assert!(entries.iter().all(|it| it.doc.len() > 10 && it.origin == Origin::Default));
    }

    #[test]
    fn a_flag_beats_the_environment_which_beats_the_file() {
        let mut sources = sources(&[("STOP_TIMEOUT_SEC", "20"), ("HEALTH_POLL_SEC", "7")]);
        sources.env_file =
            parse_env_file(".env", "# x\nexport HEALTH_POLL_SEC='9'\nLOG_FORMAT = \"json\"\n").unwrap();
        sources.flags.insert("STOP_TIMEOUT_SEC".into(), "30".into());
        let (settings, _) = Settings::load(&sources).unwrap();
        assert_eq!(settings.engines.stop_timeout_sec.as_secs(), 30);
        assert_eq!(settings.supervision.health_poll_sec.as_secs(), 7);
        assert_eq!(settings.logging.log_format, crate::LogFormat::Json);
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
        assert!(error(&[("CORS_ALLOW_ORIGINS", "https://*.example.org")]).contains("comma-separated"));
        assert!(error(&[("HEALTH_POLL_SEC", "0")]).contains("from 1 to"));
        assert!(
            error(&[("GATEWAY_LISTEN", "0.0.0.0:80"), ("GATEWAY_DEV_ALLOW_ALL_KEYS", "true")])
                .contains("GATEWAY_DEV_ALLOW_REMOTE")
        );
    }

    /// Checks the words like `NAME_LIKE_THIS` in the remedies that clients get.
    #[test]
    fn remedies_name_settings_that_there_are() {
        let known = Settings::names();
        let mut seen = 0;
        for code in gantry_domain::ErrorCode::ALL {
            let words = code.remedy().split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            for word in words.filter(|it| it.contains('_') && !it.chars().any(char::is_lowercase)) {
                seen += 1;
                assert!(known.iter().any(|it| it == word), "{}: {word}", code.as_str());
            }
        }
        assert!(seen > 5, "{seen}");
    }

    #[test]
    fn secrets_are_never_shown_and_may_lie_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "a-very-secret-value\n").unwrap();
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
