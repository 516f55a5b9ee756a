//! `manifest.json`: what is in a package. The signature is over this file alone, and this file has the SHA-256 of every
//! other one, so that it proves the whole package.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    marker::PhantomData,
};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};

use crate::{
    checksums::{Sha256Sum, line},
    contents::Contents,
    hashing::Hashed,
    path::{LinkTarget, PackagePath},
};

/// Name of the manifest in the package.
pub const MANIFEST: &str = "manifest.json";
/// Name of the list of checksums in the package.
pub const CHECKSUMS: &str = "checksums.sha256";
/// Name of the manifest's signature in the package.
pub const SIGNATURE: &str = "manifest.json.minisig";
/// Folder of an export that has not ended. What is in it does not belong to the package.
pub const STAGING: &str = ".gantry-export";
/// The version of the format that this program writes, and the latest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Largest manifest that is read, in bytes: enough for a hub cache of a hundred thousand files.
pub const LARGEST: u64 = 64 << 20;
/// Most files that a package may have, links included.
const MOST_FILES: usize = 500_000;
/// Smallest size of parts, in bytes.
pub const SMALLEST_PART: u64 = 1 << 20;
/// Most pieces that the files of a package may be cut into.
const MOST_PIECES: usize = 500_000;
/// Folder of the parts.
pub const PARTS: &str = "parts";

/// Bytes of a manifest that are read or written at a time.
const PIECE: usize = 1 << 18;

/// Names of files on the disk, with their sizes in bytes and their sums.
pub type OnDisk<'a> = BTreeMap<Cow<'a, str>, (u64, Sha256Sum)>;

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
    /// Set if contents lie in parts of equal size instead of files of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
    /// What the files are, for people and for the import.
    #[serde(default)]
    pub contents: Contents,
    /// Every file of the package but the manifest, its signature and the list of checksums.
    #[serde(deserialize_with = "each_once")]
    pub files: BTreeMap<PackagePath, FileEntry>,
    /// Symbolic links: where each one lies and what it points to, relative to its own folder. They exist in the manifest
    /// only, because disks that packages travel on may have no links.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
    pub links: BTreeMap<PackagePath, LinkTarget>,
    /// Files that are cut into pieces: a difference needs only the pieces that its base lacks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "each_once")]
    pub pieces: BTreeMap<PackagePath, Pieces>,
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

/// The contents of files with an [offset](FileEntry::at) lie one after another in `parts/000001` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Bytes of each part; the last one may be smaller.
    pub size: u64,
    /// SHA-256 of each part, in order.
    pub sha256: Vec<Sha256Sum>,
    /// Time of modification of all parts, in milliseconds since 1970, UTC.
    pub modified_at: i64,
}

/// One file of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Bytes.
    pub size: u64,
    pub sha256: Sha256Sum,
    /// When the content was changed last, in milliseconds since 1970, UTC. The file in the package has the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<i64>,
    /// Where the content begins in the parts, in bytes. `None` for a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// The content is in the [base](Manifest::base) and not in this package.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_base: bool,
}

/// The pieces of a file, which make it one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    pub list: Vec<Piece>,
    /// The file that holds, one after another, the pieces that are not in the base. `None` if no piece is in this package but in
    /// the file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<PackagePath>,
}

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// Bytes.
    pub size: u64,
    pub sha256: Sha256Sum,
    /// It is a piece of a file in the [base](Manifest::base).
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_base: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(it: &bool) -> bool {
    !it
}

