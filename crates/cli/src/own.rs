//! `limits`, and other facts about the signed-in user: the models that they may call.

use clap::Command;
use serde_json::Value;

use crate::{
    cx::Cx,
    exit::Outcome,
    gateway_options::connected,
    limits,
    output::{Table, Tone},
    resolve::listed,
    text::{cell, count},
};

pub(crate) fn command() -> Command {
    connected(
        Command::new("limits")
            .about("Shows what your keys, you and your organisation may use, and what is left of it"),
    )
    .after_help("A request must fit into all of them. Limits that are not set are not shown.")
}

pub(crate) async fn limits(cx: &Cx) -> Outcome<()> {
    let standing = cx.client.get("/auth/limits").await?.json;
    cx.out.either(&standing, || {
        let mut table = Table::new(&["WHOSE", "LIMIT", "ALLOWED>", "USED>", "LEFT>", "RESET S>"]);
        let mut n_rows = 0;
        let keys = standing["keys"].as_array().into_iter().flatten();
        let keys = keys.map(|it| (format!("key {}", cell(&it["name"])), &it["limits"]));
        let own = [("you".to_owned(), &standing["user"]), ("organisation".to_owned(), &standing["org"])];
        for (whose, of) in own.into_iter().chain(keys) {
            for (unit, it) in limits::units().map(|(field, unit)| (unit, &of[field])) {
                if it.is_null() {
                    continue;
                }
                n_rows += 1;
                let tone = if it["remaining"] == 0 { Tone::Bad } else { Tone::Plain };
                table.toned([
                    (whose.clone(), Tone::Plain),
                    (unit.to_owned(), Tone::Plain),
                    (count(&it["limit"]), Tone::Plain),
                    (count(&it["used"]), Tone::Plain),
                    (count(&it["remaining"]), tone),
                    (count(&it["reset_sec"]), Tone::Plain),
                ]);
            }
        }
        if n_rows == 0 {
            return cx.out.line("without limit");
        }
        cx.out.table(&table)
    })
}

/// Returns the models that the caller may call, for callers who do not manage models.
pub(crate) async fn models(cx: &Cx) -> Outcome<Value> {
    Ok(Value::Array(listed(cx, "/auth/models", &[], None).await?.0))
}

/// Prints the models that [`models`] returned.
pub(crate) fn table(cx: &Cx, models: &Value) -> Outcome<()> {
    cx.out.either(models, || {
        let mut table = Table::new(&["SERVED NAME", "TASK", "STATE", "CALLABLE"]);
        for model in models.as_array().into_iter().flatten() {
            let state = cell(&model["state"]);
            let tone = Tone::of_state(&state);
            let callable = if model["callable"] == true { Tone::Good } else { Tone::Plain };
            table.toned([
                (cell(&model["served_name"]), Tone::Plain),
                (cell(&model["task"]), Tone::Plain),
                (state, tone),
                (cell(&model["callable"]), callable),
            ]);
        }
        cx.out.table(&table)
    })
}
