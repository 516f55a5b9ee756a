//! `upstreams`: the engines that requests go to, and their state.

use clap::Command;
use serde_json::Value;

use crate::{
    cx::Cx,
    exit::Outcome,
    gateway_options::connected,
    output::{Table, Tone},
    registry::source,
    resolve::listed,
    text::{cell, count},
};

pub(crate) fn command() -> Command {
    connected(Command::new("upstreams").about(
        "Lists the engines that requests go to, as the gateway's probes see them: each model of `gantry models`, and each \
         address of `gantry registry`",
    ))
}

pub(crate) async fn run(cx: &Cx) -> Outcome<()> {
    let (all, _) = listed(cx, "/admin/upstreams", &[], None).await?;
    let all = Value::Array(all);
    cx.out.either(&all, || {
        let mut table = Table::new(&[
            "SERVED NAME",
            "SOURCE",
            "HEALTH",
            "BREAKER",
            "IN FLIGHT>",
            "MS>",
            "LAST OK",
            "URL",
            "LAST ERROR",
        ]);
        for it in all.as_array().into_iter().flatten() {
            let (health, tone) = match (it["healthy"] == true, it["url"].is_null()) {
                (true, _) => ("ok", Tone::Good),
                (false, true) => ("not running", Tone::Plain),
                (false, false) => ("failing", Tone::Bad),
            };
            let breaker = match (cell(&it["breaker"]["state"]), it["breaker"]["keeps_away"].as_str()) {
                (state, Some("some")) => format!("{state} (some callers)"),
                (state, _) => state,
            };
            let broken = if breaker == "closed" { Tone::Plain } else { Tone::Bad };
            table.toned([
                (cell(&it["served_name"]), Tone::Plain),
                (source(it).to_owned(), Tone::Plain),
                (health.to_owned(), tone),
                (breaker, broken),
                (count(&it["in_flight"]), Tone::Plain),
                (
                    it["latency_ms"].as_f64().map_or_else(|| "-".to_owned(), |it| format!("{it:.0}")),
                    Tone::Plain,
                ),
                (cx.out.time(&it["last_ok_at"]), Tone::Plain),
                (cell(&it["url"]), Tone::Plain),
                (cell(&it["last_error"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })
}
