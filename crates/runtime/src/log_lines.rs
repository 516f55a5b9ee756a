//! Turns the raw bytes of a container's output into clean lines, without escape sequences and control characters. A
//! progress bar's `\r` ends a line. Lines and texts are bounded, whatever an engine prints.

use std::collections::VecDeque;

/// Longest line in bytes; the rest of a longer one is dropped.
pub(crate) const MAX_LINE: usize = 4 << 10;
/// Longest text in bytes; the oldest lines of a longer one are dropped.
pub(crate) const MAX_TEXT: usize = 8 << 20;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Position of the input within an escape sequence (ECMA-48).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    /// After ESC, or after its intermediate bytes.
    Start,
    /// Within `ESC [ … final`.
    Control,
    /// Within `ESC ] … BEL` or `ESC ] … ESC \`, and the other strings.
    Text,
}

/// Collects one stream (stdout or stderr) into lines.
#[derive(Debug, Default)]
pub(crate) struct LineReader {
    line: Vec<u8>,
    escape: Escape,
    after_return: bool,
}

impl LineReader {
    /// Reads `bytes` and hands each line that they complete to `each`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for &byte in bytes {
            self.byte(byte, &mut each);
        }
    }

    /// Returns the line that the stream ended in, if it did not end with a line end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.line.is_empty()).then(|| self.take())
    }

    fn byte(&mut self, byte: u8, each: &mut impl FnMut(String)) {
        let after_return = std::mem::take(&mut self.after_return);
        match (byte, self.escape) {
            // A line end ends an unfinished sequence too: broken output must not swallow the rest of the log.
            (b'\n', _) => {
                self.escape = Escape::None;
                // `\r\n` is one line end, and the `\r` of a progress bar already ended its line.
                if !(after_return && self.line.is_empty()) {
                    each(self.take());
                }
            }
            (b'\r', _) => {
                self.escape = Escape::None;
                if !self.line.is_empty() {
                    each(self.take());
                    self.after_return = true;
                }
            }
            (ESC, _) => self.escape = Escape::Start,
            (_, Escape::None) => self.text(byte),
            (b'[', Escape::Start) => self.escape = Escape::Control,
            (b']' | b'P' | b'X' | b'^' | b'_', Escape::Start) => self.escape = Escape::Text,
            (0x20..=0x2f, Escape::Start) => {}
            (_, Escape::Start) | (0x40..=0x7e, Escape::Control) | (BEL, Escape::Text) => {
                self.escape = Escape::None;
            }
            (_, Escape::Control | Escape::Text) => {}
        }
    }

    fn text(&mut self, byte: u8) {
        let control = byte.is_ascii_control() && byte != b'\t';
        if !control && self.line.len() < MAX_LINE {
            self.line.push(byte);
        }
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.line);
        // The cut may have gone through a character.
        let cut = bytes.len() == MAX_LINE;
        let text = String::from_utf8_lossy(&bytes);
        let text = if cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
        let mut text: String = text.chars().filter(|it| *it == '\t' || !it.is_control()).collect();
        // Each invalid byte became a character of three bytes.
        text.truncate(text.floor_char_boundary(MAX_LINE));
        text
    }
}

/// The last lines of a text, bounded in number and bytes.
#[derive(Debug)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
    max_lines: usize,
}

impl Tail {
    pub(crate) fn new(max_lines: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, max_lines }
    }

    pub(crate) fn push(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.lines.len() > self.max_lines || self.bytes > MAX_TEXT {
            let Some(dropped) = self.lines.pop_front() else { return };
            self.bytes -= dropped.len() + 1;
        }
    }

    /// Returns the lines, each with a line end.
    pub(crate) fn into_text(self) -> String {
        let mut text = String::with_capacity(self.bytes);
        for line in self.lines {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Vec<String> {
        let (mut reader, mut lines) = (LineReader::default(), Vec::new());
        for part in parts {
            reader.push(part, |it| lines.push(it));
        }
        lines.extend(reader.finish());
        lines
    }

    #[test]
    fn lines_come_whole_however_the_bytes_are_cut() {
        let text = "one\n\ntwo \u{1b}[31mred\u{1b}[0m\r\nthree";
        let expected = ["one", "", "two red", "three"];
        assert_eq!(lines(&[text.as_bytes()]), expected);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(lines(&bytes), expected);
    }

    #[test]
    fn every_step_of_a_progress_bar_is_a_line() {
        assert_eq!(
            lines(&[b"\rload  10%\rload  50%\rload 100%\r\ndone\n"]),
            ["load  10%", "load  50%", "load 100%", "done"]
        );
    }

    #[test]
    fn escape_sequences_and_control_characters_vanish() {
        let cases: [(&[u8], &str); 7] = [
            (b"\x1b[1;32mINFO\x1b[m ok", "INFO ok"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b(Bplain", "plain"),
            (b"a\x08\x07\x00b\tc", "ab\tc"),
            (b"\x1b[?25l\x1b[2Khidden", "hidden"),
            ("caf\u{e9} \u{9b}31m".as_bytes(), "caf\u{e9} 31m"),
        ];
        for (raw, clean) in cases {
            assert_eq!(lines(&[raw]), [clean]);
        }
    }

    #[test]
    fn an_unfinished_sequence_ends_with_its_line() {
        assert_eq!(lines(&[b"\x1b]never closed\nnext\n"]), ["", "next"]);
    }

    #[test]
    fn a_long_line_is_cut_at_a_character() {
        let long = format!("{}\u{e9}tail\nnext\n", "x".repeat(MAX_LINE - 1));
        let lines = lines(&[long.as_bytes()]);
        assert_eq!(lines, ["x".repeat(MAX_LINE - 1), "next".to_owned()]);
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_limit() {
        let lines = lines(&[&[0xff; 3 * MAX_LINE], b"\n"]);
        assert!(lines.iter().all(|it| it.len() <= MAX_LINE), "{} bytes", lines[0].len());
    }

    #[test]
    fn a_tail_keeps_the_newest_lines_within_both_limits() {
        let mut tail = Tail::new(2);
        for line in ["a", "b", "c"] {
            tail.push(line.to_owned());
        }
        assert_eq!(tail.into_text(), "b\nc\n");
        let mut tail = Tail::new(usize::MAX);
        (0..3000).for_each(|_| tail.push("y".repeat(MAX_LINE)));
        let text = tail.into_text();
        assert!(text.len() <= MAX_TEXT && text.len() > MAX_TEXT - 2 * MAX_LINE, "{}", text.len());
        assert_eq!(Tail::new(0).into_text(), "");
    }
}
