//! Keeps what engines print in files of bounded size: written by the supervisor, read and followed by the gateway.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{StreamExt, stream, stream::BoxStream};

use gantry_domain::{Clock, LogWindow, Timestamp};

use super::{
    record::Dir,
    times::{self, Times},
};
use crate::log_lines::{LineReader, MAX_TEXT, Tail};

/// Largest size of one file, in bytes. It is the same as for containers.
const MAX_FILE: u64 = 10 << 20;
const FILES: usize = 3;
/// Most bytes that are read at once.
const BUFFER: usize = 64 << 10;
/// How often a follower looks for new lines.
const LOOK: Duration = Duration::from_millis(100);

/// Returns the path of a log file: `log` is the newest; `log.1` is older.
fn path(dir: &Path, age: usize) -> PathBuf {
    dir.join(if age == 0 { "log".to_owned() } else { format!("log.{age}") })
}

/// Writes the files.
pub(super) struct Log {
    dir: PathBuf,
    file: Option<File>,
    written: u64,
    max: u64,
    times: Times,
    clock: Clock,
}

impl Log {
    pub(super) fn new(dir: &Dir) -> Self {
        Self::in_folder(&dir.0, MAX_FILE, Clock::default())
    }

    fn in_folder(dir: &Path, max: u64, clock: Clock) -> Self {
        Self { dir: dir.to_owned(), file: None, written: 0, max, times: Times::default(), clock }
    }

