//! The command line: what needs the gateway's own parts is run here, every other verb by `gantry-cli`.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::Context;
use clap::ArgMatches;
use gantry_cli::{Exit, command};
use gantry_connect::HttpUrl;
use gantry_package::sign::PublicKey;
use gantry_settings::{Entry, Origin, Settings, SettingsError, Sources};
use tracing_subscriber::EnvFilter;

use crate::{
    commands::{audit, backup, db, doctor, egress, owner, restore, supervisor, upgrade},
    demo::Demo,
    sealing, serve, telemetry,
};

/// What a failed write to standard output is called.
const NO_OUTPUT: &str = "can't write the output";

pub(crate) fn run(args: Vec<String>) -> anyhow::Result<ExitCode> {
    // A shell asks for completions of a word.
    if gantry_cli::completed(&args)? {
        return Ok(ExitCode::SUCCESS);
    }
    let matches = match command().try_get_matches_from(gantry_cli::arranged(args)) {
        Ok(matches) => matches,
        Err(mut error) => {
            gantry_cli::tip(&mut error);
            print_of_clap(&error)?;
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code())));
        }
    };
    // Settings before the verb count like settings after it: help lists them in both places.
    let before = flags(&matches);
    let settings = |sub: &ArgMatches| settings(&before, sub);
    match matches.subcommand() {
        Some(("settings", sub)) => {
            let (_, entries) = settings(sub)?;
            print_settings(&entries, sub.get_flag("json")).context(NO_OUTPUT)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(("audit", sub)) if audit::is_offline(sub) => audit::run(sub, |it| Ok(settings(it)?.0)),
        Some(("supervisor", sub)) => supervisor::run(sub, |it| Ok(settings(it)?.0)),
        Some(("owner", sub)) => owner::run(sub, |it| Ok(settings(it)?.0)),
        Some(("secrets", sub)) => sealing::run(sub, |it| Ok(settings(it)?.0)),
        Some(("backup", sub)) => backup::run(sub, |it| Ok(settings(it)?.0)),
        Some(("restore", sub)) => restore::run(sub, |it| Ok(settings(it)?.0)),
        Some(("upgrade", sub)) => Ok(ExitCode::from(upgrade::run(sub, |it| settings(it))?.code())),
        Some(("db", sub)) => db::run(sub, |it| Ok(settings(it)?.0)),
        Some(("doctor", sub)) => Ok(ExitCode::from(doctor::run(settings(sub), sub)?.code())),
        Some(("egress", sub)) => {
            let (settings, entries) = settings(sub)?;
            Ok(ExitCode::from(egress::run(settings, &entries, sub)?.code()))
        }
        Some(("serve", sub)) => {
            let (settings, entries) = settings(sub)?;
            let file = sub.get_one::<String>("demo-model").cloned();
            let demo = sub.get_flag("demo").then(|| file.map_or(Demo::Simulated, Demo::File));
            serve::run(settings, &entries, demo)
        }
        Some((verb, _)) if !before.is_empty() => Ok(refuse(verb, &before)),
        Some((verb, sub)) => Ok(ExitCode::from(gantry_cli::run(verb, sub).code())),
        None if before.is_empty() => {
            let mut out = io::stdout().lock();
            write!(out, "{}", command().render_help()).and_then(|()| out.flush()).context(NO_OUTPUT)?;
            Ok(ExitCode::SUCCESS)
        }
        // Settings without a verb start the gateway.
        None => {
            let (settings, entries) = settings(&matches)?;
            serve::run(settings, &entries, None)
        }
    }
}

/// Refuses settings on a verb that only asks a gateway. If the settings were ignored, the answer could be about
/// another gateway than the operator meant.
fn refuse(verb: &str, given: &BTreeMap<String, String>) -> ExitCode {
    let names: Vec<_> = given.keys().map(|it| format!("--{}", it.to_lowercase().replace('_', "-"))).collect();
    let why = format!(
        "`gantry {verb}` reads no settings, so {} would have no effect; --url or GANTRY_URL names the gateway that it asks",
        names.join(" and "),
    );
    complain(&anyhow::anyhow!(why));
    ExitCode::from(Exit::Usage.code())
}

