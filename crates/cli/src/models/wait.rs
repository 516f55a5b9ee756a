//! Waits until a model reaches the wanted state, and reports why if it does not.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{SIMULATED, id, name};
use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    output::{Out, Tone},
    progress::Progress,
    text::{cell, clean},
};

const LOOK: Duration = Duration::from_millis(500);
/// Longest wait for the diagnosis after a failure.
const DIAGNOSIS: Duration = Duration::from_secs(5);
/// Number of log lines that are shown after a failure.
const LAST_LINES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    Running,
    Stopped,
}

/// # Errors
/// The model fails, reaches another state, or takes longer than `limit`.
pub(super) async fn wait(cx: &Cx, model: &Value, goal: Goal, limit: Option<Duration>) -> Outcome<()> {
    let (id, name, begin) = (id(model), name(model), Instant::now());
    let path = format!("/admin/models/{id}");
    let mut progress = Progress::new(&cx.out);
    let record = loop {
        let record = cx.client.get(&path).await?.json;
        let state = record["state"].as_str().unwrap_or_default();
        match (state, goal) {
            ("running" | "failed" | "stopped", Goal::Running) | ("failed" | "stopped", Goal::Stopped) => {
                break record;
            }
            _ => {}
        }
        let ready = cx.client.get(&format!("{path}/readiness")).await?.json;
        let detail = clean(ready["detail"].as_str().unwrap_or_default());
        let (elapsed, most) = (begin.elapsed().as_secs(), cell(&ready["timeout_sec"]));
        let state = cell(&record["state"]);
        let more = match state.as_str() {
            "loading" => format!("{detail}  {elapsed} s (at most {most} s)"),
            "starting" => format!("{detail}  {elapsed} s"),
            _ => format!("{elapsed} s"),
        };
        progress.show(&format!("{name}: {state}"), &more, pulled(&detail));
        if limit.is_some_and(|it| begin.elapsed() >= it) {
            let why = format!("{name} is {state} after {elapsed} s; the gateway goes on with it");
            return Err(Failure::TimedOut(why));
        }
        sleep(LOOK).await;
    };
    drop(progress);
    verdict(cx, record, goal, begin.elapsed()).await
}

async fn verdict(cx: &Cx, record: Value, goal: Goal, took: Duration) -> Outcome<()> {
    let (name, state) = (name(&record), cell(&record["state"]));
    let rolled_back = goal == Goal::Running && record["rolled_back"].is_object();
    match (state.as_str(), goal) {
        ("running", Goal::Running) if !rolled_back => {}
        ("stopped", Goal::Stopped) => {}
        ("running" | "failed", _) => return failed(cx, record, rolled_back).await,
        _ => {
            cx.out.either(&record, || Ok(()))?;
            return Err(Failure::Failed(format!("{name} is {state}: somebody else gave it another command")));
        }
    }
    let shown = cx.out.paint(Tone::of_state(&state), &state);
    cx.out
        .either(&record, || cx.out.line(&format!("{name} is {shown} (after {:.1} s)", took.as_secs_f64())))?;
    if goal == Goal::Running && record["simulator"] == true {
        cx.out.note(&format!("{name} is {SIMULATED}"));
    }
    Ok(())
}

/// Prints the whole diagnosis and the last lines of the log, and returns the failure.
async fn failed(cx: &Cx, mut record: Value, rolled_back: bool) -> Outcome<()> {
    let path = format!("/admin/models/{}", id(&record));
    let begin = Instant::now();
    while !rolled_back && record["diagnosis"].is_null() && begin.elapsed() < DIAGNOSIS {
        sleep(LOOK).await;
        record = cx.client.get(&path).await?.json;
    }
    let name = name(&record);
    if cx.out.json() {
        cx.out.value(&record)?;
    }
    let (diagnosis, reason) = if rolled_back {
        (&record["rolled_back"]["diagnosis"], &record["rolled_back"]["reason"])
    } else {
        (&record["diagnosis"], &record["state_reason"])
    };
    let reason = clean(reason.as_str().unwrap_or("no reason is known"));
    if !cx.out.json() {
        if !diagnosis.is_null() {
            for line in lines(diagnosis, &cx.out) {
                cx.out.note(&line);
            }
        }
        // After a rollback, the log is not of the engine that failed, so it is not shown.
        if !rolled_back && let Ok(answer) = cx.client.get(&format!("{path}/logs?tail={LAST_LINES}")).await {
            let log = answer.json["logs"].as_str().unwrap_or_default();
            // If a start fails before it makes an engine, the log is still that of the previous engine.
            if !log.is_empty() && answer.json["earlier"] != true {
                cx.out.note("last lines of the log:");
                log.lines().for_each(|it| cx.out.note(&format!("  {}", clean(it))));
            }
        }
    }
    let what =
        if rolled_back { "was rolled back, and runs with the last settings that worked" } else { "failed" };
    Err(Failure::Failed(format!("{name} {what}: {reason}")))
}

/// Returns a diagnosis as lines: title, message, field, and how to fix it.
pub(super) fn lines(diagnosis: &Value, out: &Out) -> Vec<String> {
    let text = |it: &Value| clean(it.as_str().unwrap_or_default());
    let mut lines =
        vec![out.paint(Tone::Bad, &text(&diagnosis["title"])), format!("  {}", text(&diagnosis["message"]))];
    if diagnosis["field"].is_string() {
        lines.push(format!("  field: {}", text(&diagnosis["field"])));
    }
    for fix in diagnosis["fixes"].as_array().into_iter().flatten() {
        let field = text(&fix["field"]);
        let set = match fix.get("value").filter(|_| !field.is_empty()) {
            Some(Value::Null) => format!("  (--set {field}=)"),
            Some(value) => format!("  (--set {field}={})", clean(&cell_of(value))),
            None => String::new(),
        };
        lines.push(format!("  fix: {}{set}", text(&fix["text"])));
    }
    lines
}

/// Returns a value in the form that `--set` takes.
fn cell_of(value: &Value) -> String {
    match value {
        Value::Bool(it) => it.to_string(),
        Value::Object(_) => value.to_string(),
        other => cell(other),
    }
}

/// Returns how much of an image is pulled, as a fraction, from text such as `… 120 of 480 MiB …`.
fn pulled(detail: &str) -> Option<f64> {
    let words: Vec<&str> = detail.split(' ').collect();
    let at = words.iter().position(|it| *it == "MiB")?;
    let (all, done): (f64, f64) =
        (words.get(at.checked_sub(1)?)?.parse().ok()?, words.get(at.checked_sub(3)?)?.parse().ok()?);
    (words.get(at.checked_sub(2)?) == Some(&"of") && all > 0.0).then(|| done / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_has_a_bar_and_nothing_else_has() {
        assert_eq!(pulled("the image is being pulled: 120 of 480 MiB known so far"), Some(0.25));
        assert_eq!(pulled("the image is being pulled: 0 of 0 MiB known so far"), None);
        assert_eq!(pulled("the container is being made"), None);
        assert_eq!(pulled("MiB"), None);
    }
}
