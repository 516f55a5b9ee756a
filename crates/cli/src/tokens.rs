//! `tokens`: tokens for the admin API, so that scripts need nobody's password.

use clap::{ArgMatches, Command};
use http::Method;
use serde_json::{Map, Value};

use crate::{
    complete,
    cx::Cx,
    exit::Outcome,
    gateway_options::connected,
    named::{Noun, named},
    options::{aliased, flag, has, number, option, positional, positionals, text, texts},
    output::{Table, Tone},
    resolve::{listed, most, user_id},
    several::each,
    text::cell,
    times::ahead,
};

/// The caller's own tokens.
const OWN: &str = "/auth/tokens";
/// Tokens of every user whom the caller manages.
const ALL: &str = "/admin/tokens";

pub(crate) fn command() -> Command {
    let all = || flag("all", "Tokens of everyone whom you manage");
    let list = aliased(Command::new("list"), "ls").about("Lists your tokens").args([
        all(),
        complete::users(option("user", "NAME", "Tokens of this user (name or id)")),
        number("limit", "N", "At most this many (default: all)"),
    ]);
    let create = Command::new("create")
        .about("Creates a token for the admin API and prints it; it is not shown again")
        .arg(positional("NAME", "What it is for"))
        .args([
            option("scopes", "LIST", "What it may do, such as models:read,usage:read; `*:read` reads everything")
                .required(true),
            option("expires", "TIME", "Expires at an RFC 3339 time, or after a span such as 12h, 30d, 8w (default: 90d)"),
        ])
        .after_help(
            "It has the role that you have at the time of each request, limited to its scopes. A scope is AREA:read or\n\
             AREA:write; a wrong one is answered with the list of areas. It can't sign in, make tokens, or call models.\n\
             The token alone goes to standard output:\n  \
             GANTRY_TOKEN=$(gantry tokens create nightly --scopes usage:read --expires 30d)",
        );
    let revoke = aliased(Command::new("revoke"), "rm")
        .about("Revokes tokens; they stop working at once")
        .arg(complete::tokens(positionals("TOKEN", "Id, prefix or name of the token, as the list shows it")))
        .arg(all());
    connected(aliased(
        Command::new("tokens").about("Tokens for the admin API: list, create, revoke"),
        "token",
    ))
    .subcommand_required(true)
    .subcommands([list, create, revoke])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => create(cx, sub).await,
        Some(("revoke", sub)) => {
            let base = if has(sub, "all") { ALL } else { OWN };
            each(cx, &texts(sub, "TOKEN"), async |it| revoke(cx, base, it).await).await
        }
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = Vec::new();
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    let base = if has(matches, "all") || !pairs.is_empty() { ALL } else { OWN };
    let (tokens, total) = listed(cx, base, &pairs, most(matches)).await?;
    let n_shown = tokens.len();
    let tokens = Value::Array(tokens);
    cx.out.either(&tokens, || {
        let heads = ["ID>", "PREFIX", "NAME", "USER", "SCOPES", "STATUS", "EXPIRES", "LAST USED"];
        let mut table = Table::new(&heads).sparing(&["USER", "PREFIX"]);
        for token in tokens.as_array().into_iter().flatten() {
            let status = cell(&token["status"]);
            let tone = Tone::of_state(&status);
            let plain = |name: &str| (cell(&token[name]), Tone::Plain);
            let time = |name: &str| (cx.out.time(&token[name]), Tone::Plain);
            table.toned([
                plain("id"),
                plain("prefix"),
                plain("name"),
                plain("username"),
                plain("scopes"),
                (status, tone),
                time("expires_at"),
                time("last_used_at"),
            ]);
        }
        cx.out.table(&table)
    })?;
    cx.out.more(n_shown, total, "tokens");
    Ok(())
}

async fn create(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    for (option, field) in [("NAME", "name"), ("scopes", "scopes")] {
        body.insert(field.to_owned(), text(matches, option).into());
    }
    if let Some(end) = text(matches, "expires") {
        body.insert("expires_at".to_owned(), ahead(end, crate::times::now()).into());
    }
    let token = cx.client.post(OWN, Some(&Value::Object(body))).await?.json;
    cx.out.either(&token, || {
        cx.out.note(&format!(
            "token {} for {} until {}; it is not shown again",
            cell(&token["id"]),
            cell(&token["scopes"]),
            cx.out.time(&token["expires_at"]),
        ));
        cx.out.line(&cell(&token["token"]))
    })
}

async fn revoke(cx: &Cx, base: &str, given: &str) -> Outcome<()> {
    let token = named(cx, base, Noun::Token, given).await?;
    let id = cell(&token["id"]);
    let answer = cx.client.call(Method::DELETE, &format!("{base}/{id}"), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("token {id} ({}) is revoked", cell(&token["name"]))))
}
