//! Copies files into a package: only what is not there yet, and from where an interruption left off.

use std::{
    fs::{self, File},
    io::{Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
};

use super::{
    Ident, Output, PIECE, PackageWriter, Sums, WriteError, at,
    journal::{Line, Partial},
    place,
    sums::is_as_it_was,
};
use crate::{
    checksums::Sha256Sum,
    hashing::Hasher,
    manifest::{FileEntry, STAGING},
    package::open_file,
    passing::Passing,
    path::PackagePath,
};

impl PackageWriter {
    /// Copies a file, unless the package or its base has the same content already. `sums` remembers what was read before.
    /// Holes stay holes.
    ///
    /// # Errors
    /// [`WriteError::Changed`] if somebody writes to the file meanwhile.
    pub fn copy(
        &mut self,
        path: &PackagePath,
        source: &Path,
        sums: &mut Sums,
    ) -> Result<FileEntry, WriteError> {
        let failed = || at(source.display());
        let mut file = open_file(source).map_err(failed())?;
        let ident = Ident::of(&file.metadata().map_err(failed())?);
        if let Some(entry) = self.same_content(path, &mut file, &ident, sums)? {
            return Ok(entry);
        }
        let start = self.offset();
        let (mut hasher, mut done) = self.resume(path, &ident)?;
        file.seek(SeekFrom::Start(done)).map_err(failed())?;
        self.progress.bytes.fetch_add(done, Relaxed);
        let mut buffer = vec![0; PIECE];
        loop {
            let n = self.read(&mut Passing(&file), &mut buffer).map_err(failed())?;
            if n == 0 {
                break;
            }
            hasher.update(&buffer[..n]);
            self.write(&buffer[..n]).map_err(at(path))?;
            done += n as u64;
            if self.journal.is_due() {
                self.checkpoint(path, &ident, done, &hasher, start)?;
            }
        }
        let is_same = Ident::of(&file.metadata().map_err(failed())?) == ident;
        if !is_same || done != ident.size {
            self.drop_written(start)?;
            return Err(WriteError::Changed(path.clone()));
        }
        let sum = hasher.finish();
        sums.put(ident, sum);
        let entry = self.finish_file(path, sum, done, ident.modified_ms(), start)?;
        if let (Output::Folder(_), Ok(staged)) = (&self.output, fs::symlink_metadata(self.staged(path))) {
            // An export that is interrupted need not read again what it wrote.
            sums.put_written(Ident::of(&staged), sum);
        }
        Ok(entry)
    }

    /// Returns where a file of its own lies before the package is complete.
    fn staged(&self, path: &PackagePath) -> PathBuf {
        path.below(&self.dir.join(STAGING).join("files"))
    }

    /// Returns the entry of a file whose content is in the package or the base already.
    fn same_content(
        &mut self,
        path: &PackagePath,
        file: &mut File,
        ident: &Ident,
        sums: &mut Sums,
    ) -> Result<Option<FileEntry>, WriteError> {
        let in_base = self.base.as_ref().is_some_and(|it| it.sizes.contains(&ident.size));
        let known = self.known.get(path).copied().filter(|it| it.size == ident.size);
        if !in_base && known.is_none() {
            return Ok(None);
        }
        let sum = match sums.get(ident) {
            Some(sum) => sum,
            None => self.hash(path, file, ident, sums)?,
        };
        if self.base.as_ref().is_some_and(|it| it.contents.contains(&(sum, ident.size))) {
            self.progress.bytes.fetch_add(ident.size, Relaxed);
            return self.add_from_base(path, sum, ident.size, ident.modified_ms()).map(Some);
        }
        let Some(known) = known.filter(|it| it.sha256 == sum) else { return Ok(None) };
        if self.reuse(path, &known, sums)? {
            self.progress.bytes.fetch_add(ident.size, Relaxed);
            return Ok(Some(known));
        }
        Ok(None)
    }

    /// Reads a file for its sum.
    fn hash(
        &self,
        path: &PackagePath,
        file: &mut File,
        ident: &Ident,
        sums: &mut Sums,
    ) -> Result<Sha256Sum, WriteError> {
        let (mut hasher, mut buffer) = (Hasher::default(), vec![0; PIECE]);
        loop {
            match self.read(&mut Passing(file), &mut buffer).map_err(at(path))? {
                0 => break,
                n => hasher.update(&buffer[..n]),
            }
        }
        if Ident::of(&file.metadata().map_err(at(path))?) != *ident {
            return Err(WriteError::Changed(path.clone()));
        }
        let sum = hasher.finish();
        sums.put(*ident, sum);
        Ok(sum)
    }

    /// Takes over a file of an earlier run, if it is still what was written then. In parts it must also lie where this export has
    /// come to, and nothing before it may have been written.
    pub(super) fn reuse(
        &mut self,
        path: &PackagePath,
        entry: &FileEntry,
        sums: &mut Sums,
    ) -> Result<bool, WriteError> {
        let is_whole = match &mut self.output {
            Output::Parts(output) => {
                let is_next = entry.at == Some(output.offset) && !output.has_written;
                let is_whole = is_next && content_is(&output.read_on(entry.size).map_err(at(path)), entry)?;
                if is_whole {
                    output.move_to(output.offset + entry.size);
                }
                is_whole
            }
            Output::Folder(_) => {
                let staged = self.staged(path);
                let is_staged = self.is_whole(path, &staged, entry, sums)?;
                if !is_staged && fs::symlink_metadata(&staged).is_ok() {
                    // What is not as the journal says must not get a name in the package.
                    place::remove(&staged)?;
                }
                is_staged || self.is_whole(path, &path.below(&self.dir), entry, sums)?
            }
        };
        if is_whole {
            self.add(path, *entry)?;
        }
        Ok(is_whole)
    }

    /// Returns whether a file of an earlier run is still what was written then. It is read, unless it is in a state in which this
    /// gateway has read it before: size and time of modification are the word of its last writer.
    fn is_whole(
        &self,
        path: &PackagePath,
        place: &Path,
        entry: &FileEntry,
        sums: &mut Sums,
    ) -> Result<bool, WriteError> {
        if !is_as_it_was(place, entry) {
            return Ok(false);
        }
        let opened = open_file(place).and_then(|file| Ok((Ident::of(&file.metadata()?), file)));
        let Ok((ident, mut file)) = opened else { return Ok(false) };
        let sum = match sums.get(&ident) {
            Some(sum) => Ok(sum),
            None => self.hash(path, &mut file, &ident, sums),
        };
        content_is(&sum.map(Some), entry)
    }

    /// Goes on with a copy that was interrupted, or begins one. In parts, nothing before it may have been written. Returns the hasher and the number of bytes that are done.
    fn resume(&mut self, path: &PackagePath, ident: &Ident) -> Result<(Hasher, u64), WriteError> {
        let start = self.offset();
        let partial = self
            .partial
            .take()
            .filter(|it| it.path == *path && it.source == *ident && it.at == start && it.done <= ident.size);
        let resumed = partial.and_then(|it| Some((Hasher::resume(&it.hasher)?, it)));
        if let Some((hasher, partial)) = resumed {
            let is_there = match &mut self.output {
                Output::Folder(output) => output.begin(path.as_str(), partial.done).is_ok(),
                Output::Parts(output) if output.has_written => false,
                Output::Parts(output) => {
                    let offset = output.offset + partial.done;
                    let part = partial.part_hasher.as_deref().and_then(Hasher::resume);
                    output.resume = part.map(|it| (offset, it));
                    output.move_to(offset);
                    true
                }
            };
            if is_there {
                return Ok((hasher, partial.done));
            }
        }
        self.begin(path.as_str(), 0)?;
        Ok((Hasher::default(), 0))
    }

    fn checkpoint(
        &mut self,
        path: &PackagePath,
        ident: &Ident,
        done: u64,
        hasher: &Hasher,
        start: Option<u64>,
    ) -> Result<(), WriteError> {
        self.note_parts();
        let part_hasher = match &mut self.output {
            Output::Folder(output) => {
                output.extend().map_err(at(path))?;
                None
            }
            Output::Parts(output) => output.state(),
        };
        self.journal.add(Line::Partial(Partial {
            path: path.clone(),
            source: *ident,
            done,
            hasher: hasher.state(),
            at: start,
            part_hasher,
        }));
        self.journal.checkpoint(self.output.open()).map_err(at("the disk"))
    }
}

/// Returns whether what was read of a file is the content that it was written with. One that can't be read is written anew.
fn content_is(read: &Result<Option<Sha256Sum>, WriteError>, entry: &FileEntry) -> Result<bool, WriteError> {
    match read {
        Ok(sum) => Ok(*sum == Some(entry.sha256)),
        Err(WriteError::Stopped) => Err(WriteError::Stopped),
        Err(_) => Ok(false),
    }
}
