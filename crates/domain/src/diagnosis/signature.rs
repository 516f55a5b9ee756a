//! A failure signature: which texts it matches, where, and what it says about the failure. The tables of signatures are
//! in the other files of this folder.

use serde_json::Value;

use super::{Severity, Watch, context::MatchContext, flags, values};
use crate::model::{EngineKind, ModelConfig};

/// A text of our own in each language that pages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Both {
    /// English: what the API says.
    pub en: &'static str,
    /// German, with the captures and optional parts of the English text. Pages show it in place of that text.
    pub de: &'static str,
}

/// Makes a text from its English and its German form.
pub(super) const fn both(en: &'static str, de: &'static str) -> Both {
    Both { en, de }
}

/// What a signature looks at.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// Patterns of lines of the log.
    Log(&'static [&'static str]),
    /// Patterns of the model's `state_reason`, for a container that never ran or that the gateway ended.
    Reason(&'static [&'static str]),
    /// Patterns of both the log and the `state_reason`.
    Either(&'static [&'static str]),
    /// Exit codes of the container.
    Exit(&'static [i64]),
    /// The kernel killed a process of the container for lack of memory.
    OutOfMemory,
    /// No gateway watched how the engine ended.
    Watch(Watch),
}

/// How much a signature explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// The line is the reason why the start failed.
    Cause,
    /// The line shows that something failed, but another line may hold the cause.
    Symptom,
    /// The engine starts all the same.
    Notice,
}

/// The field that a piece of advice is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    None,
    Field(&'static str),
    /// The field that became the flag captured as `{flag}`.
    Flag,
    /// The field that holds the path captured as `{path}`; if there is none, the field named here.
    Path(&'static str),
    /// The first of these fields that is set; if none is, the first one.
    FirstSet(&'static [&'static str]),
    /// The field that helps with the current settings, as the function chooses it; the text names the most frequent
    /// one. If the function finds none, the advice is left out.
    Helping(&'static str, fn(&ModelConfig) -> Option<&'static str>),
}

/// Value to try.
#[derive(Debug, Clone, Copy)]
pub(super) enum Try {
    Nothing,
    /// Sets the field back to its default.
    Unset,
    Bool(bool),
    Text(&'static str),
    Number(i64),
    /// A captured number.
    Captured(&'static str),
    Made(fn(&MatchContext<'_>) -> Option<Value>),
}

/// One piece of advice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Advice {
    /// The text, which may contain captures and `{field}`.
    pub text: Both,
    pub target: Target,
    pub value: Try,
}

/// One row of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    /// The signature's name. It never changes, because programs compare it.
    pub id: &'static str,
    /// `None`: the signature is for both engines.
    pub engine: Option<EngineKind>,
    pub when: When,
    /// Log patterns that count only if no other line names a cause more plainly. Python prints the exception that a
    /// library raised first before the one that explains it.
    pub vague: &'static [&'static str],
    pub weight: Weight,
    pub severity: Severity,
    pub title: Both,
    /// The message, which may contain captures.
    pub message: Both,
    pub fixes: &'static [Advice],
    /// If this returns true for the settings, the signature reports nothing new and is skipped.
    unless: Option<fn(&ModelConfig) -> bool>,
}

impl Signature {
    pub(super) const fn new(
        id: &'static str,
        engine: Option<EngineKind>,
        when: When,
        title: Both,
        message: Both,
        fixes: &'static [Advice],
    ) -> Self {
        Self {
            id,
            engine,
            when,
            vague: &[],
            weight: Weight::Cause,
            severity: Severity::Error,
            title,
            message,
            fixes,
            unless: None,
        }
    }

    pub(super) const fn or(mut self, vague: &'static [&'static str]) -> Self {
        self.vague = vague;
        self
    }

    pub(super) const fn symptom(mut self) -> Self {
        self.weight = Weight::Symptom;
        self
    }

    /// A warning about something that does not keep the engine from starting.
    pub(super) const fn notice(mut self) -> Self {
        self.weight = Weight::Notice;
        self.severity = Severity::Warning;
        self
    }

    pub(super) const fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub(super) const fn unless(mut self, expected: fn(&ModelConfig) -> bool) -> Self {
        self.unless = Some(expected);
        self
    }

    /// Whether the settings asked for what the signature reports.
    pub(super) fn is_idle(&self, config: &ModelConfig) -> bool {
        self.unless.is_some_and(|it| it(config))
    }

    pub(super) fn applies_to(&self, engine: EngineKind) -> bool {
        self.engine.is_none_or(|it| it == engine)
    }
}

/// Makes advice that is not about a setting of the model.
pub(super) const fn tip(text: Both) -> Advice {
    Advice { text, target: Target::None, value: Try::Nothing }
}

/// Makes advice to change `field`; the reader chooses the value.
pub(super) const fn change(field: &'static str, text: Both) -> Advice {
    Advice { text, target: Target::Field(field), value: Try::Nothing }
}

/// Makes advice to change the first of `fields` that is set.
pub(super) const fn change_first(fields: &'static [&'static str], text: Both) -> Advice {
    Advice { text, target: Target::FirstSet(fields), value: Try::Nothing }
}

/// Makes advice to set `field` to `value`.
pub(super) const fn set(field: &'static str, value: Try, text: Both) -> Advice {
    Advice { text, target: Target::Field(field), value }
}

/// Makes advice about the field that became the captured `flag`.
pub(super) const fn set_flag(value: Try, text: Both) -> Advice {
    Advice { text, target: Target::Flag, value }
}

/// Makes advice about the field that holds the captured `path`.
pub(super) const fn change_path(or: &'static str, text: Both) -> Advice {
    Advice { text, target: Target::Path(or), value: Try::Nothing }
}

impl MatchContext<'_> {
    pub(super) fn capture(&self, name: &str) -> Option<&str> {
        self.captures.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// A captured number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.capture(name)?.parse().ok()
    }

    /// Returns the field that `target` stands for in this failure.
    pub(super) fn target(&self, target: Target) -> Option<&'static str> {
        match target {
            Target::None => None,
            Target::Field(name) => Some(name),
            Target::Flag => flags::field_of(self.capture("flag")?, self.engine, self.config),
            Target::Path(or) => {
                let known = self.capture("path").and_then(|it| flags::field_of_path(it, self.config));
                Some(known.unwrap_or(or))
            }
            Target::Helping(_, choose) => choose(self.config),
            Target::FirstSet(names) => {
                let set = names.iter().find(|it| self.config.get(it).is_some());
                set.or(names.first()).copied()
            }
        }
    }

    /// Returns the JSON for `value`, for the current field.
    pub(super) fn value(&self, value: Try) -> Option<Value> {
        let field = self.field?;
        // An operator's own list is not replaced because of one of its entries.
        if matches!(field, "extra_args" | "extra_env" | "lora_adapters") {
            return None;
        }
        match value {
            Try::Nothing => None,
            Try::Unset => Some(Value::Null),
            Try::Bool(value) => Some(value.into()),
            Try::Text(text) => Some(text.into()),
            Try::Number(number) => Some(number.into()),
            Try::Captured(name) => self.number(name).map(values::json),
            Try::Made(make) => make(self),
        }
    }
}