    /// Writes `bytes`. What can't be written is lost: a full disk must not stop an engine.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.written >= self.max || self.times.is_full() {
            self.rotate();
        }
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            self.file = options.create(true).append(true).mode(0o600).open(path(&self.dir, 0)).ok();
            self.written = self.file.as_ref().and_then(|it| it.metadata().ok()).map_or(0, |it| it.len());
            self.times =
                self.file.as_ref().map_or_else(Times::default, |it| Times::open(&path(&self.dir, 0), it));
        }
        if let Some(file) = &mut self.file {
            self.times.note(self.written, self.clock.now());
            match file.write_all(bytes) {
                Ok(()) => self.written += bytes.len() as u64,
                Err(_) => self.file = None,
            }
        }
    }

    fn rotate(&mut self) {
        for age in (1..FILES).rev() {
            // The older one may not exist yet.
            let (younger, older) = (path(&self.dir, age - 1), path(&self.dir, age));
            let _ = fs::rename(&younger, &older);
            let _ = fs::rename(times::path(&younger), times::path(&older));
        }
        self.file = None;
    }

    /// Writes all that comes from `from` until every writer at its other end is gone.
    pub(super) fn copy(mut self, mut from: impl Read) {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => self.write(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

/// Returns the lines that `window` selects. Blocking.
pub(super) fn read(dir: &Dir, window: LogWindow) -> io::Result<String> {
    let mut follower = Follower::new(dir.clone(), window.colors);
    let mut text = Tail::new(window.tail);
    follower.past(window.since, |line| text.push(line))?;
    follower.finish().into_iter().for_each(|line| text.push(line));
    Ok(text.into_text())
}

/// Streams the lines that `window` selects, then new ones until the engine has ended.
pub(super) fn follow(dir: Dir, window: LogWindow) -> BoxStream<'static, String> {
    let start = (Some(Follower::new(dir, window.colors)), VecDeque::new(), Some(window));
    stream::unfold(start, async |(follower, mut ready, mut past)| {
        let mut follower = follower;
        loop {
            if let Some(line) = ready.pop_front() {
                return Some((line, (follower, ready, past)));
            }
            let mut looking = follower.take()?;
            let first = past.take();
            if first.is_none() {
                tokio::time::sleep(LOOK).await;
            }
            let look = tokio::task::spawn_blocking(move || {
                let lines = looking.look(first);
                (looking, lines)
            });
            let (looked, (lines, ended)) = look.await.ok()?;
            ready.extend(lines);
            follower = (!ended).then_some(looked);
        }
    })
    .boxed()
}

/// Goes to the first line that begins at byte `from` or later, so that no line is cut.
fn to_line(file: &mut File, from: u64) -> io::Result<()> {
    if let Some(before) = from.checked_sub(1) {
        file.seek(SeekFrom::Start(before))?;
        let part = rest_of_line(&mut *file)?;
        file.seek(SeekFrom::Start(before + part))?;
    }
    Ok(())
}

/// Returns how many bytes of a line are left, with its end (`\r` ends the lines of a progress bar), or to the end of
/// the file if the line has no end. Reads on beyond them.
fn rest_of_line(from: impl Read) -> io::Result<u64> {
    let mut from = BufReader::with_capacity(BUFFER, from);
    let mut passed = 0;
    loop {
        let bytes = match from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr2(b'\n', b'\r', bytes);
        let n = end.map_or(bytes.len(), |it| it + 1);
        passed += n as u64;
        if end.is_some() || n == 0 {
            return Ok(passed);
        }
        from.consume(n);
    }
}

/// Reads the files in the order in which they were written, across rotations.
struct Follower {
    dir: Dir,
    file: Option<File>,
    lines: LineReader,
}

impl Follower {
    fn new(dir: Dir, colors: bool) -> Self {
        Self { dir, file: None, lines: LineReader::with_colors(colors) }
    }

    /// Returns new lines, and whether there will be no more. The first look goes back as far as `past` says.
    fn look(&mut self, past: Option<LogWindow>) -> (Vec<String>, bool) {
        // Checked first: what was printed before the end is in the files by then.
        let alive = self.dir.is_held().unwrap_or(false);
        let mut lines = Vec::new();
        let read = match past {
            Some(window) => {
                let mut kept = Tail::new(window.tail);
                let read = self.past(window.since, |line| kept.push(line));
                lines.extend(kept.into_text().lines().map(str::to_owned));
                read
            }
            None => self.more(&mut |line| lines.push(line)),
        };
        let ended = !alive || read.is_err();
        if ended {
            lines.extend(self.finish());
        }
        (lines, ended)
    }

    /// Reads what is there now and was printed at `since` or later, but no more than a text may hold.
    fn past(&mut self, since: Option<Timestamp>, mut each: impl FnMut(String)) -> io::Result<()> {
        let mut files = Vec::new();
        let mut bytes = 0;
        for age in 0..FILES {
            let path = path(&self.dir.0, age);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            let length = file.metadata()?.len();
            let from = since.map_or(Ok(0), |it| times::offset(&path, &file, it))?;
            bytes += length.saturating_sub(from);
            files.push((file, from));
            if bytes >= MAX_TEXT as u64 || from > 0 {
                break;
            }
        }
        if let Some((_, from)) = files.last_mut() {
            *from += bytes.saturating_sub(MAX_TEXT as u64);
        }
        while let Some((mut file, from)) = files.pop() {
            to_line(&mut file, from)?;
            self.file = Some(file);
            self.rest(&mut each)?;
        }
        Ok(())
    }

    /// Reads what has come since the last look.
    fn more(&mut self, each: &mut impl FnMut(String)) -> io::Result<()> {
        self.rest(each)?;
        loop {
            let newest = match File::open(path(&self.dir.0, 0)) {
                Ok(newest) => newest,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(current) = &self.file else {
                self.file = Some(newest);
                return self.rest(each);
            };
            let current = current.metadata()?.ino();
            if current == newest.metadata()?.ino() {
                return Ok(());
            }
            // The open file has been rotated: read its end first, then the files that came after it.
            self.rest(each)?;
            let age = (1..FILES)
                .find(|age| fs::metadata(path(&self.dir.0, *age)).is_ok_and(|it| it.ino() == current));
            self.file = match age {
                Some(age) if age > 1 => File::open(path(&self.dir.0, age - 1)).ok(),
                _ => Some(newest),
            };
            self.rest(each)?;
        }
    }

    fn rest(&mut self, each: &mut impl FnMut(String)) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut buffer = vec![0; BUFFER];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(()),
                n => self.lines.push(&buffer[..n], &mut *each),
            }
        }
    }

    /// Returns the line that the output ended in, if it has no line end.
    fn finish(&mut self) -> Option<String> {
        self.lines.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(dir: &Path, max: u64) -> Log {
        Log::in_folder(dir, max, Clock::default())
    }

    fn lines(from: usize, to: usize) -> Vec<String> {
        (from..to).map(|it| format!("line {it}")).collect()
    }

    fn print(log: &mut Log, from: usize, to: usize) {
        for line in lines(from, to) {
            log.write(format!("{line}\n").as_bytes());
        }
    }

    #[test]
    fn files_stay_small_and_few_and_the_newest_lines_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        print(&mut log(dir.path(), 1000), 0, 1000);
        let sizes: Vec<u64> =
            (0..=FILES).filter_map(|it| fs::metadata(path(dir.path(), it)).ok()).map(|it| it.len()).collect();
        assert!(sizes.len() == FILES && sizes.iter().all(|it| *it < 1020), "{sizes:?}");
        let text = read(&Dir(dir.path().to_owned()), LogWindow::last(150)).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), lines(850, 1000));
    }

    #[test]
    fn a_follower_misses_nothing_when_files_rotate() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 500);
        print(&mut log, 0, 10);
        let mut follower = Follower::new(Dir(dir.path().to_owned()), false);
        let mut seen = Vec::new();
        follower.past(None, |it| seen.push(it)).unwrap();
        // Not a file, most of one, and almost as much as is kept.
        for (from, to) in [(10, 20), (20, 70), (70, 170)] {
            print(&mut log, from, to);
            follower.more(&mut |it| seen.push(it)).unwrap();
        }
        assert_eq!(seen, lines(0, 170));
    }

    #[test]
    fn only_lines_since_a_moment_are_read_over_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let seconds = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(1000));
        let at = std::sync::Arc::clone(&seconds);
        let clock = Clock::new(move || Timestamp(at.load(std::sync::atomic::Ordering::Relaxed) * 1000 + 7));
        let mut log = Log::in_folder(dir.path(), 400, clock);
        // Ten lines a second, 70 or 80 bytes: the files are rotated within seconds, and the oldest is gone.
        for second in 0..16 {
            seconds.store(1000 + second as i64, std::sync::atomic::Ordering::Relaxed);
            print(&mut log, second * 10, second * 10 + 10);
        }
        let folder = Dir(dir.path().to_owned());
        let since = |ms: i64, tail: usize| {
            let text =
                read(&folder, LogWindow { since: Some(Timestamp(ms)), ..LogWindow::last(tail) }).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for second in 6..16 {
            assert_eq!(
                since((1000 + second) * 1000, usize::MAX),
                lines(second as usize * 10, 160),
                "{second}"
            );
            assert_eq!(since((1000 + second) * 1000 + 999, 5), lines(155, 160), "to the second: {second}");
        }
        assert_eq!(since(1_016_000, usize::MAX), lines(0, 0));
        assert_eq!(
            since(0, usize::MAX),
            read(&folder, LogWindow::last(usize::MAX)).unwrap().lines().collect::<Vec<_>>()
        );
        // A follower that begins after the last line sees the next one.
        let mut follower = Follower::new(folder.clone(), false);
        follower.past(Some(Timestamp(1_016_000)), |it| panic!("{it}")).unwrap();
        print(&mut log, 160, 161);
        let mut seen = Vec::new();
        follower.more(&mut |it| seen.push(it)).unwrap();
        assert_eq!(seen, lines(160, 161));
        // A progress bar's lines have no line end but the last one.
        seconds.store(1020, std::sync::atomic::Ordering::Relaxed);
        log.write(b"10 %\r20 %\r");
        seconds.store(1021, std::sync::atomic::Ordering::Relaxed);
        log.write(b"30 %\rdone\n");
        assert_eq!(since(1_021_000, 9), ["30 %", "done"]);
        // The log of a gateway that wrote no times is shown whole.
        for age in 0..FILES {
            fs::remove_file(times::path(&path(dir.path(), age))).unwrap();
        }
        assert!(since(1_016_000, usize::MAX).len() > 100);
    }

    #[test]
    fn a_line_of_many_megabytes_is_skipped_by_large_reads() {
        struct Counted<R>(R, usize);
        impl<R: Read> Read for Counted<R> {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.1 += 1;
                self.0.read(buf)
            }
        }
        let line = 20 << 20;
        let mut from = Counted(io::repeat(b'x').take(line).chain(&b"\nnext\n"[..]), 0);
        assert_eq!(rest_of_line(&mut from).unwrap(), line + 1);
        assert!(from.1 <= 330, "{} reads", from.1);
    }

    #[test]
    fn of_a_long_log_only_whole_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = "x".repeat(100);
        let text = format!("{line}\n").repeat(MAX_TEXT / 101 + 50_000);
        fs::write(path(dir.path(), 0), text).unwrap();
        let read = read(&Dir(dir.path().to_owned()), LogWindow::last(usize::MAX)).unwrap();
        assert!(read.lines().all(|it| it == line) && read.len() > MAX_TEXT - 1000, "{}", read.len());
    }
}
