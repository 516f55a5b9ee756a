//! `package restore`: replaces the database of a gateway that runs by the dump of a package.

use std::io::{self, IsTerminal};

use clap::{ArgMatches, Command};
use serde_json::{Value, json};

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    jobs,
    options::{flag, has, option, text},
    terminal,
    text::{bytes, cell},
};

pub(super) fn command() -> Command {
    connected(Command::new("restore").about("Replaces the database of a gateway that runs by that of a package"))
        .args([
            super::gateway_dir(),
            option("file", "FILE", "The dump, relative to DIR (default: db/dump.sql); dumps of `pg_dump` are read as well"),
            option("base", "DIR", "The folder of its base package, for a difference"),
            flag("drop-existing", "Replaces a database that has users: what is in it is deleted"),
            flag("no-backup", "Writes no dump of the database as it is"),
            flag("dry-run", "Only says whether the dump can be restored"),
            flag("yes", "Does not ask"),
        ])
        .after_help(format!(
            "The dump is proven in a scratch database first; until it takes the database's place, in one transaction, nothing is \
             changed. The database as it was goes to db/pre_restore_backup in DIR. Everybody is signed out, also you. For a gateway \
             that can't start there is `gantry restore`. {}",
            jobs::ENDS
        ))
}

pub(super) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = json!({ "output_dir": text(matches, "DIR") });
    if let Some(file) = text(matches, "file") {
        body["db_file"] = json!(file);
    }
    if let Some(base) = text(matches, "base") {
        body["base_dir"] = json!(base);
    }
    let check = "/admin/deployment/check-database-dump";
    let dump = cx.client.patient_call(http::Method::POST, check, Some(&body)).await?.json;
    let valid = dump["valid"] == true;
    if !cx.out.json() || has(matches, "dry-run") {
        cx.out.either(&dump, || show(cx, &dump))?;
    }
    if !valid {
        let why: Vec<_> = dump["problems"].as_array().into_iter().flatten().map(cell).collect();
        return Err(Failure::Failed(format!("the dump can't be restored: {}", why.join("; "))));
    }
    if has(matches, "dry-run") {
        return Ok(());
    }
    agree(cx, matches).await?;
    body["drop_existing"] = json!(has(matches, "drop-existing"));
    body["backup_first"] = json!(!has(matches, "no-backup"));
    let job = cx.client.post("/admin/deployment/restore-database", Some(&body)).await?.json;
    jobs::follow(cx, job).await
}

fn show(cx: &Cx, dump: &Value) -> Outcome<()> {
    let rows = |table: &str| dump["tables"][table].as_u64().unwrap_or(0);
    cx.out.pairs(&[
        ("dump", cell(&dump["path"])),
        ("size", dump["size_bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes)),
        ("written", format!("{} by {}", cell(&dump["created_at"]), cell(&dump["kind"]))),
        ("schema", format!("version {}", cell(&dump["schema_version"]))),
        (
            "rows",
            format!(
                "users {}, models {}, keys {}, usage {}, audit log {}",
                rows("users"),
                rows("models"),
                rows("api_keys"),
                rows("usage"),
                rows("audit")
            ),
        ),
    ])?;
    for warning in dump["warnings"].as_array().into_iter().flatten() {
        cx.out.warn(&cell(warning));
    }
    Ok(())
}

/// Asks for the address of the gateway, so that nobody replaces the database of another one than they mean.
async fn agree(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    if has(matches, "yes") {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "nothing was restored: there is no terminal to ask at; --yes does it without a question"
                .to_owned(),
        ));
    }
    let total = async |path: &str| -> Outcome<String> {
        Ok(cx
            .client
            .get(path)
            .await?
            .total()
            .map_or_else(|| "an unknown number".to_owned(), |it| it.to_string()))
    };
    let (users, models) = (total("/admin/users?limit=1").await?, total("/admin/models?limit=1").await?);
    let url = cx.client.gateway.url();
    let host = url.split_once("://").map_or(url.as_str(), |it| it.1);
    let ends = if has(matches, "no-backup") { "is deleted for ever" } else { "is backed up first" };
    cx.out.note(&format!(
        "This replaces the whole database of {url}, which has users: {users}, models: {models}. It {ends}, and everybody is signed \
         out."
    ));
    if terminal::ask(&format!("Type {host} to go on: "))?.trim() == host {
        return Ok(());
    }
    Err(Failure::Failed("nothing was restored".to_owned()))
}
