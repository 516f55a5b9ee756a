//! `usage`: single requests, who uses how much, when, and how long it took.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use serde_json::{Value, json};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::query,
    named::{Noun, named},
    options::{flag, has, int, number, one_of, option, text},
    output::{Foreign, Table, Tone},
    resolve::{me, org_id, user_id},
    text::{cell, count},
    times::{past, zone},
};

/// Requests of every user whom the caller manages.
const ALL: &str = "/admin/usage";
/// The caller's own requests.
const OWN: &str = "/auth/usage";
const MAX_HOURS: i64 = 8784;
const COLUMNS: [&str; 7] =
    ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens", "p50_ms", "p95_ms"];
/// Columns for the sums that every answer with totals has.
const SUMS: [&str; 5] = ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens"];

type Pairs = Vec<(&'static str, String)>;

pub(crate) fn command() -> Command {
    let list = filters(Command::new("list").about("Lists single requests, newest first").arg(number(
        "limit",
        "N",
        "At most this many, up to 1000 (default: 100)",
    )));
    let top = filters(
        Command::new("top")
            .alias("aggregate")
            .about("Sums by model, key, user or organisation, largest first")
            .args([
                one_of("by", ["model", "key", "user", "org"], "What to sum by (default: `model`)"),
                one_of("sort", COLUMNS, "Column to sort by (default: `total_tokens`)"),
                number("limit", "N", "At most this many, up to 1000 (default: 10)"),
            ]),
    )
    .after_help(
        "The five users with most tokens this week in one organisation:\n  gantry usage top --by user --org Acme --week --limit 5",
    );
    let series = filters(Command::new("series").about("Sums over time, oldest first").arg(one_of(
        "by",
        ["minute", "hour", "day"],
        "Length of a step (default: `hour`); days are in UTC",
    )));
    let latency = filters(
        Command::new("latency").about("Durations of requests and times to first token, in milliseconds"),
    );
    let export = filters(Command::new("export").about("Writes the requests to standard output as CSV"));
    let integrity = Command::new("integrity")
        .about("Compares the sums with the single requests; the exit code is 1 if they differ");
    let own = |command: Command| {
        let own = flag("own", "Only your own requests; always so if you manage nobody");
        command.arg(own.conflicts_with_all(["org", "user"]))
    };
    let (list, top, series) = (own(list), own(top), own(series));
    connected(
        Command::new("usage").about("Usage: single requests, and sums by model, key, user or organisation"),
    )
    .after_help("Without a verb: `gantry usage top`, the models with most tokens of the last 24 hours.")
    .subcommands([list, top, series, latency, export, integrity])
}

/// Adds the options that filter every kind of usage.
fn filters(command: Command) -> Command {
    let span = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).group("span").help(help)
    };
    command
        .args([
            complete::orgs(option("org", "NAME", "Only of this organisation (name or id)")),
            complete::users(option("user", "NAME", "Only of this user (name or id)")),
            complete::keys(option("key", "KEY", "Only of this key (id, prefix or name)")),
            complete::models(option("model", "SERVED_NAME", "Only to this model")),
            one_of("task", ["generate", "embed"], "Only of this task"),
            option("status", "STATUS", "Only with this status, or of a class such as 5xx"),
            option(
                "outcome",
                "WORD",
                "Only with this outcome: ok, client_error, upstream_error, client_closed, timeout, rejected",
            ),
            span("today", "Since 00:00 today"),
            span("week", "This week: since Monday, 00:00"),
            span("month", "This month: since the 1st, 00:00"),
            number("hours", "N", "The last N hours (default: 24)").group("span"),
            option(
                "since",
                "TIME",
                "From this time on: today, week, month, a span (12h, 7d), a date, or an RFC 3339 time",
            )
            .group("span"),
            option("until", "TIME", "Up to this time; written like --since"),
        ])
        .group(ArgGroup::new("span").args(["today", "week", "month", "hours", "since"]).multiple(false))
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("top", sub)) => top(cx, sub).await,
        Some(("series", sub)) => series(cx, sub).await,
        Some(("latency", sub)) => latency(cx, sub).await,
        Some(("export", sub)) => {
            let path = format!("{ALL}/export{}", query(&pairs(cx, sub, false).await?));
            let mut csv = Foreign::new(&cx.out);
            cx.client.stream(&path, |bytes| csv.take(bytes)).await
        }
        Some(("integrity", _)) => integrity(cx).await,
        Some((_, sub)) => list(cx, sub).await,
        None => top(cx, matches).await,
    }
}

