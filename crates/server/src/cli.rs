//! The command line.

use std::{collections::BTreeMap, io::Write, path::Path, process::ExitCode};

use anyhow::Context;
use clap::{Arg, ArgAction, ArgMatches, Command};
use gantry_settings::{Entry, Settings, Sources};

use crate::{audit, serve};

pub(crate) fn run(args: Vec<String>) -> anyhow::Result<ExitCode> {
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            error.print()?;
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)));
        }
    };
    match matches.subcommand() {
        Some(("settings", sub)) => {
            let (_, entries) = settings(sub)?;
            print_settings(&entries, sub.get_flag("json"))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(("audit", sub)) => audit::run(sub, |it| Ok(settings(it)?.0)),
        Some((_, sub)) => serve::run(settings(sub)?.0, sub.get_flag("demo")),
        None => serve::run(settings(&matches)?.0, false),
    }
}

fn command() -> Command {
    let serve = Command::new("serve")
        .about("Runs the gateway in the foreground (also without a subcommand)")
        .arg(Arg::new("demo").long("demo").action(ArgAction::SetTrue).help(
            "Also starts a simulated model, if there is no other, and prints a key and a `curl` to try it",
        ));
    let settings = Command::new("settings")
        .about("Prints every setting with value, source and default")
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Prints JSON for programs"));
    let simulator = Command::new("engine-sim")
        .about("Simulates an engine (vLLM or llama-server) without a model; see `gantry engine-sim --help`");
    Command::new("gantry")
        .about("Self-hosted gateway for language models on your own machines")
        .version(env!("CARGO_PKG_VERSION"))
        .args(setting_args())
        .subcommand(serve.args(setting_args()))
        .subcommand(settings.args(setting_args()))
        .subcommand(audit::command(setting_args()))
        .subcommand(simulator)
}

/// A flag for each setting, made from the settings table.
fn setting_args() -> Vec<Arg> {
    let arg = |name: String| {
        let flag = name.to_lowercase().replace('_', "-");
        Arg::new(name.clone())
            .long(flag)
            .value_name("VALUE")
            .help(format!("Setting {name}"))
            .help_heading("Settings")
    };
    Settings::names().into_iter().map(arg).collect()
}

fn settings(matches: &ArgMatches) -> anyhow::Result<(Settings, Vec<Entry>)> {
    let given = |name: String| {
        let value = matches.get_one::<String>(&name)?.clone();
        Some((name, value))
    };
    let flags: BTreeMap<_, _> = Settings::names().into_iter().filter_map(given).collect();
    let sources = Sources::from_process(flags, std::env::vars(), Path::new("."))?;
    let (settings, entries) = Settings::load(&sources)?;
    settings.check()?;
    Ok((settings, entries))
}

fn print_settings(entries: &[Entry], json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let rows: Vec<_> = entries
            .iter()
            .map(|it| {
                serde_json::json!({
                    "name": it.name, "group": it.group, "doc": it.doc, "allowed": it.allowed,
                    "default": it.default, "value": it.value, "source": it.origin.to_string(),
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?).context("standard output is closed")?;
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

/// One line for each cause, on standard error.
pub(crate) fn complain(error: &anyhow::Error) {
    let mut out = std::io::stderr().lock();
    // There is nowhere left to complain to if this fails.
    let _ = writeln!(out, "gantry: {error}");
    for cause in error.chain().skip(1) {
        let _ = writeln!(out, "  because: {cause}");
    }
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
