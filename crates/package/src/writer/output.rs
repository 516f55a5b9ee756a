//! Where the bytes of an export go: each file by itself, or all of them one after another into parts of equal size.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{
    checksums::Sha256Sum, hashing::Hasher, manifest::Manifest, package::open_file, passing::Passing,
    path::PackagePath, verify::Progress,
};

/// Ending of a file that is not complete.
const PART: &str = ".part";

/// What a hole reads as.
static ZEROS: [u8; super::PIECE] = [0; super::PIECE];

/// Opens a file of a package to be written: private, and never an existing link.
pub(super) fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        folders(folder)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes private folders.
pub(super) fn folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Sets the time of modification of a file, in milliseconds since 1970.
pub(super) fn set_modified(file: &File, ms: i64) -> io::Result<()> {
    let time = match u64::try_from(ms) {
        Ok(ms) => SystemTime::UNIX_EPOCH + Duration::from_millis(ms),
        Err(_) => SystemTime::UNIX_EPOCH,
    };
    file.set_modified(time)
}

/// One file after another.
#[derive(Debug)]
pub(super) struct FolderOutput {
    files: PathBuf,
    open: Option<(File, PathBuf)>,
}

impl FolderOutput {
    pub(super) fn new(files: PathBuf) -> Self {
        Self { files, open: None }
    }

    /// Begins a file under a name for the meantime, or goes on behind its first `done` bytes.
    pub(super) fn begin(&mut self, name: &str, done: u64) -> io::Result<()> {
        let path = self.files.join(format!("{name}{PART}"));
        let mut file = create(&path)?;
        if file.metadata()?.len() < done {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is shorter than its journal says"));
        }
        file.set_len(done)?;
        file.seek(SeekFrom::Start(done))?;
        self.open = Some((file, path));
        Ok(())
    }

    pub(super) fn open(&self) -> Option<&File> {
        self.open.as_ref().map(|(file, _)| file)
    }

    /// Writes a piece. Pieces of zeros become holes, where the file system has them.
    pub(super) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let Some((file, _)) = &mut self.open else { return Err(io::ErrorKind::NotConnected.into()) };
        if ZEROS.get(..piece.len()) == Some(piece) {
            return file.seek_relative(piece.len() as i64);
        }
        Passing(file).write_all(piece)
    }

    /// Makes the file as long as what was written to it: a hole at the end has not done so yet.
    pub(super) fn extend(&mut self) -> io::Result<()> {
        let Some((file, _)) = &mut self.open else { return Err(io::ErrorKind::NotConnected.into()) };
        let end = file.stream_position()?;
        file.set_len(end)
    }

    /// Completes the file and gives it its name.
    pub(super) fn finish(&mut self, path: &PackagePath, modified_at: i64) -> io::Result<()> {
        self.extend()?;
        let Some((file, from)) = self.open.take() else { return Err(io::ErrorKind::NotConnected.into()) };
        set_modified(&file, modified_at)?;
        let to = path.below(&self.files);
        if let Some(folder) = to.parent() {
            folders(folder)?;
        }
        fs::rename(from, to)
    }

    pub(super) fn discard(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some((_, path)) => fs::remove_file(path),
            None => Ok(()),
        }
    }
}

/// Parts of equal size.
#[derive(Debug)]
pub(super) struct PartsOutput {
    /// Folder of the package as it was, from which parts may be taken over.
    old: PathBuf,
    /// Folder of new parts.
    files: PathBuf,
    size: u64,
    /// Offset of the next byte in all parts.
    pub(super) offset: u64,
    open: Option<(File, Hasher)>,
    /// Sums of the complete parts before `offset`, and of those from earlier runs behind it.
    pub(super) sums: Vec<Sha256Sum>,
    /// The state of the open part's hasher that the journal has, and the offset that it is for.
    pub(super) resume: Option<(u64, Hasher)>,
    /// Whether this run has written anything. What lies behind it is no longer what earlier runs wrote there.
    pub(super) has_written: bool,
    /// Parts that became complete since the journal was told.
    pub(super) complete: Vec<(u64, Sha256Sum)>,
    /// How far everything was read, and the hasher of the part there.
    read: (u64, Hasher),
    /// A part may be as large as the disk: taking over its beginning is ended, too.
    progress: Arc<Progress>,
}

