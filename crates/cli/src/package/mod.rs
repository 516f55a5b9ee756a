//! `package`: makes keys, signs packages, verifies them and shows what is in them; without a gateway and without a network.

mod keys;
mod show;
mod verify;

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use gantry_package::{
    manifest::ManifestError,
    package::{OpenError, Package},
};

use crate::{
    exit::{Failure, Outcome},
    options::{aliased, flag, positional},
    output::Out,
    text::clean,
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

/// Opens the package in the folder `dir`, with the packages that it is a difference to, the nearest first.
///
/// # Errors
/// [`Failure::NotFound`] if there is no package, [`Failure::Damaged`] if its manifest can't be used, [`Failure::Failed`] if
/// it can't be read or is of a newer format.
fn open(dir: &str, bases: &[&str]) -> Outcome<Package> {
    let refused = |error: OpenError| {
        let text = error.to_string();
        match error {
            OpenError::NoManifest(_) => Failure::NotFound(text),
            OpenError::Io { error, .. } if is_missing(&error) => Failure::NotFound(text),
            OpenError::Io { .. } | OpenError::Manifest(ManifestError::Newer(_)) => Failure::Failed(text),
            OpenError::OtherBase { .. } | OpenError::NeedsNoBase => Failure::Usage(text),
            OpenError::Incomplete(_) | OpenError::ChangedBase { .. } => Failure::Damaged(text),
            OpenError::Manifest(_) => Failure::Damaged(format!("{}: {text}", clean(dir))),
        }
    };
    let package = Package::open(Path::new(dir)).map_err(refused)?;
    match bases {
        [] => Ok(package),
        [base, further @ ..] => package.with_base(open(base, further)?).map_err(refused),
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}
