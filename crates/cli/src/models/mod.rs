//! `models`: their records, and what they do.

mod form;
mod look;
mod settle;

use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use http::Method;
use serde_json::{Map, Value, json};

use self::settle::Goal;
use crate::{
    Cx,
    args::{connected, flag, has, int, many, number, one_of, option, place, text},
    exit::{Failure, Outcome},
    http::query,
    out::{Table, Tone, cell, clean},
    people, terminal,
};

/// What must not be taken for a model.
const SIMULATED: &str = "a simulator, not a real engine: its text means nothing";
/// Lists come in pages of at most so many.
const PAGE: usize = 1000;

pub(crate) fn command() -> Command {
    let model = || place("MODEL", "Id or served name; `id:2` and `name:2` where a number is both");
    let waiting = |command: Command| {
        let until = if command.get_name() == "stop" {
            "Waits until it has stopped, and shows what goes on"
        } else {
            "Waits until it runs or has failed, and shows what goes on"
        };
        command.args([
            flag("wait", until),
            number("timeout", "SECONDS", "Waits at most so long (exit code 8)").requires("wait"),
        ])
    };
    let create =
        waiting(values(Command::new("create").about("Makes a model from options, or from a record")))
            .arg(flag("start", "Starts it too"))
            .mut_arg("wait", |it| it.requires("start"));
    connected(Command::new("models").about("Models: records, start and stop, logs, checks"))
        .subcommand_required(true)
        .subcommands([
            Command::new("list").about("Lists models").arg(flag("archived", "Those that are archived too")),
            Command::new("show").about("Shows one model with every field that is set").arg(model()),
            create.after_help(form::EXAMPLES),
            values(
                Command::new("set").about("Changes fields of a model; `apply` makes them count").arg(model()),
            ),
            waiting(Command::new("start").about("Starts a model").arg(model())),
            waiting(Command::new("stop").about("Stops a model").arg(model())),
            waiting(
                Command::new("apply")
                    .about("Restarts a model with its settings as they are now")
                    .arg(model()),
            )
            .arg(flag("rollback", "Goes back to the last settings that worked if these do not")),
            Command::new("archive")
                .about("Puts a stopped model away: it is not listed, and its name is free")
                .arg(model()),
            Command::new("unarchive").about("Takes an archived model back").arg(model()),
            Command::new("delete")
                .about("Stops a model and deletes its record; its files stay")
                .arg(model())
                .arg(flag("yes", "Does not ask")),
            Command::new("logs").about("Prints the engine's log").arg(model()).args([
                flag("follow", "Goes on with the lines to come").short('f'),
                Arg::new("tail")
                    .long("tail")
                    .value_name("N")
                    .value_parser(value_parser!(i64).range(1..=20_000))
                    .help("The last N lines (200 unless given)"),
                flag("diagnose", "Also says why it does not run, and what to change")
                    .conflicts_with("follow"),
            ]),
            values(
                Command::new("dry-run")
                    .about(
                        "Shows the command that a start would run, and what is wrong with it; starts nothing",
                    )
                    .arg(Arg::new("MODEL").help("Id or served name; left out: the values given here")),
            ),
            Command::new("inspect")
                .about("Says what a folder or GGUF file is, and which engine suits it")
                .arg(place("FOLDER", "Relative to the models base directory")),
            Command::new("test").about("Sends one small request to a running model").arg(model()),
        ])
}

