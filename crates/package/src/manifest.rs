//! `manifest.json`: what is in a package. The signature is over this file alone, and this file has the SHA-256 of every
//! other one, so that it proves the whole package.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};

use crate::{checksums::Sha256Sum, path::PackagePath};

/// Name of the manifest in the package.
pub const MANIFEST: &str = "manifest.json";
/// Name of the list of checksums in the package.
pub const CHECKSUMS: &str = "checksums.sha256";
/// Name of the manifest's signature in the package.
pub const SIGNATURE: &str = "manifest.json.minisig";
/// The version of the format that this program writes, and the latest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Largest manifest that is read, in bytes: enough for a hub cache of a hundred thousand files.
pub const LARGEST: u64 = 64 << 20;
/// Most files that a package may have.
const MOST_FILES: usize = 500_000;

/// The manifest of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT_VERSION`] of the program that wrote it.
    pub format_version: u32,
    /// A UUID, different for each package.
    pub id: String,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// Version of the gateway that wrote it.
    pub gateway_version: String,
    /// The package that this one is the difference to; `None` if it is complete by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Every file of the package but the manifest, its signature and the list of checksums.
    #[serde(deserialize_with = "each_once")]
    pub files: BTreeMap<PackagePath, FileEntry>,
}

/// The package that a difference needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Its [`Manifest::id`].
    pub id: String,
    /// The SHA-256 of its manifest.
    pub manifest_sha256: Sha256Sum,
}

/// One file of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Bytes.
    pub size: u64,
    pub sha256: Sha256Sum,
}

/// Why a manifest can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest can't be read: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the manifest has more than {LARGEST} bytes")]
    TooLarge,
    #[error(
        "the package has format version {0}, and this program reads up to {FORMAT_VERSION}: use the program that wrote it, or \
         a later one"
    )]
    Newer(u32),
    #[error("the package has {0} files; at most {MOST_FILES} are read")]
    TooManyFiles(usize),
    #[error("`{0}` and `{1}` are the same file where case does not matter")]
    Collision(PackagePath, PackagePath),
    #[error("`{0}` is a file and the folder of `{1}`")]
    FileAndFolder(PackagePath, PackagePath),
    #[error("`{0}` is a name of the package itself")]
    Reserved(PackagePath),
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is malformed or newer, has unknown fields, or names that can't lie beside each other.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        if text.len() as u64 > LARGEST {
            return Err(ManifestError::TooLarge);
        }
        // A newer format may have fields that are unknown here, so its version is read first.
        let Version { format_version } = serde_json::from_slice(text)?;
        if format_version > FORMAT_VERSION {
            return Err(ManifestError::Newer(format_version));
        }
        let manifest: Self = serde_json::from_slice(text)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Returns the text of the manifest, the same for the same content.
    ///
    /// # Errors
    /// Its names can't lie beside each other.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        self.check()?;
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// Returns the bytes of all files together.
    pub fn size(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.files.len() > MOST_FILES {
            return Err(ManifestError::TooManyFiles(self.files.len()));
        }
        let mut folded: BTreeMap<String, &PackagePath> = BTreeMap::new();
        for path in self.files.keys() {
            let name = path.folded();
            if [MANIFEST, CHECKSUMS, SIGNATURE].contains(&name.as_str()) {
                return Err(ManifestError::Reserved(path.clone()));
            }
            if let Some(other) = folded.insert(name, path) {
                return Err(ManifestError::Collision(other.clone(), path.clone()));
            }
        }
        for (name, path) in &folded {
            let mut folders = name.match_indices('/').map(|(at, _)| &name[..at]);
            if let Some(file) = folders.find_map(|it| folded.get(it)) {
                return Err(ManifestError::FileAndFolder((*file).clone(), (*path).clone()));
            }
        }
        Ok(())
    }
}

/// Reads the files, and refuses a name that stands there twice: serde would take the last one.
fn each_once<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<PackagePath, FileEntry>, D::Error> {
    struct EachOnce;

    impl<'de> Visitor<'de> for EachOnce {
        type Value = BTreeMap<PackagePath, FileEntry>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of files")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut files = BTreeMap::new();
            while let Some((path, entry)) = map.next_entry::<PackagePath, FileEntry>()? {
                if files.contains_key(&path) {
                    return Err(A::Error::custom(format_args!("`{path}` stands there twice")));
                }
                files.insert(path, entry);
            }
            Ok(files)
        }
    }

    from.deserialize_map(EachOnce)
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Version {
    format_version: u32,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn manifest(files: &[&str]) -> Value {
        let files: serde_json::Map<_, _> =
            files.iter().map(|it| ((*it).to_owned(), json!({ "size": 0, "sha256": SUM }))).collect();
        json!({
            "format_version": 1, "id": "x", "created_at": "2026-01-02T03:04:05Z", "gateway_version": "0.1.0",
            "files": files,
        })
    }

    fn error(manifest: &Value) -> String {
        Manifest::parse(manifest.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn it_is_read_as_it_is_written() {
        let read = Manifest::parse(manifest(&["db/dump.sql", "models/a"]).to_string().as_bytes()).unwrap();
        assert_eq!(Manifest::parse(&read.to_json().unwrap()).unwrap(), read);
        assert_eq!((read.files.len(), read.size()), (2, 0));
    }

    #[test]
    fn what_could_mislead_is_refused_with_its_reason() {
        assert!(error(&manifest(&["../x"])).contains("`.` or `..`"));
        assert!(error(&manifest(&["a/B", "A/b"])).contains("same file where case"));
        assert!(error(&manifest(&["models", "models/x"])).contains("a file and the folder of"));
        assert!(error(&manifest(&["Manifest.json"])).contains("the package itself"));
        let mut newer = manifest(&[]);
        newer["format_version"] = json!(2);
        newer["signed_twice"] = json!(true);
        assert!(error(&newer).contains("format version 2"));
        let mut unknown = manifest(&[]);
        unknown["run"] = json!("rm");
        assert!(error(&unknown).contains("unknown field `run`"));
        let mut negative = manifest(&["x"]);
        negative["files"]["x"]["size"] = json!(-1);
        assert!(error(&negative).contains("invalid value"));
    }

    #[test]
    fn a_name_that_stands_there_twice_is_refused() {
        let entry = format!(r#"{{"size":0,"sha256":"{SUM}"}}"#);
        let text = manifest(&[])
            .to_string()
            .replace(r#""files":{}"#, &format!(r#""files":{{"a":{entry},"a":{entry}}}"#));
        let error = Manifest::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("`a` stands there twice"), "{error}");
    }
}
