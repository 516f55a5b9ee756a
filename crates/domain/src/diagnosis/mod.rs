//! Explains why a model failed to start: turns the engine's log, the exit code and the gateway's own reason into a
//! cause, the field to change and a value to try.
//!
//! This module does no I/O. What is known about failures is in tables of signatures, one file per engine or source; a
//! new failure is one new row. The order of precedence: first what the gateway or the container runtime said, then the
//! first line of the log that is a cause and not a summary of another line, then how the container ended.

mod checkpoint;
mod context;
mod ended;
mod flags;
mod gguf;
mod gpu;
mod host;
mod hub;
mod lines;
mod llamacpp;
mod memory;
mod pattern;
pub mod reference;
mod runtime;
mod signature;
mod summary;
mod unmatched;
mod values;
mod vllm;

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    model::{EngineKind, ModelConfig, fields},
    schema::{self, Components, Shape},
};
use context::MatchContext;
use lines::{Level, Line};
use pattern::{Captures, shorten};
use signature::{Signature, Target, Weight, When};

pub use crate::model::diagnosis::{Diagnosis, ErrorType, Fix, Severity};
pub use flags::required_fields;
pub use summary::summary;

/// Most lines of the log that a diagnosis quotes.
const MAX_EVIDENCE: usize = 5;
/// Longest quoted line, in bytes.
const MAX_EVIDENCE_BYTES: usize = 500;

/// What is known about a failed (or slow) start.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub engine: EngineKind,
    /// Standard output and error of the container, unchanged. At most the first 2000 and the last 4000 lines are
    /// examined.
    pub log: &'a str,
    /// `None`: the container still runs, or there is none.
    pub exit_code: Option<i64>,
    /// The runtime reports that the kernel killed the container for lack of memory.
    pub out_of_memory: bool,
    /// The model's `state_reason`.
    pub reason: Option<&'a str>,
    pub watch: Watch,
    pub config: &'a ModelConfig,
}

/// Whether a gateway watched the engine when it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Watch {
    /// A gateway watched it, or the engine still runs.
    #[default]
    Watched,
    /// No gateway watched it: the engine ended, or was stopped, together with the gateway or after it.
    Unwatched,
    /// No gateway watched it, and the machine was restarted in the meantime.
    Rebooted,
}

// Here, because only this module knows all names.
impl Shape for ErrorType {
    fn schema(_: &mut Components) -> Value {
        let mut names: Vec<&str> = error_types().chain([unmatched::ERROR_TYPE]).collect();
        names.sort_unstable();
        names.dedup();
        schema::one_of(&names)
    }
}

/// A signature that matched.
struct Match<'a> {
    signature: &'static Signature,
    captures: Captures<'a>,
    /// Index of the matching line of the log.
    at: Option<usize>,
    quote: Option<&'a str>,
}

/// Returns every signature, in the order in which they are tried.
fn table() -> impl Iterator<Item = &'static Signature> {
    [
        runtime::SIGNATURES,
        host::SIGNATURES,
        ended::SIGNATURES,
        memory::SIGNATURES,
        gpu::SIGNATURES,
        hub::SIGNATURES,
        vllm::SIGNATURES,
        checkpoint::SIGNATURES,
        llamacpp::SIGNATURES,
        gguf::SIGNATURES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the names of all signatures: every value that `error_type` may have apart from `unknown`.
pub fn error_types() -> impl Iterator<Item = &'static str> {
    table().map(|it| it.id)
}

/// Explains a failure from the gateway's or the container runtime's own message alone. If that names the cause, the log
/// would add nothing.
pub fn from_reason(input: &Input<'_>) -> Option<Diagnosis> {
    by_reason(input, Weight::Cause).map(|found| explain(input, &[], found))
}

