//! Turns the raw bytes of a container's output into clean lines, without escape sequences and control characters; those
//! that set colours are kept where they are wanted. A progress bar's `\r` ends a line. Lines and texts are bounded,
//! whatever an engine prints.

use std::collections::VecDeque;

/// Longest line in bytes; the rest of a longer one is dropped.
pub(crate) const MAX_LINE: usize = 4 << 10;
/// Longest text in bytes; the oldest lines of a longer one are dropped.
pub(crate) const MAX_TEXT: usize = 8 << 20;

/// Longest colour in bytes, between `ESC [` and `m`; a longer one is dropped.
const MAX_COLOR: usize = 32;

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
    /// Whether the line has more than colours.
    printed: bool,
    escape: Escape,
    /// What has come of a control sequence; `None` if colours are dropped, too.
    control: Option<Vec<u8>>,
    after_return: bool,
}

impl LineReader {
    /// Returns a reader that keeps the sequences that set colours.
    pub(crate) fn with_colors(colors: bool) -> Self {
        Self { control: colors.then(Vec::new), ..Self::default() }
    }

    /// Reads `bytes` and hands each line that they complete to `each`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(String)) {
        for &byte in bytes {
            self.byte(byte, &mut each);
        }
    }

    /// Returns the line that the stream ended in, if it did not end with a line end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.printed.then(|| self.take())
    }

    fn byte(&mut self, byte: u8, each: &mut impl FnMut(String)) {
        let after_return = std::mem::take(&mut self.after_return);
        match (byte, self.escape) {
            // A line end ends an unfinished sequence too: broken output must not swallow the rest of the log.
            (b'\n', _) => {
                self.escape = Escape::None;
                // `\r\n` is one line end, and the `\r` of a progress bar already ended its line.
                if !after_return || self.printed {
                    each(self.take());
                }
            }
            (b'\r', _) => {
                self.escape = Escape::None;
                if self.printed {
                    each(self.take());
                    self.after_return = true;
                }
            }
            (ESC, _) => self.escape = Escape::Start,
            (_, Escape::None) => self.text(byte),
            (b'[', Escape::Start) => {
                self.escape = Escape::Control;
                self.control.iter_mut().for_each(Vec::clear);
            }
            (b']' | b'P' | b'X' | b'^' | b'_', Escape::Start) => self.escape = Escape::Text,
            (0x20..=0x2f, Escape::Start) => {}
            (b'm', Escape::Control) => {
                self.escape = Escape::None;
                self.color();
            }
            (_, Escape::Start) | (0x40..=0x7e, Escape::Control) | (BEL, Escape::Text) => {
                self.escape = Escape::None;
            }
            (_, Escape::Control) => {
                if let Some(control) = self.control.as_mut().filter(|it| it.len() <= MAX_COLOR) {
                    control.push(byte);
                }
            }
            (_, Escape::Text) => {}
        }
    }

    /// Keeps a sequence that sets colours, if it has nothing but numbers.
    fn color(&mut self) {
        let Some(numbers) = &self.control else { return };
        let plain = numbers.iter().all(|it| it.is_ascii_digit() || *it == b';');
        if plain && numbers.len() <= MAX_COLOR && self.line.len() + numbers.len() + 3 <= MAX_LINE {
            self.line.extend_from_slice(b"\x1b[");
            self.line.extend_from_slice(numbers);
            self.line.push(b'm');
        }
    }

    fn text(&mut self, byte: u8) {
        let control = byte.is_ascii_control() && byte != b'\t';
        if !control && self.line.len() < MAX_LINE {
            self.line.push(byte);
            self.printed = true;
        }
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.line);
        self.printed = false;
        // The cut may have gone through a character.
        let cut = bytes.len() == MAX_LINE;
        let text = String::from_utf8_lossy(&bytes);
        let text = if cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
        let keep = |it: &char| matches!(it, '\t' | '\x1b') || !it.is_control();
        let mut text: String = text.chars().filter(keep).collect();
        // Each invalid byte became a character of three bytes.
        text.truncate(text.floor_char_boundary(MAX_LINE));
        // So the cut may have gone through a colour, too.
        if let Some(at) = text.rfind('\x1b')
            && !text[at..].contains('m')
        {
            text.truncate(at);
        }
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
        read(LineReader::default(), parts)
    }

    fn colored(parts: &[&[u8]]) -> Vec<String> {
        read(LineReader::with_colors(true), parts)
    }

    fn read(mut reader: LineReader, parts: &[&[u8]]) -> Vec<String> {
        let mut lines = Vec::new();
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
    fn colours_stay_where_they_are_wanted_and_nothing_else_does() {
        let cases: [(&[u8], &[&str]); 9] = [
            (b"\x1b[1;32mINFO\x1b[m ok", &["\x1b[1;32mINFO\x1b[m ok"]),
            (b"\x1b[38;5;9mred\x1b[0m\r\nnext", &["\x1b[38;5;9mred\x1b[0m", "next"]),
            (b"\x1b]0;title\x07\x1b[31mtext", &["\x1b[31mtext"]),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", &["link"]),
            (b"\x1b[?25l\x1b[2K\x1b[2J\x1b[Hhidden", &["hidden"]),
            // What ends like a colour and is none.
            (b"\x1b[>4;2mkeys\x1b[?4m\x1b[1 m", &["keys"]),
            (b"a\x08\x07\x00b\xc2\x9b31mc\x7f", &["ab31mc"]),
            // A line of colours only has nothing to be read.
            (b"one\r\x1b[0m\rtwo\r\n\x1b[0m", &["one", "\x1b[0mtwo"]),
            (b"\x1b[31", &[]),
        ];
        for (raw, kept) in cases {
            assert_eq!(colored(&[raw]), kept, "{:?}", String::from_utf8_lossy(raw));
            let bytes: Vec<&[u8]> = raw.chunks(1).collect();
            assert_eq!(colored(&bytes), kept);
        }
    }

    #[test]
    fn colours_are_bounded_too() {
        let long = format!("\x1b[{}mx\n", "1;".repeat(MAX_COLOR));
        assert_eq!(colored(&[long.as_bytes()]), ["x"]);
        let only = "\x1b[31m".repeat(MAX_LINE);
        assert!(colored(&[only.as_bytes(), b"\n"]).iter().all(|it| it.len() <= MAX_LINE));
        // Invalid bytes grow to characters of three bytes, and the line is cut again: never within a colour.
        for bytes in 0..12 {
            let mut raw = vec![b'x'; MAX_LINE - 20 - bytes];
            raw.extend_from_slice(&[0xff; 4]);
            raw.extend_from_slice(b"\x1b[1;31m\x1b[1;32m\n");
            for line in colored(&[&raw]) {
                assert!(line.len() <= MAX_LINE, "{bytes}");
                assert!(line.split('\x1b').skip(1).all(|it| it.ends_with('m')), "{bytes}: {line:?}");
            }
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
