//! Prints output for people or for programs, with or without colours, and no wider than the terminal. `println!` would
//! panic when the reader goes away; the functions here return an error instead.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::{
    exit::{Failure, Outcome},
    output_form::{Form, name_of},
    streams::{is_reader_gone, tell},
    terminal,
    text::{clean, clean_lines, cut, harmless},
    times::zone,
};

/// Meaning of a text, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Busy,
    Bad,
    Dim,
    Bold,
}

impl Tone {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Busy => "33",
            Self::Bad => "31",
            Self::Dim => "2",
            Self::Bold => "1",
        }
    }

    /// Returns the tone for the state of a model.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "running" | "active" | "ok" => Self::Good,
            "starting" | "loading" | "stopping" => Self::Busy,
            "failed" | "revoked" | "expired" => Self::Bad,
            _ => Self::Plain,
        }
    }
}

/// Waits until the reader of standard output is gone (`… | head -1`). A command that seldom prints would otherwise
/// notice it only at its next line, which may be hours away. Never returns if standard output is a file.
pub(crate) async fn reader_gone() {
    while !is_reader_gone() {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Standard output and error of one command.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    form: Form,
    pub(crate) utc: bool,
    colour: bool,
    /// Columns of the terminal; `None` without a terminal: then nothing is cut off.
    width: Option<usize>,
    /// Answers for programs that will be printed as one list; `None` if each answer is printed at once.
    held: Arc<Mutex<Option<Vec<Value>>>>,
}

impl Out {
    pub(crate) fn new(form: Form, utc: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty())
            || std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        let fits = terminal && form != Form::Wide;
        let width = if fits { terminal::size().map(|(columns, _)| columns) } else { None };
        Self { form, utc, colour: terminal && !no_colour, width, held: Arc::default() }
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Returns whether the output is JSON for programs.
    pub(crate) fn json(&self) -> bool {
        self.form == Form::Json
    }

    /// Returns a copy that fits the terminal's present size.
    pub(crate) fn refit(&self) -> Self {
        let width = self.width.and_then(|_| terminal::size()).map(|(columns, _)| columns);
        Self { width, ..self.clone() }
    }

    /// Prints a line on standard output.
    #[expect(clippy::unused_self, reason = "what prints holds an `Out`, so that nothing prints by the way")]
    pub(crate) fn line(&self, text: &str) -> Outcome<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Prints our own text, which includes its line ends.
    #[expect(clippy::unused_self, reason = "what prints holds an `Out`, so that nothing prints by the way")]
    pub(crate) fn raw(&self, bytes: &[u8]) -> Outcome<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Prints or holds the answer for programs.
    pub(crate) fn value(&self, value: &Value) -> Outcome<()> {
        if let Some(held) = self.held.lock().as_mut() {
            held.push(value.clone());
            return Ok(());
        }
        self.line(&harmless(&format!("{value:#}")))
    }

    /// Holds answers for programs from now on, until [`Out::release`] prints them as one list.
    pub(crate) fn hold(&self) {
        if self.json() {
            *self.held.lock() = Some(Vec::new());
        }
    }

    pub(crate) fn release(&self) -> Outcome<()> {
        let held = self.held.lock().take();
        held.map_or(Ok(()), |held| self.value(&Value::Array(held)))
    }

    /// Prints the answer for programs on one line.
    pub(crate) fn compact(&self, value: &Value) -> Outcome<()> {
        self.line(&harmless(&value.to_string()))
    }

    /// Prints the answer for programs or its names, or calls `people` to print it for people.
    pub(crate) fn either(&self, value: &Value, people: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        match self.form {
            Form::Json => self.value(value),
            Form::Name => self.names(value),
            Form::Text | Form::Wide => people(),
        }
    }

    /// Prints the name of each record of an answer, one a line.
    pub(crate) fn names(&self, value: &Value) -> Outcome<()> {
        let records = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for record in records {
            let name = name_of(record).ok_or_else(|| {
                Failure::Usage("there are no names in this answer: use `-o json` instead".to_owned())
            })?;
            self.line(&name)?;
        }
        Ok(())
    }

    /// Prints a progress note on standard error, for people only.
    pub(crate) fn note(&self, text: &str) {
        if !self.json() {
            tell(&format!("{text}\n"));
        }
    }

    /// Warns on standard error, also for programs, that a list was cut off.
    pub(crate) fn more(&self, n_shown: usize, total: Option<usize>, what: &str) {
        let Some(total) = total.filter(|it| *it > n_shown) else { return };
        self.warn(&format!("{n_shown} of {total} {what}; a larger --limit shows more"));
    }

    /// Prints a warning on standard error, also for programs.
    pub(crate) fn warn(&self, text: &str) {
        if self.json() {
            let warning = harmless(&json!({ "warning": text }).to_string());
            tell(&format!("{warning}\n"));
        }
        self.note(text);
    }

    /// Prints why the command failed on standard error.
    pub(crate) fn complain(&self, failure: &Failure) {
        let text = match failure {
            Failure::Closed | Failure::Told(_) => String::new(),
            failure if self.json() => format!("{}\n", harmless(&failure.json().to_string())),
            failure => clean_lines(&failure.words()),
        };
        tell(&text);
    }

    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        if self.colour && tone != Tone::Plain {
            format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    /// Cuts text to the width of the terminal. The text must not have colours yet.
    pub(crate) fn fit(&self, text: &str) -> String {
        self.width.map_or_else(|| text.to_owned(), |width| cut(text, width))
    }

    /// Puts words beside each other, on as many lines as they need at the terminal's width.
    pub(crate) fn flow(&self, words: &[String]) -> Vec<String> {
        const SPACE: &str = "   ";
        let mut lines: Vec<String> = Vec::new();
        for word in words {
            match lines.last_mut() {
                Some(line) if self.width.is_none_or(|it| line.width() + SPACE.len() + word.width() <= it) => {
                    line.push_str(SPACE);
                    line.push_str(word);
                }
                _ => lines.push(self.fit(word)),
            }
        }
        lines
    }

    /// Formats a time of the API for people: in the machine's time zone, or in UTC with `--utc`.
    pub(crate) fn time(&self, text: &Value) -> String {
        let Some(text) = text.as_str() else { return "-".to_owned() };
        let Ok(at) = text.parse::<jiff::Timestamp>() else { return clean(text) };
        let end = if self.utc { "Z" } else { "" };
        format!("{}{end}", at.to_zoned(zone(self.utc)).strftime("%Y-%m-%d %H:%M:%S"))
    }

    pub(crate) fn table(&self, table: &Table) -> Outcome<()> {
        for line in table.lines(self) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// Prints lines of the form `name  value`.
    pub(crate) fn pairs(&self, pairs: &[(&str, String)]) -> Outcome<()> {
        // Names may come from the answer too, so they are cleaned.
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (clean(name), value)).collect();
        let width = pairs.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in &pairs {
            let label = format!("{name:<width$}");
            self.line(&format!("{}  {}", self.paint(Tone::Dim, &label), clean(value)))?;
        }
        Ok(())
    }
}

/// Rows under headings. Columns whose heading ends with `>` hold numbers and are aligned to the right.
#[derive(Debug)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    /// Headings of the columns that are dropped first if the terminal is too narrow; after them, the last columns are
    /// dropped.
    spare: &'static [&'static str],
    rows: Vec<Vec<(String, Tone)>>,
}

