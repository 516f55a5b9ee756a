//! Standard output and error of a command. Their readers may be gone, or may have stopped reading.

use std::io::{self, Write};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
};

/// Longest wait for the reader of standard error.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Bytes that a pipe takes without a wait once it takes any (`PIPE_BUF`, `pipe(7)`).
const PIECE: usize = 4096;

/// Writes to standard error. Text that can't be written is dropped, because its failure can't be reported anywhere. So is
/// text that nobody reads for a second: a command ends even if its messages are not read.
pub fn tell(text: &str) {
    let mut err = io::stderr().lock();
    for piece in text.as_bytes().chunks(PIECE) {
        let ready = retry_on_intr(|| poll(&mut [PollFd::new(&err, PollFlags::OUT)], Some(&PATIENCE)));
        if !ready.is_ok_and(|n| n > 0) || err.write_all(piece).is_err() {
            return;
        }
    }
}

/// Returns whether the reader of standard output is gone (`… | head -1`). Never, if standard output is a file.
pub fn is_reader_gone() -> bool {
    // `poll` reports errors, such as a pipe without a reader, even if no events are asked for.
    let stdout = io::stdout();
    let mut found = [PollFd::new(&stdout, PollFlags::empty())];
    poll(&mut found, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}
