//! The access log: one line for each request, without anything of its content. Each thread writes lines into its own
//! buffer and hands them over in whole blocks twice a second: a request neither waits nor wakes another thread.

use std::{
    cell::RefCell,
    fmt::{Display, Formatter, Write},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::SyncSender,
    },
    time::Duration,
};

use gantry_domain::Timestamp;

use crate::record::spool::RowRef;

/// Size in bytes at which a block is handed over without waiting for the next tick.
const BLOCK: usize = 64 << 10;
const TARGET: &str = "gantry::access";

/// Form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessFormat {
    /// As `tracing` writes events for people.
    Text,
    /// An object with the keys that `tracing` gives events.
    Json,
}

/// The destination of the lines. A block that the receiver has no room for is dropped.
#[derive(Debug, Clone)]
pub struct AccessLog {
    pub format: AccessFormat,
    /// Only requests that ended with a 5xx.
    pub failures_only: bool,
    pub to: SyncSender<Vec<u8>>,
    /// Lines that were dropped.
    pub dropped: Arc<AtomicU64>,
}

/// What a line says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub at: Timestamp,
    pub method: &'a str,
    pub path: &'a str,
    pub status: u16,
    pub latency: Duration,
    /// The client's address; `None` if the line stands for requests of several clients.
    pub client: Option<IpAddr>,
    /// Requests that the line stands for.
    pub requests: u64,
    pub request_id: &'a str,
    pub trace_id: &'a str,
    pub inference: Option<Inference<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Inference<'a> {
    pub model: &'a str,
    pub outcome: &'static str,
    pub stream: bool,
    pub ttft: Option<Duration>,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub key_prefix: Option<&'a str>,
}

/// Most requests without a valid key or session that get a line of their own between two ticks; further ones are
/// counted together.
const OWN_LINES: u32 = 10;
/// Pairs of client and status that are counted separately, before further clients are counted together.
const TOLD_APART: usize = 16;

/// The buffer of one thread.
#[derive(Debug)]
pub(crate) struct LineBuffer {
    log: Option<AccessLog>,
    text: RefCell<(String, u64)>,
    unknown: RefCell<Unknown>,
}

/// Requests that were refused since the last tick because they had no valid key or session.
#[derive(Debug, Default)]
struct Unknown {
    /// Requests that got a line of their own.
    n_told: u32,
    counted: Vec<Counted>,
}

/// A number of requests that ended alike, with the details of the first one.
#[derive(Debug)]
struct Counted {
    status: u16,
    client: Option<IpAddr>,
    n: u64,
    at: Timestamp,
    method: Box<str>,
    path: Box<str>,
    latency: Duration,
    request_id: Box<str>,
}

impl Unknown {
    /// Whether the line is to be written as it is; otherwise it was counted.
    fn passes(&mut self, line: &Line<'_>) -> bool {
        if self.n_told < OWN_LINES {
            self.n_told += 1;
            return true;
        }
        let alike = |it: &Counted| it.status == line.status;
        let same = |it: &Counted| alike(it) && it.client == line.client;
        if let Some(counted) = self.counted.iter_mut().find(|it| same(it)) {
            counted.n += 1;
            return false;
        }
        // At the limit, the last entry of a status counts all further clients with this status, too.
        if self.counted.len() >= TOLD_APART
            && let Some(counted) = self.counted.iter_mut().rfind(|it| alike(it))
        {
            counted.client = None;
            counted.n += 1;
            return false;
        }
        self.counted.push(Counted {
            status: line.status,
            client: line.client,
            n: 1,
            at: line.at,
            method: line.method.into(),
            path: line.path.into(),
            latency: line.latency,
            request_id: line.request_id.into(),
        });
        false
    }
}

impl LineBuffer {
    pub(crate) fn new(log: Option<AccessLog>) -> Self {
        Self { log, text: RefCell::default(), unknown: RefCell::default() }
    }

    /// Returns whether a request with this status has a line; otherwise the cost of making one can be saved.
    pub(crate) fn wants(&self, status: u16) -> bool {
        self.log.as_ref().is_some_and(|log| status >= 500 || !log.failures_only)
    }

    pub(crate) fn write(&self, line: &Line<'_>) {
        let Some(log) = self.log.as_ref().filter(|_| self.wants(line.status)) else { return };
        // Refused requests of signed-in users are not counted together: each has its line, which shows who tried what.
        let unknown = line.inference.is_none() && line.status == 401;
        if unknown && !self.unknown.borrow_mut().passes(line) {
            return;
        }
        self.put(log, line);
    }

    fn put(&self, log: &AccessLog, line: &Line<'_>) {
        let mut text = self.text.borrow_mut();
        // Writing to a String can't fail.
        let _ = match log.format {
            AccessFormat::Text => line.text(&mut text.0),
            AccessFormat::Json => line.json(&mut text.0),
        };
        text.1 += 1;
        let full = text.0.len() >= BLOCK;
        drop(text);
        if full {
            self.flush();
        }
    }

