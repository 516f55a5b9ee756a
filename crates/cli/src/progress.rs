//! Shows progress while the user waits: at a terminal one line that is rewritten, else a new line for each change.

use std::io::{self, IsTerminal};

use crate::{output::Out, streams::tell, text::cut};

const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];
/// Columns of a bar.
const BAR: usize = 24;
/// Columns that what is done has, whatever follows it.
const SHORTEST: usize = 12;
/// Columns behind the bar that are more important than the end of what is done.
const BEHIND: usize = 16;

/// Progress on standard error. Its line is removed when the value is dropped.
pub(crate) struct Progress {
    live: bool,
    silent: bool,
    n: usize,
    last: String,
    drawn: bool,
}

impl Progress {
    pub(crate) fn new(out: &Out) -> Self {
        let live = !out.json() && io::stderr().is_terminal();
        Self { live, silent: out.json(), n: 0, last: String::new(), drawn: false }
    }

    /// Shows progress. Without a terminal, `what` is printed once for each change; `more` (times, sizes) is shown only
    /// at a terminal.
    pub(crate) fn show(&mut self, what: &str, more: &str, part: Option<f64>) {
        if self.silent {
            return;
        }
        if !self.live {
            if what != self.last {
                what.clone_into(&mut self.last);
                tell(&format!("{what}\n"));
            }
            return;
        }
        self.n += 1;
        let bar = part.map(bar).unwrap_or_default();
        let width = crate::terminal::size().map_or(80, |(columns, _)| columns.saturating_sub(1));
        // A long text must not push the bar, and how long it will take, out of the line.
        let behind = bar.len() + more.len().min(BEHIND) + 4;
        let what = cut(what, width.saturating_sub(behind).max(SHORTEST));
        let line = cut(&format!("{} {what}  {bar}{more}", FRAMES[self.n % FRAMES.len()]), width);
        tell(&format!("\r\u{1b}[K{line}"));
        self.drawn = true;
    }

    /// Removes the line, so that something else can be printed.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            tell("\r\u{1b}[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `[#####-----]  42 %  `
pub(crate) fn bar(part: f64) -> String {
    let part = part.clamp(0.0, 1.0);
    let full = (part * BAR as f64).round() as usize;
    format!("[{}{}] {:3.0} %  ", "#".repeat(full), "-".repeat(BAR - full), part * 100.0)
}
