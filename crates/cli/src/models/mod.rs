//! `models`: their records, and what they do.

mod fields;
mod form;
mod inspect;
mod show;
mod wait;

use std::{cell::Cell, time::Duration};

use clap::{Arg, ArgMatches, Command, value_parser};
use http::Method;
use serde_json::{Map, Value, json};

use self::wait::Goal;
use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::query,
    options::{aliased, flag, has, int, many, number, one_of, option, positional, positionals, text, texts},
    output::{Table, Tone},
    own, resolve,
    several::each,
    terminal,
    text::{cell, clean},
    watch,
};

/// Remark that a simulator is not a real model.
const SIMULATED: &str = "a simulator, not a real engine: its text means nothing";
/// Help text on how a model is named.
const WHICH: &str = "Id or served name; `id:2` or `name:2` if a number could be both";
/// Most entries on one page of a list.
const PAGE: usize = 1000;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn command() -> Command {
    let model = || complete::models(positional("MODEL", WHICH));
    let models = || complete::models(positionals("MODEL", WHICH));
    let waiting = |command: Command| {
        let until = if command.get_name() == "stop" {
            "Waits until it has stopped, and shows the progress"
        } else {
            "Waits until it runs or has failed, and shows the progress"
        };
        command.args([
            flag("wait", until),
            number("timeout", "SECONDS", "Waits at most this long; after that the exit code is 8")
                .requires("wait"),
        ])
    };
    let create =
        waiting(values(Command::new("create").about("Creates a model from options or from a record")))
            .arg(flag("start", "Starts it too"))
            .arg(flag("force", "Even if its files do not exist yet or, with --start, are for another task"))
            .mut_arg("wait", |it| it.requires("start"));
    connected(aliased(Command::new("models").about("Models: records, start and stop, logs, checks"), "model"))
        .subcommand_required(true)
        .subcommands([
            aliased(Command::new("list"), "ls")
                .about("Lists models")
                .args([flag("archived", "Includes archived models"), watch::option()]),
            Command::new("show")
                .about("Shows one model with every field that is set")
                .args([model(), watch::option()]),
            create.after_help(form::EXAMPLES),
            values(
                Command::new("set")
                    .about("Changes fields of a model; one that runs uses them after `apply`")
                    .arg(model()),
            )
            .arg(flag("force", "Even if a named file does not exist yet")),
            waiting(
                Command::new("start")
                    .about("Starts models; one that runs already stays as it is")
                    .arg(models()),
            )
            .arg(flag("force", "Even if its files are for another task")),
            waiting(
                Command::new("stop")
                    .about("Stops models; one that is stopped already stays so")
                    .arg(models()),
            ),
            waiting(Command::new("apply").about("Restarts models with their present settings").arg(models()))
                .arg(flag("rollback", "Goes back to the last settings that worked if the new ones fail"))
                .arg(flag("force", "Even if its files are for another task")),
            Command::new("archive")
                .about("Archives stopped models: they are no longer listed, and their names become free")
                .arg(models()),
            Command::new("unarchive").about("Restores archived models").arg(models()),
            aliased(Command::new("delete"), "rm")
                .about("Stops models and deletes their records; their files are kept")
                .arg(models())
                .arg(flag("yes", "Does not ask for confirmation")),
            Command::new("logs").about("Prints the engine's log").arg(model()).args([
                flag("follow", "Prints new lines as they come").short('f'),
                Arg::new("tail")
                    .long("tail")
                    .value_name("N")
                    .value_parser(value_parser!(i64).range(1..=20_000))
                    .help("The last N lines (default: 200; with --since: all, at most 20,000)"),
                option(
                    "since",
                    "TIME",
                    "Only lines since then: a span (10m, 2h), today, a date, or an RFC 3339 time",
                ),
                flag("diagnose", "Also shows why the model does not run, and what to change")
                    .conflicts_with("follow"),
                flag("previous", "The log of the run before this one, as far as the gateway keeps it")
                    .conflicts_with_all(["follow", "since", "diagnose"]),
            ]),
            values(
                Command::new("dry-run")
                    .about(
                        "Shows the command that a start would run, and what is wrong with it; starts nothing",
                    )
                    .arg(complete::models(
                        Arg::new("MODEL")
                            .help("Id or served name; without it, the values given here are used"),
                    )),
            ),
            Command::new("files").about("Lists the folders of the models base directory that hold models"),
            inspect::command(),
            Command::new("test")
                .about("Sends one small request to each of these running models")
                .arg(models()),
            fields::command(),
        ])
}

