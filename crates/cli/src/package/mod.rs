//! `package`: exports, imports and restores by a gateway; and without one, and without a network, makes keys, signs packages,
//! verifies them and shows what is in them.

mod export;
mod import;
mod keys;
mod restore;
mod show;
mod verify;

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use gantry_package::{
    manifest::ManifestError,
    package::{OpenError, Package},
};

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    options::{aliased, flag, positional},
    output::Out,
    text::clean,
};

pub(crate) fn command() -> Command {
    aliased(Command::new("package"), "packages")
        .about("Deployment packages: exports and imports them, verifies, shows and signs them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            export::command(),
            import::command(),
            restore::command(),
            verify::command(),
            show::command(),
            keys::sign_command(),
            keys::key_command(),
        ])
        .after_help(
            "`export`, `import` and `restore` are done by the gateway, in its own folders. The other verbs need no gateway and no \
             network.",
        )
}

/// Returns whether a verb is done by a gateway.
pub(crate) fn asks_gateway(matches: &ArgMatches) -> bool {
    matches!(matches.subcommand_name(), Some("export" | "import" | "restore"))
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("export", sub)) => export::run(cx, sub).await,
        Some(("import", sub)) => import::run(cx, sub).await,
        Some(("restore", sub)) => restore::run(cx, sub).await,
        _ => Err(Failure::Usage("say `export`, `import` or `restore`".to_owned())),
    }
}

pub(crate) fn run_here(matches: &ArgMatches, out: &Out) -> Outcome<()> {
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

/// The folder of a package on the gateway's machine.
fn gateway_dir() -> Arg {
    positional(
        "DIR",
        "Folder of the package on the gateway's machine: relative to the first of its EXPORT_DIRS (`exports` in its data directory \
         unless set), or inside one of them",
    )
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
            OpenError::OtherBase { .. }
            | OpenError::NeedsNoBase
            | OpenError::MissingBase(_)
            | OpenError::TooManyBases => Failure::Usage(text),
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