/// Smallest width of a column that is made narrower.
const NARROWEST: usize = 6;
const GAP: &str = "  ";

impl Table {
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self { heads: heads.to_vec(), spare: &[], rows: Vec::new() }
    }

    pub(crate) fn sparing(self, spare: &'static [&'static str]) -> Self {
        Self { spare, ..self }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.toned(cells.into_iter().map(|it| (it, Tone::Plain)));
    }

    pub(crate) fn toned(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (clean(&text), tone)).collect());
    }

    /// Drops columns until the rest fit when each is as narrow as allowed.
    fn drop_columns(&self, columns: &mut Vec<usize>, widths: &[usize], limit: usize) {
        let mut spare = self.spare.iter();
        while columns.len() > 1 && total(columns.iter().map(|it| widths[*it].min(NARROWEST))) > limit {
            match spare.next() {
                Some(head) => columns.retain(|it| self.heads[*it] != *head),
                None => drop(columns.pop()),
            }
        }
    }

    /// Returns all lines, headings first, none wider than the terminal.
    pub(crate) fn lines(&self, out: &Out) -> Vec<String> {
        let names = self.heads.iter().map(|it| it.trim_end_matches('>'));
        let mut widths: Vec<usize> = names.clone().map(UnicodeWidthStr::width).collect();
        for row in &self.rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.width());
            }
        }
        let mut columns: Vec<usize> = (0..widths.len()).collect();
        if let Some(limit) = out.width {
            self.drop_columns(&mut columns, &widths, limit);
            shrink(&mut widths, &columns, limit);
        }
        let heads: Vec<_> = names.map(|it| (it.to_owned(), Tone::Bold)).collect();
        let line = |row: &Vec<(String, Tone)>| {
            let cell = |column: &usize| {
                let (Some((text, tone)), width) = (row.get(*column), widths[*column]) else {
                    return String::new();
                };
                let text = cut(text, width);
                let space = " ".repeat(width.saturating_sub(text.width()));
                let text = out.paint(*tone, &text);
                if self.heads[*column].ends_with('>') {
                    format!("{space}{text}")
                } else {
                    format!("{text}{space}")
                }
            };
            columns.iter().map(cell).collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        std::iter::once(line(&heads)).chain(self.rows.iter().map(line)).collect()
    }
}

