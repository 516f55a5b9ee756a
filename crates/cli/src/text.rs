//! Text from other people, which must not command the terminal, and values of the API as text.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal},
    sync::LazyLock,
};

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// Cuts text to at most `width` columns; text that was cut ends with `…`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for it in text.chars() {
        if kept.width() + it.to_string().width() + 1 > width {
            break;
        }
        kept.push(it);
    }
    kept.push('…');
    kept
}

/// Whether a terminal obeys the character: a control character, or one that turns the direction of the text behind it
/// (UAX #9: embeddings, overrides, isolates), so that a name looks like another one and swallows what follows it.
fn is_obeyed(it: char) -> bool {
    it.is_control() || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns text from other people without the characters that a terminal would obey.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|it| if is_obeyed(it) { ' ' } else { it }).collect()
}

/// Returns text without the characters that a terminal would obey, except line ends and tabs.
pub(crate) fn clean_lines(text: &str) -> String {
    let is_harmless = |it: char| !is_obeyed(it) || matches!(it, '\n' | '\t');
    text.chars().map(|it| if is_harmless(it) { it } else { ' ' }).collect()
}

/// Returns JSON with the same meaning, without characters that a terminal would obey. `serde_json` escapes characters
/// below U+0020, but leaves all others unchanged (RFC 8259 requires no more). Such characters can occur only in strings.
pub fn harmless(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for it in json.chars() {
        if is_obeyed(it) && it != '\n' {
            // Writing to a String can't fail.
            let _ = write!(text, "\\u{:04x}", u32::from(it));
        } else {
            text.push(it);
        }
    }
    text
}

/// Formats a text, number or flag of the API for a cell, without characters that a terminal would obey; `-` for nothing.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(it) if it.is_empty() => "-".to_owned(),
        Value::String(it) => clean(it),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        other => harmless(&other.to_string()),
    }
}

/// Formats a count: at a terminal with separators (`1 234 567`), in a pipe without, for programs such as `sort -n`.
pub(crate) fn count(value: &Value) -> String {
    static AT_TERMINAL: LazyLock<bool> = LazyLock::new(|| io::stdout().is_terminal());
    let Some(n) = value.as_i64() else { return cell(value) };
    if *AT_TERMINAL { separated(n) } else { n.to_string() }
}

fn separated(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if n < 0 { format!("-{text}") } else { text }
}

/// Formats a number of bytes: `20.1 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} bytes");
    }
    let (mut size, mut unit) = (n as f64, "");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    format!("{size:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_stays_the_same_and_can_not_command_the_terminal() {
        let value = json!({ "\u{9b}": "\u{1b}[2J\u{9b}2J\u{7f}\n\t\"\\é\u{202e}\u{2066}" });
        for text in [value.to_string(), format!("{value:#}")] {
            let text = harmless(&text);
            assert!(!text.chars().any(|it| is_obeyed(it) && it != '\n'), "{text:?}");
            assert!(text.contains("\\u009b2J") && text.contains("\\u202e\\u2066"), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn text_turns_no_direction() {
        for code in (0x202a..=0x202e).chain(0x2066..=0x2069) {
            let text = format!("a{}b\u{5d0}", char::from_u32(code).unwrap());
            assert_eq!(
                (clean(&text), clean_lines(&text)),
                ("a b\u{5d0}".to_owned(), "a b\u{5d0}".to_owned())
            );
        }
    }

    #[test]
    fn bytes_have_the_unit_that_fits() {
        for (n, text) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (21_582_000_000, "20.1 GiB")]
        {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(bytes(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn counts_are_easy_to_read_at_a_terminal() {
        for (n, text) in [(7, "7"), (1234, "1\u{202f}234"), (-1_234_567, "-1\u{202f}234\u{202f}567")] {
            assert_eq!(separated(n), text);
        }
    }
}
