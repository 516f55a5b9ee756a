//! What `gantry serve` writes to standard output and error. Who reads it may go away or stop reading, and its disk may be
//! full: lines are dropped and counted then, and the gateway neither waits nor ends.

use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, fstat},
    io::{Errno, retry_on_intr},
};

/// Most bytes that wait for the reader; as many may be on their way to it.
const ROOM: usize = 1 << 20;
/// Longest wait at shutdown until the last lines are written.
const PATIENCE: Duration = Duration::from_secs(1);

/// One stream of lines.
pub(crate) struct Outlet {
    to: OwnedFd,
    /// Whether lines are written at once, so that a crash loses none: a file has no reader that could stop reading.
    at_once: bool,
    /// Makes the line that says how many lines were dropped.
    told: fn(u64) -> String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whole lines that the thread has not taken yet.
    waiting: Vec<u8>,
    /// Whether the thread has lines that it has not written yet.
    writing: bool,
    lost: Lost,
}

/// What is missing since the last line that was written.
#[derive(Clone, Copy, Default)]
struct Lost {
    lines: u64,
    /// Whether only a part of the last line was written.
    cut: bool,
}

/// Prints for the person at the terminal; the log goes to standard error.
pub(crate) fn say(text: &str) {
    static STDOUT: LazyLock<Option<Arc<Outlet>>> =
        LazyLock::new(|| Outlet::open(io::stdout().as_fd(), |_| String::new()).ok());
    if let Some(stdout) = &*STDOUT {
        stdout.put(format!("{text}\n").as_bytes());
    }
}

impl Outlet {
    /// `told` makes the line that says how many lines were dropped before it; it may be empty.
    ///
    /// # Errors
    /// There is no file descriptor or no thread left for it.
    pub(crate) fn open(to: BorrowedFd<'_>, told: fn(u64) -> String) -> io::Result<Arc<Self>> {
        // With a descriptor of its own, a write that waits holds no lock of the standard library, which others take.
        let to = to.try_clone_to_owned()?;
        let at_once = fstat(&to).is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let outlet = Arc::new(Self { to, at_once, told, state, changed });
        if !at_once {
            let writer = Arc::clone(&outlet);
            std::thread::Builder::new().name("output".to_owned()).spawn(move || writer.work())?;
        }
        Ok(outlet)
    }

    /// Takes whole lines. They are dropped if too many wait.
    pub(crate) fn put(&self, lines: &[u8]) {
        self.take(self.state.lock(), lines);
    }

    /// Takes whole lines, and waits until there is room for them.
    pub(crate) fn put_when_there_is_room(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        while !state.has_room(lines) {
            self.changed.wait(&mut state);
        }
        self.take(state, lines);
    }

    fn take(&self, mut state: MutexGuard<'_, State>, lines: &[u8]) {
        if self.at_once {
            let lost = std::mem::take(&mut state.lost);
            state.lost = self.deliver(lines, lost);
        } else if state.has_room(lines) {
            state.waiting.extend_from_slice(lines);
            drop(state);
            self.changed.notify_all();
        } else {
            state.lost.lines += count(lines);
        }
    }

    /// Waits until everything is written, but not for long.
    pub(crate) fn finish(&self) {
        let end = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        while state.writing || !state.waiting.is_empty() {
            if self.changed.wait_until(&mut state, end).timed_out() {
                return;
            }
        }
    }

    /// Writes what waits, as fast as the reader takes it. Runs on a thread of its own until the process ends.
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            while state.waiting.is_empty() {
                self.changed.wait(&mut state);
            }
            let (lines, lost) = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.lost));
            state.writing = true;
            drop(state);
            self.changed.notify_all();
            let lost = self.deliver(&lines, lost);
            let mut state = self.state.lock();
            state.writing = false;
            // Others may have been dropped meanwhile.
            state.lost.lines += lost.lines;
            state.lost.cut = lost.cut;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Writes lines, and then how many were lost before them. Returns what is lost now.
    fn deliver(&self, lines: &[u8], lost: Lost) -> Lost {
        if lost.cut && !self.send(b"\n").is_empty() {
            return Lost { lines: lost.lines + count(lines), cut: true };
        }
        let left = self.send(lines);
        if !left.is_empty() {
            return Lost { lines: lost.lines + count(left), cut: left.len() < lines.len() };
        }
        if lost.lines > 0 {
            let told = (self.told)(lost.lines);
            let left = self.send(told.as_bytes());
            if !left.is_empty() {
                return Lost { lines: lost.lines, cut: left.len() < told.len() };
            }
        }
        Lost::default()
    }

    /// Writes, and returns what could not be written. An error is not reported: there is no other place for it.
    fn send<'a>(&self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() {
            match rustix::io::write(&self.to, bytes) {
                Ok(n) if n > 0 => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                // A program that shares the pipe or the terminal has made it non-blocking.
                Err(Errno::AGAIN) if self.takes_more() => {}
                Ok(_) | Err(_) => break,
            }
        }
        bytes
    }

    /// Waits until the reader takes more. `false` if that can't be waited for.
    fn takes_more(&self) -> bool {
        retry_on_intr(|| poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], None)).is_ok()
    }
}

impl State {
    /// Something larger than all the room has it when nothing else waits.
    fn has_room(&self, lines: &[u8]) -> bool {
        self.waiting.is_empty() || self.waiting.len() + lines.len() <= ROOM
    }
}

/// For `tracing`, which writes whole lines. Never an error: `tracing-subscriber` would report it with `eprintln!`, which
/// panics if standard error can't be written.
impl Write for &Outlet {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.put(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of lines, of which the last one may lack its end.
fn count(lines: &[u8]) -> u64 {
    lines.split_inclusive(|it| *it == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{BufRead, BufReader},
    };

    use super::*;

    fn told(n: u64) -> String {
        format!("{n} dropped\n")
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_is_told_what_it_missed() {
        let (reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::open(writer.as_fd(), told).unwrap();
        let line = format!("{}\n", "x".repeat(999));
        let n_lines = 3 * ROOM as u64 / 1000;
        for _ in 0..n_lines {
            outlet.put(line.as_bytes());
        }
        outlet.finish();
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        let (mut n_read, mut n_dropped) = (0, 0);
        while n_read + n_dropped < n_lines {
            let line = lines.next().unwrap();
            match line.strip_suffix(" dropped") {
                Some(n) => n_dropped += n.parse::<u64>().unwrap(),
                None => n_read += 1,
            }
            assert!(line.len() == 999 || line.ends_with(" dropped"), "{line}");
        }
        assert_eq!(n_read + n_dropped, n_lines);
        // What waits and what is on its way is less than two thirds.
        assert!(n_dropped > n_lines / 5, "{n_dropped} of {n_lines}");
    }

    #[test]
    fn a_reader_that_is_gone_and_a_full_disk_are_no_errors() {
        let (reader, gone) = io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        for to in [gone.as_fd(), full.as_fd()] {
            let outlet = Outlet::open(to, told).unwrap();
            for n in 1..=3 {
                let mut to: &Outlet = &outlet;
                to.write_all(b"one\ntwo\n").unwrap();
                outlet.finish();
                assert_eq!(outlet.state.lock().lost.lines, 2 * n);
            }
        }
    }

    #[test]
    fn a_file_has_each_line_at_once() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let outlet = Outlet::open(file.as_file().as_fd(), told).unwrap();
        outlet.state.lock().lost = Lost { lines: 7, cut: true };
        file.write_all(b"half").unwrap();
        outlet.put_when_there_is_room(b"whole\n");
        outlet.put(b"next\n");
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "half\nwhole\n7 dropped\nnext\n");
    }
}
