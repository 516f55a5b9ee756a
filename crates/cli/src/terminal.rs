//! The terminal itself: its size, keys without Enter, and a password that is not shown. Changes to the terminal are
//! undone when the value is dropped, also by a panic.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use secrecy::SecretString;

use crate::{exit::Failure, streams::tell};

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
/// Longest password, in bytes. Every gateway refuses longer ones.
const LONGEST_PASSWORD: usize = 1024;

/// Returns the columns and rows of the terminal on standard output.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// The controlling terminal in a mode that gives each key at once: without echo, line editing or signals.
pub(crate) struct Keys {
    terminal: File,
    before: Termios,
}

impl Keys {
    /// # Errors
    /// There is no terminal.
    pub(crate) fn take() -> io::Result<Self> {
        let terminal = File::options().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&terminal, OptionalActions::Flush, &raw)?;
        Ok(Self { terminal, before })
    }

    /// Returns the next byte within `millis`; `None` if none came.
    pub(crate) fn next(&mut self, millis: u32) -> io::Result<Option<u8>> {
        let limit =
            Timespec { tv_sec: i64::from(millis / 1000), tv_nsec: i64::from(millis % 1000) * 1_000_000 };
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            // `INTR` is a signal, for example that the terminal's size changed.
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            other => other?,
        };
        let mut byte = [0];
        match self.terminal.read(&mut byte)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(Some(byte[0])),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Returns whether a byte is Ctrl-C.
pub(crate) fn is_interrupt(byte: u8) -> bool {
    byte == CTRL_C
}

/// Asks at the terminal, without showing what is typed.
///
/// # Errors
/// There is no terminal, or Ctrl-C was pressed.
pub(crate) fn ask_password(prompt: &str) -> Result<SecretString, Failure> {
    let no_terminal = |_| {
        Failure::Usage(
            "there is no terminal to ask for the password: set GANTRY_PASSWORD, or pipe it in".to_owned(),
        )
    };
    let mut keys = Keys::take().map_err(no_terminal)?;
    let _ = write!(keys.terminal, "{prompt}");
    let mut typed = Vec::new();
    let done = loop {
        match keys.next(u32::MAX / 4).map_err(no_terminal)? {
            Some(CTRL_C) => break Err(Failure::Interrupted),
            Some(b'\r' | b'\n' | CTRL_D) => break Ok(()),
            Some(CTRL_U) => typed.clear(),
            // Takes back one character, which may be several bytes.
            Some(8 | 127) => while typed.pop().is_some_and(|it| it & 0xc0 == 0x80) {},
            Some(byte) if typed.len() < LONGEST_PASSWORD => typed.push(byte),
            Some(_) | None => {}
        }
    };
    let _ = writeln!(keys.terminal);
    done?;
    let text =
        String::from_utf8(typed).map_err(|_| Failure::Usage("the password is not UTF-8".to_owned()))?;
    Ok(text.into())
}

/// Asks at the terminal for a line.
pub(crate) fn ask(prompt: &str) -> Result<String, Failure> {
    tell(prompt);
    let mut line = String::new();
    io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::Usage(format!("can't read the standard input: {error}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Asks before something is deleted, unless `--yes` was given. `more` says what goes with it.
///
/// # Errors
/// The answer was no, or there is no terminal to ask at.
pub(crate) fn confirm(yes: bool, what: &str, more: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "{what} is not deleted without --yes if there is no terminal to ask at"
        )));
    }
    let answer = ask(&format!("Delete {what}, {more}? [y/N] "))?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        return Err(Failure::Failed("nothing was deleted".to_owned()));
    }
    Ok(())
}

/// Asks before something is done, unless `--yes` was given.
///
/// # Errors
/// The answer was no, or there is no terminal to ask at.
pub(crate) fn agreed(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "nothing was done: there is no terminal to ask at; --yes does it without a question".to_owned(),
        ));
    }
    let answer = ask(&format!("{question} [y/N] "))?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        return Err(Failure::Failed("nothing was done".to_owned()));
    }
    Ok(())
}
