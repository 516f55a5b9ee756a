//! Writes contents that are made for a package: texts, a dump, and the blobs of images.

use std::{
    fmt, fs,
    io::{self, Read, Write},
};

use super::{Output, PIECE, PackageWriter, Sums, WriteError, at, journal::Line};
use crate::{
    checksums::Sha256Sum,
    contents::{IMAGES, Image},
    hashing::Hasher,
    images::ImageSink,
    manifest::{FileEntry, STAGING},
    path::PackagePath,
    stop::stopped,
};

impl PackageWriter {
    /// Writes a blob of an image under its digest, once. Returns digest and size.
    fn add_blob(&mut self, content: &mut dyn Read) -> Result<(Sha256Sum, u64), WriteError> {
        let start = self.offset();
        self.begin("images/blob", 0)?;
        let (sum, size) = self.pour(content, &"an image")?;
        let path = blob_path(sum)?;
        let is_there = self.files.contains_key(&path)
            || self.base.as_ref().is_some_and(|it| it.contents.contains(&(sum, size)));
        if is_there {
            self.drop_written(start)?;
            if !self.files.contains_key(&path) {
                self.add_from_base(&path, sum, size, 0)?;
            }
            return Ok((sum, size));
        }
        self.finish_file(&path, sum, size, self.now_ms, start)?;
        Ok((sum, size))
    }

    /// Writes a file whose content `fill` writes. Returns its result, too.
    ///
    /// # Errors
    /// Those of `fill`, and those of writing; `failed` turns the latter into the former's kind.
    pub fn put_with<T, E>(
        &mut self,
        path: &PackagePath,
        fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, E>,
        failed: impl Fn(WriteError) -> E,
    ) -> Result<(FileEntry, T), E> {
        let start = self.offset();
        self.begin(path.as_str(), 0).map_err(&failed)?;
        let mut stream = Stream { writer: self, hasher: Hasher::default(), size: 0 };
        let filled = fill(&mut stream)?;
        let (sum, size) = (std::mem::take(&mut stream.hasher).finish(), stream.size);
        let entry = self.end_put(path, sum, size, start).map_err(&failed)?;
        Ok((entry, filled))
    }

    /// Writes a file from a stream.
    pub fn put(&mut self, path: &PackagePath, content: &mut dyn Read) -> Result<FileEntry, WriteError> {
        let start = self.offset();
        self.begin(path.as_str(), 0)?;
        let (sum, size) = self.pour(content, path)?;
        self.end_put(path, sum, size, start)
    }

    /// Completes a file that was made for this package, unless the base has the same content.
    fn end_put(
        &mut self,
        path: &PackagePath,
        sum: Sha256Sum,
        size: u64,
        start: Option<u64>,
    ) -> Result<FileEntry, WriteError> {
        if self.base.as_ref().is_some_and(|it| it.contents.contains(&(sum, size))) {
            self.drop_written(start)?;
            return self.add_from_base(path, sum, size, self.now_ms);
        }
        self.finish_file(path, sum, size, self.now_ms, start)
    }

    /// Returns an image that was stored before, with this configuration, if all of its blobs are still there and whole. They are in
    /// the package then. `sums` remembers what was read before.
    pub fn take_image(&mut self, config: &str, sums: &mut Sums) -> Result<Option<Image>, WriteError> {
        let Some(image) = self.known_images.iter().find(|it| it.config == config).cloned() else {
            return Ok(None);
        };
        let digests: Option<Vec<_>> = std::iter::once(&image.config)
            .chain(&image.layers)
            .map(|it| it.strip_prefix("sha256:")?.parse::<Sha256Sum>().ok())
            .collect();
        for sum in digests.iter().flatten().chain([&image.manifest]) {
            if !self.take_blob(*sum, sums)? {
                return Ok(None);
            }
        }
        Ok(digests.map(|_| image))
    }

    /// Says that all blobs of an image are in the package, for an export that goes on after an interruption.
    pub fn image_done(&mut self, image: &Image) {
        self.journal.add(Line::Image(image.clone()));
    }

    /// Takes over a blob that is in the package or its base already. Returns whether there is one.
    fn take_blob(&mut self, sum: Sha256Sum, sums: &mut Sums) -> Result<bool, WriteError> {
        let path = blob_path(sum)?;
        if self.files.contains_key(&path) {
            return Ok(true);
        }
        let of_base = self.base.as_ref().and_then(|it| it.contents.iter().find(|(other, _)| *other == sum));
        if let Some((_, size)) = of_base {
            self.add_from_base(&path, sum, *size, 0)?;
            return Ok(true);
        }
        let Some(entry) = self.known.get(&path).copied() else { return Ok(false) };
        Ok(entry.sha256 == sum && self.reuse(&path, &entry, sums)?)
    }

    /// Writes everything that comes from a reader. Returns its sum and size.
    fn pour(&mut self, from: &mut dyn Read, what: &dyn fmt::Display) -> Result<(Sha256Sum, u64), WriteError> {
        let (mut hasher, mut size, mut buffer) = (Hasher::default(), 0, vec![0; PIECE]);
        loop {
            let n = self.read(from, &mut buffer).map_err(at(what))?;
            if n == 0 {
                return Ok((hasher.finish(), size));
            }
            hasher.update(&buffer[..n]);
            self.write(&buffer[..n]).map_err(at(what))?;
            size += n as u64;
        }
    }
}

impl ImageSink for PackageWriter {
    fn blob(&mut self, content: &mut dyn Read) -> io::Result<(Sha256Sum, u64)> {
        self.add_blob(content).map_err(|error| match error {
            WriteError::Stopped => stopped(),
            WriteError::Io { error, .. } => error,
            error => io::Error::other(error),
        })
    }

    /// In parts the blob stays: whatever follows it lies behind it already.
    fn drop_blob(&mut self, digest: Sha256Sum) -> io::Result<()> {
        let path = blob_path(digest).map_err(io::Error::other)?;
        if matches!(self.output, Output::Parts(_)) {
            return Ok(());
        }
        match self.files.remove(&path) {
            Some(entry) if !entry.in_base => {
                fs::remove_file(path.below(&self.dir.join(STAGING).join("files")))
            }
            _ => Ok(()),
        }
    }
}

/// A file that is being written.
struct Stream<'a> {
    writer: &'a mut PackageWriter,
    hasher: Hasher,
    size: u64,
}

impl Write for Stream<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.writer.progress.go_on()?;
        self.hasher.update(piece);
        self.writer.write(piece)?;
        self.size += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn blob_path(sum: Sha256Sum) -> Result<PackagePath, WriteError> {
    PackagePath::new(&format!("{IMAGES}/blobs/sha256/{sum}"))
        .map_err(|error| at("an image")(io::Error::other(error)))
}
