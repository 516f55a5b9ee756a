//! `keys`: API keys. Callers who manage nobody only see their own keys, and need no option for that.

use clap::{Arg, ArgMatches, Command};
use gantry_domain::{limit::LimitMode, spelling::nearest};
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    limits,
    named::{Noun, holder, named},
    options::{aliased, flag, has, many, number, one_of, option, positional, positionals, text, texts},
    output::{Table, Tone},
    resolve::{listed, me, most, org_id, search, user_id},
    several::each,
    text::{cell, clean},
    times::ahead,
};

/// Every key that the caller manages.
const ALL: &str = "/admin/keys";
/// The caller's own keys.
const OWN: &str = "/auth/keys";

pub(crate) fn command() -> Command {
    let own = || flag("own", "Your own keys only");
    let list = aliased(Command::new("list"), "ls").about("Lists API keys").args([
        own(),
        complete::orgs(option("org", "NAME", "Only of this organisation (name or id)")),
        complete::users(option("user", "NAME", "Only of this user (name or id)")),
        option("search", "TEXT", "Only with this text in name or prefix"),
        number("limit", "N", "At most this many (default: all)"),
    ]);
    let create = Command::new("create")
        .about("Creates an API key and prints its token, which is not shown again")
        .arg(Arg::new("NAME").help("What it is for"))
        .args([
            own().help("Your own key; the default without --org and --user").hide(true),
            complete::orgs(option(
                "org",
                "NAME",
                "For this organisation (name or id), not for a user: the key stays when the person who made it is deleted",
            )),
            complete::users(option("user", "NAME", "For this user (name or id; default: you)")),
            option("scopes", "LIST", "A list of chat, completions, embeddings (default: all)"),
            complete::models(many("model", "SERVED_NAME", "May call only this model; can be given several times")),
            many("from", "CIDR", "May be used only from this address or range; can be given several times"),
            option("expires", "TIME", "Expires at an RFC 3339 time, or after a span such as 12h, 30d, 8w"),
            mode(),
        ])
        .after_help(
            "Only the token is written to standard output; everything else goes to standard error:\n  TOKEN=$(gantry keys create ci --org \
             Acme --budget-day 5M)\nWithout --org and --user the key is yours: its usage counts as yours, and it ends with your \
             account.\nLimits are whole numbers such as 60, 200k, 5M or 1G.",
        );
    let set = Command::new("set")
        .alias("change")
        .about("Changes a key: everything but its token and its holder")
        .arg(key())
        .args([
            option("name", "NAME", "What it is for"),
            option("scopes", "LIST", "A list of chat, completions, embeddings"),
            complete::models(many(
                "model",
                "SERVED_NAME",
                "May call only this model; can be given several times",
            )),
            flag("all-models", "May call every model").conflicts_with("model"),
            many("from", "CIDR", "May be used only from this address or range; can be given several times"),
            flag("from-everywhere", "May be used from every address").conflicts_with("from"),
            option(
                "expires",
                "TIME",
                "Expires at an RFC 3339 time, after a span such as 12h, 30d, 8w, or `never`",
            ),
            mode(),
        ])
        .after_help(limits::EXPLAINED);
    let revoke = aliased(Command::new("revoke"), "rm")
        .about("Revokes keys; they stop working at once")
        .arg(own())
        .arg(complete::keys(positionals("KEY", WHICH)));
    let show = Command::new("show").about("Shows a key with its limits and budgets").arg(own()).arg(key());
    connected(aliased(Command::new("keys").about("API keys: list, create, change, revoke"), "key"))
        .subcommand_required(true)
        .subcommands([list, show, limits::options(create), limits::options(set), revoke])
}

/// Help text on how a key is named.
const WHICH: &str =
    "Id, prefix or name of the key, as the list shows it; `id:2` or `name:2` if a number could be both";

fn key() -> Arg {
    complete::keys(positional("KEY", WHICH))
}