/// Adds the options that make a body.
fn values(command: Command) -> Command {
    let file = if command.get_name() == "set" {
        "Fields as JSON (`-`: standard input), where `null` unsets a field; other options take precedence"
    } else {
        "A record as JSON (`-`: standard input); other options take precedence"
    };
    command.args([
        option("served-name", "NAME", "The name that clients use"),
        option("name", "TEXT", "The name that people see (default: the served name)"),
        one_of(
            "engine",
            ["vllm", "llamacpp"],
            "The engine (default for a new model: the one that suits its files)",
        ),
        one_of("task", ["generate", "embed"], "The task (default for a new model: the one of its files)"),
        complete::paths(option(
            "path",
            "PATH",
            "Folder or GGUF file, relative to the models base directory (`local_path`)",
        )),
        option("repo", "REPO", "Repository of the model hub (`repo_id`)"),
        complete::assignments(
            many(
                "set",
                "FIELD=VALUE",
                "Sets a field that `gantry models fields` lists; an empty value unsets it",
            )
            .short('s'),
        ),
        option("file", "FILE", file).short('f'),
        flag(
            "tuned",
            "Uses better values than the defaults for fields that are not set; a dry run shows them",
        ),
    ])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let Some((verb, sub)) = matches.subcommand() else { return Ok(()) };
    let named = || text(sub, "MODEL").unwrap_or_default();
    let all = texts(sub, "MODEL");
    match verb {
        "fields" => fields::run(&cx.out, sub),
        "list" => list(cx, sub).await,
        "show" => show::show(cx, sub, find(cx, named()).await?).await,
        "create" => create(cx, sub).await,
        "set" => set(cx, sub).await,
        "dry-run" => show::dry_run(cx, sub).await,
        "files" => show::files(cx).await,
        "inspect" => inspect::run(cx, text(sub, "FOLDER").unwrap_or_default()).await,
        "test" => each(cx, &all, async |it| show::test(cx, &find(cx, it).await?).await).await,
        "logs" => show::logs(cx, sub, &find(cx, named()).await?).await,
        "archive" | "unarchive" => each(cx, &all, async |it| archive(cx, it, verb == "archive").await).await,
        "delete" => each(cx, &all, async |it| delete(cx, it, has(sub, "yes")).await).await,
        command => {
            let goal = if command == "stop" { Goal::Stopped } else { Goal::Running };
            each(cx, &all, async |it| order(cx, sub, &find(cx, it).await?, command, goal).await).await
        }
    }
}

/// Returns every model, read page by page.
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

/// Finds the model with this id or served name, or with `id:2` or `name:x`. If several have the name, it prefers one
/// that is not archived. Other people choose names, so a number that is the id of one model and the name of another is
/// refused.
pub(crate) async fn find(cx: &Cx, given: &str) -> Outcome<Value> {
    let (id, name) = resolve::read(given)?;
    let mut by_id = None;
    // Ids of models fit into 32 bits: a larger number can only be a name.
    if let Some(id) = id.filter(|it| u32::try_from(*it).is_ok()) {
        match cx.client.get(&format!("/admin/models/{id}")).await {
            Err(Failure::Refused(it)) if it.status == 404 => {}
            other => by_id = Some(other?.json),
        }
    }
    let mut by_name = None;
    // A word that is not a number can only be a name. Most words are names.
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
            "`{given}` is the id of the model `{one}` and the name of the model with id {other}: write `id:{given}` or \
             `name:{given}`"
        )));
    }
    if let Some(found) = by_id.or(by_name) {
        return Ok(found);
    }
    let given = clean(given);
    Err(Failure::NotFound(format!("there is no model `{given}`; `gantry models list` lists them all")))
}

pub(crate) fn id(model: &Value) -> String {
    cell(&model["id"])
}

fn name(model: &Value) -> String {
    cell(&model["served_name"])
}

async fn list(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let (archived, are_own) = (has(matches, "archived"), Cell::new(false));
    let look = async || -> Outcome<Value> {
        match all(cx, archived).await {
            // A caller who does not manage models may still call some.
            Err(Failure::Refused(it)) if it.status == 403 && !archived => {
                are_own.set(true);
                own::models(cx).await
            }
            other => other.map(Value::Array),
        }
    };
    let show = |models: &Value| if are_own.get() { own::table(cx, models) } else { table(cx, models) };
    watch::shown(cx, matches, look, show).await
}

