//! `keys`: API keys.

use clap::{Arg, ArgMatches, Command};
use serde_json::{Map, Value, json};

use crate::{
    Cx,
    args::{connected, flag, has, int, many, number, option, place, text, texts},
    exit::{Failure, Outcome},
    http::query,
    out::{Table, Tone, cell, clean},
    people::{org_id, user_id},
    times::ahead,
};

const MAX_ROWS: i64 = 1000;

pub(crate) fn command() -> Command {
    let own = || flag("own", "Your own keys, as any user has them");
    let list = Command::new("list").about("Lists API keys").args([
        own(),
        option("org", "NAME", "Of this organisation (name or id)"),
        option("user", "NAME", "Of this user (name or id)"),
        option("search", "TEXT", "With this in name or prefix"),
        number("limit", "N", "At most so many"),
    ]);
    let create = Command::new("create")
        .about("Makes an API key and prints its token, this once")
        .arg(Arg::new("NAME").help("What it is for"))
        .args([
            own(),
            option("org", "NAME", "For this organisation (name or id)"),
            option("user", "NAME", "For this user (name or id)"),
            option("scopes", "LIST", "Of chat, completions and embeddings; all of them unless given"),
            many("model", "SERVED_NAME", "May call only this model; may stand several times"),
            many("from", "CIDR", "May be used only from this address or range; may stand several times"),
            option("expires", "TIME", "Ends then: an RFC 3339 time, or a span such as 12h, 30d, 8w"),
            number("rpm", "N", "Requests a minute"),
            number("tpm", "N", "Tokens a minute"),
            number("max-concurrency", "N", "Requests at the same time"),
        ])
        .after_help(
            "The token alone goes to standard output, everything else to standard error: TOKEN=$(gantry keys create ci)",
        );
    let revoke = Command::new("revoke")
        .about("Ends a key at once")
        .arg(own())
        .arg(place("ID", "Id or prefix of the key, as the list shows it"));
    connected(Command::new("keys").about("API keys: list, create, revoke"))
        .subcommand_required(true)
        .subcommands([list, create, revoke])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => create(cx, sub).await,
        Some(("revoke", sub)) => revoke(cx, sub).await,
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

fn base(matches: &ArgMatches) -> &'static str {
    if has(matches, "own") { "/auth/keys" } else { "/admin/keys" }
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = vec![("limit", int(matches, "limit").unwrap_or(MAX_ROWS).min(MAX_ROWS).to_string())];
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    if let Some(words) = text(matches, "search") {
        pairs.push(("q", words.to_owned()));
    }
    let answer = cx.client.get(&format!("{}{}", base(matches), query(&pairs))).await?;
    cx.out.either(&answer.json, || {
        let mut table =
            Table::new(&["ID>", "PREFIX", "NAME", "HOLDER", "SCOPES", "MODELS", "STATUS", "LAST USED"]);
        for key in answer.list() {
            let status = cell(&key["status"]);
            let holder = if key["username"].is_null() { &key["org_name"] } else { &key["username"] };
            let models = if key["models"].is_null() { "all".to_owned() } else { cell(&key["models"]) };
            let tone = Tone::of_state(&status);
            table.toned([
                (cell(&key["id"]), Tone::Plain),
                (cell(&key["prefix"]), Tone::Plain),
                (cell(&key["name"]), Tone::Plain),
                (cell(holder), Tone::Plain),
                (cell(&key["scopes"]), Tone::Plain),
                (models, Tone::Plain),
                (status, tone),
                (cx.out.time(&key["last_used_at"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)?;
        if let Some(total) = answer.total().filter(|it| *it > answer.list().len()) {
            cx.out.note(&format!(
                "{} of {total} keys; narrow it with --org, --user or --search",
                answer.list().len()
            ));
        }
        Ok(())
    })
}

async fn create(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    put("name", text(matches, "NAME").map(Value::from));
    put("scopes", text(matches, "scopes").map(Value::from));
    for (field, option) in [("models", "model"), ("ip_allowlist", "from")] {
        let given = texts(matches, option);
        put(field, (!given.is_empty()).then(|| json!(given)));
    }
    for (field, option) in
        [("rpm_limit", "rpm"), ("tpm_limit", "tpm"), ("max_concurrency", "max-concurrency")]
    {
        put(field, int(matches, option).map(Value::from));
    }
    put("expires_at", text(matches, "expires").map(|it| ahead(it, crate::now()).into()));
    if let Some(org) = text(matches, "org") {
        put("org_id", Some(org_id(cx, org).await?.into()));
    }
    if let Some(user) = text(matches, "user") {
        put("user_id", Some(user_id(cx, user).await?.into()));
    }
    let answer = cx.client.post(base(matches), Some(&Value::Object(body))).await?;
    let key = &answer.json;
    cx.out.either(key, || {
        let holder = if key["username"].is_null() { &key["org_name"] } else { &key["username"] };
        cx.out.note(&format!(
            "key {} for {}: scopes {}; the token is shown this once",
            cell(&key["id"]),
            clean(&cell(holder)),
            cell(&key["scopes"]),
        ));
        cx.out.line(&clean(&cell(&key["token"])))
    })
}

async fn revoke(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let (base, given) = (base(matches), text(matches, "ID").unwrap_or_default());
    let id = if given.parse::<i64>().is_ok() {
        given.to_owned()
    } else {
        let found = cx.client.get(&format!("{base}{}", query(&[("q", given.to_owned())]))).await?;
        let mut same = found.list().iter().filter(|it| it["prefix"] == given);
        match (same.next(), same.next()) {
            (Some(key), None) => cell(&key["id"]),
            (Some(_), Some(_)) => {
                return Err(Failure::Usage(format!("several keys begin with `{given}`: use the id")));
            }
            (None, _) => return Err(Failure::NotFound(format!("there is no key `{}`", clean(given)))),
        }
    };
    let answer = cx.client.call(http::Method::DELETE, &format!("{base}/{id}"), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("key {id} is revoked")))
}
