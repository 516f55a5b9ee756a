//! Splits a log into lines that signatures can be matched against: bounded, without colours, prefixes and repetition.
//!
//! The log comes from a program that may be broken or hostile, so the work is bounded whatever the log holds.

use std::borrow::Cow;

use super::pattern::shorten;

/// Most lines that are read from the beginning of a log.
const HEAD_LINES: usize = 2000;
/// Most lines that are read from its end.
const TAIL_LINES: usize = 4000;
/// Longest part of a line that is read, in bytes.
const MAX_LINE: usize = 2000;
/// Most text that is read from the beginning and the end together, in bytes.
const MAX_TEXT: usize = 3 << 20;

/// The severity that the engine gave a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Info,
    Warning,
    /// The line has no severity, as in Python exceptions and in logs of older builds of llama.cpp.
    Plain,
    Error,
}

/// One line, ready for matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub level: Level,
    /// The text without colours, time stamp, process and level.
    pub text: Cow<'a, str>,
}

/// Lines with which engines sum up an earlier failure. They say nothing about the cause.
const WRAPPERS: &[&str] = &[
    "Engine core initialization failed",
    "EngineCore failed to start",
    "WorkerProc failed to start",
    "WorkerProc initialization failed",
    "WorkerProc hit an exception",
    "EngineCore encountered a fatal error",
    "EngineCore encountered an issue",
    "AsyncLLM output_handler failed",
    "Worker failed with error",
    "validation error for ",
    "validation errors for ",
    "The above exception was the direct cause",
    "During handling of the above exception",
    "Traceback (most recent call last)",
    "RuntimeError: cancelled",
    "Dumping input data",
    "Dumping scheduler",
    "failed to load model",
    "failed to create context with model",
    "failed to create_context with model",
    "exiting due to ",
    "encountered an error while trying to fit params",
    "Error with model error=",
    "Error parsing config for",
];

impl<'a> Line<'a> {
    pub(super) fn new(raw: &'a str) -> Self {
        let text = clean(shorten(raw, MAX_LINE));
        if text.starts_with(r#"{"type":"log""#) {
            return from_json(&text);
        }
        match text {
            Cow::Borrowed(text) => {
                let (level, text) = split_prefix(text);
                Self { level, text: Cow::Borrowed(text) }
            }
            Cow::Owned(text) => {
                let (level, text) = split_prefix(&text);
                Self { level, text: Cow::Owned(text.to_owned()) }
            }
        }
    }

    /// Whether the line reports an error, or may do so. Information and source code in a traceback don't.
    pub(super) fn may_be_cause(&self) -> bool {
        self.level >= Level::Plain && !self.is_traceback()
    }

    fn is_traceback(&self) -> bool {
        let text = self.text.trim_start();
        text.starts_with("File \"") || text.starts_with('^') || text.starts_with("raise ")
    }

    /// Whether the line only sums up an earlier failure.
    pub(super) fn is_wrapper(&self) -> bool {
        WRAPPERS.iter().any(|it| self.text.contains(it))
    }

    /// Whether the engine itself calls the line an error. This is used when no signature matches the failure.
    pub(super) fn is_error(&self) -> bool {
        if !self.may_be_cause() || self.is_wrapper() || self.text.trim().is_empty() {
            return false;
        }
        if self.level == Level::Error {
            return !self.text.starts_with([' ', '(', '^']);
        }
        let text = self.text.as_ref();
        let name = text.split(':').next().unwrap_or_default();
        let exception =
            ["Error", "Exception", "Failure", "Interrupt", "Exit"].iter().any(|it| name.ends_with(it));
        (exception && !name.contains(' '))
            || text.contains("error: ")
            || text.contains("error while ")
            || text.contains("error loading model")
            || text.contains("_ASSERT(")
            || text.trim_start().starts_with("what(): ")
    }
}

fn from_json(text: &str) -> Line<'static> {
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let level = match value["level"].as_str() {
        Some("error") => Level::Error,
        Some("warn") => Level::Warning,
        Some("info" | "debug") => Level::Info,
        _ => Level::Plain,
    };
    Line { level, text: Cow::Owned(value["msg"].as_str().unwrap_or(text).trim_end().to_owned()) }
}

/// Returns the lines of `log` that are examined, oldest first, without empty ones.
pub(super) fn read(log: &str) -> Vec<Line<'_>> {
    // Progress bars end their lines with a carriage return.
    let mut all = log.split(['\n', '\r']).filter(|it| !it.trim().is_empty());
    let mut left = MAX_TEXT;
    let mut fits = |line: &&str| {
        let length = line.len().min(MAX_LINE);
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    };
    let mut lines: Vec<&str> = all.by_ref().take(HEAD_LINES).take_while(&mut fits).collect();
    let mut tail: Vec<&str> = all.rev().take(TAIL_LINES).take_while(&mut fits).collect();
    tail.reverse();
    lines.append(&mut tail);
    join_fields(lines.into_iter().map(Line::new).collect())
}

/// Joins the two lines of a Pydantic error. Pydantic names the setting in one line and says what is wrong with it in
/// the next; errors of a validator begin with the words `Value error` and end with the arguments.
fn join_fields(mut lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    for line in &mut lines {
        if let Some(text) = line.text.trim_start().strip_prefix("Value error, ") {
            line.text = Cow::Owned(text.split(" [type=").next().unwrap_or(text).to_owned());
            line.level = Level::Error;
        }
    }
    for i in 1..lines.len() {
        let name = lines[i - 1].text.trim();
        if lines[i].text.trim_start().starts_with("Input should be ")
            && name.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'.'))
        {
            lines[i].text = Cow::Owned(format!("{name}: {}", lines[i].text.trim_start()));
        }
    }
    lines
}

