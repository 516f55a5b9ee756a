//! Every verb with its options, in one tree.

use std::path::PathBuf;

use clap::{
    Arg, Command,
    error::{ContextKind, ContextValue, Error},
    value_parser,
};

use crate::{
    apply, audit, chat, context, database, egress,
    exit::Exit,
    gateway_options::connected,
    groups, images, jobs, keys, local, models,
    options::{flag, option, positional},
    orgs, own, package, registry,
    setting_args::{listed_settings, reads_settings, setting_args},
    sign_in, status, tokens, top, upstreams, usage, users,
};

/// The whole command line.
pub fn command() -> Command {
    let settings = Command::new("settings")
        .about("Prints every setting with value, source and default")
        .arg(flag("json", "Prints JSON for programs"));
    let simulator = Command::new("engine-sim")
        .about("Simulates an engine (vLLM or llama-server) without a model; see `gantry engine-sim --help`");
    let exits = Command::new("exit-codes")
        .about("Lists the exit codes")
        .after_help(format!("Exit codes:\n{}", Exit::list()));
    let all = Command::new("gantry")
        .about("Self-hosted gateway for language models on your own machines")
        .after_help(
            "`gantry serve` runs the gateway; its settings are flags, which `gantry serve --help` and `gantry settings` \
             list. The other verbs are its client: sign in once with `gantry login`, then try for example `gantry models \
             list`; `gantry model ls` is the same, and `rm` stands for delete, revoke or remove. `gantry doctor` finds out \
             what is missing; `gantry help exit-codes` lists the exit codes. --url, --context, --token, --json, -o and --utc \
             may also stand before the verb.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .args(setting_args())
        .subcommand(serve().args(listed_settings()))
        .subcommand(reads_settings(doctor()))
        .subcommand(reads_settings(egress::command()))
        .subcommand(reads_settings(settings))
        .subcommand(audit_log().subcommand(audit::list_command()))
        .subcommand(supervisor())
        .subcommand(owner())
        .subcommand(secrets())
        .subcommands(database::commands())
        .subcommand(package::command())
        .subcommand(sign_in::login_command())
        .subcommand(sign_in::logout_command())
        .subcommand(context::command())
        .subcommand(status::command())
        .subcommand(models::command())
        .subcommand(apply::command())
        .subcommand(chat::command())
        .subcommand(keys::command())
        .subcommand(orgs::command())
        .subcommand(users::command())
        .subcommand(tokens::command())
        .subcommand(usage::command())
        .subcommand(own::command())
        .subcommand(images::command())
        .subcommand(jobs::command())
        .subcommand(top::command())
        .subcommand(upstreams::command())
        .subcommand(registry::command())
        .subcommand(sign_in::passwd_command())
        .subcommand(local::openapi_command())
        .subcommand(local::completions_command())
        .subcommand(local::man_command())
        .subcommand(exits)
        .subcommand(status::version_command())
        .subcommand(simulator);
    groups::grouped(all)
}

fn serve() -> Command {
    Command::new("serve").about("Runs the gateway in the foreground").args([
        flag(
            "demo",
            "Also starts a simulated model, if there is no other, and prints a key and a `curl` to try it",
        ),
        option(
            "demo-model",
            "FILE",
            "With --demo: starts this GGUF file with llama.cpp instead of the simulated model; a path below MODELS_DIR",
        )
        .requires("demo"),
    ])
}

fn doctor() -> Command {
    connected(Command::new("doctor").about("Checks everything that a gateway needs, and says how to fix what is missing"))
        .after_help(
            "If a gateway runs on this machine, `doctor` asks it for its settings and needs no flags and no environment; \
             that works as the gateway's user and as root. If none runs, or --data-dir names another folder, it reads the \
             settings as `gantry serve` would. The exit code is 1 if something is broken, and 0 if there are only \
             warnings.",
        )
}

/// Runs in the server's crate, which knows the database.
fn audit_log() -> Command {
    let file = Arg::new("file")
        .long("file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Checks an exported file instead of the database");
    let verify = Command::new("verify")
        .about("Checks that no row of the audit log was changed or removed; the exit code is 1 if one was")
        .arg(file);
    let export = Command::new("export")
        .about("Writes the audit log to standard output: one JSON object a line, oldest first");
    Command::new("audit")
        .about("The audit log: `list` asks the gateway, `verify` and `export` work on the database; the gateway may be running")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(reads_settings(verify))
        .subcommand(reads_settings(export))
}

/// Runs in the server's crate, which knows the database.
fn supervisor() -> Command {
    let show = Command::new("show").about("Shows which gateway supervises the models");
    let copy = flag(
        "copy",
        "The database is a copy: it also gets an id of its own, so that the original's containers are left alone",
    );
    let release = Command::new("release")
        .about("Lets another gateway supervise the models after the present one and its engines are gone for good")
        .arg(copy);
    Command::new("supervisor")
        .about(
            "Shows or changes which of several gateways on one Postgres starts, stops and watches the models",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(reads_settings(show))
        .subcommand(reads_settings(release))
}

/// Runs in the server's crate, which knows the database.
fn owner() -> Command {
    const PASSWORD: &str = "The new password comes from GANTRY_NEW_PASSWORD, or from standard input if that is not a \
    terminal; otherwise you are asked for it twice, and it is not shown.";
    let works = "Works directly on the database and needs no sign-in: run it with the settings of the gateway, as its user.";
    let row = "The audit log records it with the actor type `settings`.";
    let file = Arg::new("password-file")
        .long("password-file")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Reads the password from this file");
    let create = Command::new("create")
        .about("Creates the first owner of a gateway and their organisation; the gateway may be running")
        .arg(positional("NAME", "User name"))
        .arg(option("org", "NAME", "Name of the new organisation").default_value("Default"))
        .arg(file)
        .args(setting_args())
        .after_help(format!(
            "{works} It works only while there is no owner; owners create further ones. {PASSWORD} {row}"
        ));
    let reset = Command::new("reset-password")
        .about("Sets a new password for an owner who lost theirs, and ends their sessions; the gateway may be running")
        .args([
            option("username", "NAME", "Which owner; needed only if there are several"),
            flag("generate", "Generates a password and prints only the password to standard output"),
        ])
        .args(setting_args())
        .after_help(format!("{works} {PASSWORD} {row}"));
    Command::new("owner")
        .about("Owners: creates the first one, and sets a new password for one who lost theirs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([create, reset])
}

/// Runs in the server's crate, which knows the database.
fn secrets() -> Command {
    let forget = flag(
        "forget-lost",
        "Deletes the secrets that can't be decrypted any more because their keys were lost",
    );
    let rotate = Command::new("rotate")
        .about("Creates a new key for the secrets in the database, and encrypts them with it; stop all gateways on this \
        database first")
        .arg(forget)
        .args(setting_args())
        .after_help(
            "Run it with the settings of the gateway, as its user. The old keys stay in DATA_DIR/secrets/database-keys behind \
             the new one, for backups. Other gateways on the same Postgres need a copy of that file before they start again.",
        );
    Command::new("secrets")
        .about(
            "Secrets in the database: hub tokens, keys of registry entries, and the key that gateways share",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(rotate)
}

/// Flags of other programs that people try out of habit, with our setting for each.
const HABITS: [(&[&str], &str); 5] = [
    (&["--port", "--listen", "--host", "--bind", "--addr", "--address"], "--gateway-listen 127.0.0.1:8084"),
    (&["--metrics-port", "--metrics"], "--metrics-listen 127.0.0.1:9084"),
    (&["--data", "--dir"], "--data-dir DIR"),
    (&["--models", "--model-dir", "--models-path"], "--models-dir DIR"),
    (&["--log", "--log-level", "--verbose", "--debug"], "--rust-log debug"),
];

/// Verbs that people look for at the top, and where they are.
const ELSEWHERE: [(&str, &str); 11] = [
    ("export", "package export"),
    ("import", "package import"),
    ("verify", "package verify"),
    ("promote", "db promote"),
    ("ls", "models list"),
    ("ps", "models list"),
    ("pull", "models create --repo REPO"),
    ("run", "models create --path PATH --start"),
    ("start", "models start"),
    ("stop", "models stop"),
    ("logs", "models logs"),
];

/// Adds the setting that was most likely meant to the error about an unknown flag, or the verb to that about an unknown
/// verb, if the spelling alone does not suggest it.
pub fn tip(error: &mut Error) {
    if let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand)
        && let Some((_, ours)) = ELSEWHERE.iter().find(|it| it.0 == verb)
    {
        let ours = ContextValue::Strings(vec![(*ours).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, ours);
        return;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return };
    if let Some((_, ours)) = HABITS.iter().find(|(flags, _)| flags.contains(&flag.as_str())) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String((*ours).to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_verb_once() {
        let grouped = groups::GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied());
        let mut listed: Vec<_> = grouped.chain(groups::OTHERS).filter(|it| *it != "help").collect();
        listed.sort_unstable();
        let all = command();
        let mut verbs: Vec<_> =
            all.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name).collect();
        verbs.sort_unstable();
        assert_eq!(listed, verbs);
    }
}
