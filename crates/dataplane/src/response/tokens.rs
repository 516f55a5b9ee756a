//! Finds the engine's token counts in an answer while it passes: the last `"usage": {…}` (or what the endpoint has
//! instead, see [`Counted`]), wherever frames end; for streams of llama-server all of them, as it counts each choice
//! separately.
//!
//! In JSON a quote inside a string is escaped, so `"usage"` followed by a colon is a key unless a backslash stands
//! before it. So a byte search is enough if answers carry no JSON of the client's; for other endpoints see [`UsagePath`].

use std::sync::LazyLock;

use gantry_domain::{
    endpoint::{Counted, Endpoint},
    model::Task,
};
use memchr::memmem::Finder;

use crate::response::{array_length::ArrayLength, usage_path::UsagePath};

/// A usage object that is longer, or that many bytes of a frame at a time, ends the search for its end.
const MAX_OBJECT: usize = 4096;
/// Largest count that is accepted; an object with a larger one is nonsense and does not count.
const MAX_TOKENS: i64 = 1_000_000_000;

static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static INPUT_TOKENS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"input_tokens\""));
static COUNT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"count\""));

/// The engine's report of what it used; `None` if it did not report a value, or not as a number that makes sense.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub prompt: Option<i64>,
    pub completion: Option<i64>,
    /// Prompt tokens out of the prefix cache.
    pub cached: Option<i64>,
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        let sum = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
        Self {
            prompt: sum(self.prompt, other.prompt),
            completion: sum(self.completion, other.completion),
            cached: sum(self.cached, other.cached),
        }
    }
}

/// What one `usage` object of a stream of choices covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageOf {
    /// Everything up to then: the last one counts.
    Answer,
    /// One choice, as llama-server does it: all of them count.
    Choice,
}

/// Fed with the answer piece by piece.
#[derive(Debug)]
pub(crate) struct UsageScanner {
    place: Counted,
    usage_of: UsageOf,
    found: Option<Counts>,
    /// How many usage objects there were.
    n_found: u64,
    /// The end of what was fed, if a usage object may begin in it.
    carry: Vec<u8>,
    /// Set if the position of the usage object matters, too.
    outline: Option<Box<UsagePath>>,
    /// Its answers have no completion, so that the total is the prompt, where an engine reports only that.
    only_prompt: bool,
    /// Counts the elements, if the engine gives no number.
    elements: Option<Box<ArrayLength>>,
}

impl UsageScanner {
    pub(crate) fn new(place: Counted) -> Self {
        let elements = (place == Counted::Count).then(Box::default);
        let usage_of = UsageOf::Answer;
        let (found, carry) = (None, Vec::new());
        Self { place, usage_of, found, n_found: 0, carry, outline: None, only_prompt: false, elements }
    }

    /// Makes the scanner for the answer of an endpoint, as `events` or in one piece.
    pub(crate) fn of(endpoint: Endpoint, events: bool, usage_of: UsageOf) -> Self {
        let outline = endpoint.names_events().then(|| Box::new(UsagePath::new(events)));
        let several = events && endpoint.has_stream_options();
        let usage_of = if several { usage_of } else { UsageOf::Answer };
        let only_prompt = endpoint.task().is_some_and(|it| it != Task::Generate);
        Self { usage_of, outline, only_prompt, ..Self::new(endpoint.counted()) }
    }

    /// Returns the counts found so far.
    pub(crate) fn found(&self) -> Option<Counts> {
        self.found.or_else(|| {
            let prompt = self.elements.as_ref()?.found()?;
            Some(Counts { prompt: Some(prompt), completion: Some(0), cached: None })
        })
    }

    /// Returns how many choices the counts are of, if each choice has its own.
    pub(crate) fn n_counted(&self) -> Option<u64> {
        (self.usage_of == UsageOf::Choice).then_some(self.n_found)
    }

