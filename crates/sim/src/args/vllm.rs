//! Reads a `vllm serve` command line the way its argparse does: everything is read, unknown words
//! are collected, and a bad value ends the program with code 2.

use std::fmt::Write as _;

use super::vllm_flags::{FLAGS, block_sizes, hash_algorithms, kv_cache_dtypes, load_formats};
use super::{Exit, Flag, Given, Value};
use crate::flavour::Version;

const SERVE_USAGE: &str = "usage: vllm serve [model_tag] [options]\n";
const TOP_USAGE: &str = "usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}
            ...
";
const TASK_HINT: &str = "\nHint: --task is not a vllm serve option. For embedding, reranking, or reward models, \
     use --runner pooling. To adapt a generative model for pooling, also use --convert embed, --convert classify, \
     or --convert reward.\n";

/// A command line that was accepted.
#[derive(Debug)]
pub(crate) struct Command {
    pub model: Option<String>,
    pub given: Given,
}

/// Reads the words after `vllm`; a leading `serve` may be missing.
pub(crate) fn parse(args: &[String], version: Version) -> Result<Command, Exit> {
    let args = args.strip_prefix(&["serve".to_owned()][..]).unwrap_or(args);
    let mut command = Command { model: None, given: Given::default() };
    let mut unknown: Vec<&str> = Vec::new();
    let mut words = args.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if !is_option(word) {
            if command.model.is_none() && unknown.is_empty() {
                command.model = Some(word.to_owned());
            } else {
                unknown.push(word);
            }
            continue;
        }
        if matches!(word, "-O0" | "-O1" | "-O2" | "-O3") {
            continue;
        }
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        let Some((flag, negated)) = find(name, version) else {
            unknown.push(word);
            continue;
        };
        let mut values: Vec<&str> = Vec::new();
        let many = matches!(flag.value, Value::Texts | Value::Ints);
        match flag.value {
            Value::Switch | Value::Toggle => values.push(if negated { "false" } else { "true" }),
            _ if inline.is_some() => values.extend(inline),
            _ => {
                while let Some(next) = words.next_if(|next| !is_option(next) && (many || values.is_empty())) {
                    values.push(next);
                }
            }
        }
        if values.is_empty() {
            let want = if many { "at least one argument" } else { "one argument" };
            return Err(bad_value(flag, &format!("expected {want}")));
        }
        for value in &values {
            check(flag, value, version)?;
        }
        command.given.set(flag.key(), values.into_iter().map(str::to_owned).collect());
    }
    finish(command, &unknown, version)
}

fn finish(mut command: Command, unknown: &[&str], version: Version) -> Result<Command, Exit> {
    if command.given.has("--help") {
        return Err(Exit::success(help(version)));
    }
    if command.given.has("--version") {
        return Err(Exit::success(format!("{version}\n")));
    }
    if !unknown.is_empty() {
        let mut text = format!("{TOP_USAGE}vllm: error: unrecognized arguments: {}\n", unknown.join(" "));
        if unknown.contains(&"--task") {
            text.push_str(TASK_HINT);
        }
        return Err(Exit::failure(2, text));
    }
    if command.model.is_none() {
        command.model = command.given.one("--model").map(str::to_owned);
    }
    Ok(command)
}

/// Returns whether argparse takes the word for an option rather than a value: negative numbers are values.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err()
}

fn find(name: &str, version: Version) -> Option<(&'static Flag, bool)> {
    let dashed = if name.starts_with("--") { name.replace('_', "-") } else { name.to_owned() };
    // `--hf-overrides.key value` sets one key of a JSON option.
    let plain = dashed.split('.').next().unwrap_or(&dashed);
    let known =
        |wanted: &str| FLAGS.iter().find(|flag| flag.names.contains(&wanted) && flag.in_force(version));
    if let Some(flag) = known(plain) {
        return Some((flag, false));
    }
    let positive = format!("--{}", plain.strip_prefix("--no-")?);
    known(&positive).filter(|flag| flag.value == Value::Toggle).map(|flag| (flag, true))
}

fn check(flag: &Flag, value: &str, version: Version) -> Result<(), Exit> {
    let kv_types;
    let choices: Option<&[&str]> = match (flag.key(), flag.value) {
        ("--kv-cache-dtype", _) => {
            kv_types = kv_cache_dtypes(version);
            Some(&kv_types)
        }
        ("--prefix-caching-hash-algo", _) => Some(hash_algorithms(version)),
        ("--block-size", _) => block_sizes(version),
        ("--load-format", _) => load_formats(version),
        (_, Value::Choice(choices)) => Some(choices),
        _ => None,
    };
    if let Some(choices) = choices {
        if choices.contains(&value) {
            return Ok(());
        }
        let listed: Vec<String> = choices.iter().map(|choice| format!("'{choice}'")).collect();
        return Err(bad_value(
            flag,
            &format!("invalid choice: '{value}' (choose from {})", listed.join(", ")),
        ));
    }
    let (valid, kind) = match flag.value {
        Value::Int | Value::Ints => (value.parse::<i64>().is_ok(), "int"),
        Value::Float => (value.parse::<f64>().is_ok(), "float"),
        Value::Size => (size(value).is_some() || matches!(value, "auto" | "-1"), "human_readable_int"),
        _ => (true, ""),
    };
    if valid { Ok(()) } else { Err(bad_value(flag, &format!("invalid {kind} value: '{value}'"))) }
}

/// Parses `4096`, `4k` (decimal) or `4K` (binary).
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.chars().last()? {
        'k' => (&text[..text.len() - 1], 1_000.0),
        'm' => (&text[..text.len() - 1], 1e6),
        'g' => (&text[..text.len() - 1], 1e9),
        'K' => (&text[..text.len() - 1], 1024.0),
        'M' => (&text[..text.len() - 1], 1024.0 * 1024.0),
        'G' => (&text[..text.len() - 1], 1024.0 * 1024.0 * 1024.0),
        _ => return text.parse().ok(),
    };
    let number: f64 = digits.parse().ok()?;
    (number >= 0.0).then_some((number * factor) as u64)
}

fn bad_value(flag: &Flag, what: &str) -> Exit {
    Exit::failure(2, format!("{SERVE_USAGE}vllm serve: error: argument {}: {what}\n", flag.names.join("/")))
}

fn help(version: Version) -> String {
    let mut text = format!(
        "{SERVE_USAGE}\nEngine simulator of gantry (not a real engine) with the flags of vLLM {version}.\n\noptions:\n"
    );
    for flag in FLAGS.iter().filter(|flag| flag.in_force(version)) {
        let value = match flag.value {
            Value::Switch | Value::Toggle => String::new(),
            Value::Choice(choices) => format!(" {{{}}}", choices.join(",")),
            _ => format!(" {}", flag.key().trim_start_matches('-').replace('-', "_").to_uppercase()),
        };
        let negative = match flag.value {
            Value::Toggle => format!(", --no-{}", flag.key().trim_start_matches('-')),
            _ => String::new(),
        };
        let _ = writeln!(text, "  {}{negative}{value}", flag.names.join(", "));
    }
    text.push_str(crate::faults::HELP);
    text
}
