//! Looking at models: one record, the engine's command before it runs, files, a test request, logs.

use std::cell::Cell;

use clap::ArgMatches;
use serde_json::{Map, Value, json};

use super::{find, form, id, name, remark, wait};
use crate::{
    cx::Cx,
    events::Events,
    exit::{Failure, Outcome},
    http::query,
    options::{has, int, text},
    output::{Out, Table, Tone},
    resolve::listed,
    text::{bytes, cell, clean},
    times::{past, zone},
    watch,
};

/// Number of log lines by default.
const TAIL: i64 = 200;
/// Most log lines that the gateway returns.
const MOST: i64 = 20_000;
/// Fields that are shown at the top, not among the settings.
const HEAD: &[&str] = &[
    "id",
    "name",
    "served_name",
    "task",
    "engine_type",
    "state",
    "state_reason",
    "needs_apply",
    "needs_apply_reason",
    "rolled_back",
    "diagnosis",
    "restart",
    "simulator",
    "archived",
    "defaulted",
    "created_at",
    "updated_at",
    "revision",
];

pub(super) async fn show(cx: &Cx, matches: &ArgMatches, model: Value) -> Outcome<()> {
    let path = format!("/admin/models/{}", id(&model));
    let first = Cell::new(Some(model));
    let look = async || -> Outcome<Value> {
        match first.take() {
            Some(model) => Ok(model),
            None => Ok(cx.client.get(&path).await?.json),
        }
    };
    watch::shown(cx, matches, look, |model| one(cx, model)).await
}

fn one(cx: &Cx, model: &Value) -> Outcome<()> {
    cx.out.either(model, || {
        let mut pairs = vec![
            ("id", id(model)),
            ("served name", cell(&model["served_name"])),
            ("name", cell(&model["name"])),
            ("engine", cell(&model["engine_type"])),
            ("task", cell(&model["task"])),
            ("state", cell(&model["state"])),
        ];
        let remark = remark(model);
        if !remark.is_empty() {
            pairs.push(("remark", remark));
        }
        pairs.push(("created", cx.out.time(&model["created_at"])));
        pairs.push(("changed", cx.out.time(&model["updated_at"])));
        cx.out.pairs(&pairs)?;
        let empty = Map::new();
        let set = model.as_object().unwrap_or(&empty).iter();
        let defaulted = model["defaulted"].as_array().cloned().unwrap_or_default();
        let defaulted = |name: &str| defaulted.iter().any(|it| it == name);
        let set: Vec<_> = set
            .filter(|(name, value)| {
                let no_token = *name == "hub_token_set" && **value == json!(false);
                !HEAD.contains(&name.as_str()) && !value.is_null() && !defaulted(name) && !no_token
            })
            .map(|(name, value)| {
                (name.as_str(), if value.is_object() { value.to_string() } else { cell(value) })
            })
            .collect();
        cx.out.line("")?;
        cx.out.pairs(&set)?;
        if model["state"] == "failed" && model["diagnosis"].is_object() {
            cx.out.line("")?;
            for line in wait::lines(&model["diagnosis"], &cx.out) {
                cx.out.line(&line)?;
            }
        }
        Ok(())
    })
}

pub(super) async fn dry_run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let answer = match text(matches, "MODEL") {
        Some(_) if form::is_given(matches) => {
            return Err(Failure::Usage("give either a model or values, not both".to_owned()));
        }
        Some(given) => {
            let path = format!("/admin/models/{}/dry-run", id(&find(cx, given).await?));
            cx.client.post(&path, None).await?
        }
        None if form::is_given(matches) => {
            cx.client.post("/admin/models/dry-run", Some(&form::of_new(matches)?)).await?
        }
        None => {
            return Err(Failure::Usage("name a model, or give values with --set or --file".to_owned()));
        }
    };
    let preview = &answer.json;
    cx.out.either(preview, || {
        cx.out.line(&cell(&preview["command_str"]))?;
        cx.out.line("")?;
        let cached = if preview["image_cached"] == true { "on this machine" } else { "not on this machine" };
        let gb = |it: &Value| match it.as_f64() {
            None => "unknown".to_owned(),
            Some(it) if it < 1.0 => format!("{:.0} MiB", (it * 1024.0).max(1.0)),
            Some(it) => format!("{it:.1} GiB"),
        };
        let none = preview["vram_estimate"]["gpu_indexes"].as_array().is_some_and(Vec::is_empty);
        let memory = if none { "memory (no GPU)" } else { "GPU memory" };
        cx.out.pairs(&[
            ("image", format!("{} ({cached})", cell(&preview["image"]))),
            ("engine version", cell(&preview["engine_version"])),
            (memory, gb(&preview["vram_estimate_gb"])),
        ])?;
        let target = text(matches, "MODEL").map(form::quoted);
        for warning in preview["warnings"].as_array().into_iter().flatten() {
            for line in warning_lines(warning, target.as_deref(), &cx.out) {
                cx.out.line(&line)?;
            }
        }
        Ok(())
    })?;
    if preview["valid"] == false {
        return Err(Failure::Failed("a start would fail: see the errors above".to_owned()));
    }
    Ok(())
}

