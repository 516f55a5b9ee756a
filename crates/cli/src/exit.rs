//! Errors, as text and as exit codes.

use std::{fmt::Write as _, io};

use serde_json::{Value, json};

use crate::text::clean;

/// How a command ended; the number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    SignIn = 4,
    NotFound = 5,
    Invalid = 6,
    Conflict = 7,
    TimedOut = 8,
    Damaged = 9,
    Interrupted = 130,
}

impl Exit {
    pub const ALL: &[Self] = &[
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Unreachable,
        Self::SignIn,
        Self::NotFound,
        Self::Invalid,
        Self::Conflict,
        Self::TimedOut,
        Self::Damaged,
        Self::Interrupted,
    ];

    /// Returns the number that the program exits with.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the meaning, for the help text and the reference page.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "Success, also if the reader of the output closed it early (`| head`).",
            Self::Failed => {
                "The operation failed: the model did not become ready, its test failed, `doctor` or `status` found \
                 something broken, or the gateway reported an internal error."
            }
            Self::Usage => "The command line is wrong.",
            Self::Unreachable => "No gateway answers at that address.",
            Self::SignIn => {
                "Not signed in, the session has ended, the password is wrong, or the role does not allow it."
            }
            Self::NotFound => "There is no such object, or this gateway has no such endpoint.",
            Self::Invalid => "The gateway refuses the values; every problem is printed with its field.",
            Self::Conflict => "The state of the object does not allow it, or the name is taken.",
            Self::TimedOut => "`--timeout` passed before the operation ended; the gateway goes on with it.",
            Self::Damaged => "A deployment package is damaged, or its signature does not hold.",
            Self::Interrupted => "Interrupted with Ctrl-C.",
        }
    }

    /// Returns [`Exit::ALL`] as lines of text.
    pub(crate) fn list() -> String {
        let mut text = String::new();
        for it in Self::ALL {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{:>5}  {}", it.code(), it.meaning());
        }
        text
    }
}

/// An error answer of the gateway.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// `error.code`; empty if the answer did not come from a gateway.
    pub(crate) code: String,
    pub(crate) message: String,
    /// `(field, message)`, more than one for validation errors.
    pub(crate) details: Vec<(String, String)>,
    pub(crate) request_id: String,
    /// The whole answer; `null` if it was not JSON.
    pub(crate) body: Value,
    /// Whether the request carried a token or a key instead of a session.
    pub(crate) of_token: bool,
}

impl Refusal {
    pub(crate) fn new(status: u16, body: &Value) -> Self {
        let text = |it: &Value| clean(it.as_str().unwrap_or_default());
        let error = &body["error"];
        let details = error["details"].as_array().into_iter().flatten();
        let mut details: Vec<_> = details.map(|it| (text(&it["param"]), text(&it["message"]))).collect();
        if details.is_empty() && error["param"].is_string() {
            details.push((text(&error["param"]), text(&error["message"])));
        }
        Self {
            status,
            code: text(&error["code"]),
            message: text(&error["message"]),
            details,
            request_id: text(&body["request_id"]),
            body: body.clone(),
            of_token: false,
        }
    }

    fn exit(&self) -> Exit {
        match self.status {
            401 | 403 => Exit::SignIn,
            404 | 405 => Exit::NotFound,
            400 | 413 | 415 | 422 => Exit::Invalid,
            409 => Exit::Conflict,
            _ => Exit::Failed,
        }
    }
}