impl PartsOutput {
    pub(super) fn new(old: PathBuf, files: PathBuf, size: u64, progress: Arc<Progress>) -> Self {
        let (sums, complete) = (Vec::new(), Vec::new());
        let (open, resume, read) = (None, None, (0, Hasher::default()));
        Self { old, files, size, offset: 0, open, sums, resume, has_written: false, complete, read, progress }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn open(&self) -> Option<&File> {
        self.open.as_ref().map(|(file, _)| file)
    }

    fn new_part(&self, index: u64) -> PathBuf {
        self.files.join(Manifest::part_name(index))
    }

    fn unfinished(&self, index: u64) -> PathBuf {
        self.files.join(format!("{}{PART}", Manifest::part_name(index)))
    }

    /// Returns where a complete part lies: a new one, or one of the package as it was.
    fn complete_part(&self, index: u64) -> PathBuf {
        let new = self.new_part(index);
        if new.exists() { new } else { self.old.join(Manifest::part_name(index)) }
    }

    /// Reads the next `size` bytes, which an earlier run wrote, and returns their sum; `None` if they are not there, or
    /// if what lies before them was not read. The sums of parts that end in them are made anew: those of the earlier
    /// manifest are the word of its writer.
    pub(super) fn read_on(&mut self, size: u64) -> io::Result<Option<Sha256Sum>> {
        let (mut at, mut of_part) = self.read.clone();
        if at != self.offset {
            return Ok(None);
        }
        let (mut hasher, mut buffer) = (Hasher::default(), vec![0; 1 << 20]);
        let end = at.saturating_add(size);
        while at < end {
            let (index, inside) = (at / self.size, at % self.size);
            let now = (end - at).min(self.size - inside);
            let Some(mut file) = self.part_with(index, inside + now)? else { return Ok(None) };
            file.seek(SeekFrom::Start(inside))?;
            let mut from = Passing(&file).take(now);
            loop {
                self.progress.go_on()?;
                let n = from.read(&mut buffer)?;
                if n == 0 {
                    break;
                }
                hasher.update(&buffer[..n]);
                of_part.update(&buffer[..n]);
            }
            at += now;
            if at.is_multiple_of(self.size) {
                let sum = std::mem::take(&mut of_part).finish();
                if let Some(known) = usize::try_from(index).ok().and_then(|it| self.sums.get_mut(it)) {
                    *known = sum;
                }
            }
        }
        self.read = (end, of_part);
        Ok(Some(hasher.finish()))
    }

    /// Opens a part that has this many bytes: the unfinished one, or a complete one.
    fn part_with(&self, index: u64, bytes: u64) -> io::Result<Option<File>> {
        let parts = [self.unfinished(index), self.complete_part(index)];
        let part = parts.iter().find(|it| it.metadata().is_ok_and(|it| it.len() >= bytes));
        part.map(|it| open_file(it)).transpose()
    }

    /// Moves to `offset`, before which everything is written: whatever comes next is written there.
    pub(super) fn move_to(&mut self, offset: u64) {
        if offset != self.offset {
            self.open = None;
        }
        self.offset = offset;
    }

    /// Moves back to `offset`: what was written behind it is not needed.
    pub(super) fn go_back(&mut self, offset: u64) {
        let whole = offset / self.size;
        self.complete.retain(|(index, _)| *index < whole);
        self.sums.truncate(usize::try_from(whole).unwrap_or(usize::MAX));
        self.move_to(offset);
    }

    pub(super) fn write(&mut self, mut piece: &[u8]) -> io::Result<()> {
        self.has_written = true;
        while !piece.is_empty() {
            let inside = self.offset % self.size;
            let room = usize::try_from(self.size - inside).unwrap_or(usize::MAX);
            let (now, later) = piece.split_at(room.min(piece.len()));
            let (file, hasher) = self.part()?;
            Passing(file).write_all(now)?;
            hasher.update(now);
            self.offset += now.len() as u64;
            if self.offset.is_multiple_of(self.size) {
                self.end_part()?;
            }
            piece = later;
        }
        Ok(())
    }

    /// Returns the part to write to, open at the offset.
    fn part(&mut self) -> io::Result<&mut (File, Hasher)> {
        if self.open.is_none() {
            self.open = Some(self.open_part()?);
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn open_part(&mut self) -> io::Result<(File, Hasher)> {
        let (index, inside) = (self.offset / self.size, self.offset % self.size);
        self.sums.truncate(usize::try_from(index).unwrap_or(usize::MAX));
        let path = self.unfinished(index);
        let resumed = self.resume.take().filter(|(at, _)| *at == self.offset);
        if let Some((_, hasher)) = resumed
            && path.metadata().is_ok_and(|it| it.len() >= inside)
        {
            let mut file = create(&path)?;
            file.set_len(inside)?;
            file.seek(SeekFrom::Start(inside))?;
            return Ok((file, hasher));
        }
        let mut hasher = Hasher::default();
        if inside > 0 {
            self.take_over(index, inside, &mut hasher)?;
        }
        let mut file = create(&path)?;
        file.set_len(inside)?;
        file.seek(SeekFrom::Start(inside))?;
        Ok((file, hasher))
    }

    /// Brings the first bytes of a part into the unfinished one: they are there, or in a complete part of an earlier run.
    fn take_over(&self, index: u64, bytes: u64, hasher: &mut Hasher) -> io::Result<()> {
        let unfinished = self.unfinished(index);
        if unfinished.metadata().is_ok_and(|it| it.len() >= bytes) {
            return self.hash(&mut open_file(&unfinished)?.take(bytes), hasher, None);
        }
        let from = open_file(&self.complete_part(index))?;
        if from.metadata()?.len() < bytes {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part is shorter than the files in it"));
        }
        let mut to = create(&unfinished)?;
        self.hash(&mut from.take(bytes), hasher, Some(&mut to))
    }

    /// Hashes what comes from a reader, and copies it if there is a file to copy it to.
    fn hash(&self, from: &mut dyn Read, hasher: &mut Hasher, mut to: Option<&mut File>) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        loop {
            self.progress.go_on()?;
            let n = from.read(&mut buffer)?;
            if n == 0 {
                return Ok(());
            }
            hasher.update(&buffer[..n]);
            if let Some(to) = &mut to {
                to.write_all(&buffer[..n])?;
            }
        }
    }

    fn end_part(&mut self) -> io::Result<()> {
        let Some((file, hasher)) = self.open.take() else { return Ok(()) };
        drop(file);
        let index = (self.offset - 1) / self.size;
        fs::rename(self.unfinished(index), self.new_part(index))?;
        let sum = hasher.finish();
        self.sums.truncate(usize::try_from(index).unwrap_or(usize::MAX));
        self.sums.push(sum);
        self.complete.push((index, sum));
        Ok(())
    }

    /// Completes the last part.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if !self.offset.is_multiple_of(self.size) {
            // It is opened if everything in it was taken over.
            self.part()?;
            self.end_part()?;
        }
        let count = usize::try_from(self.offset.div_ceil(self.size)).unwrap_or(usize::MAX);
        self.sums.truncate(count);
        if self.sums.len() == count {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the journal lacks the checksum of a part"))
        }
    }

    /// Returns the state of the unfinished part's hasher.
    pub(super) fn state(&self) -> Option<String> {
        self.open.as_ref().map(|(_, hasher)| hasher.state())
    }
}