    /// Writes the lines that stand for several requests, and hands over the buffer.
    pub(crate) fn tick(&self) {
        if let Some(log) = &self.log {
            let unknown = std::mem::take(&mut *self.unknown.borrow_mut());
            for it in &unknown.counted {
                let line = Line {
                    at: it.at,
                    method: &it.method,
                    path: &it.path,
                    status: it.status,
                    latency: it.latency,
                    client: it.client,
                    requests: it.n,
                    request_id: &it.request_id,
                    trace_id: "",
                    inference: None,
                };
                self.put(log, &line);
            }
        }
        self.flush();
    }

    /// Hands over the buffer.
    fn flush(&self) {
        let Some(log) = &self.log else { return };
        let (text, lines) = std::mem::take(&mut *self.text.borrow_mut());
        if lines > 0 && log.to.try_send(text.into_bytes()).is_err() {
            log.dropped.fetch_add(lines, Relaxed);
        }
    }
}

/// A client's text, made safe for a text line: characters that a terminal obeys or that a reader takes for the end of a
/// line are escaped.
struct Shown<'a>(&'a str);

impl Display for Shown<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            if is_printed(character) {
                out.write_char(character)?;
            } else {
                write!(out, "{}", character.escape_debug())?;
            }
        }
        Ok(())
    }
}

