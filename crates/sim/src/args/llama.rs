//! Reads a `llama-server` command line: word by word, ending at the first bad one with code 1.

use std::fmt::Write as _;

use super::llama_flags::FLAGS;
use super::{Env, Exit, Flag, Given, Value};
use crate::flavour::Version;

/// Reads the words after `llama-server`, on top of the `LLAMA_ARG_*` environment.
///
/// Unknown environment names are ignored, as in the real program.
pub(crate) fn parse(args: &[String], version: Version, env: &Env) -> Result<Given, Exit> {
    let mut given = Given::default();
    let mut from_env: Vec<(&'static str, &'static str)> = Vec::new();
    for flag in FLAGS.iter().filter(|flag| flag.in_force(version)) {
        let Some((name, value)) = flag.env.and_then(|name| Some((name, env.get(name)?))) else { continue };
        if flag.value == Value::Switch {
            let on = matches!(value.as_str(), "1" | "true" | "on" | "enabled");
            given.set(flag.key(), vec![on.to_string()]);
        } else {
            check(flag, name, value)?;
            given.set(flag.key(), vec![value.clone()]);
        }
        from_env.push((flag.key(), name));
    }
    let mut warnings = String::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let name = if word.starts_with("--") { word.replace('_', "-") } else { word.clone() };
        let with_warnings = |exit: Exit| Exit { stderr: format!("{warnings}{}", exit.stderr), ..exit };
        let Some(flag) = find(&name, version) else {
            return Err(with_warnings(Exit::failure(1, format!("error: invalid argument: {word}\n"))));
        };
        if let Some((_, env_name)) = from_env.iter().find(|(key, _)| *key == flag.key()) {
            let _ = writeln!(
                warnings,
                "warn: {env_name} environment variable is set, but will be overwritten by command line argument {word}"
            );
        }
        let with_warnings = |exit: Exit| Exit { stderr: format!("{warnings}{}", exit.stderr), ..exit };
        let value = match flag.value {
            Value::Switch => "true".to_owned(),
            _ => match words.next() {
                Some(value) => value.clone(),
                None => return Err(with_warnings(bad_value(flag, &name, "expected value for argument"))),
            },
        };
        if !flag.in_force(version) {
            let why = flag.removed.unwrap_or("the argument has been removed");
            return Err(with_warnings(bad_value(flag, &name, why)));
        }
        check(flag, &name, &value).map_err(with_warnings)?;
        given.set(flag.key(), vec![value]);
    }
    if given.has("--help") {
        return Err(Exit::success(help(version)));
    }
    if given.has("--version") {
        let text = format!(
            "version: {} (simulator)\nbuilt with gantry's engine simulator, not a real engine\n",
            version.0
        );
        return Err(Exit { code: 0, stdout: String::new(), stderr: text });
    }
    Ok(given)
}

fn find(name: &str, version: Version) -> Option<&'static Flag> {
    let named = |flag: &&Flag| flag.names.contains(&name);
    let removed = |flag: &&Flag| flag.removed.is_some() && flag.until.is_some_and(|end| end <= version);
    FLAGS.iter().filter(named).find(|flag| flag.in_force(version) || removed(flag))
}

fn check(flag: &Flag, name: &str, value: &str) -> Result<(), Exit> {
    match flag.value {
        // C's stoi and stof read a leading number and ignore the rest.
        Value::Int if leading_number(value).is_none() => Err(bad_value(flag, name, "stoi")),
        Value::Float if leading_number(value).is_none() => Err(bad_value(flag, name, "stof")),
        Value::Choice(choices) if !choices.contains(&value) => {
            let why = match flag.key() {
                "--flash-attn" => format!("error: unknown value for --flash-attn: '{value}'\n"),
                "--cache-type-k" | "--cache-type-v" => format!("Unsupported cache type: {value}"),
                _ => "invalid value".to_owned(),
            };
            Err(bad_value(flag, name, &why))
        }
        _ => Ok(()),
    }
}

fn leading_number(text: &str) -> Option<f64> {
    (1..=text.len()).rev().find_map(|end| text.get(..end)?.parse().ok())
}

fn bad_value(flag: &Flag, name: &str, why: &str) -> Exit {
    let text = format!(
        "error while handling argument \"{name}\": {why}\n\nusage:\n{}\n\n\nto show complete usage, run with -h\n",
        usage(flag)
    );
    Exit::failure(1, text)
}

fn usage(flag: &Flag) -> String {
    if !flag.help.is_empty() {
        return flag.help.to_owned();
    }
    let value = if flag.value == Value::Switch { "" } else { " VALUE" };
    let env = flag.env.map(|name| format!("\n{:40}(env: {name})", "")).unwrap_or_default();
    format!("{}{value}{env}", flag.names.join(", "))
}

fn help(version: Version) -> String {
    let mut text = format!(
        "Engine simulator of gantry (not a real engine) with the flags of llama.cpp b{}.\n\n",
        version.0
    );
    let listed = |flag: &&Flag| {
        flag.in_force(version) || (flag.removed.is_some() && flag.until.is_some_and(|end| end <= version))
    };
    for flag in FLAGS.iter().filter(listed) {
        text.push_str(&usage(flag));
        text.push('\n');
    }
    text.push_str(crate::faults::HELP);
    text
}
