//! `audit list`: who changed what, from the gateway's audit log.

use clap::{ArgMatches, Command};
use serde_json::Value;

use crate::{
    cx::Cx,
    exit::Outcome,
    gateway_options::connected,
    options::{number, option, text},
    output::{Table, Tone},
    resolve::{listed, most},
    text::cell,
    times::{past, zone},
};

/// Number of rows by default.
const USUAL: usize = 50;
/// Longest change that a line of the table shows, in characters; `--json` shows all.
const LONGEST: usize = 120;
const FILTERS: [(&str, &str); 4] =
    [("actor", "actor"), ("action", "action"), ("object-type", "object_type"), ("object", "object_id")];

pub(crate) fn list_command() -> Command {
    let list = Command::new("list").about("Lists rows of the audit log, newest first");
    connected(list.args([
        option("actor", "USER", "Done by this user: an id, or the name at that time"),
        option("action", "WORD", "Actions of this kind, such as key.create; docs/audit.md lists them"),
        option("object-type", "WORD", "Done to a user, org, key, model, registry, base_dir or image"),
        option("object", "ID", "Done to the object with this id, name or path"),
        option(
            "since",
            "TIME",
            "From this time on: today, week, month, a span (12h, 7d), a date, or an RFC 3339 time",
        ),
        option("until", "TIME", "Up to this time; written like --since"),
        number("limit", "N", "At most this many (default: 50)"),
    ]))
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let Some((_, sub)) = matches.subcommand() else { return Ok(()) };
    let mut pairs = Vec::new();
    let (now, zone) = (crate::times::now(), zone(cx.out.utc));
    for (option, parameter) in [("since", "from"), ("until", "to")] {
        if let Some(time) = text(sub, option) {
            pairs.push((parameter, past(time, now, &zone)));
        }
    }
    for (option, parameter) in FILTERS {
        if let Some(value) = text(sub, option) {
            pairs.push((parameter, value.to_owned()));
        }
    }
    let (rows, total) = listed(cx, "/admin/audit", &pairs, Some(most(sub).unwrap_or(USUAL))).await?;
    let n_shown = rows.len();
    let rows = Value::Array(rows);
    cx.out.either(&rows, || {
        let mut table = Table::new(&["NO>", "TIME", "WHO", "FROM", "ACTION", "OBJECT", "CHANGE"]);
        for row in rows.as_array().into_iter().flatten() {
            let who = if row["actor"].is_null() { &row["actor_type"] } else { &row["actor"] };
            let object = [cell(&row["object_type"]), cell(&row["object_id"])].join(" ");
            table.toned(
                [
                    cell(&row["seq"]),
                    cx.out.time(&row["at"]),
                    cell(who),
                    cell(&row["ip"]),
                    cell(&row["action"]),
                    object,
                    change(row),
                ]
                .map(|it| (it, Tone::Plain)),
            );
        }
        cx.out.table(&table)
    })?;
    cx.out.more(n_shown, total, "rows");
    Ok(())
}

/// Describes a change, field by field: the values after it, or the values before it if none are left.
fn change(row: &Value) -> String {
    let fields = row["after"].as_object().or_else(|| row["before"].as_object());
    let text: Vec<_> =
        fields.into_iter().flatten().map(|(name, value)| format!("{name}={}", cell(value))).collect();
    let text = text.join(" ");
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}