fn mode() -> Arg {
    one_of(
        "limit-mode",
        LimitMode::ALL.map(LimitMode::as_str),
        "`shadow` serves requests beyond a limit, and counts them",
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
        Some(("revoke", sub)) => {
            let base = base(cx, sub).await?;
            each(cx, &texts(sub, "KEY"), async |it| revoke(cx, base, it).await).await
        }
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

/// Returns the path of the list that a verb works on.
async fn base(cx: &Cx, matches: &ArgMatches) -> Outcome<&'static str> {
    let own = has(matches, "own") || me(cx).await?.is_plain_user();
    Ok(if own { OWN } else { ALL })
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = search(matches);
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    let (keys, total) = listed(cx, base(cx, matches).await?, &pairs, most(matches)).await?;
    let n_shown = keys.len();
    let keys = Value::Array(keys);
    cx.out.either(&keys, || {
        let mut table =
            Table::new(&["ID>", "PREFIX", "NAME", "HOLDER", "SCOPES", "MODELS", "STATUS", "LAST USED"]);
        for key in keys.as_array().into_iter().flatten() {
            let status = cell(&key["status"]);
            let tone = Tone::of_state(&status);
            table.toned([
                (cell(&key["id"]), Tone::Plain),
                (cell(&key["prefix"]), Tone::Plain),
                (cell(&key["name"]), Tone::Plain),
                (cell(holder(key)), Tone::Plain),
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
    put("expires_at", text(matches, "expires").map(|it| ahead(it, crate::times::now()).into()));
    if let Some(org) = text(matches, "org") {
        put("org_id", Some(org_id(cx, org).await?.into()));
    }
    if let Some(user) = text(matches, "user") {
        put("user_id", Some(user_id(cx, user).await?.into()));
    }
    let mut base = ALL;
    if has(matches, "own") {
        base = OWN;
    } else if !body.contains_key("org_id") && !body.contains_key("user_id") {
        let me = me(cx).await?;
        if me.is_plain_user() {
            base = OWN;
        } else {
            body.insert("user_id".to_owned(), me.id.into());
        }
    }
    limits::put(matches, &mut body);
    let answer = cx.client.post(base, Some(&Value::Object(body))).await?;
    let key = &answer.json;
    warn_of_unknown(cx, &texts(matches, "model")).await;
    cx.out.either(key, || {
        cx.out.note(&format!(
            "key {} for {}: scopes {}; the token is not shown again",
            cell(&key["id"]),
            cell(holder(key)),
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
        let end = if end == "never" { Value::Null } else { ahead(end, crate::times::now()).into() };
        body.insert("expires_at".to_owned(), end);
    }
    limits::put(matches, &mut body);
    if body.is_empty() {
        return Err(Failure::Usage("nothing to change: give an option such as --budget-day 5M".to_owned()));
    }
    let id = find(cx, matches).await?["id"].clone();
    let path = format!("/admin/keys/{}", cell(&id));
    let key = cx.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?.json;
    cx.out.either(&key, || details(cx, &key))
}

fn details(cx: &Cx, key: &Value) -> Outcome<()> {
    cx.out.pairs(&[
        ("id", cell(&key["id"])),
        ("prefix", cell(&key["prefix"])),
        ("name", cell(&key["name"])),
        ("holder", cell(holder(key))),
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

/// Finds the record of the key on the command line.
async fn find(cx: &Cx, matches: &ArgMatches) -> Outcome<Value> {
    named(cx, base(cx, matches).await?, Noun::Key, text(matches, "KEY").unwrap_or_default()).await
}

/// Warns of models that do not exist. A key may be made before its model, but a misspelt name looks the same.
async fn warn_of_unknown(cx: &Cx, models: &[&str]) {
    if models.is_empty() {
        return;
    }
    let mut known = Vec::new();
    for path in ["/admin/models?limit=1000", "/admin/upstreams"] {
        // Callers who may not list the models get no warning.
        let Ok(answer) = cx.client.get(path).await else { return };
        known.extend(answer.list().iter().map(|it| cell(&it["served_name"])));
    }
    for model in models.iter().filter(|it| !known.iter().any(|known| known == **it)) {
        let near = nearest(model, known.iter().map(String::as_str));
        let near = near.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
        cx.out.warn(&format!("there is no model `{}` yet{near}", clean(model)));
    }
}

async fn revoke(cx: &Cx, base: &str, given: &str) -> Outcome<()> {
    let (id, what) = if let Ok(id) = given.parse::<i64>() {
        (id.to_string(), format!("key {id}"))
    } else {
        let key = named(cx, base, Noun::Key, given).await?;
        let id = cell(&key["id"]);
        (id.clone(), format!("key {id} ({})", cell(&key["name"])))
    };
    let answer = cx.client.call(Method::DELETE, &format!("{base}/{id}"), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{what} is revoked")))
}
