//! `users`: people who can sign in.

use clap::{Arg, ArgMatches, Command};
use gantry_domain::Role;
use http::Method;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    limits,
    options::{aliased, flag, has, int, many, number, one_of, option, positional, positionals, text, texts},
    output::{Table, Tone},
    resolve::{WHICH, among, listed, most, org_id, search, user, user_id},
    several::each,
    sign_in, terminal,
    text::cell,
};

/// Words that `--role` takes.
fn roles() -> [&'static str; 4] {
    [Role::User, Role::OrgAdmin, Role::Admin, Role::Owner].map(Role::as_str)
}

fn model() -> Arg {
    complete::models(many("model", "SERVED_NAME", "May call only this model; can be given several times"))
}

fn hours() -> Arg {
    number("hours", "N", "The link works for this long, at most 168 (default: 72)")
}

fn invitation() -> [Arg; 2] {
    let invite = flag("invite", "Sets no password, and prints a link with which the user sets one");
    [invite.conflicts_with_all(["password-file", "disabled"]), hours().requires("invite")]
}

fn link_command(user: Arg) -> Command {
    Command::new("password-link")
        .about("Prints a link with which a user sets a new password, once")
        .arg(user)
        .arg(hours())
        .after_help(
            "The present password works until the link is used. A new link takes the place of the user's earlier one. \
             Anybody who has the link can sign in as the user: hand it to nobody else.",
        )
}

fn delete_command() -> Command {
    aliased(Command::new("delete"), "rm")
        .about("Deletes users with their keys; their usage stays")
        .arg(complete::users(positionals("USER", "Name or id")))
        .arg(flag("yes", "Does not ask for confirmation"))
}

pub(crate) fn command() -> Command {
    let user = || complete::users(positional("USER", "Name or id"));
    let password = format!(
        "{} The new password comes from GANTRY_NEW_PASSWORD, or from standard input if that is not a terminal; otherwise \
         you are asked for it twice, and it is not shown.",
        limits::EXPLAINED
    );
    let list = aliased(Command::new("list"), "ls").about("Lists users").args([
        complete::orgs(option("org", "NAME", "Only of this organisation (name or id)")),
        one_of("role", roles(), "Only with this role"),
        option("search", "TEXT", "Only with this text in the name"),
        number("limit", "N", "At most this many (default: all)"),
    ]);
    let create = Command::new("create")
        .about("Creates a user")
        .arg(positional("NAME", "User name"))
        .args([
            one_of("role", roles(), "What the user may do (default: `user`)"),
            complete::orgs(option("org", "NAME", "The organisation (name or id; default: yours)")),
            flag("disabled", "Can't sign in until `users set --enable`").alias("disable"),
            model(),
            sign_in::password_file(),
        ])
        .args(invitation())
        .after_help(password.clone());
    let set = Command::new("set")
        .alias("change")
        .about("Changes a user; every change but a new name ends their sessions at once")
        .arg(user())
        .args([
            option("name", "NAME", "The new user name"),
            one_of("role", roles(), "What the user may do"),
            complete::orgs(option(
                "org",
                "NAME",
                "Moves the user and their keys to this organisation (name or id)",
            )),
            flag("password", "Sets a new password"),
            flag("disable", "Ends their sessions and keys").alias("disabled").conflicts_with("enable"),
            flag("enable", "Lets them sign in again"),
            model(),
            flag("all-models", "May call every model").conflicts_with("model"),
        ])
        .after_help(password);
    connected(aliased(
        Command::new("users").about("Users: list, show, create, invite, change, delete"),
        "user",
    ))
    .after_help(WHICH)
    .subcommand_required(true)
    .subcommands([
        list,
        Command::new("show").about("Shows a user with their limits and budgets").arg(user()),
        limits::options(create),
        limits::options(set),
        link_command(user()),
        delete_command(),
    ])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("show", sub)) => {
            let id = user_id(cx, text(sub, "USER").unwrap_or_default()).await?;
            let found = among(cx, "/admin/users", &[], |it| it["id"] == id).await?.pop();
            let user = found.ok_or_else(|| Failure::NotFound(format!("there is no user {id}")))?;
            cx.out.either(&user, || details(cx, &user))
        }
        Some(("create", sub)) => create(cx, sub).await,
        Some(("set", sub)) => set(cx, sub).await,
        Some(("password-link", sub)) => {
            let (id, name) = user(cx, text(sub, "USER").unwrap_or_default()).await?;
            let link = password_link(cx, id, sub).await?;
            cx.out.either(&link, || show_link(cx, &name, &link))
        }
        Some(("delete", sub)) => {
            each(cx, &texts(sub, "USER"), async |it| delete(cx, it, has(sub, "yes")).await).await
        }
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

