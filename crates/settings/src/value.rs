//! Types of settings: how each is read from text and shown again.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use gantry_domain::net::{IpList, SubnetRange};
use secrecy::SecretString;

/// A type that a setting can have.
pub trait Value: Sized {
    /// The allowed values, for messages and the reference page: "an address such as 127.0.0.1:8084".
    const ALLOWED: &'static str;
    /// The same in German, for pages.
    const ALLOWED_DE: &'static str;
    /// Whether the type holds a secret, so that it may also be given as a file.
    const IN_FILE: bool = false;

    /// `None` if `text` is not allowed.
    fn parse(text: &str) -> Option<Self>;
    /// Returns the text that [`Self::parse`] reads as this value; a secret is `***`.
    fn show(&self) -> String;
}

/// An optional setting: an empty text is the same as none.
impl<T: Value> Value for Option<T> {
    const ALLOWED: &'static str = T::ALLOWED;
    const ALLOWED_DE: &'static str = T::ALLOWED_DE;
    const IN_FILE: bool = T::IN_FILE;

    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { T::parse(text).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map(T::show).unwrap_or_default()
    }
}

impl Value for bool {
    const ALLOWED: &'static str = "true or false";
    const ALLOWED_DE: &'static str = "true oder false";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for SocketAddr {
    const ALLOWED: &'static str = "an address such as 127.0.0.1:8084";
    const ALLOWED_DE: &'static str = "eine Adresse wie 127.0.0.1:8084";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for PathBuf {
    const ALLOWED: &'static str = "a path";
    const ALLOWED_DE: &'static str = "ein Pfad";

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::from(text))
    }

    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl Value for String {
    const ALLOWED: &'static str = "a text";
    const ALLOWED_DE: &'static str = "ein Text";

    fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl Value for u32 {
    const ALLOWED: &'static str = "a whole number";
    const ALLOWED_DE: &'static str = "eine ganze Zahl";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for usize {
    const ALLOWED: &'static str = "a whole number";
    const ALLOWED_DE: &'static str = "eine ganze Zahl";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for NonZeroU32 {
    const ALLOWED: &'static str = "a whole number of at least 1";
    const ALLOWED_DE: &'static str = "eine ganze Zahl ab 1";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for NonZeroUsize {
    const ALLOWED: &'static str = NonZeroU32::ALLOWED;
    const ALLOWED_DE: &'static str = NonZeroU32::ALLOWED_DE;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A duration is written in seconds.
impl Value for Duration {
    const ALLOWED: &'static str = "a whole number of seconds from 1 to 31,536,000";
    const ALLOWED_DE: &'static str = "eine ganze Zahl von Sekunden, 1 bis 31.536.000";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|it| (1..=31_536_000).contains(it)).map(Self::from_secs)
    }

    fn show(&self) -> String {
        self.as_secs().to_string()
    }
}

/// A duration in seconds that may also be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Duration);

impl Value for Wait {
    const ALLOWED: &'static str = "a whole number of seconds from 0 to 31,536,000";
    const ALLOWED_DE: &'static str = "eine ganze Zahl von Sekunden, 0 bis 31.536.000";

    fn parse(text: &str) -> Option<Self> {
        if text == "0" { Some(Self(Duration::ZERO)) } else { Duration::parse(text).map(Self) }
    }

    fn show(&self) -> String {
        self.0.show()
    }
}

impl Value for IpList {
    const ALLOWED: &'static str = "IP addresses or CIDR ranges, comma-separated";
    const ALLOWED_DE: &'static str = "IP-Adressen oder CIDR-Bereiche, durch Kommas getrennt";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text.split(',')).ok()
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Comma-separated words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(pub Vec<String>);

impl Value for Words {
    const ALLOWED: &'static str = "words, comma-separated";
    const ALLOWED_DE: &'static str = "Wörter, durch Kommas getrennt";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()))
    }

    fn show(&self) -> String {
        self.0.join(",")
    }
}

/// Comma-separated names of hosts, as a `Host` header has them before its port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

impl Value for HostNames {
    const ALLOWED: &'static str =
        "host names such as ai.example.org, without scheme and port, comma-separated";
    const ALLOWED_DE: &'static str =
        "Hostnamen wie ai.example.org, ohne Schema und Port, durch Kommas getrennt";

    fn parse(text: &str) -> Option<Self> {
        let words = Words::parse(text)?.0;
        let legal = |name: &String| {
            name.len() <= 253 && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it))
        };
        words.iter().all(legal).then_some(Self(words))
    }

    fn show(&self) -> String {
        self.0.join(",")
    }
}

/// Comma-separated names of hosts, or `*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts(pub Vec<String>);

impl Value for Hosts {
    const ALLOWED: &'static str = "host names without scheme and port, comma-separated, or `*`";
    const ALLOWED_DE: &'static str = "Hostnamen ohne Schema und Port, durch Kommas getrennt, oder `*`";

    fn parse(text: &str) -> Option<Self> {
        if text.trim() == "*" {
            Some(Self(vec!["*".to_owned()]))
        } else {
            HostNames::parse(text).map(|it| Self(it.0))
        }
    }

    fn show(&self) -> String {
        self.0.join(",")
    }
}

/// A program and its first arguments. Words are separated by spaces; quotes keep spaces in a word. No shell is
/// involved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandWords(pub Vec<String>);

