//! Handles the server-sent events of an engine while they pass: counts them, finds where one ends, and removes the
//! usage event if the client did not ask for it. Bytes are otherwise neither changed nor re-framed.

use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

/// Longest event, in bytes, that is held; a longer one passes as it is.
const MAX_EVENT: usize = 256 << 10;
/// Most bytes of a line cut in two that are put together again: in both engines, less than this comes before the
/// `choices` of a chunk.
const LINE_HEAD: usize = 512;

static CHOICES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"choices\""));
static EVENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"event: "));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));
static DONE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\ndata: [DONE]"));
/// In JSON a quote inside a string is escaped, so this is a whole string, and hardly ever there.
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"error\""));

/// What is done with events, and how they are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Chats and completions: they pass.
    Choices,
    /// Chats and completions: they pass, except for events that have usage and no choices, which are removed.
    ChoicesOnly,
    /// Events with names, those of `/v1/responses` and `/v1/messages`: they pass.
    Named,
}

/// State of one stream.
#[derive(Debug)]
pub(crate) struct Events {
    kind: StreamKind,
    /// Bytes of an event whose end has not come; only when stripping.
    held: BytesMut,
    /// The last bytes that went out; a blank line at first, as nothing is open then.
    last: [u8; 3],
    /// The beginning of a line whose end has not come; it is nearly always empty.
    line: Vec<u8>,
    n_content: u64,
    done: bool,
    failed: bool,
}

impl Events {
    pub(crate) fn new(kind: StreamKind) -> Self {
        Self {
            kind,
            held: BytesMut::new(),
            last: *b"\n\n\n",
            line: Vec::new(),
            n_content: 0,
            done: false,
            failed: false,
        }
    }

    /// Returns how many events with choices (or pieces of the answer) came so far.
    pub(crate) fn n_content(&self) -> u64 {
        self.n_content
    }

    /// Returns whether `data: [DONE]` or the like came.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether the engine sent an error as an event.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns whether an event can be added behind the bytes that went out, without a blank line first.
    pub(crate) fn at_boundary(&self) -> bool {
        ends_event(&self.last)
    }

    /// Takes a frame as it came, and returns what goes out now, which may be empty.
    pub(crate) fn push(&mut self, frame: Bytes) -> Bytes {
        let out = self.filter(frame);
        self.note(&out);
        out
    }

    fn filter(&mut self, frame: Bytes) -> Bytes {
        let suspicious = self.look(&frame);
        if self.kind != StreamKind::ChoicesOnly {
            return frame;
        }
        if self.held.is_empty() {
            if !self.at_boundary() {
                return self.filter_rest(frame);
            }
            // This is the usual case: whole events, and none of them is to be removed.
            if !suspicious && ends_event(&frame) {
                return frame;
            }
        }
        self.held.extend_from_slice(&frame);
        self.release()
    }