async fn delete(cx: &Cx, given: &str, yes: bool) -> Outcome<()> {
    let (id, name) = user(cx, given).await?;
    let what = format!("user {id} ({name})");
    terminal::confirm(yes, &what, "with all keys")?;
    let answer = cx.client.call(Method::DELETE, &format!("/admin/users/{id}"), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{what} is deleted")))
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = search(matches);
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(role) = text(matches, "role") {
        pairs.push(("role", role.to_owned()));
    }
    let (users, total) = listed(cx, "/admin/users", &pairs, most(matches)).await?;
    let n_shown = users.len();
    let users = Value::Array(users);
    cx.out.either(&users, || {
        let mut table = Table::new(&["ID>", "USER", "ROLE", "ORGANISATION", "ENABLED", "LAST SIGN-IN"]);
        for user in users.as_array().into_iter().flatten() {
            let enabled = if user["enabled"] == true { Tone::Plain } else { Tone::Bad };
            table.toned([
                (cell(&user["id"]), Tone::Plain),
                (cell(&user["username"]), Tone::Plain),
                (cell(&user["role"]), Tone::Plain),
                (cell(&user["org_name"]), Tone::Plain),
                (cell(&user["enabled"]), enabled),
                (cx.out.time(&user["last_login_at"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })?;
    cx.out.more(n_shown, total, "users");
    Ok(())
}

async fn create(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    body.insert("username".to_owned(), json!(text(matches, "NAME")));
    if let Some(role) = text(matches, "role") {
        body.insert("role".to_owned(), role.into());
    }
    if let Some(org) = text(matches, "org") {
        body.insert("org_id".to_owned(), org_id(cx, org).await?.into());
    }
    if has(matches, "disabled") {
        body.insert("enabled".to_owned(), false.into());
    }
    put_bounds(matches, &mut body);
    if has(matches, "invite") {
        return invite(cx, matches, body).await;
    }
    let password = match sign_in::password_in_file(matches)? {
        Some(password) => password,
        None => sign_in::new_password("Password of the new user: ")?,
    };
    body.insert("password".to_owned(), password.expose_secret().into());
    let user = cx.client.post("/admin/users", Some(&Value::Object(body))).await?.json;
    cx.out.either(&user, || cx.out.line(&format!("user {} made: {}", cell(&user["id"]), summary(&user))))
}

/// Makes a user without a password, and a link with which the user sets one.
async fn invite(cx: &Cx, matches: &ArgMatches, body: Map<String, Value>) -> Outcome<()> {
    let mut user = cx.client.post("/admin/users", Some(&Value::Object(body))).await?.json;
    let link = password_link(cx, user["id"].as_i64().unwrap_or_default(), matches).await?;
    let name = cell(&user["username"]);
    user["password_link"] = link.clone();
    cx.out.either(&user, || {
        cx.out.note(&format!("user {} made: {}", cell(&user["id"]), summary(&user)));
        show_link(cx, &name, &link)
    })
}

/// Makes a link for the user. Adds its whole address, as this program calls the gateway.
async fn password_link(cx: &Cx, id: i64, matches: &ArgMatches) -> Outcome<Value> {
    let body = int(matches, "hours").map_or_else(|| json!({}), |hours| json!({ "hours": hours }));
    let path = format!("/admin/users/{id}/password-link");
    let mut link = cx.client.post(&path, Some(&body)).await?.json;
    let (url, path) = (cx.client.gateway.url(), cell(&link["path"]));
    link["url"] = format!("{}{path}", url.trim_end_matches('/')).into();
    Ok(link)
}

/// Prints the link alone on standard output.
fn show_link(cx: &Cx, name: &str, link: &Value) -> Outcome<()> {
    let until = cx.out.time(&link["expires_at"]);
    cx.out.note(&format!("link for {name} until {until}; it works once and is not shown again"));
    cx.out.line(&cell(&link["url"]))
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    for (option, field) in [("name", "username"), ("role", "role")] {
        if let Some(value) = text(matches, option) {
            body.insert(field.to_owned(), value.into());
        }
    }
    if let Some(org) = text(matches, "org") {
        body.insert("org_id".to_owned(), org_id(cx, org).await?.into());
    }
    if has(matches, "enable") || has(matches, "disable") {
        body.insert("enabled".to_owned(), has(matches, "enable").into());
    }
    put_bounds(matches, &mut body);
    let id = user_id(cx, text(matches, "USER").unwrap_or_default()).await?;
    if has(matches, "password") {
        let password = sign_in::new_password("New password: ")?;
        body.insert("password".to_owned(), password.expose_secret().into());
    }
    if body.is_empty() {
        return Err(Failure::Usage("nothing to change: give an option such as --role admin".to_owned()));
    }
    let path = format!("/admin/users/{id}");
    let user = cx.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?.json;
    cx.out.either(&user, || cx.out.line(&format!("user {id} is {}", summary(&user))))
}

/// Puts the limits and models that are given into a request body.
fn put_bounds(matches: &ArgMatches, body: &mut Map<String, Value>) {
    limits::put(matches, body);
    let models = texts(matches, "model");
    if has(matches, "all-models") {
        body.insert("models".to_owned(), Value::Null);
    } else if !models.is_empty() {
        body.insert("models".to_owned(), json!(models));
    }
}

fn details(cx: &Cx, user: &Value) -> Outcome<()> {
    cx.out.pairs(&[
        ("id", cell(&user["id"])),
        ("name", cell(&user["username"])),
        ("role", cell(&user["role"])),
        ("organisation", cell(&user["org_name"])),
        ("enabled", cell(&user["enabled"])),
        ("models", if user["models"].is_null() { "all".to_owned() } else { cell(&user["models"]) }),
        ("limits", limits::line(user)),
        ("budget used", limits::used(user)),
        ("created", cx.out.time(&user["created_at"])),
        ("last sign-in", cx.out.time(&user["last_login_at"])),
    ])
}

fn summary(user: &Value) -> String {
    let off = if user["enabled"] == false { ", disabled" } else { "" };
    let [name, role, org] = ["username", "role", "org_name"].map(|it| cell(&user[it]));
    format!("{name}, {role} in {org}{off}")
}
