//! `package`: makes keys, signs packages, verifies them and shows what is in them; without a gateway and without a network.

mod keys;
mod open;
mod show;
mod verify;

use clap::{Arg, ArgMatches, Command};

use crate::{
    exit::{Failure, Outcome},
    options::{aliased, flag, positional},
    output::Out,
};

pub(crate) fn command() -> Command {
    aliased(Command::new("package"), "packages")
        .about("Deployment packages: verifies and shows them, signs them; needs no gateway and no network")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([verify::command(), show::command(), keys::sign_command(), keys::key_command()])
}

pub(crate) fn run(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    match matches.subcommand() {
        Some(("verify", sub)) => verify::run(sub, out),
        Some(("show", sub)) => show::run(sub, out),
        Some(("sign", sub)) => keys::sign(sub, out),
        Some(("key", sub)) => keys::key(sub, out),
        _ => Err(Failure::Usage("say `verify`, `show`, `sign` or `key`".to_owned())),
    }
}

/// The folder of a package, an argument of most verbs.
fn dir() -> Arg {
    positional("DIR", "Folder of the package")
}

fn json() -> Arg {
    flag("json", "Prints JSON for programs, errors too (on standard error)")
}
