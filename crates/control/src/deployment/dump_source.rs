//! A dump of the database, wherever it lies: a file by itself, in a package, or in the folder of a backup.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use gantry_domain::Timestamp;
use gantry_package::{
    checksums::Sha256Sum,
    contents::{DUMP, Database},
    hashing::Hasher,
    package::{OpenError, Package},
    path::PackagePath,
    sign::{PublicKey, Signature},
};
use gantry_store::{DumpReport, Proof, StoreResult, check_dump, open_dump};

/// What the database is called in a backup of SQLite, as in a data directory.
pub const BACKUP_DATABASE: &str = "gantry.db";
/// The first bytes of a SQLite file (<https://sqlite.org/fileformat.html>).
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// Bytes of a dump that are read at a time.
const PIECE: usize = 1 << 20;

/// Where a dump is.
#[derive(Debug)]
pub struct DumpSource {
    path: PathBuf,
    /// The package that the dump is part of, and the dump's name in it.
    package: Option<(Package, PackagePath)>,
}

impl DumpSource {
    /// Finds the dump at a path: the file itself, be it a dump or a SQLite database of Gantry; or in a folder the dump of
    /// the package, the database of a backup, or its dump. `base`: the folder of the package's base, for a difference. Blocks.
    ///
    /// # Errors
    /// There is none; the error says why.
    pub fn find(path: &Path, base: Option<&Path>) -> Result<Self, String> {
        let found = path.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
        if found.is_file() {
            return Ok(Self { path: path.to_owned(), package: None });
        }
        let with_base = |package: Package| match base {
            Some(base) => package.with_base_at(base),
            None => Ok(package),
        };
        match Package::open(path).and_then(with_base) {
            Ok(package) => {
                let name = PackagePath::new(DUMP).map_err(|error| error.to_string())?;
                let Some(entry) = package.manifest().files.get(&name) else {
                    return Err(format!(
                        "the package {} has no database: it was exported without one",
                        path.display()
                    ));
                };
                if entry.in_base && package.base().is_none() {
                    let base = package.manifest().base.as_ref().map(|it| it.id.clone()).unwrap_or_default();
                    return Err(format!(
                        "the package {} has only the pieces of its dump that are new: name the folder of its base package {base} with --base",
                        path.display()
                    ));
                }
                Ok(Self { path: path.to_owned(), package: Some((package, name)) })
            }
            Err(OpenError::NoManifest(_)) => {
                let files = [BACKUP_DATABASE, DUMP].map(|it| path.join(it));
                let file = files.into_iter().find(|it| it.is_file()).ok_or_else(|| {
                    if path.join("toc.dat").is_file() {
                        return format!(
                            "{} is a dump of `pg_dump --format=directory`, and only plain ones are read: `pg_restore --file=plain.sql DUMP` makes one of it",
                            path.display()
                        );
                    }
                    format!(
                        "{} is neither a package nor a backup: it has no manifest.json, no {BACKUP_DATABASE} and no {DUMP}",
                        path.display()
                    )
                })?;
                Ok(Self { path: file, package: None })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the file or, for a package, its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a SQLite database, of which a dump is made.
    pub fn is_database(&self) -> bool {
        let mut first = [0; SQLITE.len()];
        let read = File::open(&self.path).and_then(|mut it| it.read_exact(&mut first));
        self.package.is_none() && read.is_ok() && first == *SQLITE
    }

    /// Returns the id of the package that the dump is part of.
    pub fn package_id(&self) -> Option<&str> {
        self.package.as_ref().map(|(package, _)| package.manifest().id.as_str())
    }

    /// Checks that the package is signed with a key. A dump that is no part of a package has no signature.
    ///
    /// # Errors
    /// It is not.
    pub fn check_signature(&self, key: &PublicKey) -> Result<(), String> {
        let Some((package, _)) = &self.package else { return Ok(()) };
        let signature = Signature::read(package.dir()).map_err(|error| error.to_string())?;
        let signature = signature.ok_or("the package is not signed")?;
        signature.verify_package(package, key).map(drop).map_err(|error| error.to_string())
    }

    /// Opens the dump. A SQLite database is written as a dump into `dir` first, without a name there. May block.
    ///
    /// # Errors
    /// It can't be read, or the database is damaged or of a newer program.
    pub async fn open(self, dir: &Path, now: Timestamp) -> StoreResult<OpenDump> {
        let file = match &self.package {
            Some(_) => None,
            None => Some(open_dump(&self.path, dir, now).await?),
        };
        Ok(OpenDump { source: self, file })
    }
}

/// A dump that can be read, more than once.
#[derive(Debug)]
pub struct OpenDump {
    source: DumpSource,
    /// `None` if it is part of a package.
    file: Option<File>,
}

impl OpenDump {
    /// Returns where the dump is.
    pub fn source(&self) -> &DumpSource {
        &self.source
    }

    /// Returns a reader of the whole dump. There is one at a time.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(match (&self.file, &self.source.package) {
            (Some(file), _) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Box::new(BufReader::with_capacity(PIECE, file))
            }
            (None, Some((package, name))) => {
                Box::new(BufReader::with_capacity(PIECE, package.content(name)?))
            }
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        })
    }

    /// Reads the whole dump and says what it holds, and what is wrong with it. A dump in a package must be the one that the
    /// manifest describes. Blocks.
    ///
    /// # Errors
    /// It can't be read.
    pub fn check(&self) -> io::Result<DumpReport> {
        let mut reader = Hashed { from: self.read()?, hasher: Hasher::default() };
        let mut report = check_dump(&mut reader);
        if report.problems.is_empty()
            && let Some(proof) = &report.proof
            && let Err(why) = self.compare(&reader.hasher.finish(), proof)
        {
            report.problems.push(why);
        }
        Ok(report)
    }

    /// Checks that what was read is the dump that the package's manifest describes, if it is part of a package.
    ///
    /// # Errors
    /// It is not; the error says what differs.
    pub(super) fn compare(&self, sum: &Sha256Sum, proof: &Proof) -> Result<(), String> {
        let Some((package, name)) = &self.source.package else { return Ok(()) };
        let manifest = package.manifest();
        let other = |why: String| format!("it is not the dump that the package's manifest describes: {why}");
        if manifest.files.get(name).map(|it| &it.sha256) != Some(sum) {
            return Err(other("its SHA-256 is another one".to_owned()));
        }
        match &manifest.contents.database {
            Some(database) => describes(database, proof).map_err(other),
            None => Ok(()),
        }
    }
}

/// Checks that a manifest's words about the database are true of a dump.
///
/// # Errors
/// They are not; the error says which.
pub(super) fn describes(database: &Database, proof: &Proof) -> Result<(), String> {
    let usage = [proof.usage.requests, proof.usage.prompt_tokens, proof.usage.completion_tokens];
    let usage = usage.map(i64::unsigned_abs);
    let sums = [database.requests, database.prompt_tokens, database.completion_tokens];
    match () {
        () if database.rows != proof.rows => Err("it has other numbers of rows".to_owned()),
        () if sums != usage => Err("its sums of requests or tokens are others".to_owned()),
        () if database.audit_head != proof.audit.head_hash => {
            Err("its audit log ends in another row".to_owned())
        }
        () => Ok(()),
    }
}

/// A reader that makes a sum of what it read.
pub(super) struct Hashed<R> {
    pub(super) from: R,
    pub(super) hasher: Hasher,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }
}
