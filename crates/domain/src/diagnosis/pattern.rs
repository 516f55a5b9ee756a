//! Patterns for log lines: literal text with placeholders `{name}` (any text) and `{name#}` (a number).
//!
//! Matching never backtracks: each capture ends where the next literal first occurs, so the work is linear in the
//! length of the line.

/// The texts that a pattern's `{…}` placeholders matched.
pub(super) type Captures<'a> = Vec<(&'static str, &'a str)>;

/// Most positions in one line at which a pattern's first literal is tried.
const MAX_TRIES: usize = 4;
/// Longest text that a `{name}` may match, in bytes.
const MAX_CAPTURE: usize = 300;

/// Finds `pattern` in `line`.
pub(super) fn find<'a>(pattern: &'static str, line: &'a str) -> Option<Captures<'a>> {
    let first = pattern.split('{').next().unwrap_or_default();
    if first.is_empty() {
        return at(pattern, line);
    }
    let mut from = 0;
    for _ in 0..MAX_TRIES {
        let start = from + line.get(from..)?.find(first)?;
        if let Some(captures) = at(pattern, line.get(start..)?) {
            return Some(captures);
        }
        from = start + first.len();
    }
    None
}

/// Matches `pattern` at the beginning of `text`.
fn at<'a>(pattern: &'static str, text: &'a str) -> Option<Captures<'a>> {
    let mut captures = Captures::new();
    let (mut pattern, mut text) = (pattern, text);
    loop {
        let Some((literal, rest)) = pattern.split_once('{') else {
            return text.starts_with(pattern).then_some(captures);
        };
        text = text.strip_prefix(literal)?;
        let (name, rest) = rest.split_once('}')?;
        let next = rest.split('{').next().unwrap_or_default();
        let is_number = name.ends_with('#');
        let (name, length) = match name.strip_suffix('#') {
            Some(name) => (name, number(text)?),
            None if next.is_empty() => (name, text.len()),
            None => (name, text.find(next)?),
        };
        let value = text.get(..length)?;
        if value.len() > MAX_CAPTURE && !next.is_empty() {
            return None;
        }
        let value = shorten(value.trim(), MAX_CAPTURE);
        // Python writes whole numbers of a calculation as `2048.0`.
        let value = if is_number { value.strip_suffix(".0").unwrap_or(value) } else { value };
        captures.push((name, value));
        text = text.get(length..)?;
        pattern = rest;
    }
}

/// Returns the length of the number at the beginning of `text`.
fn number(text: &str) -> Option<usize> {
    let end = text.find(|it: char| !(it.is_ascii_digit() || it == '.')).unwrap_or(text.len());
    // A full stop after a number ends the sentence and is not part of the number.
    let length = text.get(..end)?.trim_end_matches('.').len();
    (length > 0).then_some(length)
}

/// Returns at most `max` bytes of `text`, cut between characters.
pub(super) fn shorten(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Fills captures into a text that names them as `{name}`. A missing capture becomes `…`; a part in brackets is left
/// out if one of its captures is missing.
pub(super) fn fill(template: &str, captures: &[(&'static str, &str)]) -> String {
    let Some((before, (part, after))) =
        template.split_once('[').and_then(|it| Some((it.0, it.1.split_once(']')?)))
    else {
        return put(template, captures);
    };
    let known = |it: &str| captures.iter().any(|capture| it.split('}').next() == Some(capture.0));
    let part = if part.split('{').skip(1).all(known) { put(part, captures) } else { String::new() };
    format!("{}{part}{}", put(before, captures), fill(after, captures))
}

fn put(template: &str, captures: &[(&'static str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() + 40);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        text.push_str(before);
        text.push_str(captures.iter().find(|it| it.0 == name).map_or("…", |it| it.1));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_numbers_are_captured() {
        let pattern = "max_model_len ({asked#}) is greater than ({source}={limit#}";
        let found =
            find(pattern, "x max_model_len (10) max_model_len (100000) is greater than (pos=2048.0 or 1)");
        assert_eq!(found, Some(vec![("asked", "100000"), ("source", "pos"), ("limit", "2048")]));
        assert_eq!(find("length is {n#}", "the length is 512. Try"), Some(vec![("n", "512")]));
        assert_eq!(find("length is {n#}", "the length is long"), None);
    }

    #[test]
    fn a_last_capture_takes_the_rest_and_a_first_one_the_beginning() {
        assert_eq!(
            find("invalid argument: {flag}", "error: invalid argument: --x "),
            Some(vec![("flag", "--x")])
        );
        assert_eq!(find("{field}: Input", "seed: Input should"), Some(vec![("field", "seed")]));
        assert_eq!(find("plain", "a plain text"), Some(vec![]));
        assert_eq!(find("é{x}é", "aéüé"), Some(vec![("x", "ü")]));
    }

    #[test]
    fn templates_are_filled() {
        assert_eq!(fill("`{a}` of {b}, {c", &[("a", "1")]), "`1` of …, {c");
        assert_eq!(fill("x[ of {a}][: {b}], {c}", &[("a", "1"), ("c", "[{a}]")]), "x of 1, [{a}]");
        assert_eq!(shorten("aé", 2), "a");
    }
}
