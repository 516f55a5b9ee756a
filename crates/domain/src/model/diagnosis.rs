//! Why a start failed, as the model record keeps it. How it is found out is in [`crate::diagnosis`].

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{view, words};

words! {
    /// How serious a finding is.
    pub enum Severity {
        /// The model does not start.
        Error = "error",
        /// It starts, but not as it should.
        Warning = "warning",
        /// Worth knowing; nothing is wrong.
        Info = "info",
    }
}

view! {
    /// One way to fix the failure. A diagnosis lists the most promising first.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct Fix {
        pub text: String,
        /// The field of the model's settings to change; absent if something else has to be changed.
        pub field: Option<Cow<'static, str>> => optional,
        /// The value to try. `null` unsets the field; if it is absent, the reader has to choose a value.
        #[serde(default, deserialize_with = "present")]
        pub value: Option<Value> => optional,
    }
}

/// Reads a `null` that is present as a value of its own, apart from an absent field.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

/// The name of a signature, which never changes; `unknown` if none matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorType(pub Cow<'static, str>);

impl From<&'static str> for ErrorType {
    fn from(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }
}

impl std::ops::Deref for ErrorType {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

view! {
    /// Why a start failed, in the form that the API and the database use.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    pub struct Diagnosis: "Diagnosis" {
        /// Whether a signature matched. If none did, the other fields say the little that is known.
        pub detected: bool,
        pub title: String,
        pub message: String,
        pub fixes: Vec<Fix>,
        /// The field of the first fix that has one.
        pub field: Option<Cow<'static, str>>,
        pub severity: Severity,
        /// The signature's name, which never changes; `unknown` if no signature matched.
        pub error_type: ErrorType,
        /// Lines quoted from the log without colours and prefixes: at most five, each of at most 500 bytes.
        pub evidence: Vec<String>,
    }
}

impl Diagnosis {
    /// Returns title and message in one line.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title, self.message)
    }
}