/// The options that make a body.
fn values(command: Command) -> Command {
    let file = if command.get_name() == "set" {
        "Fields as JSON (`-`: standard input), where `null` unsets; the other options win over it"
    } else {
        "A record as JSON (`-`: standard input); the other options win over it"
    };
    command.args([
        option("served-name", "NAME", "The name that clients use"),
        option("name", "TEXT", "The name that people see; the served name unless given"),
        one_of("engine", ["vllm", "llamacpp"], "The engine"),
        one_of("task", ["generate", "embed"], "What it is for"),
        option("path", "PATH", "Folder or GGUF file, relative to the models base directory (`local_path`)"),
        option("repo", "REPO", "Repository of the model hub (`repo_id`)"),
        many("set", "FIELD=VALUE", "Any field, as docs/model-fields.md lists them; empty unsets it")
            .short('s'),
        option("file", "FILE", file).short('f'),
    ])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let Some((verb, sub)) = matches.subcommand() else { return Ok(()) };
    let named = || text(sub, "MODEL").unwrap_or_default();
    match verb {
        "list" => list(cx, has(sub, "archived")).await,
        "show" => look::show(cx, &find(cx, named()).await?),
        "create" => create(cx, sub).await,
        "set" => set(cx, sub).await,
        "dry-run" => look::dry_run(cx, sub).await,
        "inspect" => look::inspect(cx, text(sub, "FOLDER").unwrap_or_default()).await,
        "test" => look::test(cx, &find(cx, named()).await?).await,
        "logs" => look::logs(cx, sub, &find(cx, named()).await?).await,
        "archive" | "unarchive" => archive(cx, named(), verb == "archive").await,
        "delete" => delete(cx, sub).await,
        command => {
            let model = find(cx, named()).await?;
            let goal = if command == "stop" { Goal::Stopped } else { Goal::Running };
            let rollback = if has(sub, "rollback") { "?rollback=true" } else { "" };
            order(cx, sub, &model, &format!("{command}{rollback}"), goal).await
        }
    }
}

/// Every model, page by page.
async fn all(cx: &Cx, archived: bool) -> Outcome<Vec<Value>> {
    let mut models = Vec::new();
    loop {
        let pairs = [
            ("limit", PAGE.to_string()),
            ("offset", models.len().to_string()),
            ("archived", archived.to_string()),
        ];
        let answer = cx.client.get(&format!("/admin/models{}", query(&pairs))).await?;
        models.extend_from_slice(answer.list());
        if answer.list().is_empty() || answer.total().is_none_or(|total| models.len() >= total) {
            return Ok(models);
        }
    }
}

/// The model of this id or served name, `id:2` or `name:x`; of several of a name the one that is not archived. Others choose
/// names: a number that is the id of one and the name of another is refused.
async fn find(cx: &Cx, given: &str) -> Outcome<Value> {
    let (id, name) = people::read(given)?;
    let mut by_id = None;
    // Ids of models are no larger: a longer number can only be a name.
    if let Some(id) = id.filter(|it| u32::try_from(*it).is_ok()) {
        match cx.client.get(&format!("/admin/models/{id}")).await {
            Err(Failure::Refused(it)) if it.status == 404 => {}
            other => by_id = Some(other?.json),
        }
    }
    let mut by_name = None;
    // A word that is no number can only be a name, and most words are.
    if let Some(name) = name {
        for archived in [false, true] {
            by_name = all(cx, archived).await?.into_iter().find(|it| it["served_name"] == name);
            if by_name.is_some() {
                break;
            }
        }
    }
    if let (Some(one), Some(other)) = (&by_id, &by_name)
        && one["id"] != other["id"]
    {
        let (given, one, other) = (clean(given), cell(&one["served_name"]), cell(&other["id"]));
        return Err(Failure::Usage(format!(
            "`{given}` is the id of the model `{one}` and the name of the model with id {other}: say `id:{given}` or \
             `name:{given}`"
        )));
    }
    if let Some(found) = by_id.or(by_name) {
        return Ok(found);
    }
    let given = clean(given);
    Err(Failure::NotFound(format!(
        "there is no model `{given}`; `gantry models list` shows those that there are"
    )))
}

fn id(model: &Value) -> String {
    cell(&model["id"])
}

fn name(model: &Value) -> String {
    cell(&model["served_name"])
}

async fn list(cx: &Cx, archived: bool) -> Outcome<()> {
    let models = Value::Array(all(cx, archived).await?);
    cx.out.either(&models, || {
        let mut table = Table::new(&["ID>", "SERVED NAME", "ENGINE", "TASK", "STATE", "REMARK"]);
        for model in models.as_array().into_iter().flatten() {
            let state = cell(&model["state"]);
            let tone = Tone::of_state(&state);
            table.toned([
                (id(model), Tone::Plain),
                (cell(&model["served_name"]), Tone::Plain),
                (cell(&model["engine_type"]), Tone::Plain),
                (cell(&model["task"]), Tone::Plain),
                (state, tone),
                (remark(model), Tone::Plain),
            ]);
        }
        cx.out.table(&table)
    })
}

