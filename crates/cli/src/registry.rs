//! `registry`: engines that the gateway does not run itself, such as another Gantry, a bare vLLM or an endpoint of a cloud.

use std::{
    fs::File,
    io::{self, Read},
};

use clap::{Arg, ArgMatches, Command};
use gantry_domain::model::Task;
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::{escaped, query},
    options::{flag, has, many, one_of, option, positional, text, texts},
    output::{Table, Tone},
    resolve::{among, listed},
    text::{cell, clean},
};

const PATH: &str = "/admin/models/registry";
/// Longest key in bytes, including its line end.
const MAX_KEY: u64 = 502;

pub(crate) fn command() -> Command {
    let list = Command::new("list").about(
        "Lists where each served name goes: models that run here, and engines that were added by hand",
    );
    let add = Command::new("add")
        .about("Adds an engine that runs elsewhere under a served name, or replaces the entry with that name")
        .arg(name())
        .arg(
            Arg::new("URL")
                .required(true)
                .num_args(1..)
                .help("Address of the engine, such as http://10.0.0.5:8000; several addresses share the requests"),
        )
        .args([task(), model(), key()])
        .after_help(
            "Another Gantry, with one of its keys in a file:\n  gantry registry add qwen https://gpu2.example.com \
             --api-key-file gpu2.key\nTwo bare vLLMs that share the requests:\n  gantry registry add qwen http://10.0.0.5:8000 \
             http://10.0.0.6:8000\nA model that has another name there:\n  gantry registry add small \
             https://api.example.com/v1 --upstream-model vendor/small-2 --api-key-file vendor.key",
        );
    let set = Command::new("set")
        .visible_alias("change")
        .about("Changes an entry; fields that are not given stay as they are")
        .arg(complete::registry(name()))
        .args([
            many("address", "URL", "New address; can be given several times"),
            task(),
            model(),
            flag("same-name", "The model has the served name there").conflicts_with("upstream-model"),
            key(),
            flag("no-api-key", "Sends no key any more").conflicts_with("api-key-file"),
        ])
        .after_help(
            "If you change the address, give the key again: a stored key is never sent to a new address.\n  gantry registry set qwen --address http://10.0.0.5:8000 --address http://10.0.0.7:8000",
        );
    let remove =
        Command::new("remove").visible_alias("rm").about("Removes an entry").arg(complete::registry(name()));
    connected(Command::new("registry").about("Engines elsewhere: list, add, change, remove"))
        .subcommand_required(true)
        .subcommands([list, add, set, remove])
}

fn name() -> Arg {
    positional("SERVED_NAME", "The served name: what clients write as `model`")
}

fn task() -> Arg {
    one_of("task", [Task::Generate.as_str(), Task::Embed.as_str()], "The task (default: `generate`)")
}

fn model() -> Arg {
    option("upstream-model", "NAME", "Name of the model there, if it differs from the served name")
}

fn key() -> Arg {
    option("api-key-file", "FILE", "File with the engine's key; `-` is standard input")
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("add", sub)) => add(cx, sub).await,
        Some(("set", sub)) => set(cx, sub).await,
        Some(("remove", sub)) => remove(cx, sub).await,
        _ => list(cx).await,
    }
}

async fn list(cx: &Cx) -> Outcome<()> {
    let (all, _) = listed(cx, PATH, &[], None).await?;
    let all = Value::Array(all);
    cx.out.either(&all, || {
        let mut table =
            Table::new(&["SERVED NAME", "SOURCE", "TASK", "HEALTH", "BREAKER", "NAME THERE", "URLS"]);
        for it in all.as_array().into_iter().flatten() {
            let (health, tone) =
                if it["healthy"] == true { ("ok", Tone::Good) } else { ("failing", Tone::Bad) };
            table.toned([
                (cell(&it["served_name"]), Tone::Plain),
                (source(it).to_owned(), Tone::Plain),
                (cell(&it["task"]), Tone::Plain),
                (health.to_owned(), tone),
                (cell(&it["breaker"]), Tone::Plain),
                (cell(&it["upstream_model"]), Tone::Plain),
                (cell(&it["urls"]), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })
}

/// Returns where an engine comes from: the name of the verb that manages it.
pub(crate) fn source(engine: &Value) -> &'static str {
    if engine["source"] == "manual" { "registry" } else { "models" }
}

async fn add(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = given(matches)?;
    body.insert("served_name".to_owned(), text(matches, "SERVED_NAME").into());
    body.insert("urls".to_owned(), json!(texts(matches, "URL")));
    let entry = cx.client.post(PATH, Some(&Value::Object(body))).await?.json;
    tell(cx, &entry).await
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = given(matches)?;
    let urls = texts(matches, "address");
    if !urls.is_empty() {
        body.insert("urls".to_owned(), json!(urls));
    }
    for (option, field) in [("same-name", "upstream_model"), ("no-api-key", "api_key")] {
        if has(matches, option) {
            body.insert(field.to_owned(), Value::Null);
        }
    }
    if body.is_empty() {
        return Err(Failure::Usage(
            "nothing to change: give an option such as --address http://10.0.0.5:8000".to_owned(),
        ));
    }
    let path = format!("{PATH}/{}", escaped(text(matches, "SERVED_NAME").unwrap_or_default()));
    let entry = cx.client.call(Method::PATCH, &path, Some(&Value::Object(body))).await?.json;
    tell(cx, &entry).await
}

/// Returns the part of the body that `add` and `set` have in common.
fn given(matches: &ArgMatches) -> Outcome<Map<String, Value>> {
    let mut body = Map::new();
    for (option, field) in [("task", "task"), ("upstream-model", "upstream_model")] {
        if let Some(value) = text(matches, option) {
            body.insert(field.to_owned(), value.into());
        }
    }
    if let Some(file) = text(matches, "api-key-file") {
        body.insert("api_key".to_owned(), key_of(file)?.into());
    }
    Ok(body)
}

fn key_of(file: &str) -> Outcome<String> {
    let mut key = String::new();
    let read = match file {
        "-" => io::stdin().lock().take(MAX_KEY).read_to_string(&mut key),
        file => File::open(file).and_then(|it| it.take(MAX_KEY).read_to_string(&mut key)),
    };
    read.map_err(|error| Failure::Usage(format!("can't read the key from {}: {error}", clean(file))))?;
    Ok(key.trim_end_matches(['\r', '\n']).to_owned())
}

/// Prints the resulting entry, and what is wrong with its addresses.
async fn tell(cx: &Cx, entry: &Value) -> Outcome<()> {
    let name = cell(&entry["served_name"]);
    let upstreams =
        among(cx, "/admin/upstreams", &[], |it| it["served_name"] == entry["served_name"]).await?;
    cx.out.either(entry, || {
        let word = if entry["healthy"] == true {
            "is served by"
        } else {
            "is in the registry, but not served yet by"
        };
        cx.out.line(&format!("{name} {word} {}", cell(&entry["urls"])))?;
        for it in upstreams.iter().filter(|it| it["healthy"] != true) {
            cx.out.note(&format!("{}: {}", cell(&it["url"]), cell(&it["last_error"])));
        }
        Ok(())
    })
}

async fn remove(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let name = text(matches, "SERVED_NAME").unwrap_or_default();
    let path = format!("{PATH}{}", query(&[("served_name", name.to_owned())]));
    let answer = cx.client.call(Method::DELETE, &path, None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{} is removed", clean(name))))
}
