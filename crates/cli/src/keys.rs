//! `keys`: API keys.

use clap::{Arg, ArgMatches, Command};
use gantry_domain::limit::LimitMode;
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    Cx,
    args::{connected, flag, has, many, number, one_of, option, place, text, texts},
    exit::{Failure, Outcome},
    limits,
    out::{Table, Tone, cell, clean},
    people::{among, listed, most, org_id, search, user_id},
    times::ahead,
};

pub(crate) fn command() -> Command {
    let own = || flag("own", "Your own keys, as any user has them");
    let list = Command::new("list").about("Lists API keys").args([
        own(),
        option("org", "NAME", "Of this organisation (name or id)"),
        option("user", "NAME", "Of this user (name or id)"),
        option("search", "TEXT", "With this in name or prefix"),
        number("limit", "N", "At most so many; all unless given"),
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
            mode(),
        ])
        .after_help(
            "The token alone goes to standard output, everything else to standard error:\n  TOKEN=$(gantry keys create ci \
             --budget-day 5M)\nLimits are whole numbers such as 60, 200k, 5M or 1G.",
        );
    let set = Command::new("set")
        .visible_alias("change")
        .about("Changes a key: everything but its token and its holder")
        .arg(key())
        .args([
            option("name", "NAME", "What it is for"),
            option("scopes", "LIST", "Of chat, completions and embeddings"),
            many("model", "SERVED_NAME", "May call only this model; may stand several times"),
            flag("all-models", "May call every model").conflicts_with("model"),
            many("from", "CIDR", "May be used only from this address or range; may stand several times"),
            flag("from-everywhere", "May be used from every address").conflicts_with("from"),
            option("expires", "TIME", "Ends then: an RFC 3339 time, a span such as 12h, 30d, 8w, or `never`"),
            mode(),
        ])
        .after_help(limits::EXPLAINED);
    let revoke = Command::new("revoke").about("Ends a key at once").arg(own()).arg(key());
    let show = Command::new("show").about("Shows a key with its limits and budgets").arg(own()).arg(key());
    connected(Command::new("keys").about("API keys: list, create, change, revoke"))
        .subcommand_required(true)
        .subcommands([list, show, limits::options(create), limits::options(set), revoke])
}

fn key() -> Arg {
    place("KEY", "Id or prefix of the key, as the list shows it")
}

fn mode() -> Arg {
    one_of(
        "limit-mode",
        LimitMode::ALL.map(LimitMode::as_str),
        "`shadow` counts what its limits would refuse, and serves it",
    )
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("create", sub)) => create(cx, sub).await,
        Some(("show", sub)) => {
            let key = find(cx, sub).await?;
            cx.out.either(&key, || details(cx, &key))
        }
        Some(("set", sub)) => set(cx, sub).await,
        Some(("revoke", sub)) => revoke(cx, sub).await,
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