/// Returns whether a verb is about the caller's own requests only, instead of all that the caller manages.
async fn is_own(cx: &Cx, matches: &ArgMatches) -> Outcome<bool> {
    Ok(has(matches, "own") || me(cx).await?.is_plain_user())
}

fn base(own: bool) -> &'static str {
    if own { OWN } else { ALL }
}

async fn pairs(cx: &Cx, matches: &ArgMatches, own: bool) -> Outcome<Pairs> {
    let (now, zone) = (crate::times::now(), zone(cx.out.utc));
    let mut pairs = Vec::new();
    let calendar = ["today", "week", "month"].into_iter().find(|it| has(matches, it));
    if let Some(since) = text(matches, "since").or(calendar) {
        let from = past(since, now, &zone);
        if from != since {
            cx.out.note(&format!("since {}", cx.out.time(&from.as_str().into())));
        }
        pairs.push(("from", from));
    } else {
        let hours = match int(matches, "hours") {
            Some(hours) if hours > MAX_HOURS => {
                return Err(Failure::Usage(format!("--hours is at most {MAX_HOURS}")));
            }
            hours => hours.unwrap_or(24),
        };
        pairs.push(("hours", hours.to_string()));
    }
    if let Some(until) = text(matches, "until") {
        pairs.push(("to", past(until, now, &zone)));
    }
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    if let Some(key) = text(matches, "key") {
        let keys = if own { "/auth/keys" } else { "/admin/keys" };
        let id = match key.parse::<i64>() {
            Ok(id) => id.to_string(),
            Err(_) => cell(&named(cx, keys, Noun::Key, key).await?["id"]),
        };
        pairs.push(("key_id", id));
    }
    for name in ["model", "task", "status", "outcome"] {
        if let Some(value) = text(matches, name) {
            pairs.push((name, value.to_owned()));
        }
    }
    Ok(pairs)
}

fn sums(row: &Value) -> impl Iterator<Item = String> {
    SUMS.into_iter().map(|it| count(&row[it]))
}

async fn top(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let by = text(matches, "by").unwrap_or("model");
    let own = is_own(cx, matches).await?;
    let mut pairs = pairs(cx, matches, own).await?;
    pairs.push(("group_by", by.to_owned()));
    pairs.push(("sort", format!("-{}", text(matches, "sort").unwrap_or("total_tokens"))));
    pairs.push(("limit", int(matches, "limit").unwrap_or(10).to_string()));
    let answer = match cx.client.get(&format!("{}/aggregate{}", base(own), query(&pairs))).await {
        Err(Failure::Refused(it)) if it.status == 404 => {
            let why = "this gateway can't sum usage: its version is too old";
            return Err(Failure::NotFound(why.to_owned()));
        }
        other => other?,
    };
    cx.out.either(&answer.json, || {
        let head = match by {
            "key" => "KEY",
            "user" => "USER",
            "org" => "ORGANISATION",
            _ => "MODEL",
        };
        let mut table = Table::new(&[
            head,
            "REQUESTS>",
            "ERRORS>",
            "PROMPT>",
            "COMPLETION>",
            "TOKENS>",
            "P50 MS>",
            "P95 MS>",
        ]);
        for row in answer.list() {
            let times = ["p50_ms", "p95_ms"].map(|it| count(&row[it]));
            let gone = if row["deleted"] == true { " (deleted)" } else { "" };
            let name = format!("{}{gone}", cell(&row["group"]));
            table.row(std::iter::once(name).chain(sums(row)).chain(times));
        }
        cx.out.table(&table)?;
        if answer.list().is_empty() {
            cx.out.note("no usage in this time");
        }
        Ok(())
    })
}

