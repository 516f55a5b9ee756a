//! The reference page of the command line, made from the same tree as `--help`.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::{exit::Exit, tree::command};

/// Returns the page as Markdown, without a title: the caller adds it.
pub fn page() -> String {
    let mut root = command();
    root.build();
    let mut out = String::from("\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        // Writing to a String can't fail.
        let _ = writeln!(out, "| {} | {} |", exit.code(), exit.meaning().replace('|', "\\|"));
    }
    for verb in root.get_subcommands().filter(|it| it.get_name() != "help") {
        one(&mut out, &format!("gantry {}", verb.get_name()), verb);
    }
    out
}

fn one(out: &mut String, path: &str, command: &Command) {
    let subs: Vec<_> = command.get_subcommands().filter(|it| it.get_name() != "help").collect();
    let args: Vec<_> = command.get_arguments().filter(|it| shown(it)).collect();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(out, "\n## `{path}{}`\n\n{}.\n", positionals(&args), about.trim_end_matches('.'));
    if !args.is_empty() && (subs.is_empty() || args.iter().any(|it| !it.is_global_set())) {
        out.push_str("\n| | |\n|---|---|\n");
        for arg in &args {
            let _ = writeln!(out, "| {} | {} |", name(arg), help(arg));
        }
    }
    if let Some(after) = command.get_after_help().filter(|_| command.get_name() != "exit-codes") {
        let text = after.to_string();
        let text = text.trim_end();
        // Text of several lines is a list of examples.
        let _ = match text.split_once('\n') {
            Some(_) => write!(out, "\n```text\n{text}\n```\n"),
            None => write!(out, "\n{text}\n"),
        };
    }
    for sub in subs {
        one(out, &format!("{path} {}", sub.get_name()), sub);
    }
}

/// Returns whether an option is listed with its verb. Options of every verb are listed once, above; the settings have
/// their own page.
fn shown(arg: &Arg) -> bool {
    arg.get_help_heading().is_none() && !matches!(arg.get_id().as_str(), "help" | "version")
}

fn positionals(args: &[&Arg]) -> String {
    let one = |it: &&&Arg| {
        let name = it.get_id().as_str();
        if it.is_required_set() { format!(" {name}") } else { format!(" [{name}]") }
    };
    args.iter().filter(|it| it.is_positional()).map(|it| one(&it)).collect()
}

fn name(arg: &Arg) -> String {
    let value = match arg.get_value_names() {
        Some([value]) if arg.get_action().takes_values() => format!(" {value}"),
        _ => String::new(),
    };
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}{value}`"),
        (None, Some(long)) => format!("`--{long}{value}`"),
        _ => format!("`{}`", arg.get_id()),
    }
}

fn help(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let words: Vec<_> = arg.get_possible_values().iter().map(|it| format!("`{}`", it.get_name())).collect();
    if !words.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, ": {}", words.join(", "));
    }
    text
}