fn table(cx: &Cx, models: &Value) -> Outcome<()> {
    cx.out.either(models, || {
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

/// Returns the most important remark about a model, on one line.
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
    let model = match cx.client.post("/admin/models", Some(&body)).await {
        Ok(answer) => answer.json,
        Err(error) => return Err(name_is_taken(cx, matches, &body, error).await),
    };
    if has(matches, "start") {
        cx.out.note(&format!("model {} made: {}", id(&model), name(&model)));
    }
    advise(cx, &body, &model).await;
    if has(matches, "start") {
        return order(cx, matches, &model, "start", Goal::Running).await;
    }
    cx.out.either(&model, || {
        let (id, name) = (id(&model), name(&model));
        cx.out.line(&format!("model {id} created: {name}"))?;
        cx.out.note(&format!("start it with: gantry models start {id} --wait"));
        Ok(())
    })
}

/// Prints which fields were filled in, and the warnings of a dry run of the model, with a command to paste for each
/// fix.
async fn advise(cx: &Cx, body: &Value, model: &Value) {
    let filled = ["engine_type", "task", "pooling"].into_iter();
    let filled = filled.filter(|it| body.get(*it).is_none_or(Value::is_null) && !model[*it].is_null());
    let filled: Vec<_> = filled.map(|it| format!("{it}={}", cell(&model[it]))).collect();
    if !filled.is_empty() {
        cx.out.note(&format!("not given: {}", filled.join(" ")));
    }
    // The model exists already. If this request fails, only the advice is missing.
    let Ok(preview) = cx.client.post(&format!("/admin/models/{}/dry-run", id(model)), None).await else {
        return;
    };
    let target = form::quoted(&name(model));
    for warning in preview.json["warnings"].as_array().into_iter().flatten() {
        // Notes on memory use and on fetching an image are no advice.
        if warning["severity"] == "info" && warning["fix"].is_null() {
            continue;
        }
        for line in show::warning_lines(warning, Some(&target), &cx.out) {
            cx.out.note(&line);
        }
    }
}

/// Extends the error about a taken name. The name often belongs to the user's first attempt, so the text says how to
/// continue with that model.
async fn name_is_taken(cx: &Cx, matches: &ArgMatches, body: &Value, error: Failure) -> Failure {
    let Failure::Refused(refused) = &error else { return error };
    if refused.code != "served_name_conflict" {
        return error;
    }
    let name = body["served_name"].as_str().map(str::to_owned);
    let models = all(cx, false).await.unwrap_or_default();
    let taken = models.iter().find(|it| match &name {
        Some(name) => it["served_name"] == name.as_str(),
        None => refused.message.contains(&format!("(id {})", cell(&it["id"]))),
    });
    if let Some(model) = taken {
        let (id, given) = (id(model), form::given(matches));
        cx.out.note(&format!(
            "to change that model: gantry models set {id} {given} && gantry models start {id} --wait"
        ));
    }
    error
}

async fn set(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let model = find(cx, text(matches, "MODEL").unwrap_or_default()).await?;
    let body = form::of_change(matches, model["engine_type"].as_str())?;
    if body.as_object().is_none_or(Map::is_empty) {
        return Err(Failure::Usage("nothing to change: give --set FIELD=VALUE".to_owned()));
    }
    let path = format!("/admin/models/{}", id(&model));
    let model = cx.client.call(Method::PATCH, &path, Some(&body)).await?.json;
    cx.out.either(&model, || {
        cx.out.line(&format!("model {} changed: {}", id(&model), name(&model)))?;
        if model["needs_apply"] == true {
            cx.out
                .note(&format!("to run it with the new settings: gantry models apply {} --wait", id(&model)));
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

async fn delete(cx: &Cx, given: &str, yes: bool) -> Outcome<()> {
    let model = find(cx, given).await?;
    let what = format!("model {} ({})", id(&model), name(&model));
    terminal::confirm(yes, &what, &format!("which is {}", cell(&model["state"])))?;
    let answer = cx.client.call(Method::DELETE, &format!("/admin/models/{}", id(&model)), None).await?;
    cx.out.either(&answer.json, || cx.out.line(&format!("{what} is deleted")))
}

/// Sends a command, and with `--wait` waits for its effect.
async fn order(cx: &Cx, matches: &ArgMatches, model: &Value, command: &str, goal: Goal) -> Outcome<()> {
    let flags: Vec<_> = ["rollback", "force"]
        .into_iter()
        .filter(|it| has(matches, it))
        .map(|it| (it, "true".to_owned()))
        .collect();
    let path = format!("/admin/models/{}/{command}{}", id(model), query(&flags));
    let (record, already) = match cx.client.post(&path, None).await {
        Ok(answer) => (answer.json, goal == Goal::Stopped && model["state"] == "stopped"),
        // Starting a model that runs already is a success, so that scripts can repeat the command (idempotent).
        Err(Failure::Refused(it)) if command == "start" && it.code == "invalid_state" => {
            let record = cx.client.get(&format!("/admin/models/{}", id(model))).await?.json;
            if !matches!(record["state"].as_str(), Some("starting" | "loading" | "running")) {
                return Err(Failure::Refused(it));
            }
            (record, true)
        }
        Err(other) => return Err(other),
    };
    if has(matches, "wait") && !(already && record["state"] == "running") {
        let limit = int(matches, "timeout").map(|it| Duration::from_secs(it.unsigned_abs()));
        return wait::wait(cx, &record, goal, limit).await;
    }
    cx.out.either(&record, || {
        let state = cell(&record["state"]);
        let state = cx.out.paint(Tone::of_state(&state), &state);
        let already = if already { "already " } else { "" };
        cx.out.line(&format!("{} is {already}{state}", name(&record)))
    })
}