    /// Returns what is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        let rest = self.held.split().freeze();
        self.note(&rest);
        rest
    }

    fn note(&mut self, out: &[u8]) {
        let n = out.len().min(self.last.len());
        self.last.rotate_left(n);
        let keep = self.last.len() - n;
        self.last[keep..].copy_from_slice(&out[out.len() - n..]);
    }

    /// Counts what is in the frame; true if an event with empty choices may be in it. If an event is cut in two,
    /// `release` looks at it in one piece.
    fn look(&mut self, frame: &[u8]) -> bool {
        let in_line = self.look_at_cut_line(frame);
        self.failed |= has_error(frame);
        if self.kind == StreamKind::Named {
            self.look_at_names(frame);
            return false;
        }
        let (mut suspicious, mut from) = (false, 0);
        while let Some(at) = CHOICES.find(&frame[from..]) {
            from += at + 9;
            match has_no_choices(&frame[from..]) {
                Some(true) => suspicious = true,
                Some(false) => self.n_content += 1,
                None => {}
            }
        }
        self.done |= !in_line && says_done(frame) || DONE.find(&frame[from..]).is_some();
        suspicious
    }

    /// Puts a line together that two frames share, and counts what is in it. Returns whether the frame begins within a
    /// line.
    fn look_at_cut_line(&mut self, frame: &[u8]) -> bool {
        let known = self.line.len();
        if known == 0 && frame.ends_with(b"\n") {
            return false;
        }
        let mut line = std::mem::take(&mut self.line);
        let end = memchr::memchr(b'\n', frame).map_or(frame.len(), |at| at + 1);
        line.extend_from_slice(&frame[..end.min(LINE_HEAD)]);
        if (1..LINE_HEAD).contains(&known) {
            self.look_at_joined(&line, known);
        }
        if let Some(last) = memchr::memrchr(b'\n', frame) {
            line.clear();
            line.extend(frame[last + 1..].iter().take(LINE_HEAD));
        }
        line.truncate(LINE_HEAD);
        self.line = line;
        known > 0
    }

    /// Counts what can't be seen in either part of a line; the first part has `known` bytes.
    fn look_at_joined(&mut self, line: &[u8], known: usize) {
        self.failed |= has_error(line);
        if self.kind == StreamKind::Named {
            return self.look_at_names(line);
        }
        self.done |= says_done(line);
        let Some(at) = CHOICES.find(line).filter(|at| *at < known) else { return };
        let told = line.get(at + 9..known).and_then(has_no_choices);
        if told.is_none() && has_no_choices(&line[at + 9..]) == Some(false) {
            self.n_content += 1;
        }
    }

    /// Looks at the names of events. A string in JSON has no line feed, so a whole line that names an event is not part
    /// of a string.
    fn look_at_names(&mut self, frame: &[u8]) {
        for at in EVENT.find_iter(frame) {
            let line = &frame[at + EVENT.needle().len()..];
            let Some(end) = memchr::memchr(b'\n', line) else { return };
            match line[..end].trim_ascii_end() {
                b"message_stop" | b"response.completed" | b"response.incomplete" => self.done = true,
                b"response.failed" => (self.done, self.failed) = (true, true),
                b"error" => self.failed = true,
                b"content_block_delta" => self.n_content += 1,
                name if name.ends_with(b".delta") => self.n_content += 1,
                _ => {}
            }
        }
    }

    /// Returns the rest of an event of which a part went out already, and what follows it.
    fn filter_rest(&mut self, mut frame: Bytes) -> Bytes {
        // If the blank line itself is cut in two, one more event passes unseen.
        let Some(end) = event_end(&frame, 0).filter(|end| *end < frame.len()) else { return frame };
        let head = frame.split_to(end);
        self.note(&head);
        let rest = self.filter(frame);
        let mut out = BytesMut::with_capacity(head.len() + rest.len());
        out.extend_from_slice(&head);
        out.extend_from_slice(&rest);
        out.freeze()
    }

    /// Returns all whole events that are held, without those to be removed.
    fn release(&mut self) -> Bytes {
        let (mut kept, mut end, mut removed) = (0, 0, None::<BytesMut>);
        while let Some(next) = event_end(&self.held, end) {
            if is_usage_only(&self.held[end..next]) {
                let out = removed.get_or_insert_with(BytesMut::new);
                out.extend_from_slice(&self.held[kept..end]);
                kept = next;
            }
            end = next;
        }
        let whole = self.held.split_to(end);
        if self.held.len() > MAX_EVENT {
            let mut out = removed.unwrap_or_default();
            out.extend_from_slice(&whole[kept..]);
            out.extend_from_slice(&self.held.split());
            return out.freeze();
        }
        match removed {
            None => whole.freeze(),
            Some(mut out) => {
                out.extend_from_slice(&whole[kept..]);
                out.freeze()
            }
        }
    }
}

fn says_done(line: &[u8]) -> bool {
    line.starts_with(&DONE.needle()[1..])
}

/// Returns whether the list of choices is empty; `after` is what follows `"choices"`. `None` if `after` is too short to
/// decide.
fn has_no_choices(after: &[u8]) -> Option<bool> {
    let mut rest = after.iter().copied().filter(|it| !it.is_ascii_whitespace());
    for expected in *b":[]" {
        if rest.next()? != expected {
            return Some(false);
        }
    }
    Some(true)
}

fn has_error(frame: &[u8]) -> bool {
    ERROR.find_iter(frame).any(|at| begins_data(&frame[..at]) && is_null(&frame[at + 7..]) == Some(false))
}

/// Returns whether `before` ends with the beginning of a line of data and of its object, so that its first key follows.
fn begins_data(before: &[u8]) -> bool {
    let line = &before[memchr::memrchr(b'\n', before).map_or(0, |at| at + 1)..];
    line.strip_prefix(b"data:").is_some_and(|it| it.trim_ascii() == b"{")
}

/// Returns whether the value of a key is `null`; `after` is what follows the key. `None` if `after` is too short to
/// decide.
fn is_null(after: &[u8]) -> Option<bool> {
    let mut rest = after.iter().copied().filter(|it| !it.is_ascii_whitespace());
    Some(rest.next()? == b':' && rest.next()? == b'n')
}

fn is_usage_only(event: &[u8]) -> bool {
    let counted = |at: usize| {
        let mut rest = event[at + 7..].iter().copied().filter(|it| !it.is_ascii_whitespace());
        (rest.next(), rest.next()) == (Some(b':'), Some(b'{'))
    };
    let empty = |at: usize| has_no_choices(&event[at + 9..]) == Some(true);
    CHOICES.find(event).is_some_and(empty) && USAGE.find(event).is_some_and(counted)
}

/// Returns where the event that begins at `from` ends: behind the blank line.
pub(crate) fn event_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr::memchr(b'\n', bytes.get(at..)?)? + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