fn base(matches: &ArgMatches) -> &'static str {
    if has(matches, "own") { "/auth/keys" } else { "/admin/keys" }
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = search(matches);
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    let (keys, total) = listed(cx, base(matches), &pairs, most(matches)).await?;
    let n_shown = keys.len();
    let keys = Value::Array(keys);
    cx.out.either(&keys, || {
        let mut table =
            Table::new(&["ID>", "PREFIX", "NAME", "HOLDER", "SCOPES", "MODELS", "STATUS", "LAST USED"]);
        for key in keys.as_array().into_iter().flatten() {
            let status = cell(&key["status"]);
            let holder = if key["username"].is_null() { &key["org_name"] } else { &key["username"] };
            let tone = Tone::of_state(&status);
            table.toned([
                (cell(&key["id"]), Tone::Plain),
                (cell(&key["prefix"]), Tone::Plain),
                (cell(&key["name"]), Tone::Plain),
                (cell(holder), Tone::Plain),
                (cell(&key["scopes"]), Tone::Plain),
                (models(key), Tone::Plain),
                (status, tone),
                (cx.out.time(&key["last_used_at"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })?;
    cx.out.more(n_shown, total, "keys");
    Ok(())
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
    put("limit_mode", text(matches, "limit-mode").map(Value::from));
    put("expires_at", text(matches, "expires").map(|it| ahead(it, crate::now()).into()));
    if let Some(org) = text(matches, "org") {
        put("org_id", Some(org_id(cx, org).await?.into()));
    }
    if let Some(user) = text(matches, "user") {
        put("user_id", Some(user_id(cx, user).await?.into()));
    }
    limits::put(matches, &mut body);
    let answer = cx.client.post(base(matches), Some(&Value::Object(body))).await?;
    let key = &answer.json;
    cx.out.either(key, || {
        let holder = if key["username"].is_null() { &key["org_name"] } else { &key["username"] };
        cx.out.note(&format!(
            "key {} for {}: scopes {}; the token is shown this once",
            cell(&key["id"]),
            cell(holder),
            cell(&key["scopes"]),
        ));
        cx.out.line(&cell(&key["token"]))
    })
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    for (option, field) in [("name", "name"), ("scopes", "scopes"), ("limit-mode", "limit_mode")] {
        if let Some(value) = text(matches, option) {
            body.insert(field.to_owned(), value.into());
        }
    }
    for (option, all, field) in
        [("model", "all-models", "models"), ("from", "from-everywhere", "ip_allowlist")]
    {
        let given = texts(matches, option);
        if has(matches, all) {
            body.insert(field.to_owned(), Value::Null);
        } else if !given.is_empty() {
            body.insert(field.to_owned(), json!(given));
        }
    }
    if let Some(end) = text(matches, "expires") {
        let end = if end == "never" { Value::Null } else { ahead(end, crate::now()).into() };
        body.insert("expires_at".to_owned(), end);
    }
    limits::put(matches, &mut body);
    if body.is_empty() {
        return Err(Failure::Usage("say what to change, such as --budget-day 5M".to_owned()));
    }
    let id = find(cx, matches).await?["id"].clone();
    let path = format!("/admin/keys/{}", cell(&id));
    let key = cx.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?.json;
    cx.out.either(&key, || details(cx, &key))
}

fn details(cx: &Cx, key: &Value) -> Outcome<()> {
    let holder = if key["username"].is_null() { &key["org_name"] } else { &key["username"] };
    cx.out.pairs(&[
        ("id", cell(&key["id"])),
        ("prefix", cell(&key["prefix"])),
        ("name", cell(&key["name"])),
        ("holder", cell(holder)),
        ("organisation", cell(&key["org_name"])),
        ("status", cell(&key["status"])),
        ("scopes", cell(&key["scopes"])),
        ("models", models(key)),
        (
            "from",
            if key["ip_allowlist"] == json!([]) {
                "everywhere".to_owned()
            } else {
                cell(&key["ip_allowlist"])
            },
        ),
        ("limits", limits::line(key)),
        ("limits in force", limits::line(&key["effective_limits"])),
        ("limit mode", cell(&key["limit_mode"])),
        ("budget used", limits::used(key)),
        ("expires", cx.out.time(&key["expires_at"])),
        ("created", cx.out.time(&key["created_at"])),
        ("last used", cx.out.time(&key["last_used_at"])),
    ])
}

fn models(key: &Value) -> String {
    if key["models"].is_null() { "all".to_owned() } else { cell(&key["models"]) }
}

/// The record of the key that was named by id or prefix.
async fn find(cx: &Cx, matches: &ArgMatches) -> Outcome<Value> {
    named(cx, base(matches), text(matches, "KEY").unwrap_or_default()).await
}

/// The same, of the list at `base`.
pub(crate) async fn named(cx: &Cx, base: &str, given: &str) -> Outcome<Value> {
    // An id can't be asked for; a prefix can.
    let (id, mut narrow) = (given.parse::<i64>().ok(), Vec::new());
    if id.is_none() {
        narrow.push(("q", given.to_owned()));
    }
    let same = |it: &Value| id.map_or_else(|| it["prefix"] == given, |id| it["id"] == id);
    let mut found = among(cx, base, &narrow, same).await?;
    match (found.pop(), found.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), _) => {
            Err(Failure::Usage(format!("several keys begin with `{}`: use the id", clean(given))))
        }
        (None, _) => Err(Failure::NotFound(format!("there is no key `{}`", clean(given)))),
    }
}

async fn revoke(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let given = text(matches, "KEY").unwrap_or_default();
    let id = match given.parse::<i64>() {
        Ok(id) => id.to_string(),
        Err(_) => cell(&find(cx, matches).await?["id"]),
    };
    let answer = cx.client.call(Method::DELETE, &format!("{}/{id}", base(matches)), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("key {id} is revoked")))
}