/// Why a command did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output closed it: there is nothing left to do or to report.
    Closed,
    /// Some of several names failed, and every failure was reported already. The exit code is that of the first
    /// failure.
    Told(Exit),
    Usage(String),
    Unreachable(String),
    NotFound(String),
    Refused(Box<Refusal>),
    Failed(String),
    TimedOut(String),
    Damaged(String),
    Interrupted,
}

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Closed => Exit::Done,
            Self::Told(exit) => *exit,
            Self::Usage(_) => Exit::Usage,
            Self::Unreachable(_) => Exit::Unreachable,
            Self::NotFound(_) => Exit::NotFound,
            Self::Refused(refusal) => refusal.exit(),
            Self::Failed(_) => Exit::Failed,
            Self::TimedOut(_) => Exit::TimedOut,
            Self::Damaged(_) => Exit::Damaged,
            Self::Interrupted => Exit::Interrupted,
        }
    }

    /// Replaces the names of fields of the API by the flags that the user typed for them.
    pub(crate) fn naming(mut self, flags: &[(&str, &str)]) -> Self {
        if let Self::Refused(refusal) = &mut self {
            for (field, flag) in flags {
                let (quoted, typed) = (format!("`{field}`"), format!("`{flag}`"));
                refusal.message = refusal.message.replace(&quoted, &typed);
                for (param, message) in &mut refusal.details {
                    if param.as_str() == *field {
                        (*flag).clone_into(param);
                    }
                    *message = message.replace(&quoted, &typed);
                }
            }
        }
        self
    }

    /// Returns whether every other name would fail in the same way.
    pub(crate) fn ends_all(&self) -> bool {
        match self {
            Self::Closed | Self::Unreachable(_) | Self::Interrupted => true,
            Self::Refused(refusal) => refusal.status == 401,
            _ => false,
        }
    }

    /// Returns the text for standard error; empty if there is nothing to print.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Closed | Self::Told(_) | Self::Interrupted => String::new(),
            Self::Usage(it)
            | Self::Unreachable(it)
            | Self::NotFound(it)
            | Self::Failed(it)
            | Self::TimedOut(it)
            | Self::Damaged(it) => format!("gantry: {it}\n"),
            Self::Refused(it) => refused(it),
        }
    }

    /// Returns the failure for programs, as JSON in the format of the gateway's own errors.
    pub(crate) fn json(&self) -> Value {
        let (code, message, details, id) = match self {
            Self::Refused(it) => {
                let details: Vec<_> = it
                    .details
                    .iter()
                    .map(|(param, message)| json!({ "param": param, "message": message }))
                    .collect();
                (it.code.as_str(), it.message.clone(), details, Some(it.request_id.as_str()))
            }
            other => {
                let code = match other.exit() {
                    Exit::Usage => "usage",
                    Exit::Unreachable => "unreachable",
                    Exit::NotFound => "not_found",
                    Exit::TimedOut => "timed_out",
                    Exit::Damaged => "damaged",
                    Exit::Interrupted => "interrupted",
                    _ => "failed",
                };
                let words = other.words();
                let message = words.trim_end().trim_start_matches("gantry: ").to_owned();
                (code, message, Vec::new(), None)
            }
        };
        json!({
            "error": { "code": code, "message": message, "details": details },
            "request_id": id,
            "exit_code": self.exit().code(),
        })
    }
}

fn refused(it: &Refusal) -> String {
    let mut text = match it.code.as_str() {
        "unauthenticated" if it.of_token => format!("gantry: {} (unauthenticated)\n", it.message),
        // `/v1` accepts a session too, and answers `invalid_api_key` if it is not valid.
        "unauthenticated" | "invalid_api_key" if !it.of_token => {
            return "gantry: you are not signed in, or the session has ended: run `gantry login`\n"
                .to_owned();
        }
        "validation_error" if !it.details.is_empty() => {
            "gantry: the gateway refuses these values:\n".to_owned()
        }
        "" => {
            format!("gantry: the server answered with status {}, not as a Gantry gateway does\n", it.status)
        }
        code => format!("gantry: {} ({code})\n", it.message),
    };
    let width = it.details.iter().map(|(field, _)| field.len()).max().unwrap_or(0);
    // A detail that only repeats the message is left out.
    for (field, message) in
        it.details.iter().filter(|(_, it_says)| it.code == "validation_error" || *it_says != it.message)
    {
        let _ = writeln!(text, "  {field:<width$}  {message}");
    }
    if it.status >= 500 && !it.request_id.is_empty() {
        let _ = writeln!(text, "  request id {}, for the gateway's log", it.request_id);
    }
    text
}

/// Converts an error from writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Failed(format!("can't write the output: {error}"))
    }
}

pub(crate) type Outcome<T> = Result<T, Failure>;
