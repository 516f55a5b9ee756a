//! Finds the engine's token counts in an answer while it passes: the last `"usage": {…}`, wherever frames end.
//!
//! In JSON a quote inside a string is escaped, so `"usage"` followed by a colon is a key unless a backslash stands
//! before it. That makes a byte search enough.

use std::sync::LazyLock;

use memchr::memmem::Finder;

const NEEDLE: &[u8] = b"\"usage\"";
/// A usage object that is longer, or that many bytes of a frame at a time, ends the search for its end.
const MAX_OBJECT: usize = 4096;
/// Counts above it are nonsense and make the object not count.
const MAX_TOKENS: i64 = 1_000_000_000;

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(NEEDLE));

/// What the engine said it used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub prompt: i64,
    pub completion: i64,
    /// Prompt tokens out of the prefix cache.
    pub cached: Option<i64>,
}

/// Fed with the answer piece by piece.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    found: Option<Counts>,
    /// End of what was fed that may begin a usage object.
    carry: Vec<u8>,
}

impl Scanner {
    /// The last usage object so far.
    pub(crate) fn found(&self) -> Option<Counts> {
        self.found
    }

    pub(crate) fn feed(&mut self, mut frame: &[u8]) {
        if !self.carry.is_empty() {
            let mut joined = std::mem::take(&mut self.carry);
            let kept = joined.len();
            let taken = frame.len().min(MAX_OBJECT);
            joined.extend_from_slice(&frame[..taken]);
            let rest = self.search(&joined);
            if taken == frame.len() {
                self.carry = joined.split_off(rest.max(joined.len().saturating_sub(2 * MAX_OBJECT)));
                return;
            }
            // What begins in the old piece and is still not complete is given up.
            frame = &frame[rest.saturating_sub(kept).min(taken)..];
            if rest < kept {
                frame = &frame[taken.min(frame.len())..];
            }
        }
        let rest = self.search(frame);
        if frame.len() - rest <= MAX_OBJECT {
            self.carry.extend_from_slice(&frame[rest..]);
        }
    }

    /// Looks through `bytes`; gives from where on they have to be looked at again with what follows them.
    fn search(&mut self, bytes: &[u8]) -> usize {
        let mut from = 0;
        while let Some(at) = FINDER.find(&bytes[from..]) {
            let at = from + at;
            let behind = at + NEEDLE.len();
            match object(&bytes[behind..]) {
                _ if at > 0 && bytes[at - 1] == b'\\' => from = behind,
                Object::Whole { counts, len } => {
                    self.found = counts.or(self.found);
                    from = behind + len;
                }
                Object::Short => return at,
                Object::No => from = behind,
            }
        }
        // A needle may begin in the last bytes; the byte before it is kept too, as it may be a backslash.
        let tail = from.max((bytes.len() + 1).saturating_sub(NEEDLE.len()));
        match memchr::memchr(b'"', &bytes[tail..]).map(|at| tail + at) {
            Some(at) if NEEDLE.starts_with(&bytes[at..]) => at.saturating_sub(1).max(from.min(at)),
            Some(at) => (at + 1..bytes.len())
                .find(|it| NEEDLE.starts_with(&bytes[*it..]))
                .map_or(bytes.len(), |it| it - 1),
            None => bytes.len(),
        }
    }
}

enum Object {
    Whole { counts: Option<Counts>, len: usize },
    Short,
    No,
}