/// Why a manifest can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest can't be read: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{0}")]
    Io(io::Error),
    #[error("the manifest has more than {LARGEST} bytes")]
    TooLarge,
    #[error(
        "the package has format version {0}, and this program reads up to {FORMAT_VERSION}: use the program that wrote it, or \
         a later one"
    )]
    Newer(u32),
    #[error("the package has format version 0, which no program writes")]
    NoVersion,
    #[error("the package has {0} files; at most {MOST_FILES} are read")]
    TooManyFiles(usize),
    #[error("`{0}` and `{1}` are the same file where case does not matter, nor how an accent is written")]
    Collision(PackagePath, PackagePath),
    #[error("`{0}` is a file and the folder of `{1}`")]
    FileAndFolder(PackagePath, PackagePath),
    #[error("`{0}` is a name of the package itself")]
    Reserved(PackagePath),
    #[error("the link `{0}` leads out of its folder, or goes up behind a name: {1:?}")]
    LinkOut(PackagePath, String),
    #[error("the parts have {0} bytes each; at least {SMALLEST_PART} are needed")]
    PartSize(u64),
    #[error("`{0}` does not begin where the file before it ends")]
    Gap(PackagePath),
    #[error("the files need {needed} parts, and there are checksums of {found}")]
    PartCount { needed: u64, found: u64 },
    #[error("`{0}` is to be in a base, and the package has none")]
    NoBase(PackagePath),
    #[error("the pieces of `{0}` do not make it: {1}")]
    Pieces(PackagePath, &'static str),
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// It is malformed or newer, has unknown fields, or names that can't lie beside each other.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        Self::read(io::Cursor::new(text)).map(|(manifest, _)| manifest)
    }

    /// Reads a manifest from a file. Returns the SHA-256 of the text, too.
    ///
    /// # Errors
    /// Those of [`Self::parse`]; the file can't be read.
    pub fn read(mut from: impl Read + Seek) -> Result<(Self, Sha256Sum), ManifestError> {
        let length = from.seek(SeekFrom::End(0)).map_err(ManifestError::Io)?;
        if length > LARGEST {
            return Err(ManifestError::TooLarge);
        }
        from.rewind().map_err(ManifestError::Io)?;
        // As a whole: serde_json takes several times as long to read it byte by byte.
        let mut text = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        from.take(LARGEST).read_to_end(&mut text).map_err(ManifestError::Io)?;
        let read = serde_json::from_slice(&text);
        let manifest: Self = read.map_err(|error| newer(&text).unwrap_or(ManifestError::Malformed(error)))?;
        let sum = Sha256Sum::of(&text);
        // The check needs the memory.
        drop(text);
        known(manifest.format_version)?;
        manifest.check()?;
        Ok((manifest, sum))
    }

    /// Writes the text of the manifest, the same for the same content. Returns its SHA-256.
    ///
    /// # Errors
    /// Its names can't lie beside each other, or `to` fails.
    pub fn write(&self, to: impl Write) -> Result<Sha256Sum, ManifestError> {
        self.check()?;
        let mut text = Hashed::new(to);
        let mut out = BufWriter::with_capacity(PIECE, &mut text);
        serde_json::to_writer_pretty(&mut out, self).map_err(|error| ManifestError::Io(error.into()))?;
        out.write_all(b"\n").and_then(|()| out.flush()).map_err(ManifestError::Io)?;
        drop(out);
        Ok(text.finish())
    }

    /// Returns the text of the manifest, as [`Self::write`] writes it.
    ///
    /// # Errors
    /// Its names can't lie beside each other.
    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        let mut text = Vec::new();
        self.write(&mut text)?;
        Ok(text)
    }

    /// Returns the bytes of all files together that are in this package.
    pub fn size(&self) -> u64 {
        self.own_files().fold(0, |sum, (_, file)| sum.saturating_add(file.size))
    }

    /// Returns the files whose content is in this package, and not in its base.
    pub fn own_files(&self) -> impl Iterator<Item = (&PackagePath, &FileEntry)> {
        self.files.iter().filter(|(_, file)| !file.in_base)
    }

    /// Returns the bytes of all parts together.
    pub fn parts_size(&self) -> u64 {
        let ends = self.files.values().filter_map(|it| it.at?.checked_add(it.size));
        ends.max().unwrap_or(0)
    }

    /// Returns the name of the part with this index, counted from 0.
    pub fn part_name(index: u64) -> String {
        format!("{PARTS}/{:06}", index + 1)
    }

    /// Returns the name and the size of every file that lies on the disk beside the manifest, its signature and the list of
    /// checksums.
    pub fn on_disk(&self) -> OnDisk<'_> {
        let own = self.own_files().filter(|(_, it)| it.at.is_none());
        let mut files: OnDisk<'_> =
            own.map(|(path, it)| (Cow::Borrowed(path.as_str()), (it.size, it.sha256))).collect();
        if let Some(parts) = &self.parts {
            let total = self.parts_size();
            for (index, sum) in (0..).zip(&parts.sha256) {
                let size = total.saturating_sub(parts.size.saturating_mul(index)).min(parts.size);
                files.insert(Self::part_name(index).into(), (size, *sum));
            }
        }
        files
    }

    /// Returns the lines of `checksums.sha256`: every file on the disk but itself and the signature. `own` is the SHA-256
    /// of the manifest's own text.
    pub fn checksum_lines(&self, own: Sha256Sum) -> impl Iterator<Item = String> {
        let mut files = self.on_disk();
        files.insert(MANIFEST.into(), (0, own));
        files.into_iter().map(|(name, (_, sum))| line(&name, sum))
    }

    /// Returns the text of `checksums.sha256`.
    pub fn checksums(&self, own: Sha256Sum) -> String {
        self.checksum_lines(own).collect()
    }

    /// Returns the files and links at `place`: the file or link of that name, or all that lie in the folder of that name.
    pub fn names_at<'a>(&'a self, place: &'a PackagePath) -> impl Iterator<Item = &'a PackagePath> {
        self.files.keys().chain(self.links.keys()).filter(|it| it.is_at(place))
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.files.len() + self.links.len() > MOST_FILES {
            return Err(ManifestError::TooManyFiles(self.files.len() + self.links.len()));
        }
        let mut folded: Vec<(Cow<'_, str>, &PackagePath)> = Vec::new();
        folded.reserve_exact(self.files.len() + self.links.len());
        for path in self.files.keys().chain(self.links.keys()) {
            let name = path.folded();
            let first = name.split('/').next().unwrap_or_default();
            if [MANIFEST, CHECKSUMS, SIGNATURE, PARTS, STAGING].contains(&first) {
                return Err(ManifestError::Reserved(path.clone()));
            }
            folded.push((name, path));
        }
        folded.sort_unstable();
        if let Some(pair) = folded.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ManifestError::Collision(pair[0].1.clone(), pair[1].1.clone()));
        }
        let named = |name: &str| folded.binary_search_by(|(it, _)| it.as_ref().cmp(name)).ok();
        for (name, path) in &folded {
            let mut folders = name.match_indices('/').map(|(at, _)| &name[..at]);
            if let Some(at) = folders.find_map(named) {
                return Err(ManifestError::FileAndFolder(folded[at].1.clone(), (*path).clone()));
            }
        }
        for (path, target) in &self.links {
            if !target.stays_in_folder(path) {
                return Err(ManifestError::LinkOut(
                    path.clone(),
                    target.as_str().chars().take(200).collect(),
                ));
            }
        }
        if let Some((path, _)) = self.files.iter().find(|(_, it)| it.in_base && self.base.is_none()) {
            return Err(ManifestError::NoBase(path.clone()));
        }
        self.check_pieces()?;
        self.check_parts()
    }

    /// Checks that pieces add up to their file, and that each lies where it can be found.
    fn check_pieces(&self) -> Result<(), ManifestError> {
        let mut count = 0_usize;
        for (path, pieces) in &self.pieces {
            let wrong = |why| Err(ManifestError::Pieces(path.clone(), why));
            count = count.saturating_add(pieces.list.len());
            if count > MOST_PIECES {
                return wrong("there are too many");
            }
            let Some(file) = self.files.get(path) else { return wrong("there is no such file") };
            if size_of(pieces.list.iter()) != Some(file.size) {
                return wrong("they have another size");
            }
            let own = size_of(pieces.list.iter().filter(|it| !it.in_base));
            match &pieces.rest {
                Some(rest) if self.files.get(rest).is_none_or(|it| it.in_base || Some(it.size) != own) => {
                    return wrong("the file of the pieces that are not in the base has another size");
                }
                Some(_) if !file.in_base => return wrong("it is in the package twice"),
                None if pieces.list.iter().any(|it| it.in_base != file.in_base) => {
                    return wrong("some are in the base, and the file is not, or the other way round");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that the parts hold the files one after another: every byte of a part belongs to one file, so that checking
    /// the files checks the parts.
    fn check_parts(&self) -> Result<(), ManifestError> {
        let mut placed: Vec<_> =
            self.files.iter().filter_map(|(path, it)| Some((it.at?, it.size, path))).collect();
        placed.sort_unstable();
        let size = self.parts.as_ref().map(|it| it.size);
        if let Some(small) = size.filter(|it| *it < SMALLEST_PART) {
            return Err(ManifestError::PartSize(small));
        }
        let mut end = 0;
        for (at, size_of_file, path) in placed {
            if at != end || size.is_none() {
                return Err(ManifestError::Gap(path.clone()));
            }
            end = at.checked_add(size_of_file).ok_or_else(|| ManifestError::Gap(path.clone()))?;
        }
        if let Some(parts) = &self.parts {
            let (needed, found) = (end.div_ceil(parts.size), parts.sha256.len() as u64);
            if needed != found {
                return Err(ManifestError::PartCount { needed, found });
            }
        }
        Ok(())
    }
}

/// Returns the bytes of all pieces together; `None` if there are more than a number can hold.
fn size_of<'a>(mut pieces: impl Iterator<Item = &'a Piece>) -> Option<u64> {
    pieces.try_fold(0_u64, |sum, it| sum.checked_add(it.size))
}

/// Reads files or links, and refuses a name that stands there twice: serde would take the last one.
fn each_once<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<BTreeMap<PackagePath, T>, D::Error> {
    struct EachOnce<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for EachOnce<T> {
        type Value = BTreeMap<PackagePath, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object whose keys are names of files")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((path, entry)) = map.next_entry::<PackagePath, T>()? {
                if entries.contains_key(&path) {
                    return Err(A::Error::custom(format_args!("`{path}` stands there twice")));
                }
                entries.insert(path, entry);
            }
            Ok(entries)
        }
    }

    from.deserialize_map(EachOnce(PhantomData))
}

