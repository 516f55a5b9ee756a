//! Definitions of the verbs that work on the database itself, without a gateway: `backup`, `restore`, `db`, `upgrade`. They
//! run in the server's crate, which knows the database.

use std::path::PathBuf;

use clap::{Arg, ArgGroup, Command, value_parser};

use crate::{
    options::{flag, option},
    setting_args::reads_settings,
};

fn path(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn json() -> Arg {
    flag("json", "Prints JSON for programs")
}

/// All of them.
pub(crate) fn commands() -> [Command; 4] {
    [backup(), restore(), db(), upgrade()]
}

fn backup() -> Command {
    let backup = Command::new("backup")
        .about("Copies the database and the secrets into a folder; the gateway may be running")
        .arg(path("DIR", "Folder for the copy; it is created, or must be empty"))
        .after_help(
            "Run it with the settings of the gateway, as its user. SQLite is copied to gantry.db; of Postgres a dump is \
             written to db/dump.sql, read back and compared. `gantry restore DIR` reads both. Anyone who can read the folder \
             can sign sessions and call engines. See docs/backup.md.",
        );
    reads_settings(backup)
}

fn restore() -> Command {
    let restore = Command::new("restore")
        .about("Replaces the database by a backup, a package's or a dump; the gateway is stopped")
        .args([
            path("PATH", "Folder of a backup or of a package, or a file: a dump, or a SQLite database of Gantry"),
            Arg::new("base")
                .long("base")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Folder of the base package, if PATH is the package of a difference"),
            flag("dry-run", "Proves that it can be restored, in a scratch file, and changes nothing; the gateway may be running"),
            flag("no-backup", "Postgres: writes no dump of the database as it is now"),
            flag("yes", "Does not ask"),
            json(),
        ])
        .after_help(
            "Run it with the settings of the gateway, as its user. The dump is loaded into a scratch database and proven: numbers \
             of rows, foreign keys, sums of tokens, the audit log, and an owner who can sign in. Only then it takes the \
             database's place, as a whole. The old SQLite file is kept beside it; of Postgres a dump is written to \
             DATA_DIR/backups first. Everybody has to sign in again. For a gateway that runs there is `gantry package restore`. \
             See docs/backup.md.",
        );
    reads_settings(restore)
}

fn db() -> Command {
    let promote = Command::new("promote")
        .about("Copies the database into another one: from SQLite to Postgres, or back; the gateway must be stopped")
        .args([
            option("to", "URL", "The new database: postgres://… or sqlite:///path; it must not have users yet"),
            Arg::new("to-file")
                .long("to-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("File with that address, which keeps its password out of the list of processes"),
            json(),
        ])
        .group(ArgGroup::new("target").args(["to", "to-file"]).required(true))
        .after_help(
            "Run it with the settings of the gateway, as its user. The old database is only read. The new one is proven to have the \
             same rows, and its secrets stay encrypted with the keys in DATA_DIR/secrets. At the end the setting is printed that \
             makes the gateway use it.",
        );
    Command::new("db")
        .about("The database: moves it from SQLite to Postgres, or back")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(reads_settings(promote))
}

fn upgrade() -> Command {
    let check = Command::new("check")
        .about("Says what the next start of this program would do to the database, and what would be in its way")
        .arg(json())
        .after_help(
            "Run the new program with the settings of the gateway, as its user, before it replaces the old one; the gateway may be \
             running. Nothing is changed. The exit code is 0 if nothing is in the way, and 1 otherwise.",
        );
    Command::new("upgrade")
        .about("Upgrades: checks what a start with this version would do")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(reads_settings(check))
}