impl Value for CommandWords {
    const ALLOWED: &'static str = "a program and its first arguments, as in `/opt/venv/bin/vllm serve`";
    const ALLOWED_DE: &'static str =
        "ein Programm und seine ersten Argumente, wie `/opt/venv/bin/vllm serve`";

    fn parse(text: &str) -> Option<Self> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for it in text.chars() {
            match (it, quote) {
                (it, Some(end)) if it == end => quote = None,
                ('"' | '\'', None) => {
                    quote = Some(it);
                    word.get_or_insert_default();
                }
                (it, None) if it.is_whitespace() => words.extend(word.take()),
                (it, _) => word.get_or_insert_default().push(it),
            }
        }
        words.extend(word);
        let legal = quote.is_none() && words.first().is_some_and(|it| !it.is_empty());
        legal.then_some(Self(words))
    }

    fn show(&self) -> String {
        let shown = self.0.iter().map(|it| match it {
            it if it.is_empty() || it.contains(char::is_whitespace) => format!("\"{it}\""),
            it => it.clone(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

/// A user and a group in numbers, as in `1000:1000`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIds(pub String);

impl Value for UserIds {
    const ALLOWED: &'static str = "the numbers of a user and a group, as in 1000:1000";
    const ALLOWED_DE: &'static str = "die Nummern eines Benutzers und einer Gruppe, wie 1000:1000";

    fn parse(text: &str) -> Option<Self> {
        let (user, group) = text.trim().split_once(':')?;
        let number = |it: &str| it.bytes().all(|it| it.is_ascii_digit()).then(|| it.parse::<u32>().ok())?;
        Some(Self(format!("{}:{}", number(user)?, number(group)?)))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Value for SubnetRange {
    const ALLOWED: &'static str = "a range of IPv4 addresses such as 10.189.0.0/16, with at least 64 of them";
    const ALLOWED_DE: &'static str =
        "ein Bereich von IPv4-Adressen wie 10.189.0.0/16, mit mindestens 64 Adressen";

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Comma-separated directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths(pub Vec<PathBuf>);

impl Value for Paths {
    const ALLOWED: &'static str = "absolute paths, comma-separated";
    const ALLOWED_DE: &'static str = "absolute Pfade, durch Kommas getrennt";

    fn parse(text: &str) -> Option<Self> {
        let paths: Vec<PathBuf> = Words::parse(text)?.0.into_iter().map(PathBuf::from).collect();
        paths.iter().all(|it| it.is_absolute()).then_some(Self(paths))
    }

    fn show(&self) -> String {
        self.0.iter().map(PathBuf::show).collect::<Vec<_>>().join(",")
    }
}

/// Web origins, exactly as browsers send them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(pub Vec<String>);

impl Value for Origins {
    const ALLOWED: &'static str = "origins such as https://ui.example.org, comma-separated, and `*` for every other one, with keys only";
    const ALLOWED_DE: &'static str = "Origins wie https://ui.example.org, durch Kommas getrennt, und `*` für alle anderen, nur mit Schlüsseln";

    fn parse(text: &str) -> Option<Self> {
        let words = Words::parse(text)?.0;
        let legal = |origin: &String| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            origin == "*" || host.is_some_and(|it| !it.is_empty() && !it.contains(['/', '*', ' ', '@']))
        };
        words.iter().all(legal).then_some(Self(words))
    }

    fn show(&self) -> String {
        self.0.join(",")
    }
}

/// A secret that is never shown.
#[derive(Debug, Clone)]
pub struct Secret(pub SecretString);

impl Value for Secret {
    const ALLOWED: &'static str = "a secret of 16 to 512 printable characters";
    const ALLOWED_DE: &'static str = "ein Geheimnis aus 16 bis 512 druckbaren Zeichen";
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        let legal = (16..=512).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic());
        legal.then(|| Self(text.to_owned().into()))
    }

    fn show(&self) -> String {
        "***".to_owned()
    }
}

/// The bootstrap password: a secret with the length rules of passwords.
#[derive(Debug, Clone)]
pub struct BootstrapPassword(pub SecretString);

impl Value for BootstrapPassword {
    const ALLOWED: &'static str = "a password of 8 to 256 characters";
    const ALLOWED_DE: &'static str = "ein Passwort mit 8 bis 256 Zeichen";
    const IN_FILE: bool = true;

    fn parse(text: &str) -> Option<Self> {
        (8..=256).contains(&text.chars().count()).then(|| Self(text.to_owned().into()))
    }

    fn show(&self) -> String {
        "***".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_words_and_never_a_shells() {
        let words = |text: &str| CommandWords::parse(text).map(|it| it.0);
        let some = |all: &[&str]| Some(all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(" vllm  serve "), some(&["vllm", "serve"]));
        assert_eq!(words("'/my tools/llama' \"a b\"c ''"), some(&["/my tools/llama", "a bc", ""]));
        assert_eq!(words("a $(b); c"), some(&["a", "$(b);", "c"]));
        for bad in ["", "  ", "'a", "''", "\"\" x"] {
            assert_eq!(words(bad), None, "{bad}");
        }
        let parsed = CommandWords::parse("'/my tools/llama' x").unwrap();
        assert_eq!(CommandWords::parse(&parsed.show()), Some(parsed));
    }
}
