//! `orgs`: organisations with their limits and budgets.

use clap::{ArgMatches, Command};
use http::Method;
use serde_json::{Map, Value};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    limits,
    options::{aliased, flag, has, number, option, positional, positionals, text, texts},
    output::{Table, Tone},
    resolve::{WHICH, among, listed, most, org_id, search},
    several::each,
    terminal,
    text::cell,
};

pub(crate) fn command() -> Command {
    let org = || complete::orgs(positional("ORG", "Name or id"));
    let list = aliased(Command::new("list"), "ls").about("Lists organisations").args([
        option("search", "TEXT", "Only with this text in the name"),
        number("limit", "N", "At most this many (default: all)"),
    ]);
    let create = Command::new("create")
        .about("Creates an organisation")
        .arg(positional("NAME", "Name of the organisation"))
        .after_help(limits::EXPLAINED);
    let set = Command::new("set")
        .alias("change")
        .about("Changes an organisation: its name, its limits, whether it is enabled")
        .arg(org())
        .args([
            option("name", "NAME", "Its new name"),
            flag("disable", "Ends the sessions and keys of all its users at once").conflicts_with("enable"),
            flag("enable", "Lets them sign in again"),
        ])
        .after_help(limits::EXPLAINED);
    connected(aliased(Command::new("orgs").about("Organisations: list, create, change, delete"), "org"))
        .after_help(WHICH)
        .subcommand_required(true)
        .subcommands([
            list,
            Command::new("show").about("Shows an organisation with its limits and budgets").arg(org()),
            limits::options(create),
            limits::options(set),
            aliased(Command::new("delete"), "rm")
                .about("Deletes organisations with their users and keys; their usage stays")
                .arg(complete::orgs(positionals("ORG", "Name or id")))
                .arg(flag("yes", "Does not ask for confirmation")),
        ])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => {
            let mut body = Map::new();
            body.insert("name".to_owned(), text(sub, "NAME").into());
            limits::put(sub, &mut body);
            let org = cx.client.post("/admin/orgs", Some(&Value::Object(body))).await?.json;
            cx.out.either(&org, || cx.out.line(&format!("organisation {} made", cell(&org["id"]))))
        }
        Some(("show", sub)) => {
            let org = find(cx, text(sub, "ORG").unwrap_or_default()).await?;
            cx.out.either(&org, || show(cx, &org))
        }
        Some(("set", sub)) => set(cx, sub).await,
        Some(("delete", sub)) => {
            each(cx, &texts(sub, "ORG"), async |it| delete(cx, it, has(sub, "yes")).await).await
        }
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

/// Finds the record of an organisation by name or id.
async fn find(cx: &Cx, given: &str) -> Outcome<Value> {
    let id = org_id(cx, given).await?;
    let found = among(cx, "/admin/orgs", &[], |it| it["id"] == id).await?.pop();
    found.ok_or_else(|| Failure::NotFound(format!("there is no organisation {id}")))
}

async fn delete(cx: &Cx, given: &str, yes: bool) -> Outcome<()> {
    let org = find(cx, given).await?;
    let what = format!("organisation {} ({})", cell(&org["id"]), cell(&org["name"]));
    let with = format!("{} users and {} keys", cell(&org["user_count"]), cell(&org["key_count"]));
    terminal::confirm(yes, &what, &format!("with {with}"))?;
    let path = format!("/admin/orgs/{}", cell(&org["id"]));
    let answer = cx.client.call(Method::DELETE, &path, None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{what} is deleted, with {with}")))
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    if let Some(name) = text(matches, "name") {
        body.insert("name".to_owned(), name.into());
    }
    if has(matches, "enable") || has(matches, "disable") {
        body.insert("enabled".to_owned(), has(matches, "enable").into());
    }
    limits::put(matches, &mut body);
    if body.is_empty() {
        return Err(Failure::Usage("nothing to change: give an option such as --budget-day 5M".to_owned()));
    }
    let id = org_id(cx, text(matches, "ORG").unwrap_or_default()).await?;
    let path = format!("/admin/orgs/{id}");
    let org = cx.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?.json;
    cx.out.either(&org, || show(cx, &org))
}

fn show(cx: &Cx, org: &Value) -> Outcome<()> {
    cx.out.pairs(&[
        ("id", cell(&org["id"])),
        ("name", cell(&org["name"])),
        ("enabled", cell(&org["enabled"])),
        ("users", cell(&org["user_count"])),
        ("keys", cell(&org["key_count"])),
        ("limits", limits::line(org)),
        ("budget used", limits::used(org)),
        ("created", cx.out.time(&org["created_at"])),
    ])
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let (orgs, total) = listed(cx, "/admin/orgs", &search(matches), most(matches)).await?;
    let n_shown = orgs.len();
    let orgs = Value::Array(orgs);
    cx.out.either(&orgs, || {
        let mut table =
            Table::new(&["ID>", "NAME", "ENABLED", "USERS>", "KEYS>", "BUDGET USED", "LIMITS", "CREATED"]);
        for org in orgs.as_array().into_iter().flatten() {
            let enabled = if org["enabled"] == true { Tone::Plain } else { Tone::Bad };
            let used = if limits::warns(org) { Tone::Bad } else { Tone::Plain };
            table.toned([
                (cell(&org["id"]), Tone::Plain),
                (cell(&org["name"]), Tone::Plain),
                (cell(&org["enabled"]), enabled),
                (cell(&org["user_count"]), Tone::Plain),
                (cell(&org["key_count"]), Tone::Plain),
                (limits::used(org), used),
                (limits::line(org), Tone::Plain),
                (cx.out.time(&org["created_at"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })?;
    cx.out.more(n_shown, total, "organisations");
    Ok(())
}
