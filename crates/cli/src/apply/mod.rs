//! `apply`: brings a gateway to the state that files describe. It creates what is missing and changes what differs, and it
//! deletes nothing.

mod entry;
mod known;
mod read;
mod section;

use clap::{ArgMatches, Command};
use serde_json::{Map, Value, json};

use self::{
    entry::{Difference, Entry},
    known::{Done, Known},
    section::Section,
};
use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    options::{flag, has, many, texts},
    text::{clean, harmless},
};

pub(crate) fn command() -> Command {
    let file = many(
        "file",
        "FILE",
        "A file as JSON, `-` for standard input, or a folder, whose *.json files are taken",
    );
    connected(
        Command::new("apply")
            .about("Creates and changes models, organisations, users, keys, limits and registry entries as files say")
            .args([
                file.short('f').required(true),
                flag("dry-run", "Shows what would be created and changed, and does nothing"),
            ])
            .after_help(
                "gantry apply -f team.json --dry-run\n\
                 gantry apply -f models -f team.json\n\
                 \n\
                 What is missing is created (`+`), what differs is changed (`~`), and what is equal is left alone (`=`). Fields\n\
                 that a file does not name stay as they are. Nothing is ever deleted: an entry that is no longer in a file\n\
                 stays in the gateway. The first error ends it with exit code 1, and what was done until then stays. A new\n\
                 key's token is printed once. Models are neither started nor restarted. docs/apply.md has the format.",
            ),
    )
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let entries = read::entries(&texts(matches, "file"))?;
    let is_dry = has(matches, "dry-run");
    let (mut known, mut report) = (Known::default(), Report::default());
    for entry in &entries {
        match known.apply(cx, entry, is_dry).await {
            Ok(done) => report.add(cx, entry, &done, is_dry)?,
            Err(failure) => {
                report.end(cx)?;
                return Err(at(entry, failure));
            }
        }
    }
    report.end(cx)
}

/// Adds to a failure where in the files its cause is.
fn at(entry: &Entry, failure: Failure) -> Failure {
    if failure.ends_all() {
        return failure;
    }
    let why = match &failure {
        Failure::Refused(it) if !it.details.is_empty() => {
            let one = |(field, message): &(String, String)| format!("{field}: {message}");
            it.details.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        other => other.words().trim_end().trim_start_matches("gantry: ").to_owned(),
    };
    Failure::Failed(format!("{}: {}: {why}", clean(&entry.file), clean(&entry.label())))
}

/// What was done so far.
#[derive(Default)]
struct Report {
    n_equal: usize,
    /// The changes for programs.
    changes: Vec<Value>,
}

impl Report {
    fn add(&mut self, cx: &Cx, entry: &Entry, done: &Done, is_dry: bool) -> Outcome<()> {
        let label = clean(&entry.label());
        let mut change = json!({ "section": entry.section.as_str(), "name": entry.title() });
        let line = match done {
            Done::Equal => {
                self.n_equal += 1;
                return Ok(());
            }
            Done::Created { token } => {
                change["action"] = "create".into();
                if let Some(token) = token {
                    change["token"] = token.as_str().into();
                }
                let token = token.as_ref().map(|it| format!(": {}", clean(it)));
                format!("+ {label}{}", token.unwrap_or_default())
            }
            Done::Changed(differences) => {
                change["action"] = "change".into();
                let field = |it: &Difference| (it.field.clone(), json!({ "from": it.from, "to": it.to }));
                change["fields"] = Value::Object(differences.iter().map(field).collect::<Map<_, _>>());
                let words = differences
                    .iter()
                    .map(|it| format!("{} {} → {}", clean(&it.field), shown(&it.from), shown(&it.to)));
                format!("~ {label}: {}", words.collect::<Vec<_>>().join(", "))
            }
        };
        self.changes.push(change);
        if !cx.out.json() {
            cx.out.line(&line)?;
        }
        if entry.of == Section::Users && matches!(done, Done::Created { .. }) && !is_dry {
            let name = clean(&entry.name);
            cx.out.note(&format!("{name} has no password yet: gantry users password-link {name}"));
        }
        Ok(())
    }

    fn end(&self, cx: &Cx) -> Outcome<()> {
        if cx.out.json() {
            return cx.out.value(&Value::Array(self.changes.clone()));
        }
        cx.out.line(&format!("= {} unchanged", self.n_equal))
    }
}

/// Formats a value of a field on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text),
        other => harmless(&other.to_string()),
    }
}
