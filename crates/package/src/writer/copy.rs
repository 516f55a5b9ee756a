//! Copies files into a package: only what is not there yet, and from where an interruption left off.

use std::{
    fs::File,
    io::{Seek, SeekFrom},
    path::Path,
    sync::atomic::Ordering::Relaxed,
};

use super::{
    Ident, Output, PIECE, PackageWriter, Sums, WriteError, at,
    journal::{Line, Partial},
    sums::is_as_it_was,
};
use crate::{
    checksums::Sha256Sum,
    hashing::Hasher,
    manifest::{FileEntry, STAGING},
    package::open_file,
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
            let n = self.read(&mut file, &mut buffer).map_err(failed())?;
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
        self.finish_file(path, sum, done, ident.modified_ms(), start)
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
        if self.reuse(path, &known)? {
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
            match self.read(file, &mut buffer).map_err(at(path))? {
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

    /// Takes over a file of an earlier run, if it is still as it was then. In parts it must also lie where this export has
    /// come to, and nothing before it may have been written.
    pub(super) fn reuse(&mut self, path: &PackagePath, entry: &FileEntry) -> Result<bool, WriteError> {
        match &mut self.output {
            Output::Folder(_) => {
                let staged = path.below(&self.dir.join(STAGING).join("files"));
                if !is_as_it_was(&staged, entry) && !is_as_it_was(&path.below(&self.dir), entry) {
                    return Ok(false);
                }
            }
            Output::Parts(output) => {
                if entry.at != Some(output.offset) || output.has_written {
                    return Ok(false);
                }
                output.move_to(output.offset + entry.size);
            }
        }
        self.add(path, *entry)?;
        Ok(true)
    }

    /// Goes on with a copy that was interrupted, or begins one. Returns the hasher and the number of bytes that are done.
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