fn ends_event(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USAGE_EVENT: &str = "data: {\"choices\": [], \"usage\" : {\"prompt_tokens\":1}}\n\n";

    fn run(kind: StreamKind, pieces: impl IntoIterator<Item = Vec<u8>>) -> (String, Events) {
        let mut events = Events::new(kind);
        let mut out = Vec::new();
        for piece in pieces {
            out.extend_from_slice(&events.push(Bytes::from(piece)));
        }
        out.extend_from_slice(&events.finish());
        (String::from_utf8(out).unwrap(), events)
    }

    fn event() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n".to_owned()),
            Just("data: {\"choices\":[{\"delta\":{}}],\"usage\":{\"prompt_tokens\":1}}\r\n\r\n".to_owned()),
            Just(USAGE_EVENT.to_owned()),
            Just("data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n".to_owned()),
            Just(": keep-alive\n\n".to_owned()),
            Just("data: {\"error\":{\"message\":\"x\"}}\n\n".to_owned()),
            Just("event: error\ndata: {}\n\n".to_owned()),
            Just("event: content_block_delta\ndata: {\"error\": null, \"text\":\"[DONE]\"}\n\n".to_owned()),
            "[a-z]{0,20}".prop_map(|it| format!("event: e\ndata: {it}\ndata: more\n\n")),
        ]
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_same_is_counted_and_only_the_usage_event_goes(
            events in prop::collection::vec(event(), 0..12),
            tail in "(data: \\[DONE\\]\n\n)?[a-z]{0,10}",
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
            kind in prop::sample::select(vec![StreamKind::Choices, StreamKind::ChoicesOnly, StreamKind::Named]),
        ) {
            let whole = events.concat() + &tail;
            let bytes = whole.as_bytes();
            let mut ends: Vec<_> = cuts.iter().filter(|_| !bytes.is_empty()).map(|it| it.index(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut from = 0;
            let pieces: Vec<_> = ends.iter().map(|end| { let piece = bytes[from..*end].to_vec(); from = *end; piece }).collect();
            let strip = kind == StreamKind::ChoicesOnly;
            let want = if strip { whole.replace(USAGE_EVENT, "") } else { whole.clone() };
            let (out, state) = run(kind, pieces);
            let (_, uncut) = run(kind, [bytes.to_vec()]);
            let seen = |it: &Events| (it.n_content(), it.is_done(), it.has_failed());
            prop_assert_eq!(seen(&state), seen(&uncut));
            prop_assert_eq!(state.at_boundary(), want.is_empty() || want.ends_with("\n\n") || want.ends_with("\n\r\n"));
            prop_assert_eq!(out, want);
        }
    }

    #[test]
    fn whole_events_pass_without_a_copy() {
        let mut events = Events::new(StreamKind::ChoicesOnly);
        let frame = Bytes::from_static(b"data: {\"choices\":[{}]}\n\n");
        assert_eq!(events.push(frame.clone()).as_ptr(), frame.as_ptr());
        assert_eq!(events.n_content(), 1);
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        assert!(events.is_done());
    }

    #[test]
    fn named_events_are_known_by_their_names() {
        let mut events = Events::new(StreamKind::Named);
        let text = "event: content_block_delta\ndata: {\"text\":\"event: message_stop \"}\n\n";
        assert_eq!(events.push(Bytes::from(text)), text);
        events.push(Bytes::from(
            "event: response.output_text.delta\r\ndata: {}\r\n\r\nevent: message_delta\ndata: {}\n\n",
        ));
        assert_eq!((events.n_content(), events.is_done(), events.has_failed()), (2, false, false));
        events.push(Bytes::from("event: message_stop\ndata: {}\n\n"));
        assert!(events.is_done() && !events.has_failed());
        events.push(Bytes::from("event: error\ndata: {}\n\n"));
        assert!(events.has_failed());
    }

    #[test]
    fn an_error_is_seen_wherever_its_event_stands_in_a_frame() {
        let delta = r#"data: {"choices":[{"delta":{"content":"data: {\"error\""}}]}"#;
        for (frame, fails) in [
            (format!("{delta}\n\ndata: {{\"error\":{{}}}}\n\n"), true),
            (format!("{delta}\r\n\r\ndata:{{\"error\":1}}\n\n{delta}\n\n"), true),
            ("data:  { \"error\" : {}}\n\ndata: [DONE]\n\n".to_owned(), true),
            (format!("{delta}\n\n{delta}\n\ndata: [DONE]\n\n"), false),
            (r#"data: {"choices":[{"logprobs":{"tokens":["error"]}}],"x":{"error":null}}"#.to_owned(), false),
            (": {\"error\"\n\n".to_owned(), false),
            ("data: {\"error\": null,\"choices\":[{}]}\n\n".to_owned(), false),
        ] {
            for kind in [StreamKind::Choices, StreamKind::ChoicesOnly, StreamKind::Named] {
                let mut events = Events::new(kind);
                events.push(Bytes::from(frame.clone()));
                assert_eq!(events.has_failed(), fails, "{frame}");
            }
        }
    }

    #[test]
    fn an_event_without_end_is_not_held_for_ever() {
        let mut events = Events::new(StreamKind::ChoicesOnly);
        assert!(events.push(Bytes::from(vec![b'x'; MAX_EVENT])).is_empty());
        assert_eq!(events.push(Bytes::from_static(b"yy")).len(), MAX_EVENT + 2);
        assert!(!events.at_boundary());
        assert_eq!(events.push(Bytes::from_static(b"z\n\ndata: 1\n\n")), "z\n\ndata: 1\n\n");
        assert!(events.at_boundary());
    }
}
