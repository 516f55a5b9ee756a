//! `gantry supervisor`: shows which of several gateways on one Postgres acts on the models' containers, and lets
//! another one take over.

use std::{io::Write, process::ExitCode};

use anyhow::{Context, ensure};
use clap::ArgMatches;
use gantry_settings::Settings;
use gantry_store::{DatabaseKind, Store, Supervisor};

pub(crate) fn run(
    matches: &ArgMatches,
    load: impl FnOnce(&ArgMatches) -> anyhow::Result<Settings>,
) -> anyhow::Result<ExitCode> {
    let (name, sub) = matches.subcommand().context("say `show` or `release`")?;
    let settings = load(sub)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(async {
        ensure!(
            settings.database().expose().starts_with("postgres"),
            "a SQLite database belongs to one gateway: no other gateway can supervise its models"
        );
        let url = settings.database();
        // Refuses any schema but this program's. Only a gateway migrates a schema, because gateways of another version
        // may run on it.
        let refused = "can't open the database";
        let mut store = Store::open_to_read(url.expose()).await.context(refused)?;
        let text = match name {
            "release" => {
                store.close().await;
                store = Store::open(url.expose()).await.context(refused)?;
                release(&store, sub.get_flag("copy")).await
            }
            _ => show(&store).await,
        };
        store.close().await;
        text
    })?;
    writeln!(std::io::stdout(), "{text}").context("can't write the output")?;
    Ok(ExitCode::SUCCESS)
}

fn who(it: &Supervisor) -> String {
    let Some(who) = &it.who else { return "nobody yet".to_owned() };
    let since = it.since.map(|at| format!(", since {at}")).unwrap_or_default();
    format!(
        "{} ({}){since}",
        who.name,
        who.runtime.as_deref().unwrap_or("its container runtime is not known")
    )
}

async fn show(store: &Store) -> anyhow::Result<String> {
    debug_assert_eq!(store.kind(), DatabaseKind::Postgres);
    let mut tx = store.read().await?;
    let (it, is_claimed) = (tx.supervisor().await?, tx.is_claimed().await?);
    let now = if is_claimed { "supervises the models now" } else { "did so last; no gateway does now" };
    Ok(if it.who.is_none() {
        "no gateway has supervised the models yet".to_owned()
    } else {
        format!("{} {now}", who(&it))
    })
}

async fn release(store: &Store, is_copy: bool) -> anyhow::Result<String> {
    let mut tx = store.write().await?;
    let it = tx.supervisor().await?;
    ensure!(!tx.is_claimed().await?, "{} supervises the models now: stop that gateway first", who(&it));
    tx.release_supervisor().await?;
    let released = format!("released from {}: the next gateway supervises the models", who(&it));
    let text = if is_copy {
        let id = tx.renew_instance_id().await?;
        format!(
            "{released}\nthe database has an id of its own now, {id}: containers of the original are left alone"
        )
    } else {
        released
    };
    tx.commit().await?;
    Ok(text)
}
