//! Shell completion. The shell's script runs this program with [`VARIABLE`] set at each Tab, and gets verbs, options,
//! fields, and the names and model files that the gateway knows.
//!
//! A Tab must not hang and must not fail: if the gateway does not answer at once, no names are offered. Other people
//! choose the names, so names that a shell could read as more than one plain word are left out.

use std::{collections::BTreeMap, ffi::OsStr, time::Duration};

use clap::{Arg, ArgMatches, Command};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate},
    env::Shells,
};
use gantry_domain::model::{
    EngineKind,
    fields::{self, Kind},
};
use serde_json::Value;

use crate::{
    exit::{Failure, Outcome},
    http::{Client, query},
    options::option,
    session::Sessions,
    target::{self, Target},
};

/// Set by the shell's script when it asks.
const VARIABLE: &str = "GANTRY_COMPLETE";
pub(crate) const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
/// Longest wait for the gateway: a person at the keyboard does not notice it.
const PATIENCE: Duration = Duration::from_millis(800);
/// Most candidates that are offered; more are no help.
const MOST: usize = 500;

/// Answers a shell that asks for completions of `command`. Returns `false` if no shell asks and the arguments are a
/// normal command.
///
/// # Errors
/// The shell is not known, or standard output can't be written.
pub(crate) fn completed(command: fn() -> Command, args: &[String]) -> Result<bool, std::io::Error> {
    let here = std::env::current_dir().ok();
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin("gantry")
        .completer("gantry")
        .try_complete(args, here.as_deref())
        .map_err(std::io::Error::other)
}

/// Returns the completion script for a shell.
pub(crate) fn script(shell: &str) -> Outcome<Vec<u8>> {
    let known = Shells::builtins();
    let wrong = || Failure::Usage(format!("there is no completion for the shell `{shell}`"));
    let mut script = Vec::new();
    known.completer(shell).ok_or_else(wrong)?.write_registration(
        VARIABLE,
        "gantry",
        "gantry",
        "gantry",
        &mut script,
    )?;
    Ok(script)
}

/// Where names come from: a list of the API, the field that holds the word, and the field that explains it.
struct Source {
    path: &'static str,
    word: &'static str,
    about: &'static str,
    /// Only entries with this value in this field.
    only: Option<(&'static str, &'static str)>,
}

const fn source(path: &'static str, word: &'static str, about: &'static str) -> Source {
    Source { path, word, about, only: None }
}

/// Lists for each kind of name, tried in order until one answers. The second list is for callers who may not read the
/// first.
const MODELS: &[Source] = &[
    source("/admin/models?limit=500", "served_name", "state"),
    source("/auth/models", "served_name", "state"),
];
const KEYS: &[Source] =
    &[source("/admin/keys?limit=500", "name", "prefix"), source("/auth/keys?limit=500", "name", "prefix")];
const ORGS: &[Source] = &[source("/admin/orgs?limit=500", "name", "id")];
/// The list also has the models that run here, which other verbs change.
const REGISTRY: &[Source] = &[Source {
    only: Some(("source", "manual")),
    ..source("/admin/models/registry?limit=500", "served_name", "task")
}];
const TOKENS: &[Source] = &[source("/auth/tokens?limit=500", "name", "prefix")];
const USERS: &[Source] = &[source("/admin/users?limit=500", "username", "role")];

pub(crate) fn models(arg: Arg) -> Arg {
    named(arg, MODELS)
}

pub(crate) fn keys(arg: Arg) -> Arg {
    named(arg, KEYS)
}

pub(crate) fn orgs(arg: Arg) -> Arg {
    named(arg, ORGS)
}

pub(crate) fn registry(arg: Arg) -> Arg {
    named(arg, REGISTRY)
}

pub(crate) fn tokens(arg: Arg) -> Arg {
    named(arg, TOKENS)
}

pub(crate) fn users(arg: Arg) -> Arg {
    named(arg, USERS)
}

fn named(arg: Arg, sources: &'static [Source]) -> Arg {
    arg.add(ArgValueCompleter::new(|current: &OsStr| {
        let found = asked(sources).unwrap_or_default();
        candidates(current, found.into_iter().map(|(word, about)| (word, Some(about))))
    }))
}

/// Folders of the models base directory, and GGUF files in the folder that is being typed.
pub(crate) fn paths(arg: Arg) -> Arg {
    arg.add(ArgValueCompleter::new(|current: &OsStr| {
        let found = paths_beside(&current.to_string_lossy()).unwrap_or_default();
        candidates(current, found.into_iter().map(|(path, about)| (path, Some(about))))
    }))
}

/// Names of contexts, which need no gateway.
pub(crate) fn contexts(arg: Arg) -> Arg {
    arg.add(ArgValueCompleter::new(|current: &OsStr| {
        let known = target::contexts().and_then(|it| it.read()).unwrap_or_default().contexts;
        candidates(current, known.into_iter().map(|(name, url)| (name, Some(url))))
    }))
}

