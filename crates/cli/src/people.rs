//! `orgs` and `users`.

use clap::{ArgMatches, Command};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::{
    Cx,
    args::{connected, int, number, one_of, option, place, text},
    exit::{Failure, Outcome},
    http::query,
    out::{Table, cell, clean},
    roles, sign_in,
};

const MAX_ROWS: i64 = 1000;

pub(crate) fn orgs_command() -> Command {
    let list = Command::new("list")
        .about("Lists organisations")
        .args([option("search", "TEXT", "With this in their name"), number("limit", "N", "At most so many")]);
    let create =
        Command::new("create").about("Makes an organisation").arg(place("NAME", "Name of the organisation"));
    connected(Command::new("orgs").about("Organisations: list, create"))
        .subcommand_required(true)
        .subcommands([list, create])
}

pub(crate) fn users_command() -> Command {
    let list = Command::new("list").about("Lists users").args([
        option("org", "NAME", "Of this organisation (name or id)"),
        one_of("role", roles(), "With this role"),
        option("search", "TEXT", "With this in their name"),
        number("limit", "N", "At most so many"),
    ]);
    let create = Command::new("create")
        .about("Makes a user")
        .arg(place("NAME", "User name"))
        .args([
            one_of("role", roles(), "What the user may do; `user` unless given"),
            option("org", "NAME", "The organisation (name or id); yours unless given"),
        ])
        .after_help(
            "The new password is asked for without showing it, or taken from GANTRY_NEW_PASSWORD, or read from standard input \
             where that is no terminal.",
        );
    connected(Command::new("users").about("Users: list, create"))
        .subcommand_required(true)
        .subcommands([list, create])
}

pub(crate) async fn orgs(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => {
            let body = json!({ "name": text(sub, "NAME") });
            let org = cx.client.post("/admin/orgs", Some(&body)).await?.json;
            cx.out.either(&org, || cx.out.line(&format!("organisation {} made", cell(&org["id"]))))
        }
        Some((_, sub)) => {
            let answer = cx.client.get(&format!("/admin/orgs{}", query(&window(sub)))).await?;
            cx.out.either(&answer.json, || {
                let mut table = Table::new(&["ID>", "NAME", "ENABLED", "USERS>", "KEYS>", "CREATED"]);
                for org in answer.list() {
                    table.row([
                        cell(&org["id"]),
                        cell(&org["name"]),
                        cell(&org["enabled"]),
                        cell(&org["user_count"]),
                        cell(&org["key_count"]),
                        cx.out.time(&org["created_at"]),
                    ]);
                }
                cx.out.table(&table)
            })
        }
        None => Ok(()),
    }
}

pub(crate) async fn users(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => create_user(cx, sub).await,
        Some((_, sub)) => {
            let mut pairs = window(sub);
            if let Some(org) = text(sub, "org") {
                pairs.push(("org_id", org_id(cx, org).await?.to_string()));
            }
            if let Some(role) = text(sub, "role") {
                pairs.push(("role", role.to_owned()));
            }
            let answer = cx.client.get(&format!("/admin/users{}", query(&pairs))).await?;
            cx.out.either(&answer.json, || {
                let mut table =
                    Table::new(&["ID>", "USER", "ROLE", "ORGANISATION", "ENABLED", "LAST SIGN-IN"]);
                for user in answer.list() {
                    table.row([
                        cell(&user["id"]),
                        cell(&user["username"]),
                        cell(&user["role"]),
                        cell(&user["org_name"]),
                        cell(&user["enabled"]),
                        cx.out.time(&user["last_login_at"]),
                    ]);
                }
                cx.out.table(&table)
            })
        }
        None => Ok(()),
    }
}

async fn create_user(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    body.insert("username".to_owned(), json!(text(matches, "NAME")));
    if let Some(role) = text(matches, "role") {
        body.insert("role".to_owned(), role.into());
    }
    if let Some(org) = text(matches, "org") {
        body.insert("org_id".to_owned(), org_id(cx, org).await?.into());
    }
    let password = sign_in::password("GANTRY_NEW_PASSWORD", "Password of the new user: ")?;
    body.insert("password".to_owned(), password.expose_secret().into());
    let user = cx.client.post("/admin/users", Some(&Value::Object(body))).await?.json;
    cx.out.either(&user, || {
        let (role, org) = (cell(&user["role"]), clean(&cell(&user["org_name"])));
        cx.out.line(&format!("user {} made: {role} in {org}", cell(&user["id"])))
    })
}

fn window(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("limit", int(matches, "limit").unwrap_or(MAX_ROWS).min(MAX_ROWS).to_string())];
    if let Some(words) = text(matches, "search") {
        pairs.push(("q", words.to_owned()));
    }
    pairs
}

/// The organisation of this name, else of this id.
pub(crate) async fn org_id(cx: &Cx, given: &str) -> Outcome<i64> {
    lookup(cx, "/admin/orgs/lookup", "name", "organisation", given).await
}

/// The user of this name, else of this id.
pub(crate) async fn user_id(cx: &Cx, given: &str) -> Outcome<i64> {
    lookup(cx, "/admin/users/lookup", "username", "user", given).await
}

/// Entries of one answer.
const LOOKUP: usize = 1000;

async fn lookup(cx: &Cx, path: &str, field: &str, what: &str, given: &str) -> Outcome<i64> {
    let mut list = Vec::new();
    loop {
        let answer = cx.client.get(&format!("{path}?limit={LOOKUP}&offset={}", list.len())).await?;
        let window = answer.list();
        list.extend_from_slice(window);
        if window.len() < LOOKUP {
            break;
        }
    }
    let same = |it: &&Value| it[field].as_str().is_some_and(|name| name == given);
    // Names are compared without regard to case only where nothing is exactly the same.
    let alike =
        |it: &&Value| it[field].as_str().is_some_and(|name| name.to_lowercase() == given.to_lowercase());
    let by_id = |it: &&Value| given.parse::<i64>().is_ok_and(|id| it["id"] == id);
    let found =
        list.iter().find(same).or_else(|| list.iter().find(alike)).or_else(|| list.iter().find(by_id));
    let id = found.and_then(|it| it["id"].as_i64());
    id.ok_or_else(|| Failure::NotFound(format!("there is no {what} `{}`", clean(given))))
}