/// Removes colours and other control characters.
fn clean(raw: &str) -> Cow<'_, str> {
    let raw = raw.trim_end();
    if !raw.contains(|it: char| it.is_control() && it != '\t') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(it) = chars.next() {
        if it == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // The sequence ends with a letter.
            while chars.next().is_some_and(|it| !('@'..='~').contains(&it)) {}
        } else if !it.is_control() || it == '\t' {
            text.push(it);
        }
    }
    Cow::Owned(text)
}

/// Splits off time stamp, process and level.
fn split_prefix(line: &str) -> (Level, &str) {
    let line = strip_docker_time(line);
    // `(EngineCore pid=20777) ERROR 11-21 00:47:49 [core.py:1510] text`
    let process =
        line.strip_prefix('(').and_then(|it| it.split_once(") ")).filter(|it| it.0.contains(" pid="));
    let body = process.map_or(line, |it| it.1);
    for (word, level) in [
        ("ERROR ", Level::Error),
        ("CRITICAL ", Level::Error),
        ("WARNING ", Level::Warning),
        ("INFO ", Level::Info),
        ("DEBUG ", Level::Info),
    ] {
        if let Some(rest) = body.strip_prefix(word)
            && rest.starts_with(|it: char| it.is_ascii_digit())
        {
            let text = rest.split_once(".py:").and_then(|it| it.1.split_once("] ")).map_or("", |it| it.1);
            return (level, text);
        }
    }
    // uvicorn: `INFO:     Application startup complete.`
    if let Some(rest) = body.strip_prefix("INFO:") {
        return (Level::Info, rest.trim_start());
    }
    if let Some(rest) = body.strip_prefix("warning: ").or_else(|| body.strip_prefix("warn: ")) {
        return (Level::Warning, rest);
    }
    if process.is_none()
        && let Some(found) = llamacpp_prefix(line)
    {
        return found;
    }
    (Level::Plain, body)
}

/// Splits off the prefix of llama.cpp, as in `0.00.023.714 E func: text`.
fn llamacpp_prefix(line: &str) -> Option<(Level, &str)> {
    let (time, rest) = line.split_once(' ')?;
    let digits = time.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    if !digits || time.bytes().filter(|it| *it == b'.').count() != 3 {
        return None;
    }
    let (letter, text) = rest.split_once(' ')?;
    let level = match letter {
        "E" => Level::Error,
        "W" => Level::Warning,
        "I" | "D" => Level::Info,
        _ => return None,
    };
    Some((level, text))
}

/// Removes the time that the container runtime puts before each line if asked for times:
/// `2026-11-21T03:40:02.123456789Z text`.
fn strip_docker_time(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, rest))
            if time.len() >= 20
                && time.ends_with('Z')
                && time.as_bytes().get(10) == Some(&b'T')
                && time.starts_with(|it: char| it.is_ascii_digit()) =>
        {
            rest
        }
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(raw: &str) -> (Level, String) {
        let line = Line::new(raw);
        (line.level, line.text.into_owned())
    }

    #[test]
    fn prefixes_of_both_engines_are_taken_off() {
        let cases = [
            ("0.00.023.714 E gguf: bad", (Level::Error, "gguf: bad")),
            ("2026-11-21T03:40:02.123456789Z 0.00.023.714 W x", (Level::Warning, "x")),
            (
                "(Worker pid=1) ERROR 11-21 00:47:44 [multiproc_executor.py:953] RuntimeError: x",
                (Level::Error, "RuntimeError: x"),
            ),
            ("(APIServer pid=1) RuntimeError: y", (Level::Plain, "RuntimeError: y")),
            ("\u{1b}[1;31mERROR 11-21 00:47:44 [core.py:9] z\u{1b}[0m", (Level::Error, "z")),
            ("INFO:     Application startup complete.", (Level::Info, "Application startup complete.")),
            ("warning: no usable GPU found", (Level::Warning, "no usable GPU found")),
            (r#"{"type":"log","time":5,"level":"error","msg":"gguf: bad\n"}"#, (Level::Error, "gguf: bad")),
            (
                "llama_model_load: error loading model: x",
                (Level::Plain, "llama_model_load: error loading model: x"),
            ),
        ];
        for (raw, (level, text)) in cases {
            assert_eq!(line(raw), (level, text.to_owned()), "{raw}");
        }
    }

    #[test]
    fn a_long_log_keeps_its_head_and_its_tail() {
        let log = (0..100_000).map(|it| format!("line {it}")).collect::<Vec<_>>().join("\n");
        let lines = read(&log);
        assert_eq!(lines.len(), HEAD_LINES + TAIL_LINES);
        assert_eq!(lines[0].text, "line 0");
        assert_eq!(lines[HEAD_LINES - 1].text, "line 1999");
        assert_eq!(lines[HEAD_LINES].text, "line 96000");
        assert_eq!(lines.last().map(|it| it.text.as_ref()), Some("line 99999"));
    }

    #[test]
    fn a_log_without_line_ends_is_cut() {
        let log = "x".repeat(8 << 20);
        let lines = read(&log);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].text.len(), MAX_LINE);
    }
}