    pub(crate) fn feed(&mut self, mut frame: &[u8]) {
        if let Some(elements) = &mut self.elements {
            elements.feed(frame);
        }
        if let Some(mut outline) = self.outline.take() {
            outline.feed(frame, |found| {
                if let Object::Whole { counts, .. } = self.value(&[b":", found].concat()) {
                    self.note(counts);
                }
            });
            self.outline = Some(outline);
            return;
        }
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

    /// Looks through `bytes`; returns the place from which on they have to be looked at again with what follows them.
    fn search(&mut self, bytes: &[u8]) -> usize {
        let finder = match self.place {
            Counted::LastUsage | Counted::EveryUsage => &*USAGE,
            Counted::InputTokens => &*INPUT_TOKENS,
            Counted::Count => &*COUNT,
        };
        let needle = finder.needle();
        let mut from = 0;
        while let Some(at) = finder.find(&bytes[from..]) {
            let at = from + at;
            let behind = at + needle.len();
            match self.value(&bytes[behind..]) {
                _ if at > 0 && bytes[at - 1] == b'\\' => from = behind,
                Object::Whole { counts, len } => {
                    self.note(counts);
                    from = behind + len;
                }
                Object::Short => return at,
                Object::No => from = behind,
            }
        }
        // A needle may begin in the last bytes; the byte before it is kept too, as it may be a backslash.
        let tail = from.max((bytes.len() + 1).saturating_sub(needle.len()));
        match memchr::memchr(b'"', &bytes[tail..]).map(|at| tail + at) {
            Some(at) if needle.starts_with(&bytes[at..]) => at.saturating_sub(1).max(from.min(at)),
            Some(at) => (at + 1..bytes.len())
                .find(|it| needle.starts_with(&bytes[*it..]))
                .map_or(bytes.len(), |it| it - 1),
            None => bytes.len(),
        }
    }

    /// Reads what follows the key.
    fn value(&self, bytes: &[u8]) -> Object {
        match self.place {
            Counted::LastUsage => object(bytes, false, self.only_prompt),
            Counted::EveryUsage => object(bytes, true, self.only_prompt),
            Counted::InputTokens | Counted::Count => single(bytes),
        }
    }

    fn note(&mut self, counts: Option<Counts>) {
        let Some(new) = counts else { return };
        self.n_found += 1;
        match &mut self.found {
            Some(found) if self.usage_of == UsageOf::Choice => *found = found.plus(new),
            Some(found) if self.place == Counted::EveryUsage => {
                if new.prompt > Some(0) {
                    (found.prompt, found.cached) = (new.prompt, new.cached);
                }
                if new.completion > Some(0) {
                    found.completion = new.completion;
                }
            }
            found => *found = Some(new),
        }
    }
}

enum Object {
    Whole { counts: Option<Counts>, len: usize },
    Short,
    No,
}

/// Returns where the value behind a key begins, if there is one.
fn colon(bytes: &[u8]) -> Result<usize, Object> {
    let at = space(bytes, 0);
    match bytes.get(at) {
        Some(b':') => Ok(space(bytes, at + 1)),
        Some(_) => Err(Object::No),
        None => Err(Object::Short),
    }
}

/// Reads `: 12`, the tokens of a prompt.
fn single(bytes: &[u8]) -> Object {
    let at = match colon(bytes) {
        Ok(at) => at,
        Err(other) => return other,
    };
    let digits = bytes[at..].iter().take_while(|it| it.is_ascii_digit()).count();
    if at + digits == bytes.len() {
        return Object::Short;
    }
    let counts = number(&bytes[at..at + digits]).map(|it| Counts {
        prompt: Some(it),
        completion: Some(0),
        cached: None,
    });
    Object::Whole { counts, len: at + digits }
}

/// Reads `: {…}`. For Anthropic, `input_tokens` are those that were not cached (llama-server does so; vLLM 0.32 reports
/// nothing of its cache there). With `only_prompt`, `total_tokens` are those of the prompt (rerankers of others report
/// nothing else).
fn object(bytes: &[u8], anthropic: bool, only_prompt: bool) -> Object {
    let mut at = match colon(bytes) {
        Ok(at) => at,
        Err(other) => return other,
    };
    match bytes.get(at) {
        Some(b'{') => {}
        Some(_) => return Object::No,
        None => return Object::Short,
    }
    let (mut cache_read, mut cache_written, mut total) = (None, None, None);
    let (mut counts, mut depth) = (Counts::default(), 0_u32);
    let mut key: &[u8] = b"";
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    counts.prompt = counts.prompt.or(total);
                    counts.cached = cache_read.or(counts.cached);
                    counts.prompt =
                        counts.prompt.map(|it| it + cache_read.unwrap_or(0) + cache_written.unwrap_or(0));
                    let any = counts.prompt.is_some() || counts.completion.is_some();
                    return Object::Whole { counts: any.then_some(counts), len: at + 1 };
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
                    (b"total_tokens", 1) if only_prompt => Some(&mut total),
                    (b"cached_tokens", 2) => Some(&mut counts.cached),
                    (b"cache_read_input_tokens", 1) if anthropic => Some(&mut cache_read),
                    (b"cache_creation_input_tokens", 1) if anthropic => Some(&mut cache_written),
                    _ => None,
                };
                if let Some(slot) = slot {
                    *slot = value;
                }
                at += digits - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Object::Short
}

