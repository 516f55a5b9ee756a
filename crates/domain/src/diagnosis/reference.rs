//! The table of signatures in readable form, for the reference page.

use super::{
    Watch,
    signature::{Advice, Target, Try, When},
    table, unmatched,
};
use crate::model::EngineKind;

/// One known failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub error_type: &'static str,
    /// `None`: the failure is of both engines.
    pub engine: Option<EngineKind>,
    pub title: &'static str,
    /// The sign by which the failure is recognised: a text with `…` for the variable parts, or how the container ended.
    pub sign: Sign,
    /// The most promising fix, with `…` for the variable parts.
    pub fix: String,
    /// The field of the first fix that has one.
    pub field: Option<&'static str>,
    /// The value to try for that field, as JSON; `…` if it is computed from the log and the current settings.
    pub value: Option<String>,
}

/// What a failure is recognised by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sign {
    /// The first of the texts that match, and the number of other texts.
    Text {
        first: String,
        others: usize,
    },
    ExitCodes(&'static [i64]),
    OutOfMemory,
    Watch(Watch),
}

/// The texts that the diagnoses of one `error_type` may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    pub error_type: &'static str,
    /// Title, message and fixes, each in English and in German. `{name}` stands for a variable part, and brackets for a
    /// part that may be left out.
    pub texts: Vec<(&'static str, &'static str)>,
}

/// Returns the texts of every known failure, then those of failures that are not known.
pub fn texts() -> impl Iterator<Item = Texts> {
    let known = table().map(|row| {
        let texts = [row.title, row.message].into_iter().chain(row.fixes.iter().map(|it| it.text));
        (row.id, texts.collect::<Vec<_>>())
    });
    known.chain([(unmatched::ERROR_TYPE, unmatched::TEXTS.to_vec())]).map(|(error_type, texts)| Texts {
        error_type,
        texts: texts.into_iter().map(|it| (it.en, it.de)).collect(),
    })
}

/// Returns every known failure, in the order in which they are tried.
pub fn entries() -> impl Iterator<Item = Entry> {
    table().map(|row| {
        let sign = match row.when {
            When::Log(patterns) | When::Reason(patterns) | When::Either(patterns) => Sign::Text {
                first: patterns.first().map(|it| blank(it)).unwrap_or_default(),
                others: (patterns.len() + row.vague.len()).saturating_sub(1),
            },
            When::Exit(codes) => Sign::ExitCodes(codes),
            When::OutOfMemory => Sign::OutOfMemory,
            When::Watch(it) => Sign::Watch(it),
        };
        let with_field = row.fixes.iter().find(|it| field(it).is_some());
        Entry {
            error_type: row.id,
            engine: row.engine,
            title: row.title.en,
            sign,
            fix: row.fixes.first().map(|it| plain(it.text.en)).unwrap_or_default(),
            field: with_field.and_then(field),
            value: with_field.and_then(value),
        }
    })
}

fn field(advice: &Advice) -> Option<&'static str> {
    match advice.target {
        Target::None => None,
        Target::Field(name) | Target::Path(name) | Target::Helping(name, _) => Some(name),
        Target::FirstSet(names) => names.first().copied(),
        Target::Flag => Some("…"),
    }
}

fn value(advice: &Advice) -> Option<String> {
    match advice.value {
        Try::Nothing => None,
        Try::Unset => Some("null".to_owned()),
        Try::Bool(it) => Some(it.to_string()),
        Try::Text(it) => Some(format!("\"{it}\"")),
        Try::Number(it) => Some(it.to_string()),
        Try::Captured(_) | Try::Made(_) => Some("…".to_owned()),
    }
}

/// Returns one of our own texts without the brackets around its optional parts.
fn plain(text: &str) -> String {
    blank(&text.replace(['[', ']'], ""))
}

/// Replaces each `{name}` by `…`.
fn blank(pattern: &str) -> String {
    let mut parts = pattern.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('…');
        text.push_str(part.split_once('}').map_or("", |it| it.1));
    }
    text
}