/// Explains a failure. It never panics and its work is bounded, whatever the log holds.
pub fn diagnose(input: &Input<'_>) -> Diagnosis {
    let lines = lines::read(input.log);
    let found = by_reason(input, Weight::Cause)
        .or_else(|| by_memory(input))
        .or_else(|| by_watch(input, Watch::Rebooted))
        .or_else(|| by_log(input, &lines, Weight::Cause, words))
        .or_else(|| by_log(input, &lines, Weight::Cause, |it| it.vague))
        .or_else(|| by_log(input, &lines, Weight::Symptom, words))
        .or_else(|| by_watch(input, Watch::Unwatched))
        .or_else(|| by_exit(input))
        .or_else(|| by_reason(input, Weight::Symptom))
        .or_else(|| by_log(input, &lines, Weight::Notice, words));
    match found {
        Some(found) => explain(input, &lines, found),
        None => unknown(input, &lines),
    }
}

fn signatures(engine: EngineKind, weight: Weight) -> impl Iterator<Item = &'static Signature> {
    table().filter(move |it| it.weight == weight && it.applies_to(engine))
}

fn by_reason<'a>(input: &Input<'a>, weight: Weight) -> Option<Match<'a>> {
    let reason = input.reason?;
    signatures(input.engine, weight).find_map(|signature| {
        let (When::Reason(patterns) | When::Either(patterns)) = signature.when else { return None };
        let captures = patterns.iter().find_map(|it| pattern::find(it, reason))?;
        Some(Match { signature, captures, at: None, quote: Some(reason) })
    })
}

fn by_memory<'a>(input: &Input<'a>) -> Option<Match<'a>> {
    let killed =
        input.out_of_memory || input.reason.is_some_and(|it| it.contains("out of memory (exit code"));
    let signature = table().find(|it| killed && matches!(it.when, When::OutOfMemory))?;
    Some(Match { signature, captures: Captures::new(), at: None, quote: input.reason })
}

/// Explains an engine that ended while no gateway watched it. This applies only to exit codes that a stop together with
/// the gateway may cause; other codes say more by themselves.
fn by_watch<'a>(input: &Input<'a>, watch: Watch) -> Option<Match<'a>> {
    const ENDED: [i64; 3] = [0, 137, 143];
    let signature = table().find(|it| {
        input.watch == watch
            && matches!(it.when, When::Watch(it) if it == watch)
            && exit_code(input).is_none_or(|code| ENDED.contains(&code))
    })?;
    Some(Match { signature, captures: Captures::new(), at: None, quote: input.reason })
}

/// Returns the container's exit code. `None` also if the reason says that the gateway itself ended the container.
fn exit_code(input: &Input<'_>) -> Option<i64> {
    match input.reason {
        Some(reason) => reason.rsplit_once("exit code ")?.1.trim_end_matches(')').parse().ok(),
        None => input.exit_code,
    }
}

fn by_exit<'a>(input: &Input<'a>) -> Option<Match<'a>> {
    let code = exit_code(input)?;
    let signature = table().find(|it| matches!(it.when, When::Exit(codes) if codes.contains(&code)))?;
    Some(Match { signature, captures: Captures::new(), at: None, quote: input.reason })
}

/// Returns the log patterns of a signature.
fn words(signature: &Signature) -> &'static [&'static str] {
    match signature.when {
        When::Log(patterns) | When::Either(patterns) => patterns,
        _ => &[],
    }
}

/// Finds the first line that matches a signature of this weight. `patterns` selects which of a signature's patterns are
/// used.
fn by_log<'a>(
    input: &Input<'_>,
    lines: &'a [Line<'_>],
    weight: Weight,
    patterns: fn(&Signature) -> &'static [&'static str],
) -> Option<Match<'a>> {
    let rows: Vec<_> = signatures(input.engine, weight)
        .filter(|it| !it.is_idle(input.config))
        .map(|it| (it, patterns(it)))
        .filter(|it| !it.1.is_empty())
        .collect();
    let first = if weight == Weight::Notice { 0 } else { first_line(input, lines)? };
    lines.iter().enumerate().skip(first).find_map(|(at, line)| {
        let looks = if weight == Weight::Notice { line.level > Level::Info } else { line.may_be_cause() };
        if !looks {
            return None;
        }
        rows.iter().find_map(|(signature, patterns)| {
            let captures = patterns.iter().find_map(|it| pattern::find(it, &line.text))?;
            Some(Match { signature, captures, at: Some(at), quote: None })
        })
    })
}