async fn series(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let own = is_own(cx, matches).await?;
    let mut pairs = pairs(cx, matches, own).await?;
    pairs.push(("bucket", text(matches, "by").unwrap_or("hour").to_owned()));
    let answer = cx.client.get(&format!("{}/series{}", base(own), query(&pairs))).await?;
    cx.out.either(&answer.json, || {
        let mut table = Table::new(&["FROM", "REQUESTS>", "ERRORS>", "PROMPT>", "COMPLETION>", "TOKENS>"]);
        for row in answer.list() {
            table.row(std::iter::once(cx.out.time(&row["ts"])).chain(sums(row)));
        }
        cx.out.table(&table)
    })
}

async fn latency(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let query = query(&pairs(cx, matches, false).await?);
    let whole = cx.client.get(&format!("{ALL}/latency{query}")).await?.json;
    let first = cx.client.get(&format!("{ALL}/ttft{query}")).await?.json;
    cx.out.either(&json!({ "latency": whole, "ttft": first }), || {
        let mut table = Table::new(&["TIME TO", "SAMPLES>", "P50 MS>", "P95 MS>", "P99 MS>", "MEAN MS>"]);
        for (name, it) in [("the end", &whole), ("the first token", &first)] {
            let times = ["samples", "p50_ms", "p95_ms", "p99_ms"].map(|name| count(&it[name]));
            let mean = it["avg_ms"].as_f64().map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
            table.row(std::iter::once(name.to_owned()).chain(times).chain([mean]));
        }
        cx.out.table(&table)
    })
}

async fn integrity(cx: &Cx) -> Outcome<()> {
    let report = cx.client.get(&format!("{ALL}/integrity")).await?.json;
    cx.out.either(&report, || {
        let spool = &report["spool"];
        cx.out.pairs(&[
            ("requests", count(&report["rows"])),
            ("in the sums", count(&report["rollup_rows_sum"])),
            ("from", cx.out.time(&report["checked_from"])),
            ("to", cx.out.time(&report["checked_to"])),
            ("written to the spool since the start", count(&spool["written"])),
            ("shipped to the database since then", count(&spool["shipped"])),
        ])
    })?;
    if report["ok"] == true {
        return Ok(());
    }
    let days = report["mismatches"].as_array().into_iter().flatten().map(|it| cell(&it["from"]));
    let days: Vec<_> = days.collect();
    Err(Failure::Failed(format!("sums and requests do not agree: {}", days.join(", "))))
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let own = is_own(cx, matches).await?;
    let mut pairs = pairs(cx, matches, own).await?;
    pairs.push(("limit", int(matches, "limit").unwrap_or(100).to_string()));
    let answer = cx.client.get(&format!("{}{}", base(own), query(&pairs))).await?;
    cx.out.either(&answer.json, || {
        let mut table = Table::new(&[
            "TIME",
            "MODEL",
            "KEY",
            "ENDPOINT",
            "STATUS>",
            "OUTCOME",
            "PROMPT>",
            "COMPLETION>",
            "TTFT MS>",
            "MS>",
            "REQUESTS>",
        ]);
        for row in answer.list() {
            let outcome = cell(&row["outcome"]);
            let tone = if outcome == "ok" { Tone::Plain } else { Tone::Bad };
            table.toned([
                (cx.out.time(&row["created_at"]), Tone::Plain),
                (cell(&row["model_name"]), Tone::Plain),
                (cell(&row["key_prefix"]), Tone::Plain),
                (cell(&row["endpoint"]), Tone::Plain),
                (cell(&row["status_code"]), tone),
                (outcome, tone),
                (count(&row["prompt_tokens"]), Tone::Plain),
                (count(&row["completion_tokens"]), Tone::Plain),
                (count(&row["ttft_ms"]), Tone::Plain),
                (count(&row["latency_ms"]), Tone::Plain),
                (count(&row["requests"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)?;
        if let Some(total) = answer.total().filter(|it| *it > answer.list().len()) {
            cx.out.note(&format!("{} of {total} rows", answer.list().len()));
        }
        Ok(())
    })
}