/// What one should know about it, in a line.
pub(crate) fn remark(model: &Value) -> String {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    if model["state"] == "failed" {
        let title = text(&model["diagnosis"]["title"]);
        return if title.is_empty() { text(&model["state_reason"]) } else { title };
    }
    if model["rolled_back"].is_object() {
        return format!("rolled back: {}", text(&model["rolled_back"]["reason"]));
    }
    if model["needs_apply"] == true {
        return format!("needs apply: {}", text(&model["needs_apply_reason"]));
    }
    if model["archived"] == true {
        return "archived".to_owned();
    }
    let reason = text(&model["state_reason"]);
    if model["simulator"] == true && reason.is_empty() { SIMULATED.to_owned() } else { reason }
}

async fn create(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let body = form::of_new(matches)?;
    let model = cx.client.post("/admin/models", Some(&body)).await?.json;
    if has(matches, "start") {
        cx.out.note(&format!("model {} made: {}", id(&model), name(&model)));
        return order(cx, matches, &model, "start", Goal::Running).await;
    }
    cx.out.either(&model, || {
        let (id, name) = (id(&model), name(&model));
        cx.out.line(&format!("model {id} made: {name}"))?;
        cx.out.note(&format!("start it with: gantry models start {id} --wait"));
        Ok(())
    })
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let model = find(cx, text(matches, "MODEL").unwrap_or_default()).await?;
    let body = form::of_change(matches, model["engine_type"].as_str())?;
    if body.as_object().is_none_or(Map::is_empty) {
        return Err(Failure::Usage("nothing to change: say what with --set FIELD=VALUE".to_owned()));
    }
    let path = format!("/admin/models/{}", id(&model));
    let model = cx.client.call(Method::PATCH, &path, Some(&body)).await?.json;
    cx.out.either(&model, || {
        cx.out.line(&format!("model {} changed: {}", id(&model), name(&model)))?;
        if model["needs_apply"] == true {
            cx.out.note(&format!("it runs as before until: gantry models apply {} --wait", id(&model)));
        }
        Ok(())
    })
}

async fn archive(cx: &Cx, given: &str, archived: bool) -> Outcome<()> {
    let path = format!("/admin/models/{}", id(&find(cx, given).await?));
    let body = json!({ "archived": archived });
    let model = cx.client.call(Method::PATCH, &path, Some(&body)).await?.json;
    cx.out.either(&model, || {
        let how = if archived { "archived" } else { "no longer archived" };
        cx.out.line(&format!("model {} ({}) is {how}", id(&model), name(&model)))
    })
}

async fn delete(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let model = find(cx, text(matches, "MODEL").unwrap_or_default()).await?;
    let what = format!("model {} ({})", id(&model), name(&model));
    terminal::confirm(has(matches, "yes"), &what, &format!("which is {}", cell(&model["state"])))?;
    let answer = cx.client.call(Method::DELETE, &format!("/admin/models/{}", id(&model)), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{what} is deleted")))
}

/// Sends a command, and waits for its effect if that is wanted.
async fn order(cx: &Cx, matches: &ArgMatches, model: &Value, command: &str, goal: Goal) -> Outcome<()> {
    let path = format!("/admin/models/{}/{command}", id(model));
    let answer = cx.client.post(&path, None).await?;
    if has(matches, "wait") {
        let limit = int(matches, "timeout").map(|it| Duration::from_secs(it.unsigned_abs()));
        return settle::wait(cx, &answer.json, goal, limit).await;
    }
    let model = &answer.json;
    cx.out.either(model, || {
        let state = cell(&model["state"]);
        let state = cx.out.paint(Tone::of_state(&state), &state);
        cx.out.line(&format!("{} is {state}", name(model)))
    })
}