/// Completes `FIELD=`, and after it the values that the field may have.
pub(crate) fn assignments(arg: Arg) -> Arg {
    arg.add(ArgValueCompleter::new(|current: &OsStr| {
        let engine = word_after("--engine").and_then(|it| EngineKind::parse(&it));
        let rows = || fields::all().filter(|it| engine.is_none_or(|engine| it.applies_to(engine)));
        let text = current.to_string_lossy();
        match text.split_once('=') {
            None => {
                let names = rows().map(|it| (format!("{}=", it.name), Some(it.help.to_owned())));
                candidates(current, names.collect::<BTreeMap<_, _>>().into_iter())
            }
            Some((name, _)) => {
                let values = rows().filter(|it| it.name == name).flat_map(|it| values(it.kind, it.examples));
                candidates(current, values.map(|it| (format!("{name}={it}"), None)))
            }
        }
    }))
}

fn values(kind: Kind, examples: &'static [&'static str]) -> Vec<String> {
    match kind {
        Kind::Bool => vec!["true".to_owned(), "false".to_owned()],
        Kind::OneOf(words) => words.iter().map(ToString::to_string).collect(),
        Kind::IntOneOf(numbers) => numbers.iter().map(ToString::to_string).collect(),
        _ => examples.iter().map(ToString::to_string).collect(),
    }
}

/// Returns the candidates that begin with the current text.
fn candidates(
    current: &OsStr,
    found: impl Iterator<Item = (String, Option<String>)>,
) -> Vec<CompletionCandidate> {
    let begin = current.to_string_lossy();
    let fits = |(word, _): &(String, Option<String>)| word.starts_with(&*begin) && is_one_word(word);
    found
        .filter(fits)
        .take(MOST)
        .map(|(word, about)| {
            CompletionCandidate::new(word).help(about.map(|it| crate::text::clean(&it).into()))
        })
        .collect()
}

/// Returns whether a shell reads the text as one plain word.
fn is_one_word(text: &str) -> bool {
    let plain = |it: char| it.is_alphanumeric() || "-_./:@+,=%".contains(it);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(plain)
}

/// Asks the gateway of this command line for names, and returns each with its explanation.
fn asked(sources: &[Source]) -> Outcome<BTreeMap<String, String>> {
    let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let found: Option<BTreeMap<_, _>> = ask(async |client: &Client| {
        for source in sources {
            if let Ok(answer) = client.get(source.path).await {
                let is_wanted = |it: &&Value| source.only.is_none_or(|(field, value)| it[field] == value);
                let wanted = answer.list().iter().filter(is_wanted);
                return Some(wanted.map(|it| (text(&it[source.word]), text(&it[source.about]))).collect());
            }
        }
        None
    })?;
    Ok(found.unwrap_or_default())
}

/// Returns the folders that hold models, and the GGUF files in the folder of `current`, each with what it is. If the
/// files are not there in time, the folders are returned.
fn paths_beside(current: &str) -> Outcome<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    ask(async |client: &Client| {
        let folders = client.get("/admin/models/local-folders?limit=500").await.ok()?;
        let mut is_loose = false;
        for folder in folders.list() {
            match folder["path"].as_str()? {
                // Files lie in the base directory itself.
                "." => is_loose = true,
                path => drop(found.insert(path.to_owned(), "folder".to_owned())),
            }
        }
        let folder = match current.rsplit_once('/') {
            Some((folder, _)) => folder,
            None if is_loose => ".",
            None => return Some(()),
        };
        let asked = query(&[("folder", folder.to_owned())]);
        let inside = client.get(&format!("/admin/models/inspect-folder{asked}")).await.ok()?;
        for group in inside.json["gguf_groups"].as_array()? {
            let quantisation = group["quant_type"].as_str().unwrap_or_default();
            found.insert(group["path"].as_str()?.to_owned(), quantisation.to_owned());
        }
        Some(())
    })?;
    Ok(found)
}

/// Asks the gateway of this command line; `None` if it does not answer in time.
fn ask<T>(look: impl AsyncFnOnce(&Client) -> Option<T>) -> Outcome<Option<T>> {
    let words: Vec<String> = ["url", "context"]
        .into_iter()
        .filter_map(|name| Some([format!("--{name}"), word_after(&format!("--{name}"))?]))
        .flatten()
        .collect();
    let matches = options(&words)?;
    let (target, sessions) = (Target::of(&matches)?, Sessions::of_user()?);
    let login = target.login(&matches, &sessions)?;
    let client = Client::new(target.gateway, login);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, look(&client)).await.ok().flatten() });
    // Do not wait for a host name that is still being resolved.
    runtime.shutdown_background();
    Ok(found)
}

/// Parses the options that select the gateway, separately from the unfinished rest of the line.
fn options(words: &[String]) -> Outcome<ArgMatches> {
    let options = [option("url", "URL", ""), option("context", "NAME", "")];
    let command = Command::new("gantry").args(options);
    let words = std::iter::once("gantry").chain(words.iter().map(String::as_str));
    command.try_get_matches_from(words).map_err(|error| Failure::Usage(error.to_string()))
}

/// Returns the word after an option on the line that is being typed.
fn word_after(option: &str) -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().rposition(|it| it == option)?;
    words.get(at + 1).cloned().filter(|it| !it.is_empty() && !it.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_become_a_command_of_the_shell() {
        for fine in ["qwen", "org/model-7b", "name:12", "名前", "a=b"] {
            assert!(is_one_word(fine), "{fine}");
        }
        for wrong in ["", "-rf", "$(reboot)", "a;b", "a b", "`a`", "a\nb", "a|b", "a>b", "~x", "*"] {
            assert!(!is_one_word(wrong), "{wrong}");
        }
    }
}
