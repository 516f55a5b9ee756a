//! `doctor`: checks what a gateway needs, and says for each check what was found, what it means and how to fix it. The
//! checks of the database and of the container runtime are in the server crate; this module has those of the machine
//! and of a running gateway.

mod folders;
mod gateway;
mod machine;
mod service;

use clap::ArgMatches;
use serde::Serialize;

pub use self::{
    folders::{as_owner, folders, in_use, not_in_use, other_owner, user_name, writable},
    gateway::{gateway, local_port},
    machine::{Limits, limits, machine},
    service::{Service, service},
};
use crate::{
    exit::{Exit, Failure, Outcome},
    options::has,
    output::{Out, Tone},
    output_form::Form,
    text::clean,
};

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    /// The gateway works, but not everything works, or not always.
    Warn,
    /// The gateway does not start, or serves nothing.
    Fail,
}

/// The check of one prerequisite.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Stable name of the check, for programs.
    pub name: &'static str,
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What that means; empty where all is well.
    pub means: String,
    /// What to do; `None` if there is nothing to fix.
    pub fix: Option<String>,
}

impl Check {
    /// Makes a check that found nothing wrong.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), means: String::new(), fix: None }
    }

    /// Makes a check that found something to look at: what it `means`, and how to `fix` it.
    pub fn warn(name: &'static str, found: impl Into<String>, means: &str, fix: &str) -> Self {
        Self::bad(name, Status::Warn, found.into(), means, fix)
    }

    /// Makes a check that found something broken: what it `means`, and how to `fix` it.
    pub fn fail(name: &'static str, found: impl Into<String>, means: &str, fix: &str) -> Self {
        Self::bad(name, Status::Fail, found.into(), means, fix)
    }

    fn bad(name: &'static str, status: Status, found: String, means: &str, fix: &str) -> Self {
        Self { name, status, found, means: means.to_owned(), fix: Some(fix.to_owned()) }
    }
}

/// Prints the checks; ends with [`Exit::Failed`] if one failed.
pub fn report(checks: &[Check], matches: &ArgMatches) -> Exit {
    let out = Out::new(Form::of(matches), has(matches, "utc"));
    let worst = checks.iter().map(|it| it.status).max().unwrap_or(Status::Ok);
    match print(checks, worst, &out) {
        Ok(()) if worst == Status::Fail => Exit::Failed,
        Ok(()) => Exit::Done,
        Err(failure) => {
            out.complain(&failure);
            failure.exit()
        }
    }
}

fn print(checks: &[Check], worst: Status, out: &Out) -> Outcome<()> {
    let value = serde_json::json!({ "status": worst, "checks": checks });
    out.either(&value, || {
        let width = checks.iter().map(|it| it.name.len()).max().unwrap_or(0);
        for check in checks {
            let (word, tone) = match check.status {
                Status::Ok => ("OK  ", Tone::Good),
                Status::Warn => ("WARN", Tone::Busy),
                Status::Fail => ("FAIL", Tone::Bad),
            };
            let Check { name, found, means, fix, .. } = check;
            out.line(&format!("{}  {name:<width$}  {}", out.paint(tone, word), clean(found)))?;
            let space = " ".repeat(width + 8);
            if !means.is_empty() {
                out.line(&format!("{space}{}", clean(means)))?;
            }
            if let Some(fix) = fix {
                out.line(&format!("{space}fix: {}", clean(fix)))?;
            }
        }
        let n = |status| checks.iter().filter(|it| it.status == status).count();
        out.line(&format!(
            "\n{} fine, {} to look at, {} broken",
            n(Status::Ok),
            n(Status::Warn),
            n(Status::Fail)
        ))
    })
}

/// Returns a failure's text without the program's name, for a check.
pub(crate) fn words(failure: &Failure) -> String {
    failure.words().trim_start_matches("gantry: ").trim_end().to_owned()
}
