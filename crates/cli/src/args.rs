//! Every verb with its options, in one tree.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use gantry_settings::Settings;

use crate::{
    exit::Exit, http::DEFAULT_URL, images, keys, local, log, models, orgs, sign_in, top, upstreams, usage,
    users,
};

/// The whole command line.
pub fn command() -> Command {
    let serve = Command::new("serve")
        .about("Runs the gateway in the foreground (also without a subcommand)")
        .arg(flag(
            "demo",
            "Also starts a simulated model, if there is no other, and prints a key and a `curl` to try it",
        ));
    let settings = Command::new("settings")
        .about("Prints every setting with value, source and default")
        .arg(flag("json", "Prints JSON for programs"));
    let simulator = Command::new("engine-sim")
        .about("Simulates an engine (vLLM or llama-server) without a model; see `gantry engine-sim --help`");
    let exits = Command::new("exit-codes")
        .about("Lists the exit codes")
        .after_help(format!("Exit codes:\n{}", Exit::list()));
    Command::new("gantry")
        .about("Self-hosted gateway for language models on your own machines")
        .after_help(
            "Without a subcommand the gateway runs. The other verbs are its client: sign in once with `gantry login`, then \
             for example `gantry models list`. `gantry doctor` finds out what is missing, `gantry help exit-codes` is for \
             scripts.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .args(setting_args())
        .subcommand(serve.args(setting_args()))
        .subcommand(doctor().args(setting_args()))
        .subcommand(settings.args(setting_args()))
        .subcommand(audit().subcommand(log::list_command()))
        .subcommand(supervisor())
        .subcommand(owner())
        .subcommand(backup())
        .subcommand(sign_in::login_command())
        .subcommand(sign_in::logout_command())
        .subcommand(models::command())
        .subcommand(keys::command())
        .subcommand(orgs::command())
        .subcommand(users::command())
        .subcommand(usage::command())
        .subcommand(images::command())
        .subcommand(top::command())
        .subcommand(upstreams::command())
        .subcommand(sign_in::passwd_command())
        .subcommand(local::openapi_command())
        .subcommand(local::completions_command())
        .subcommand(local::man_command())
        .subcommand(exits)
        .subcommand(simulator)
}

fn doctor() -> Command {
    connected(Command::new("doctor").about("Checks everything that a gateway needs, and says how to mend what is missing"))
        .after_help(
            "Works with and without a running gateway. Reads the settings as `gantry serve` would, with the same flags, \
             environment and .env file. Ends with 1 if something is broken; warnings alone end with 0.",
        )
}

/// Runs in the server's crate, which knows the database.
fn audit() -> Command {
    let settings = setting_args();
    let file = Arg::new("file")
        .long("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Checks an exported file instead of the database");
    let verify = Command::new("verify")
        .about("Checks that no row of the audit log was changed or removed; ends with status 1 if one was")
        .arg(file)
        .args(settings.clone());
    let export = Command::new("export")
        .about("Writes the audit log to standard output: one JSON object a line, oldest first")
        .args(settings);
    Command::new("audit")
        .about("The audit log: `list` asks the gateway, `verify` and `export` work on the database; a gateway may run meanwhile")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(verify)
        .subcommand(export)
}

/// Runs in the server's crate, which knows the database.
fn supervisor() -> Command {
    let settings = setting_args();
    let show = Command::new("show").about("Says which gateway supervises the models").args(settings.clone());
    let copy = flag(
        "copy",
        "The database is a copy: it also gets an id of its own, so that the original's containers are left alone",
    );
    let release = Command::new("release")
        .about("Lets any gateway supervise the models after one that is gone for good, with all engines that it started")
        .arg(copy)
        .args(settings);
    Command::new("supervisor")
        .about("Of several gateways on one Postgres: which one starts, stops and watches the models")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(show)
        .subcommand(release)
}

/// Runs in the server's crate, which knows the database.
fn owner() -> Command {
    let reset = Command::new("reset-password")
        .about("Sets a new password for an owner who lost his, and ends his sessions; a gateway may run meanwhile")
        .args([
            option("username", "NAME", "Which owner; may be left out where there is one only"),
            flag("generate", "Makes a password and prints it, alone, to standard output"),
        ])
        .args(setting_args())
        .after_help(
            "Works on the database, so that nobody needs to be signed in: run it with the settings of the gateway, as its user. \
             The new password is asked for without showing it, or taken from GANTRY_NEW_PASSWORD, or read from standard input \
             where that is no terminal. The audit log has a row of it, with the actor type `settings`.",
        );
    Command::new("owner")
        .about("The way back for an owner who lost his password")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(reset)
}

/// Runs in the server's crate, which knows the database.
fn backup() -> Command {
    let dir = Arg::new("DIR")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .help("A folder that is made for it, or is empty");
    Command::new("backup")
        .about("Copies the database (SQLite) and the secrets into a folder; a gateway may run meanwhile")
        .arg(dir)
        .args(setting_args())
        .after_help(
            "Run it with the settings of the gateway, as its user. A Postgres is not copied: the line that does so is printed, \
             and the status is 1. The folder is a data directory: `gantry serve --data-dir DIR` serves what it has. Who can \
             read it can sign sessions and call engines. docs/backup.md says the rest.",
        )
}

/// A flag for each setting, and for the files that secrets may lie in, made from the settings table.
fn setting_args() -> Vec<Arg> {
    let arg = |name: &str, help: String| {
        let flag = name.to_lowercase().replace('_', "-");
        Arg::new(name.to_owned()).long(flag).value_name("VALUE").help(help).help_heading("Settings")
    };
    // Known, but not worth a line each in the help.
    let files = Settings::file_names();
    let files = files.iter().map(|name| arg(name, format!("File that holds {name}")).hide(true));
    let all = Settings::about().into_iter().map(|(name, doc, default)| {
        let default = if default.is_empty() { String::new() } else { format!(" [default: {default}]") };
        arg(&name, format!("{}{default}", doc.trim_end_matches('.')))
    });
    all.chain(files).collect()
}

const HEADING: &str = "Gateway and output";

fn common(arg: Arg) -> Arg {
    arg.help_heading(HEADING).global(true)
}

/// A verb that talks to a gateway, with the verbs below it.
pub(crate) fn connected(command: Command) -> Command {
    command
        .arg(
            Arg::new("url")
                .long("url")
                .value_name("URL")
                .help(format!("Address of the gateway [environment: GANTRY_URL] [default: {DEFAULT_URL}]"))
                .help_heading(HEADING)
                .global(true),
        )
        .arg(common(flag("json", "Prints JSON for programs, errors too (on standard error)")))
        .arg(common(flag("utc", "Times, days and weeks in UTC, not in this machine's time zone")))
}

pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(crate) fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

pub(crate) fn many(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).action(ArgAction::Append)
}

pub(crate) fn number(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(value_parser!(i64).range(1..))
}

pub(crate) fn one_of<const N: usize>(
    name: &'static str,
    words: [&'static str; N],
    help: &'static str,
) -> Arg {
    Arg::new(name).long(name).value_parser(PossibleValuesParser::new(words)).help(help)
}

pub(crate) fn place(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).help(help)
}

pub(crate) fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

pub(crate) fn texts<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    matches.try_get_many::<String>(name).ok().flatten().into_iter().flatten().map(String::as_str).collect()
}

pub(crate) fn int(matches: &ArgMatches, name: &str) -> Option<i64> {
    matches.try_get_one::<i64>(name).ok().flatten().copied()
}

pub(crate) fn has(matches: &ArgMatches, name: &str) -> bool {
    matches.try_get_one::<bool>(name).ok().flatten().copied().unwrap_or(false)
}
