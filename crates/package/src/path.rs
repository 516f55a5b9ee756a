//! Names of the files in a package. A package may come from anybody, so a name is checked before a file is opened by it.

use std::{
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

/// Longest name, in bytes: what Linux opens, less room for the folder that the package lies in.
const LONGEST: usize = 2048;
/// Longest part of a name, in bytes: what the usual file systems store.
const LONGEST_PART: usize = 255;
/// Names that Windows reserves for devices, with any extension: a package may travel on a disk that it writes.
const RESERVED: [&str; 4] = ["con", "prn", "aux", "nul"];

/// The name of a file in a package: relative, with `/` between its parts, and the same file on every file system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackagePath(String);

/// Why a text is no [`PackagePath`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} can't be the name of a file in a package: {why}")]
pub struct InvalidPath {
    name: String,
    why: &'static str,
}

impl PackagePath {
    /// Checks a name.
    ///
    /// # Errors
    /// The name leads out of the package, or is not the same file on every file system: it is absolute, it has an empty
    /// part, `.` or `..`, a control character, one of `\ : * ? " < > |`, a part that ends with a dot or a space or that
    /// Windows reserves, or it is too long.
    pub fn new(name: &str) -> Result<Self, InvalidPath> {
        let refused = |why| InvalidPath { name: name.chars().take(200).collect(), why };
        if name.is_empty() || name.len() > LONGEST {
            return Err(refused("it must have 1 to 2048 bytes"));
        }
        if name.starts_with('/') {
            return Err(refused("it is absolute"));
        }
        if name.chars().any(|it| it.is_control() || r#"\:*?"<>|"#.contains(it)) {
            return Err(refused(r#"it has a control character or one of \ : * ? " < > |"#));
        }
        for part in name.split('/') {
            if let Some(why) = unusable(part) {
                return Err(refused(why));
            }
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns where the file lies, if the package is the folder `dir`.
    pub fn below(&self, dir: &Path) -> PathBuf {
        dir.join(&self.0)
    }

    /// Returns the name as file systems see it that have no regard to case, nor to whether a letter and its accent are one character
    /// or two (macOS). Two files of a package must differ in it.
    pub fn folded(&self) -> Cow<'_, str> {
        // Nearly all names are so, and a package may have half a million.
        if self.0.bytes().all(|it| it.is_ascii() && !it.is_ascii_uppercase()) {
            return Cow::Borrowed(&self.0);
        }
        Cow::Owned(self.0.to_lowercase().nfc().collect())
    }
}

impl PackagePath {
    /// Returns whether this is `place`, or lies in the folder `place`.
    pub fn is_at(&self, place: &Self) -> bool {
        self.0.strip_prefix(&place.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns the first part of the name: `models` of `models/a/b`.
    pub fn top(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// Returns the name below the first part: `a/b` of `models/a/b`; `None` if there is only one part.
    pub fn below_top(&self) -> Option<&str> {
        self.0.split_once('/').map(|(_, rest)| rest)
    }
}

/// What a symbolic link points to, as text: relative to the folder of the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkTarget(String);

impl LinkTarget {
    /// Takes the text of a link. Whether it may be in a package is for [`LinkTarget::stays_in_folder`] to say.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the link at `path` points to something below the first folder of `path`, such as `models`, without
    /// leaving that folder on the way, whatever other links there are, of this package or of one that was imported before.
    ///
    /// A link lies in a folder that is none itself, so `..` at its beginning goes where it seems to go. Behind a name it could go up
    /// from where another link leads: there it is refused, and each link stays inside as long as all others do.
    pub fn stays_in_folder(&self, path: &PackagePath) -> bool {
        // `models/a/link` is in a folder of depth 2, and depth 0 is outside `models`.
        let mut depth = path.as_str().matches('/').count();
        let mut goes_down = false;
        if depth == 0 || self.0.is_empty() || self.0.len() > LONGEST || self.0.chars().any(char::is_control) {
            return false;
        }
        for part in self.0.split('/') {
            match part {
                "" | "." => return false,
                ".." if depth <= 1 || goes_down => return false,
                ".." => depth -= 1,
                _ => goes_down = true,
            }
        }
        true
    }
}

/// Returns why a part of a name can't be used.
fn unusable(part: &str) -> Option<&'static str> {
    let stem = part.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = ["com", "lpt"].iter().any(|it| {
        stem.strip_prefix(it).is_some_and(|n| n.len() == 1 && n.chars().all(|digit| digit.is_ascii_digit()))
    });
    match part {
        "" => Some("it has an empty part"),
        "." | ".." => Some("it has a part `.` or `..`"),
        _ if part.len() > LONGEST_PART => Some("a part of it has more than 255 bytes"),
        _ if part.ends_with(['.', ' ']) => Some("a part of it ends with a dot or a space"),
        _ if RESERVED.contains(&stem.as_str()) || numbered => Some("a part of it is a device of Windows"),
        _ => None,
    }
}

impl TryFrom<String> for PackagePath {
    type Error = InvalidPath;

    fn try_from(name: String) -> Result<Self, InvalidPath> {
        Self::new(&name)
    }
}

impl From<PackagePath> for String {
    fn from(path: PackagePath) -> Self {
        path.0
    }
}

impl fmt::Display for PackagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_or_mean_different_files_are_refused() {
        for good in [
            "manifest.json",
            "models/a b/größe.gguf",
            "images/blobs/sha256/00",
            ".hidden/..x",
            "com10/x",
            "a/con1",
        ] {
            assert_eq!(PackagePath::new(good).unwrap().as_str(), good);
        }
        let long = "x".repeat(256);
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "./a",
            "a//b",
            "a/",
            "a\\b",
            "C:/x",
            "a\nb",
            "a\0b",
            "a.",
            "a /b",
            "nul",
            "a/CON.txt",
            "lpt1",
            "x?",
            long.as_str(),
        ] {
            assert!(PackagePath::new(bad).is_err(), "{bad:?}");
        }
        assert!(PackagePath::new(&"a/".repeat(1024)).is_err());
    }

    #[test]
    fn names_that_differ_in_case_only_are_the_same_when_folded() {
        let folded = |name| PackagePath::new(name).unwrap().folded().into_owned();
        assert_eq!(folded("Models/ÄX"), folded("models/äx"));
        assert_ne!(folded("a/b"), folded("a/c"));
        assert_eq!(folded("models/\u{e9}"), folded("models/E\u{301}"), "one character or two");
    }

    #[test]
    fn a_link_stays_below_the_first_folder_of_its_own_path() {
        let link = PackagePath::new("hub-cache/models--a/snapshots/1/config.json").unwrap();
        for (target, good) in [
            ("../../blobs/00ff", true),
            ("other.json", true),
            ("../../../models--b/x", true),
            ("../../../../x", false),
            ("../../../../hub-cache/x", false),
            ("/etc/passwd", false),
            ("", false),
            ("a//b", false),
            ("./a", false),
            ("a\nb", false),
            ("../..", true),
            ("other/../config.json", false),
            ("../../blobs/../x", false),
        ] {
            assert_eq!(LinkTarget::new(target).stays_in_folder(&link), good, "{target:?}");
        }
        assert!(!LinkTarget::new("models").stays_in_folder(&PackagePath::new("top").unwrap()));
    }

    #[test]
    fn a_place_is_a_name_or_a_folder_and_no_other_beginning() {
        let path = |it| PackagePath::new(it).unwrap();
        assert!(path("models/a/b").is_at(&path("models/a")) && path("models/a").is_at(&path("models/a")));
        assert!(!path("models/ab").is_at(&path("models/a")));
        assert_eq!((path("models/a/b").top(), path("models/a/b").below_top()), ("models", Some("a/b")));
    }
}
