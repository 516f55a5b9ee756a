//! A failure signature: what is looked for, where, and what is said about it. The tables are in the files beside.

use serde_json::Value;

use super::{Severity, Watch, flags, values};
use crate::model::{EngineKind, ModelConfig};

/// What a signature looks at.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    /// Patterns of lines of the log.
    Log(&'static [&'static str]),
    /// Patterns of the model's `state_reason`: the container never ran, or the gateway ended it.
    Reason(&'static [&'static str]),
    /// Either of them.
    Either(&'static [&'static str]),
    /// Exit codes of the container.
    Exit(&'static [i64]),
    /// The kernel killed a process of the container for memory.
    OutOfMemory,
    /// Nobody watched its end.
    Watch(Watch),
}

/// How much a signature explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It is why the start failed.
    Cause,
    /// It is what a failure looks like whose cause may stand elsewhere.
    Symptom,
    /// The engine starts nevertheless.
    Notice,
}

/// Field that a piece of advice is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    None,
    Field(&'static str),
    /// The field that becomes the captured flag, named `flag`.
    Flag,
    /// The field that holds the captured path, named `path`, or else this one.
    Path(&'static str),
    /// The first of these fields that is set, or else the first.
    FirstSet(&'static [&'static str]),
    /// The field that helps as things are set, of which the first is the most frequent; where there is none the advice
    /// is left out.
    Helping(&'static str, fn(&ModelConfig) -> Option<&'static str>),
}

/// Value to try.
#[derive(Debug, Clone, Copy)]
pub(super) enum Try {
    Nothing,
    /// Back to the default.
    Unset,
    Bool(bool),
    Text(&'static str),
    Number(i64),
    /// A captured number.
    Captured(&'static str),
    Made(fn(&Found<'_>) -> Option<Value>),
}

/// One piece of advice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Advice {
    /// May name captures, and `{field}`.
    pub text: &'static str,
    pub target: Target,
    pub value: Try,
}

/// One row of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    /// Stable: programs compare it.
    pub id: &'static str,
    /// `None`: both engines.
    pub engine: Option<EngineKind>,
    pub when: When,
    /// Patterns of the log that count where no cause stands in plainer words: Python prints the exception that a
    /// library began with before the one that says what it means.
    pub vague: &'static [&'static str],
    pub weight: Weight,
    pub severity: Severity,
    pub title: &'static str,
    /// May name captures.
    pub message: &'static str,
    pub fixes: &'static [Advice],
    /// It says nothing new where this holds.
    unless: Option<fn(&ModelConfig) -> bool>,
}

/// What a matched signature's values are made from.
pub(super) struct Found<'a> {
    pub engine: EngineKind,
    pub config: &'a ModelConfig,
    pub captures: Vec<(&'static str, &'a str)>,
    /// The field of the advice at hand.
    pub field: Option<&'static str>,
}

impl Signature {
    pub(super) const fn new(
        id: &'static str,
        engine: Option<EngineKind>,
        when: When,
        title: &'static str,
        message: &'static str,
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

    /// What it reports was asked for.
    pub(super) fn is_idle(&self, config: &ModelConfig) -> bool {
        self.unless.is_some_and(|it| it(config))
    }

    pub(super) fn applies_to(&self, engine: EngineKind) -> bool {
        self.engine.is_none_or(|it| it == engine)
    }
}

/// Advice that is no setting of the model.
pub(super) const fn tip(text: &'static str) -> Advice {
    Advice { text, target: Target::None, value: Try::Nothing }
}

/// Advice to change `field`, to what is for the reader to say.
pub(super) const fn change(field: &'static str, text: &'static str) -> Advice {
    Advice { text, target: Target::Field(field), value: Try::Nothing }
}

/// Advice to change the first of `fields` that is set.
pub(super) const fn change_first(fields: &'static [&'static str], text: &'static str) -> Advice {
    Advice { text, target: Target::FirstSet(fields), value: Try::Nothing }
}

/// Advice to set `field` to `value`.
pub(super) const fn set(field: &'static str, value: Try, text: &'static str) -> Advice {
    Advice { text, target: Target::Field(field), value }
}

/// Advice about the field that becomes the captured `flag`.
pub(super) const fn set_flag(value: Try, text: &'static str) -> Advice {
    Advice { text, target: Target::Flag, value }
}

/// Advice about the field that holds the captured `path`.
pub(super) const fn change_path(or: &'static str, text: &'static str) -> Advice {
    Advice { text, target: Target::Path(or), value: Try::Nothing }
}

impl Found<'_> {
    pub(super) fn capture(&self, name: &str) -> Option<&str> {
        self.captures.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// A captured number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.capture(name)?.parse().ok()
    }

    /// The field that `target` means here.
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

    /// The value that `value` means here, for the field at hand.
    pub(super) fn value(&self, value: Try) -> Option<Value> {
        let field = self.field?;
        // Lists of the operator's own are not thrown away for one of their entries.
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
