//! Options of all verbs that talk to a gateway: which one, as whom, and how to print.

use clap::{Arg, Command};

use crate::{
    complete,
    http::DEFAULT_URL,
    options::{flag, one_of, option},
    output_form::Form,
};

const HEADING: &str = "Gateway and output";

fn common(arg: Arg) -> Arg {
    arg.help_heading(HEADING).global(true)
}

/// `-o`, beside `--json`.
pub(crate) fn output() -> Arg {
    one_of(
        "output",
        Form::WORDS,
        "How to print: `json` is the same as --json, `wide` leaves out no column and cuts nothing off, and `name` prints one \
         name a line, of what is listed or shown",
    )
    .short('o')
    .value_name("FORM")
    .conflicts_with("json")
}

/// Adds the options for the connection to a verb that talks to a gateway, and to the verbs below it.
pub(crate) fn connected(command: Command) -> Command {
    let url = format!("Address of the gateway [environment: GANTRY_URL] [default: {DEFAULT_URL}]");
    command
        .arg(common(Arg::new("url").long("url").value_name("URL").help(url)))
        .arg(common(complete::contexts(option(
            "context",
            "NAME",
            "The gateway with this name; see `gantry context` [environment: GANTRY_CONTEXT]",
        ))))
        .arg(common(option(
            "token",
            "TOKEN",
            "A token instead of a session; other users of this machine can see it here, so GANTRY_TOKEN or `gantry login \
             --token-file` are safer",
        )))
        .arg(common(flag("json", "Prints JSON for programs, errors too (on standard error)")))
        .arg(common(output()))
        .arg(common(flag("utc", "Times, days and weeks in UTC, not in this machine's time zone")))
}

/// Options of [`connected`] with a value, and those without.
const VALUED: [&str; 5] = ["--url", "--context", "--token", "--output", "-o"];
const FLAGS: [&str; 2] = ["--json", "--utc"];

/// Moves options of [`connected`] that stand before the verb to the end of the command line, where the verb finds them.
pub fn arranged(args: Vec<String>) -> Vec<String> {
    let is_ours = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |it| it.0);
        FLAGS.contains(&word.as_str()) || VALUED.contains(&name) || word.starts_with("-o")
    };
    let mut words = args.into_iter();
    let mut arranged: Vec<String> = words.next().into_iter().collect();
    let mut words = words.peekable();
    let mut moved = Vec::new();
    while let Some(word) = words.next_if(is_ours) {
        let has_value = VALUED.contains(&word.as_str());
        moved.push(word);
        if has_value {
            moved.extend(words.next());
        }
    }
    arranged.extend(words);
    // What follows `--` are no options.
    let end = arranged.iter().position(|it| it == "--").unwrap_or(arranged.len());
    arranged.splice(end..end, moved);
    arranged
}
