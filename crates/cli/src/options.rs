//! Builders of options and arguments, and readers of their values.

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};

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

pub(crate) fn positional(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).value_name(name).required(true).help(help)
}

/// One or several of the same.
pub(crate) fn positionals(name: &'static str, help: &'static str) -> Arg {
    positional(name, help).num_args(1..)
}

/// Adds a second name, such as `ls` or the singular of a group. The second names are hidden: the help of the program
/// mentions them once, and shell completion would offer them instead of the verb.
pub(crate) fn aliased(command: Command, other: &'static str) -> Command {
    command.alias(other)
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