/// Returns a warning of a dry run as lines: title, message, and how to fix it. The fix is a command to paste if there
/// is a model `target`, else options to add.
pub(super) fn warning_lines(warning: &Value, target: Option<&str>, out: &Out) -> Vec<String> {
    let severity = cell(&warning["severity"]);
    let tone = if severity == "error" { Tone::Bad } else { Tone::Busy };
    let head = out.paint(tone, &severity);
    let mut lines =
        vec![format!("{head}: {}", cell(&warning["title"])), format!("  {}", cell(&warning["message"]))];
    lines.extend(warning["fix"].as_str().map(|it| format!("  fix: {}", clean(it))));
    if let Some(set) = warning["set"].as_object() {
        let set = form::assignments(set);
        lines.push(match target {
            Some(model) => format!("       gantry models set {model} {set}"),
            None => format!("       {set}"),
        });
    }
    lines
}

pub(super) async fn test(cx: &Cx, model: &Value) -> Outcome<()> {
    let answer = cx.client.post(&format!("/admin/models/{}/test", id(model)), None).await?;
    let done = &answer.json;
    cx.out.either(done, || {
        if done["success"] != true {
            return Ok(());
        }
        let word = cx.out.paint(Tone::Good, "answers");
        cx.out.line(&format!(
            "{} {word} ({} in {} ms)",
            name(model),
            cell(&done["test_type"]),
            cell(&done["latency_ms"])
        ))
    })?;
    if done["success"] == true {
        return Ok(());
    }
    let why = if done["error"].is_string() { cell(&done["error"]) } else { done["error"].to_string() };
    Err(Failure::Failed(format!("{} did not pass its test: {}", name(model), clean(&why))))
}

pub(super) async fn files(cx: &Cx) -> Outcome<()> {
    let (folders, _) = listed(cx, "/admin/models/local-folders", &[], None).await?;
    let folders = Value::Array(folders);
    cx.out.either(&folders, || {
        let mut table = Table::new(&["PATH", "FILES", "SIZE>"]);
        for folder in folders.as_array().into_iter().flatten() {
            let format = match (&folder["has_gguf"], &folder["has_safetensors"]) {
                (Value::Bool(true), Value::Bool(true)) => "GGUF, safetensors",
                (Value::Bool(true), _) => "GGUF",
                (_, Value::Bool(true)) => "safetensors",
                _ => "-",
            };
            let size = bytes(folder["size_bytes"].as_u64().unwrap_or_default());
            table.row([cell(&folder["path"]), format.to_owned(), size]);
        }
        cx.out.table(&table)
    })?;
    cx.out.note("what is in one, and which engine suits it: gantry models inspect PATH");
    Ok(())
}

pub(super) async fn logs(cx: &Cx, matches: &ArgMatches, model: &Value) -> Outcome<()> {
    let since = text(matches, "since").map(|it| past(it, crate::times::now(), &zone(cx.out.utc)));
    let tail = int(matches, "tail").unwrap_or(if since.is_some() { MOST } else { TAIL });
    let mut pairs = vec![("tail", tail.to_string())];
    pairs.extend(since.map(|it| ("since", it)));
    if has(matches, "previous") {
        pairs.push(("previous", "true".to_owned()));
    }
    let path = format!("/admin/models/{}/logs{}", id(model), query(&pairs));
    if has(matches, "follow") {
        let mut events = Events::default();
        return cx
            .client
            .stream(&format!("{path}&follow=true"), |bytes| {
                for event in events.take(bytes) {
                    if cx.out.json() {
                        cx.out.compact(&event)?;
                    } else {
                        cx.out.line(&visible(event["line"].as_str().unwrap_or_default()))?;
                    }
                }
                Ok(())
            })
            .await;
    }
    let diagnose = if has(matches, "diagnose") { "&diagnose=true" } else { "" };
    let answer = cx.client.get(&format!("{path}{diagnose}")).await?;
    cx.out.either(&answer.json, || {
        for line in answer.json["logs"].as_str().unwrap_or_default().lines() {
            cx.out.line(&visible(line))?;
        }
        if answer.json["diagnosis"].is_object() {
            cx.out.line("")?;
            for line in wait::lines(&answer.json["diagnosis"], &cx.out) {
                cx.out.line(&line)?;
            }
        }
        Ok(())
    })
}

/// Returns a line of an engine's log without control characters, except tabs.
fn visible(line: &str) -> String {
    line.split('\t').map(clean).collect::<Vec<_>>().join("\t")
}
