//! Why a start failed, as the model record keeps it. How it is found out is in [`crate::diagnosis`].

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How serious the failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The model does not start.
    Error,
    /// It starts, but not as it should.
    Warning,
    /// Worth knowing; nothing is wrong.
    Info,
}

/// One way to fix the failure. A diagnosis lists the most promising first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    pub text: String,
    /// The field of the model's settings to change; absent if something else has to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Cow<'static, str>>,
    /// The value to try. `null` unsets the field; if it is absent, the reader has to choose a value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Reads a `null` that is present as a value of its own, apart from an absent field.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// Why a start failed, in the form that the API and the database use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Whether a signature matched. If none did, the other fields say the little that is known.
    pub detected: bool,
    pub title: String,
    pub message: String,
    pub fixes: Vec<Fix>,
    /// The field of the first fix that has one.
    pub field: Option<Cow<'static, str>>,
    pub severity: Severity,
    /// The signature's name, which never changes; `unknown` if no signature matched.
    pub error_type: Cow<'static, str>,
    /// Lines quoted from the log without colours and prefixes: at most five, each of at most 500 bytes.
    pub evidence: Vec<String>,
}

impl Diagnosis {
    /// Returns title and message in one line.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.message)
    }
}
