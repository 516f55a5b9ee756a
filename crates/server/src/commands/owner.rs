//! `gantry owner`: makes the first owner, and resets an owner's lost password. Works directly on the database.

use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use clap::ArgMatches;
use gantry_admin_api::{
    bootstrap::{FirstOwner, create_owner},
    password::Passwords,
    recovery::Lost,
};
use gantry_domain::{
    Clock,
    audit::{Actor, Origin},
};
use gantry_settings::{BootstrapPassword, Settings, Value};
use gantry_store::Store;
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::{Builder, Runtime};

use crate::{account, secrets};

const NO_DATABASE: &str = "can't open the database";
/// Largest part of a password file that is read, in bytes.
const MAX_FILE: u64 = 4096;

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (verb, sub) = matches.subcommand().context("say `create` or `reset-password`")?;
    let settings = load(sub)?;
    // Read first: the file may be root's, and root may become another user for the database.
    let file = sub.try_get_one::<PathBuf>("password-file").ok().flatten();
    let given = file.map(|it| from_file(it)).transpose()?;
    account::enter(&settings)?;
    let database = settings.database();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    match verb {
        "create" => create(sub, database.expose(), given, &runtime),
        _ => reset_password(sub, database.expose(), &runtime),
    }
}

/// Returns the actor and origin for the audit log.
fn by(agent: &str) -> (Actor, Origin) {
    (Actor::Settings, Origin { user_agent: Some(agent.to_owned()), ..Origin::default() })
}

fn create(
    matches: &ArgMatches,
    url: &str,
    given: Option<SecretString>,
    runtime: &Runtime,
) -> anyhow::Result<ExitCode> {
    let text = |name| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let (username, org_name) = (text("NAME"), text("org"));
    let there_is = "there is an owner already, who can create others (`gantry users create NAME --role owner`); `gantry \
    owner reset-password` sets a lost password";
    // Checked before the password prompt. Opening to read creates nothing, and refuses any schema but this program's.
    let any = runtime.block_on(async {
        let store = Store::open_to_read(url).await.with_context(|| {
            format!("{NO_DATABASE}; the first start of the gateway (`gantry serve`) creates it")
        })?;
        let any = store.read().await?.any_owner().await?;
        store.close().await;
        Ok::<_, anyhow::Error>(any)
    })?;
    ensure!(!any, there_is);
    let password = match given {
        Some(given) => given,
        None => {
            match gantry_cli::new_password(&format!("Password of {}: ", gantry_cli::harmless(username))) {
                Ok(given) => given,
                Err(exit) => return Ok(ExitCode::from(exit.code())),
            }
        }
    };
    check(&password)?;
    let made = runtime.block_on(async {
        let store = Store::open(url).await.context(NO_DATABASE)?;
        let first = FirstOwner { username, password: &password, org_name };
        let now = Clock::default().now();
        let made = create_owner(&store, &Passwords::default(), first, by("gantry owner create"), now).await;
        store.close().await;
        made.map_err(|it| anyhow::anyhow!(it.0.message))
    })?;
    ensure!(made.is_some(), there_is);
    let (username, org_name) = (gantry_cli::harmless(username), gantry_cli::harmless(org_name));
    gantry_cli::tell(&format!(
        "{username} is the owner now, in the organisation {org_name}: `gantry login {username}` signs in\n"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Reads the password from a file, without the line end.
fn from_file(path: &Path) -> anyhow::Result<SecretString> {
    let refused = || format!("can't read the password from {}", path.display());
    let mut text = String::new();
    File::open(path).with_context(refused)?.take(MAX_FILE).read_to_string(&mut text).with_context(refused)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned().into())
}

fn check(password: &SecretString) -> anyhow::Result<()> {
    let acceptable = BootstrapPassword::parse(password.expose_secret()).is_some();
    ensure!(acceptable, "the new password must be {}", BootstrapPassword::ALLOWED);
    Ok(())
}

fn reset_password(matches: &ArgMatches, url: &str, runtime: &Runtime) -> anyhow::Result<ExitCode> {
    let name = matches.get_one::<String>("username").map(String::as_str);
    let lost = runtime.block_on(async {
        // Opening to read creates nothing, and refuses any schema but this program's: only a gateway migrates a
        // schema.
        let store = Store::open_to_read(url).await.context(NO_DATABASE)?;
        let lost = Lost::find(&store, name).await.map_err(|it| anyhow::anyhow!(it.0.message));
        store.close().await;
        lost
    })?;
    let generate = matches.get_flag("generate");
    let password = if generate {
        secrets::random()
    } else {
        let name = gantry_cli::harmless(lost.username());
        match gantry_cli::new_password(&format!("New password of {name}: ")) {
            Ok(given) => given,
            Err(exit) => return Ok(ExitCode::from(exit.code())),
        }
    };
    check(&password)?;
    let n_sessions = runtime.block_on(async {
        let store = Store::open(url).await.context(NO_DATABASE)?;
        let (passwords, now) = (Passwords::default(), Clock::default().now());
        let done = lost.set(&store, &passwords, &password, by("gantry owner reset-password"), now).await;
        store.close().await;
        done.map_err(|it| anyhow::anyhow!(it.0.message))
    })?;
    say(&lost, n_sessions, generate.then_some(&password)).context("can't write the output")?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the result. A generated password goes to standard output, alone; everything else goes to standard error.
fn say(lost: &Lost, n_sessions: u64, made: Option<&SecretString>) -> std::io::Result<()> {
    let name = gantry_cli::harmless(lost.username());
    gantry_cli::tell(&format!("{name} has a new password; sessions that were ended: {n_sessions}\n"));
    if !lost.may_sign_in {
        gantry_cli::tell(&format!(
            "{name} still can't sign in: the account or its organisation is disabled\n"
        ));
    }
    if let Some(password) = made {
        writeln!(std::io::stdout(), "{}", password.expose_secret())?;
    }
    Ok(())
}