/// What follows the key: `: {…}`.
fn object(bytes: &[u8]) -> Object {
    let mut at = space(bytes, 0);
    match bytes.get(at) {
        Some(b':') => at = space(bytes, at + 1),
        Some(_) => return Object::No,
        None => return Object::Short,
    }
    match bytes.get(at) {
        Some(b'{') => {}
        Some(_) => return Object::No,
        None => return Object::Short,
    }
    let (mut counts, mut any, mut sane, mut depth) = (Counts::default(), false, true, 0_u32);
    let mut key: &[u8] = b"";
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Object::Whole { counts: (any && sane).then_some(counts), len: at + 1 };
                }
            }
            b'"' => {
                let start = at + 1;
                at = start;
                while let Some(byte) = bytes.get(at).filter(|it| **it != b'"') {
                    at += 1 + usize::from(*byte == b'\\');
                }
                let Some(text) = bytes.get(start..at) else { return Object::Short };
                key = text;
            }
            b'-' | b'0'..=b'9' => {
                let digits =
                    bytes[at..].iter().take_while(|it| it.is_ascii_digit() || b"-+.eE".contains(it)).count();
                let value = number(&bytes[at..at + digits]);
                let slot = match (key, depth) {
                    (b"prompt_tokens" | b"input_tokens", 1) => Some(&mut counts.prompt),
                    (b"completion_tokens" | b"output_tokens", 1) => Some(&mut counts.completion),
                    (b"cached_tokens", 2) => Some(counts.cached.insert(0)),
                    _ => None,
                };
                if let Some(slot) = slot {
                    any = true;
                    sane &= value.is_some();
                    *slot = value.unwrap_or(0);
                }
                at += digits - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Object::Short
}

fn number(digits: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (0..=MAX_TOKENS).contains(&value).then_some(value)
}

fn space(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .position(|it| !matches!(it, b' ' | b'\n' | b'\r' | b'\t'))
        .map_or(bytes.len(), |n| from + n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(pieces: &[&[u8]]) -> Option<Counts> {
        let mut scanner = Scanner::default();
        for piece in pieces {
            scanner.feed(piece);
        }
        scanner.found()
    }

    #[test]
    fn it_reads_both_dialects_and_the_last_object_wins() {
        let chat = br#"{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],
            "usage":{"prompt_tokens":12,"total_tokens":18,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(scan(&[chat]), Some(Counts { prompt: 12, completion: 6, cached: Some(4) }));
        let messages = br#"{"usage": {"input_tokens":3, "output_tokens" : 2, "prompt_tokens_details":null}}"#;
        assert_eq!(scan(&[messages]), Some(Counts { prompt: 3, completion: 2, cached: None }));
        assert_eq!(scan(&[chat, messages]), scan(&[messages]));
        assert_eq!(scan(&[messages, br#"{"usage":null}"#]), scan(&[messages]));
    }

    #[test]
    fn nonsense_does_not_count() {
        for body in [
            r#"{"usage":{"prompt_tokens":-1}}"#,
            r#"{"usage":{"prompt_tokens":1e99}}"#,
            r#"{"usage":{}}"#,
            r#"{"usage":7}"#,
        ] {
            assert_eq!(scan(&[body.as_bytes()]), None, "{body}");
        }
    }

    #[test]
    fn a_large_answer_in_large_frames_is_searched_too() {
        let mut body = vec![b'1'; 100_000];
        body.extend_from_slice(br#""usage":{"prompt_tokens":5,"completion_tokens":0}"#);
        body.resize(body.len() + 50_000, b'2');
        for size in [4095, 8192, 65_536, 100_003] {
            let pieces: Vec<_> = body.chunks(size).collect();
            assert_eq!(scan(&pieces).map(|it| it.prompt), Some(5), "{size}");
        }
    }

    proptest! {
        #[test]
        fn where_frames_end_does_not_matter(
            before in "[a-z\"\\\\usge:{}]{0,30}", after in "[a-z\"\\\\usge:{},]{0,30}", prompt in 0..=MAX_TOKENS, cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let body = format!(r#"{before} {{"usage" : {{"prompt_tokens": {prompt}, "completion_tokens":1}}}} {after}"#).into_bytes();
            let mut ends: Vec<_> = cuts.iter().map(|it| it.index(body.len())).collect();
            ends.push(body.len());
            ends.sort_unstable();
            let mut from = 0;
            let pieces: Vec<_> = ends.iter().map(|end| { let piece = &body[from..*end]; from = *end; piece }).collect();
            prop_assert_eq!(scan(&pieces), scan(&[&body]));
        }

        #[test]
        fn no_bytes_make_it_panic(pieces in prop::collection::vec(prop::collection::vec(prop::sample::select(b"\"usage:{}0\\ x-".to_vec()), 0..60), 0..8)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            scan(&pieces);
        }
    }
}
