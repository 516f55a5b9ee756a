//! `gantry owner reset-password`: the way back for an owner who lost his password, on the database itself.

use std::{io::Write, process::ExitCode};

use anyhow::{Context, ensure};
use clap::ArgMatches;
use gantry_admin_api::{password::Passwords, recovery::Lost};
use gantry_domain::{
    Clock,
    audit::{Actor, Origin},
};
use gantry_settings::{BootstrapPassword, Settings, Value};
use gantry_store::Store;
use secrecy::{ExposeSecret, SecretString};

use crate::secrets;

/// What the row of the audit log has for a user agent.
const AGENT: &str = "gantry owner reset-password";

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (_, sub) = matches.subcommand().context("say `reset-password`")?;
    let settings = load(sub)?;
    let database = settings.database();
    let url = database.expose();
    let refused = "can't open the database";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = sub.get_one::<String>("username").map(String::as_str);
    let lost = runtime.block_on(async {
        // Makes nothing, and refuses any schema but this program's: bringing one up to date is a gateway's work.
        let store = Store::open_to_read(url).await.context(refused)?;
        let lost = Lost::find(&store, name).await.map_err(|it| anyhow::anyhow!(it.0.message));
        store.close().await;
        lost
    })?;
    let password = if sub.get_flag("generate") {
        secrets::random()
    } else {
        match gantry_cli::new_password(&format!("New password of {}: ", lost.username())) {
            Ok(given) => given,
            Err(exit) => return Ok(ExitCode::from(exit.code())),
        }
    };
    ensure!(
        BootstrapPassword::parse(password.expose_secret()).is_some(),
        "the new password must be {}",
        BootstrapPassword::ALLOWED
    );
    let n_sessions = runtime.block_on(async {
        let store = Store::open(url).await.context(refused)?;
        let by = (Actor::Settings, Origin { user_agent: Some(AGENT.to_owned()), ..Origin::default() });
        let done = lost.set(&store, &Passwords::default(), &password, by, Clock::default().now()).await;
        store.close().await;
        done.map_err(|it| anyhow::anyhow!(it.0.message))
    })?;
    say(&lost, n_sessions, sub.get_flag("generate").then_some(&password))
        .context("standard output is closed")?;
    Ok(ExitCode::SUCCESS)
}

/// A password that was made goes to standard output, alone, all else to standard error.
fn say(lost: &Lost, n_sessions: u64, made: Option<&SecretString>) -> std::io::Result<()> {
    let name = gantry_cli::harmless(lost.username());
    let mut err = std::io::stderr().lock();
    writeln!(err, "{name} has a new password; sessions that were ended: {n_sessions}")?;
    if !lost.may_sign_in {
        writeln!(err, "{name} can't sign in all the same: the account or its organisation is disabled")?;
    }
    if let Some(password) = made {
        writeln!(std::io::stdout(), "{}", password.expose_secret())?;
    }
    Ok(())
}