/// Returns that a manifest which could not be understood is of a newer format, if it is: that may have other fields.
fn newer(text: &[u8]) -> Option<ManifestError> {
    let Version { format_version } = serde_json::from_slice(text).ok()?;
    (format_version > FORMAT_VERSION).then_some(ManifestError::Newer(format_version))
}

/// Refuses a version of the format that this program does not know.
pub(crate) fn known(format_version: u32) -> Result<(), ManifestError> {
    match format_version {
        0 => Err(ManifestError::NoVersion),
        1..=FORMAT_VERSION => Ok(()),
        newer => Err(ManifestError::Newer(newer)),
    }
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
        assert!(error(&manifest(&["a/\u{e9}", "a/e\u{301}"])).contains("how an accent is written"));
        let mut none = manifest(&[]);
        none["format_version"] = json!(0);
        assert!(error(&none).contains("format version 0"));
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
    fn parts_are_full_of_files_and_nothing_else() {
        let mut parts = manifest(&["a", "b", "c"]);
        parts["parts"] = json!({ "size": 1 << 20, "sha256": [SUM], "modified_at": 0 });
        for (name, at, size) in [("a", 0, 10), ("c", 10, 5), ("b", 15, 1)] {
            parts["files"][name] = json!({ "size": size, "sha256": SUM, "at": at });
        }
        let read = Manifest::parse(parts.to_string().as_bytes()).unwrap();
        assert_eq!((read.parts_size(), Manifest::part_name(0).as_str()), (16, "parts/000001"));
        let mut gap = parts.clone();
        gap["files"]["b"]["at"] = json!(14);
        assert!(error(&gap).contains("`b` does not begin where"));
        gap["files"]["b"]["at"] = json!(u64::MAX);
        assert!(error(&gap).contains("`b` does not begin where"));
        let mut whole = parts.clone();
        whole.as_object_mut().unwrap().remove("parts");
        assert!(error(&whole).contains("`a` does not begin where"));
        parts["parts"]["sha256"] = json!([SUM, SUM]);
        assert!(error(&parts).contains("need 1 parts, and there are checksums of 2"));
        parts["parts"]["size"] = json!(1000);
        assert!(error(&parts).contains("the parts have 1000 bytes each"));
    }

    #[test]
    fn links_stay_inside_and_a_file_in_a_base_needs_one() {
        let mut links = manifest(&["models/a/b"]);
        links["links"] = json!({ "models/c": "a/b" });
        assert!(Manifest::parse(links.to_string().as_bytes()).is_ok());
        links["links"] = json!({ "models/c": "../db/dump.sql" });
        assert!(error(&links).contains("the link `models/c` leads out"));
        // Each of them seems to stay inside.
        links["links"] = json!({ "models/x/up": "..", "models/c": "x/up/../own-secret" });
        assert!(error(&links).contains("the link `models/c` leads out"));
        links["links"] = json!({ "models/x/up": "..", "models/c": "x/up/a/b" });
        assert!(Manifest::parse(links.to_string().as_bytes()).is_ok());
        links["links"] = json!({ "models/A": "x" });
        assert!(error(&links).contains("a file and the folder of"), "a file behind a link");
        let mut base = manifest(&["x"]);
        base["files"]["x"]["in_base"] = json!(true);
        assert!(error(&base).contains("`x` is to be in a base"));
    }

    #[test]
    fn pieces_make_their_file_and_can_be_found() {
        let mut whole = manifest(&["db/dump.sql"]);
        whole["files"]["db/dump.sql"]["size"] = json!(5);
        let piece = |size: u64| json!({ "size": size, "sha256": SUM });
        whole["pieces"] = json!({ "db/dump.sql": { "list": [piece(2), piece(3)] } });
        assert!(Manifest::parse(whole.to_string().as_bytes()).is_ok());
        let mut difference = manifest(&["db/dump.sql", "db/dump.pieces"]);
        difference["base"] = json!({ "id": "y", "manifest_sha256": SUM });
        difference["files"]["db/dump.sql"] = json!({ "size": 5, "sha256": SUM, "in_base": true });
        difference["files"]["db/dump.pieces"]["size"] = json!(3);
        let of_base = json!({ "size": 2, "sha256": SUM, "in_base": true });
        difference["pieces"] =
            json!({ "db/dump.sql": { "list": [of_base, piece(3)], "rest": "db/dump.pieces" } });
        assert!(Manifest::parse(difference.to_string().as_bytes()).is_ok());

        let refused = |manifest: &Value, change: &dyn Fn(&mut Value)| {
            let mut manifest = manifest.clone();
            change(&mut manifest);
            error(&manifest)
        };
        let list = |it: &mut Value, list: Value| it["pieces"]["db/dump.sql"]["list"] = list;
        assert!(refused(&whole, &|it| list(it, json!([piece(2)]))).contains("another size"));
        assert!(refused(&whole, &|it| list(it, json!([piece(u64::MAX), piece(6)]))).contains("another size"));
        assert!(refused(&whole, &|it| it["pieces"]["x"] = json!({ "list": [] })).contains("no such file"));
        assert!(refused(&whole, &|it| list(it, json!([of_base, piece(3)]))).contains("some are in the base"));
        let rest = |it: &mut Value| it["files"]["db/dump.pieces"]["size"] = json!(4);
        assert!(refused(&difference, &rest).contains("not in the base has another size"));
        let twice = |it: &mut Value| it["files"]["db/dump.sql"]["in_base"] = json!(false);
        assert!(refused(&difference, &twice).contains("twice"));
        let gone = |it: &mut Value| it["pieces"]["db/dump.sql"]["rest"] = json!("db/other");
        assert!(refused(&difference, &gone).contains("not in the base has another size"));
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