/// Returns the first line that may hold the cause. Lines before the "ready" line did not prevent the start. If the
/// engine is ready and still runs, there is no cause to find.
fn first_line(input: &Input<'_>, lines: &[Line<'_>]) -> Option<usize> {
    let failed = input.exit_code.is_some() || input.reason.is_some() || input.out_of_memory;
    match lines.iter().rposition(|it| summary::says_ready(it)) {
        None => Some(0),
        Some(ready) => failed.then_some(ready + 1),
    }
}

fn explain(input: &Input<'_>, lines: &[Line<'_>], found: Match<'_>) -> Diagnosis {
    let Match { signature, captures, at, quote } = found;
    let mut known = MatchContext { engine: input.engine, config: input.config, captures, field: None };
    let mut fixes = Vec::with_capacity(signature.fixes.len());
    for advice in signature.fixes {
        if let Target::Field(name) = advice.target
            && fields::find(name, input.engine).is_some_and(|it| !it.applies_to(input.engine))
        {
            continue;
        }
        known.field = known.target(advice.target);
        if known.field.is_none() && matches!(advice.target, Target::Helping(..)) {
            continue;
        }
        let value = known.value(advice.value);
        let mut captures = known.captures.clone();
        captures.push(("field", known.field.or_else(|| known.capture("flag")).unwrap_or("the setting")));
        let field = known.field.map(Cow::Borrowed);
        fixes.push(Fix { text: pattern::fill(advice.text.en, &captures), field, value });
    }
    Diagnosis {
        detected: true,
        title: signature.title.en.to_owned(),
        message: pattern::fill(signature.message.en, &known.captures),
        field: fixes.iter().find_map(|it| it.field.clone()),
        fixes,
        severity: signature.severity,
        error_type: signature.id.into(),
        evidence: evidence(lines, at, quote),
    }
}

/// Makes the diagnosis for a failure without a signature: it quotes the first line that the engine itself calls an
/// error, which is mostly the right place to read on.
fn unknown(input: &Input<'_>, lines: &[Line<'_>]) -> Diagnosis {
    let at = first_line(input, lines)
        .and_then(|first| lines.iter().skip(first).position(Line::is_error).map(|it| it + first));
    let message = match (at.and_then(|it| lines.get(it)), input.reason) {
        (Some(line), _) => pattern::fill(unmatched::FIRST_ERROR.en, &[("line", summary::cause(line))]),
        (None, Some(reason)) => reason.to_owned(),
        (None, None) => unmatched::NO_ERROR.en.to_owned(),
    };
    let failed = at.is_some() || input.reason.is_some() || input.exit_code.is_some_and(|it| it != 0);
    let tips: &[_] = if failed { unmatched::TIPS } else { &[] };
    Diagnosis {
        detected: false,
        title: if failed { unmatched::FAILED } else { unmatched::FINE }.en.to_owned(),
        message: shorten(&message, MAX_EVIDENCE_BYTES).to_owned(),
        fixes: tips.iter().map(|it| Fix { text: it.en.to_owned(), field: None, value: None }).collect(),
        field: None,
        severity: if failed { Severity::Error } else { Severity::Info },
        error_type: unmatched::ERROR_TYPE.into(),
        evidence: evidence(lines, at, input.reason),
    }
}

/// Quotes the line that decided, then the next lines that the engine itself calls errors.
fn evidence(lines: &[Line<'_>], at: Option<usize>, quote: Option<&str>) -> Vec<String> {
    let mut quotes: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        let text = shorten(text.trim(), MAX_EVIDENCE_BYTES);
        if quotes.len() < MAX_EVIDENCE && !text.is_empty() && quotes.iter().all(|it| it != text) {
            quotes.push(text.to_owned());
        }
    };
    match at {
        Some(at) => {
            let mut rest = lines.iter().skip(at);
            rest.by_ref().take(1).for_each(|it| add(&it.text));
            rest.filter(|it| it.is_error()).take(MAX_EVIDENCE).for_each(|it| add(&it.text));
        }
        None => quote.into_iter().for_each(&mut add),
    }
    quotes
}

#[cfg(test)]
mod tests;