/// Reads a count; `11.0` is 11, as JSON knows no whole numbers.
fn number(digits: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(digits).ok()?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    if !rest.bytes().all(|it| it == b'0') {
        return None;
    }
    let value: i64 = whole.parse().ok()?;
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
        scan_at(Counted::LastUsage, pieces)
    }

    fn scan_at(place: Counted, pieces: &[&[u8]]) -> Option<Counts> {
        let mut scanner = UsageScanner::new(place);
        for piece in pieces {
            scanner.feed(piece);
        }
        scanner.found()
    }

    #[test]
    fn it_reads_both_dialects_and_the_last_object_wins() {
        let chat = br#"{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":9}"}}],
            "usage":{"prompt_tokens":12,"total_tokens":18,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(scan(&[chat]), Some(Counts { prompt: Some(12), completion: Some(6), cached: Some(4) }));
        let messages = br#"{"usage": {"input_tokens":3, "output_tokens" : 2, "prompt_tokens_details":null}}"#;
        assert_eq!(scan(&[messages]), Some(Counts { prompt: Some(3), completion: Some(2), cached: None }));
        assert_eq!(scan(&[chat, messages]), scan(&[messages]));
        assert_eq!(scan(&[messages, br#"{"usage":null}"#]), scan(&[messages]));
    }

    #[test]
    fn a_stream_of_messages_spreads_its_counts() {
        let start = br#"{"usage":{"cache_read_input_tokens":16,"input_tokens":1,"output_tokens":0}}"#;
        let delta = br#"{"usage":{"output_tokens":4}}"#;
        let want = Some(Counts { prompt: Some(17), completion: Some(4), cached: Some(16) });
        assert_eq!(scan_at(Counted::EveryUsage, &[start, delta]), want);
        let again = br#"{"usage":{"input_tokens":12,"output_tokens":0}}"#;
        let want = Some(Counts { prompt: Some(12), completion: Some(4), cached: None });
        assert_eq!(scan_at(Counted::EveryUsage, &[start, delta, again]), want);
        // Elsewhere such a key means something else.
        assert_eq!(scan(&[start]), Some(Counts { prompt: Some(1), completion: Some(0), cached: None }));
    }

    #[test]
    fn a_bare_count_is_the_prompt() {
        let body =
            br#"{"count":  2,"max_model_len":512,"tokens":[395,398],"token_strs":["count","\"count\":9"]}"#;
        for cut in 0..body.len() {
            let (a, b) = body.split_at(cut);
            assert_eq!(scan_at(Counted::Count, &[a, b]).and_then(|it| it.prompt), Some(2));
        }
        let body = br#"{"input_tokens":12,"context_management":{"original_input_tokens":13}}"#;
        assert_eq!(scan_at(Counted::InputTokens, &[body]).and_then(|it| it.prompt), Some(12));
        assert_eq!(scan_at(Counted::Count, &[br#"{"tokens":[876,880]}"#]).and_then(|it| it.prompt), Some(2));
        assert_eq!(scan_at(Counted::Count, &[br#"{"count":-1}"#]), None);
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
    fn half_a_usage_is_half_of_it() {
        let halves = |body: &str| scan(&[body.as_bytes()]).map(|it| (it.prompt, it.completion));
        for (body, want) in [
            (r#"{"usage":{"completion_tokens":2}}"#, (None, Some(2))),
            (r#"{"usage":{"prompt_tokens":"7","completion_tokens":2}}"#, (None, Some(2))),
            (r#"{"usage":{"prompt_tokens":NaN,"completion_tokens":2}}"#, (None, Some(2))),
            (r#"{"usage":{"prompt_tokens":-1,"completion_tokens":2}}"#, (None, Some(2))),
            (r#"{"usage":{"prompt_tokens":3,"completion_tokens":null}}"#, (Some(3), None)),
        ] {
            assert_eq!(halves(body), Some(want), "{body}");
        }
    }

    #[test]
    fn whole_floats_are_counts_and_a_total_is_the_prompt_where_nothing_is_completed() {
        let body = br#"{"usage":{"prompt_tokens":11.0,"completion_tokens":2.00}}"#;
        assert_eq!(scan(&[body]), Some(Counts { prompt: Some(11), completion: Some(2), cached: None }));
        assert_eq!(scan(&[br#"{"usage":{"prompt_tokens":11.5}}"#]), None);
        let total = br#"{"results":[],"usage":{"total_tokens":9}}"#;
        let mut rerank = UsageScanner::of(Endpoint::Rerank, false, UsageOf::Answer);
        rerank.feed(total);
        assert_eq!(rerank.found(), Some(Counts { prompt: Some(9), completion: None, cached: None }));
        let mut chat = UsageScanner::of(Endpoint::ChatCompletions, false, UsageOf::Answer);
        chat.feed(total);
        assert_eq!(chat.found(), None);
    }

    #[test]
    fn each_choice_of_llama_server_has_its_own() {
        let mut scanner = UsageScanner::of(Endpoint::Completions, true, UsageOf::Choice);
        for (prompt, completion) in [(6, 7), (3, 5)] {
            let usage =
                format!(r#"data: {{"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion}}}}}"#);
            scanner.feed(usage.as_bytes());
        }
        let found = scanner.found().unwrap();
        assert_eq!((found.prompt, found.completion, scanner.n_counted()), (Some(9), Some(12), Some(2)));
    }

    #[test]
    fn a_large_answer_in_large_frames_is_searched_too() {
        let mut body = vec![b'1'; 100_000];
        body.extend_from_slice(br#""usage":{"prompt_tokens":5,"completion_tokens":0}"#);
        body.resize(body.len() + 50_000, b'2');
        for size in [4095, 8192, 65_536, 100_003] {
            let pieces: Vec<_> = body.chunks(size).collect();
            assert_eq!(scan(&pieces).and_then(|it| it.prompt), Some(5), "{size}");
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
            for place in [Counted::LastUsage, Counted::EveryUsage, Counted::InputTokens, Counted::Count] {
                scan_at(place, &pieces);
            }
        }
    }
}