fn total(widths: impl Iterator<Item = usize>) -> usize {
    let (n, sum) = widths.fold((0, 0), |(n, sum), it| (n + 1, sum + it));
    sum + GAP.len() * usize::saturating_sub(n, 1)
}

/// Makes the widest column narrower until all columns fit, or no column can be made narrower.
fn shrink(widths: &mut [usize], columns: &[usize], limit: usize) {
    while total(columns.iter().map(|it| widths[*it])) > limit {
        match columns.iter().max_by_key(|it| widths[**it]) {
            Some(widest) if widths[*widest] > NARROWEST => widths[*widest] -= 1,
            _ => return,
        }
    }
}

/// Writes text from other people to standard output: at a terminal without control characters, elsewhere unchanged.
pub(crate) struct Foreign<'a> {
    out: &'a Out,
    /// `None` if standard output is not a terminal.
    pieces: Option<Pieces>,
}

impl<'a> Foreign<'a> {
    pub(crate) fn new(out: &'a Out) -> Self {
        Self { out, pieces: io::stdout().is_terminal().then(Pieces::default) }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) -> Outcome<()> {
        match &mut self.pieces {
            Some(pieces) => self.out.raw(pieces.take(bytes).as_bytes()),
            None => self.out.raw(bytes),
        }
    }
}

/// Joins pieces of text that may end within a character.
#[derive(Default)]
struct Pieces(Vec<u8>);

impl Pieces {
    /// Adds a piece, and returns the text that is complete now, cleaned.
    fn take(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let is_unfinished =
            |end: &&[u8]| std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none());
        let end = self.0.utf8_chunks().last().map(|it| it.invalid()).filter(is_unfinished);
        let n_complete = self.0.len() - end.map_or(0, <[u8]>::len);
        let complete: Vec<u8> = self.0.drain(..n_complete).collect();
        clean_lines(&String::from_utf8_lossy(&complete))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(width: usize) -> Out {
        Out { form: Form::Text, utc: true, colour: false, width: Some(width), held: Arc::default() }
    }

    #[test]
    fn a_table_fits_the_terminal_and_says_where_it_was_cut() {
        let mut table = Table::new(&["NAME", "REQUESTS>", "REASON"]);
        table.row(["qwen".to_owned(), "17".to_owned(), "a reason that is rather long".to_owned()]);
        table.row(["名前".to_owned(), "4".to_owned(), "short".to_owned()]);
        let lines = table.lines(&out(30));
        assert!(lines.iter().all(|it| it.width() <= 30), "{lines:?}");
        assert_eq!(lines[0], "NAME  REQUESTS  REASON");
        assert_eq!(lines[1], "qwen        17  a reason that…");
        assert_eq!(lines[2], "名前         4  short");
    }

    #[test]
    fn what_does_not_fit_even_so_goes() {
        let heads = ["NAME", "REQUESTS>", "ENGINE", "STATE", "TOKENS>"];
        let mut table = Table::new(&heads).sparing(&["ENGINE"]);
        table.row(["qwen-2.5-7b", "1234567", "llamacpp", "running", "7654321"].map(str::to_owned));
        for (width, head) in [
            (80, "NAME         REQUESTS  ENGINE    STATE     TOKENS"),
            (38, "NAME    REQUE…  ENGINE  STATE   TOKENS"),
            (37, "NAME       REQUESTS  STATE     TOKENS"),
            (10, "NAME"),
        ] {
            let lines = table.lines(&out(width));
            assert_eq!(lines[0], head, "{width}: {lines:?}");
            assert!(lines.iter().all(|it| it.width() <= width), "{lines:?}");
        }
    }

    #[test]
    fn what_others_wrote_can_not_command_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb\nc\u{9b}d"), "a [2Jb c d");
        let lines = "id,model\n1,\u{1b}[2J\u{9b}é\r\n";
        for size in 1..lines.len() {
            let mut pieces = Pieces::default();
            let text: String = lines.as_bytes().chunks(size).map(|it| pieces.take(it)).collect();
            assert_eq!(text, "id,model\n1, [2J é \n", "in pieces of {size}");
        }
        // As a terminal that is not of UTF-8 would read it.
        assert_eq!(Pieces::default().take(b"a\x9b2Jb"), "a\u{fffd}2Jb");
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(out(80).time(&"2026-11-21T06:58:35.123Z".into()), "2026-11-21 06:58:35Z");
        assert_eq!(out(80).time(&Value::Null), "-");
    }
}
