//! `usage`: single requests, and who uses how much.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};

use crate::{
    Cx,
    args::{connected, int, number, one_of, option, text},
    exit::{Failure, Outcome},
    http::query,
    out::{Table, Tone, cell, count},
    people::{org_id, user_id},
};

const MAX_HOURS: i64 = 8784;
const COLUMNS: [&str; 7] =
    ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens", "p50_ms", "p95_ms"];

pub(crate) fn command() -> Command {
    let list = filters(Command::new("list").about("Lists single requests, newest first").args([
        option("status", "STATUS", "With this status, or a class such as 5xx"),
        option(
            "outcome",
            "WORD",
            "With this outcome: ok, client_error, upstream_error, client_closed, timeout, rejected",
        ),
        number("limit", "N", "At most so many (100 unless given)"),
    ]));
    let top = filters(
        Command::new("top").visible_alias("aggregate").about("Sums by model, key, user or organisation, largest first").args([
            one_of("by", ["model", "key", "user", "org"], "What to sum by; `model` unless given"),
            one_of("sort", COLUMNS, "By which column; `total_tokens` unless given"),
            number("limit", "N", "At most so many (10 unless given)"),
        ]),
    )
    .after_help("The five users with most tokens this week in one organisation:\n  gantry usage top --by user --org Acme --week --limit 5");
    connected(
        Command::new("usage").about("Usage: single requests, and sums by model, key, user or organisation"),
    )
    .subcommand_required(true)
    .subcommands([list, top])
}

/// What narrows every kind of usage.
fn filters(command: Command) -> Command {
    let span = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).group("span").help(help)
    };
    command
        .args([
            option("org", "NAME", "Of this organisation (name or id)"),
            option("user", "NAME", "Of this user (name or id)"),
            number("key", "ID", "Of this key"),
            option("model", "SERVED_NAME", "To this model"),
            span("day", "The last 24 hours (unless another time is given)"),
            span("week", "The last 7 days"),
            span("month", "The last 30 days"),
            number("hours", "N", "The last N hours").group("span"),
            option("since", "TIME", "From this time on (RFC 3339)").group("span"),
            option("until", "TIME", "Up to this time (RFC 3339)"),
        ])
        .group(ArgGroup::new("span").args(["day", "week", "month", "hours", "since"]).multiple(false))
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("top", sub)) => top(cx, sub).await,
        Some((_, sub)) => list(cx, sub).await,
        None => Ok(()),
    }
}

async fn pairs(cx: &Cx, matches: &ArgMatches) -> Outcome<Vec<(&'static str, String)>> {
    let set = |name: &str| matches.get_flag(name);
    let mut pairs = Vec::new();
    if let Some(since) = text(matches, "since") {
        pairs.push(("from", since.to_owned()));
    } else {
        let hours = match int(matches, "hours") {
            Some(hours) if hours > MAX_HOURS => {
                return Err(Failure::Usage(format!("--hours is at most {MAX_HOURS}")));
            }
            Some(hours) => hours,
            None if set("week") => 7 * 24,
            None if set("month") => 30 * 24,
            None => 24,
        };
        pairs.push(("hours", hours.to_string()));
    }
    if let Some(until) = text(matches, "until") {
        pairs.push(("to", until.to_owned()));
    }
    if let Some(org) = text(matches, "org") {
        pairs.push(("org_id", org_id(cx, org).await?.to_string()));
    }
    if let Some(user) = text(matches, "user") {
        pairs.push(("user_id", user_id(cx, user).await?.to_string()));
    }
    if let Some(key) = int(matches, "key") {
        pairs.push(("key_id", key.to_string()));
    }
    if let Some(model) = text(matches, "model") {
        pairs.push(("model", model.to_owned()));
    }
    Ok(pairs)
}

async fn top(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let by = text(matches, "by").unwrap_or("model");
    let mut pairs = pairs(cx, matches).await?;
    pairs.push(("group_by", by.to_owned()));
    pairs.push(("sort", format!("-{}", text(matches, "sort").unwrap_or("total_tokens"))));
    pairs.push(("limit", int(matches, "limit").unwrap_or(10).to_string()));
    let answer = match cx.client.get(&format!("/admin/usage/aggregate{}", query(&pairs))).await {
        Err(Failure::Refused(it)) if it.status == 404 => {
            let why = "this gateway does not sum usage: it is of an older version";
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
            let numbers = ["requests", "errors", "prompt_tokens", "completion_tokens", "total_tokens"];
            let cells = std::iter::once(cell(&row["group"]))
                .chain(numbers.iter().map(|it| count(&row[*it])))
                .chain(["p50_ms", "p95_ms"].iter().map(|it| cell(&row[*it])));
            table.row(cells);
        }
        cx.out.table(&table)?;
        if answer.list().is_empty() {
            cx.out.note("no usage in this time");
        }
        Ok(())
    })
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut pairs = pairs(cx, matches).await?;
    for name in ["status", "outcome"] {
        if let Some(value) = text(matches, name) {
            pairs.push((name, value.to_owned()));
        }
    }
    pairs.push(("limit", int(matches, "limit").unwrap_or(100).to_string()));
    let answer = cx.client.get(&format!("/admin/usage{}", query(&pairs))).await?;
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
                (cell(&row["ttft_ms"]), Tone::Plain),
                (cell(&row["latency_ms"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)?;
        if let Some(total) = answer.total().filter(|it| *it > answer.list().len()) {
            cx.out.note(&format!("{} of {total} requests", answer.list().len()));
        }
        Ok(())
    })
}