/// A client's text as a JSON string, with the same characters escaped. JSON itself lets the control characters above
/// 0x7f pass, which terminals obey too.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        out.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(out, "\\{character}")?,
                it if is_printed(it) => out.write_char(it)?,
                it => {
                    for unit in it.encode_utf16(&mut [0; 2]) {
                        write!(out, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        out.write_char('"')
    }
}

/// Returns whether the character is only a mark on the screen. Beyond ASCII, `escape_debug` knows which characters are.
fn is_printed(character: char) -> bool {
    matches!(character, ' '..='~') || (!character.is_ascii() && character.escape_debug().len() == 1)
}

fn ms(it: Duration) -> f64 {
    // Tenths of a millisecond.
    (it.as_secs_f64() * 1e4).round() / 10.0
}

impl<'a> Line<'a> {
    /// Makes the line of a row that stands for several requests; `client` sent the first of them.
    pub(crate) fn of_row(row: &RowRef<'a>, client: IpAddr) -> Self {
        Self {
            at: row.created_at,
            method: "POST",
            path: row.endpoint.path(),
            status: row.status_code,
            latency: Duration::from_millis(row.latency_ms.unsigned_abs()),
            client: Some(client),
            requests: row.requests.unsigned_abs(),
            request_id: row.req_id,
            trace_id: "",
            inference: Some(Inference {
                model: row.model_name,
                outcome: row.outcome.as_str(),
                stream: row.stream,
                ttft: None,
                prompt_tokens: 0,
                completion_tokens: 0,
                key_prefix: row.key_prefix,
            }),
        }
    }
}

impl Line<'_> {
    fn level(&self) -> &'static str {
        if self.status >= 500 { "WARN" } else { "INFO" }
    }

    fn text(&self, out: &mut String) -> std::fmt::Result {
        let Self { at, method, path, status, request_id, trace_id, .. } = self;
        write!(out, "{at} {:>5} {TARGET}: {method} {} status={status}", self.level(), Shown(path))?;
        if let Some(it) = &self.inference {
            write!(out, " model={:?} outcome={} stream={}", it.model, it.outcome, it.stream)?;
            if let Some(ttft) = it.ttft {
                write!(out, " ttft_ms={}", ms(ttft))?;
            }
            write!(out, " prompt_tokens={} completion_tokens={}", it.prompt_tokens, it.completion_tokens)?;
            if let Some(key) = it.key_prefix {
                write!(out, " key={key}")?;
            }
        }
        if self.requests > 1 {
            write!(out, " requests={}", self.requests)?;
        }
        write!(out, " ms={}", ms(self.latency))?;
        if let Some(client) = self.client {
            write!(out, " client={client}")?;
        }
        write!(out, " request_id={request_id}")?;
        if !trace_id.is_empty() {
            write!(out, " trace_id={trace_id}")?;
        }
        out.push('\n');
        Ok(())
    }

    fn json(&self, out: &mut String) -> std::fmt::Result {
        let Self { at, status, .. } = self;
        write!(out, r#"{{"timestamp":"{at}","level":"{}","message":"request""#, self.level())?;
        write!(out, r#","method":{},"path":{},"status":{status}"#, Quoted(self.method), Quoted(self.path))?;
        if let Some(it) = &self.inference {
            write!(
                out,
                r#","model":{},"outcome":"{}","stream":{}"#,
                Quoted(it.model),
                it.outcome,
                it.stream
            )?;
            match it.ttft {
                Some(ttft) => write!(out, r#","ttft_ms":{}"#, ms(ttft))?,
                None => out.push_str(r#","ttft_ms":null"#),
            }
            write!(
                out,
                r#","prompt_tokens":{},"completion_tokens":{}"#,
                it.prompt_tokens, it.completion_tokens
            )?;
            match it.key_prefix {
                Some(key) => write!(out, r#","key":{}"#, Quoted(key))?,
                None => out.push_str(r#","key":null"#),
            }
        }
        if self.requests > 1 {
            write!(out, r#","requests":{}"#, self.requests)?;
        }
        write!(out, r#","ms":{}"#, ms(self.latency))?;
        match self.client {
            Some(client) => write!(out, r#","client":"{client}""#)?,
            None => out.push_str(r#","client":null"#),
        }
        write!(out, r#","request_id":{}"#, Quoted(self.request_id))?;
        if !self.trace_id.is_empty() {
            write!(out, r#","trace_id":{}"#, Quoted(self.trace_id))?;
        }
        write!(out, r#","target":"{TARGET}"}}"#)?;
        out.push('\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::mpsc};

    use super::*;

    fn line<'a>(model: &'a str, path: &'a str) -> Line<'a> {
        let inference = Inference {
            model,
            outcome: "ok",
            stream: true,
            ttft: Some(Duration::from_micros(1_234)),
            prompt_tokens: 3,
            completion_tokens: 4,
            key_prefix: Some("gty_abcd"),
        };
        Line {
            at: Timestamp(0),
            method: "POST",
            path,
            status: 200,
            latency: Duration::from_millis(20),
            client: Some(Ipv4Addr::LOCALHOST.into()),
            requests: 1,
            request_id: "r-1",
            trace_id: "t",
            inference: Some(inference),
        }
    }

    #[test]
    fn what_a_client_sends_can_not_make_a_line_of_its_own() {
        for format in [AccessFormat::Text, AccessFormat::Json] {
            let (to, blocks) = mpsc::sync_channel(1);
            let log = AccessLog { format, failures_only: false, to, dropped: Arc::default() };
            let buffer = LineBuffer::new(Some(log));
            let (model, path) = ("evil\"\\\n\u{1b}[2J\u{9b}2J\u{2028}2026 ERROR", "/v1/Größe/𝄞/\u{e0001}");
            buffer.write(&line(model, path));
            buffer.flush();
            let text = String::from_utf8(blocks.recv().unwrap()).unwrap();
            let obeyed = |it: char| (it.is_control() && it != '\n') || matches!(it, '\u{2028}' | '\u{e0001}');
            assert_eq!((text.lines().count(), text.contains(obeyed)), (1, false), "{text}");
            assert!(text.contains("/v1/Größe/𝄞/"), "{text}");
            if format == AccessFormat::Json {
                let read: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!((&read["model"], &read["path"]), (&model.into(), &path.into()));
                assert_eq!((&read["ttft_ms"], &read["ms"]), (&1.2.into(), &20.into()));
            }
        }
    }

    #[test]
    fn a_writer_that_is_behind_costs_lines_that_are_counted() {
        let (to, _blocks) = mpsc::sync_channel(1);
        let dropped = Arc::<AtomicU64>::default();
        let format = AccessFormat::Text;
        let buffer = LineBuffer::new(Some(AccessLog {
            format,
            failures_only: false,
            to,
            dropped: Arc::clone(&dropped),
        }));
        for _ in 0..3 {
            buffer.write(&line("m", "/v1/x"));
            buffer.write(&line("m", "/v1/x"));
            buffer.flush();
        }
        assert_eq!(dropped.load(Relaxed), 4);
    }

    #[test]
    fn refusals_of_nobody_known_have_few_lines_that_tell_all_of_them() {
        let (to, blocks) = mpsc::sync_channel(64);
        let log = AccessLog { format: AccessFormat::Json, failures_only: false, to, dropped: Arc::default() };
        let buffer = LineBuffer::new(Some(log));
        for n in 0..5_000_u32 {
            let client = Some(Ipv4Addr::from(n % 100).into());
            buffer.write(&Line { status: 401, inference: None, client, ..line("", "/v1/completions") });
        }
        buffer.tick();
        let text: Vec<u8> = blocks.try_iter().flatten().collect();
        let lines: Vec<serde_json::Value> =
            text.split(|it| *it == b'\n').filter_map(|it| serde_json::from_slice(it).ok()).collect();
        assert!(lines.len() <= OWN_LINES as usize + TOLD_APART, "{}", lines.len());
        let told: u64 = lines.iter().map(|it| it["requests"].as_u64().unwrap_or(1)).sum();
        assert_eq!(told, 5_000);
        assert!(lines.last().unwrap()["client"].is_null());
        // Requests of known callers have a line each, if they have a row.
        (0..50).for_each(|_| buffer.write(&Line { status: 404, ..line("m", "/v1/completions") }));
        buffer.tick();
        let text: Vec<u8> = blocks.try_iter().flatten().collect();
        assert_eq!(text.split(|it| *it == b'\n').count() - 1, 50);
    }
}