/// Returns the environment variables that are UTF-8 text. Others are skipped, unless they have the name of a setting:
/// then they are an error.
fn environment() -> Result<Vec<(String, String)>, SettingsError> {
    let names = [Settings::names(), Settings::file_names()].concat();
    let ours = |name: &str| names.iter().any(|it| it == name);
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => found.push((name, value)),
            (Ok(name), Err(_)) if ours(&name) => {
                return Err(SettingsError::Malformed {
                    name,
                    origin: Origin::Environment,
                    allowed: "UTF-8 text",
                });
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the settings that are given on one part of the command line (before or after the verb), by name.
fn flags(matches: &ArgMatches) -> BTreeMap<String, String> {
    let given = |name: String| {
        let value = matches.try_get_one::<String>(&name).ok()??.clone();
        Some((name, value))
    };
    [Settings::names(), Settings::file_names()].concat().into_iter().filter_map(given).collect()
}

/// Loads the settings. If a flag is given both before and after the verb, the one after the verb wins.
fn settings(
    before: &BTreeMap<String, String>,
    matches: &ArgMatches,
) -> Result<(Settings, Vec<Entry>), SettingsError> {
    let mut flags = flags(matches);
    for (name, value) in before {
        // A value and the file of the same setting are the same flag.
        let other = name.strip_suffix("_FILE").map_or_else(|| format!("{name}_FILE"), str::to_owned);
        if !flags.contains_key(&other) {
            flags.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    let sources = Sources::from_process(flags, environment()?.into_iter(), Path::new("."))?;
    if let Some(why) = &sources.passed_over {
        gantry_cli::tell(&format!("gantry: {why}\n"));
    }
    let (settings, entries) = Settings::load(&sources)?;
    settings.check()?;
    check_texts(&settings)?;
    Ok((settings, entries))
}

/// Checks settings whose syntax is defined by another part of the program.
fn check_texts(settings: &Settings) -> Result<(), SettingsError> {
    let refuse = |name, why: String| Err(SettingsError::Refused { name, why });
    if let Err(error) = EnvFilter::try_new(&settings.logging.rust_log) {
        return refuse("RUST_LOG", format!("must be as in info,gantry_control=debug: {error}"));
    }
    if settings.engines.hub_endpoint.as_deref().is_some_and(|it| HttpUrl::parse(it).is_none()) {
        return refuse("HUB_ENDPOINT", "must be of the form https://host[:port][/path]".to_owned());
    }
    if let Some(Err(error)) = settings.engines.package_trusted_key.as_deref().map(PublicKey::parse) {
        return refuse(
            "PACKAGE_TRUSTED_KEY",
            format!("must be a public key as `gantry package key` prints it: {error}"),
        );
    }
    Ok(())
}

/// Prints the help that was asked for, or why the command line is wrong.
fn print_of_clap(text: &clap::Error) -> anyhow::Result<()> {
    if text.use_stderr() && io::stderr().is_terminal() {
        // In colours. Ignored: if standard error fails, the failure can't be reported anywhere.
        let _ = text.print();
    } else if text.use_stderr() {
        gantry_cli::tell(&text.render().to_string());
    } else {
        text.print().and_then(|()| io::stdout().flush()).context(NO_OUTPUT)?;
    }
    Ok(())
}

fn print_settings(entries: &[Entry], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<_> = entries.iter().map(Entry::to_json).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(());
    }
    let mut group = "";
    for entry in entries {
        if entry.group != group {
            group = entry.group;
            writeln!(out, "\n{group}")?;
        }
        let value = if entry.value.is_empty() { "-" } else { &entry.value };
        let default = if entry.default.is_empty() { "-" } else { entry.default };
        writeln!(out, "  {:<32} {value}  ({}; default {default})", entry.name, entry.origin)?;
        writeln!(out, "      {}", entry.doc)?;
    }
    Ok(())
}

/// Prints an error with one line for each cause, on standard error. A reader that closed our output early (`| head`)
/// is no error.
pub(crate) fn complain(error: &anyhow::Error) -> ExitCode {
    let pipe = error.root_cause().downcast_ref::<io::Error>();
    // A connection to a database breaks with the same error.
    if pipe.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe) && gantry_cli::is_reader_gone() {
        return ExitCode::SUCCESS;
    }
    gantry_cli::tell(&telemetry::complaint(error));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
        let matches = command().try_get_matches_from(["gantry", "serve", "--gateway-listen", "127.0.0.1:1"]);
        let matches = matches.unwrap();
        let (_, sub) = matches.subcommand().unwrap();
        assert_eq!(sub.get_one::<String>("GATEWAY_LISTEN").unwrap(), "127.0.0.1:1");
    }
}
