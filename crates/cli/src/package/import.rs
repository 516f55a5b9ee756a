//! `package import`: shows what an import into the gateway would do, asks, and does it.

use clap::{ArgMatches, Command, builder::PossibleValuesParser};
use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    cx::Cx,
    exit::{Exit, Failure, Outcome},
    gateway_options::connected,
    http::query,
    jobs,
    options::{flag, has, option, text, texts},
    progress::Progress,
    terminal,
    text::{bytes, cell, clean},
};

const MODEL: &str = "/admin/deployment/import-model";
const PACKAGE: &str = "/admin/deployment/import";

pub(super) fn command() -> Command {
    let only = option("only", "PARTS", "Only these, separated by commas: images, weights, hub-cache, models")
        .value_delimiter(',')
        .value_parser(PossibleValuesParser::new(["images", "weights", "hub-cache", "models"]))
        .conflicts_with("model");
    connected(Command::new("import").about("Imports images, weights and models of a package into the gateway"))
        .args([
            super::gateway_dir(),
            option("base", "DIR", "The package that this one is the difference to"),
            only,
            option("model", "NAME", "Only this model: its served name or name there, or its manifest, such as model-7.json"),
            flag("rename", "If the served name is taken, appends -IMPORTED to both names").requires("model"),
            option("as", "NAME", "Another served name for the model").requires("model"),
            option("local-path", "PATH", "Another path for the model's weights, which are then left in the package")
                .requires("model"),
            flag("replace-images", "Moves names of images of this machine to other images of the package"),
            flag("dry-run", "Only shows what would be done"),
            flag("yes", "Does not ask"),
        ])
        .after_help(format!(
            "Nothing that is there already is changed: files are never overwritten, and models with the same served name stay \
             as they are. Everything is verified before it is used. What would be done is shown first, and done once you agree. The \
             database is not part of an import: `gantry package restore` replaces it. {}",
            jobs::ENDS
        ))
}

pub(super) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    let mut body = Map::new();
    body.insert("output_dir".to_owned(), json!(text(matches, "DIR")));
    if let Some(base) = text(matches, "base") {
        body.insert("base_dir".to_owned(), json!(base));
    }
    if has(matches, "replace-images") {
        body.insert("replace_images".to_owned(), json!(true));
    }
    match text(matches, "model") {
        Some(name) => model(cx, matches, body, name).await,
        None => package(cx, matches, body).await,
    }
}

async fn package(cx: &Cx, matches: &ArgMatches, mut body: Map<String, Value>) -> Outcome<()> {
    let only = texts(matches, "only");
    if !only.is_empty() {
        for (part, field) in [
            ("images", "include_images"),
            ("weights", "include_weights"),
            ("hub-cache", "include_hub_cache"),
            ("models", "include_models"),
        ] {
            body.insert(field.to_owned(), json!(only.contains(&part)));
        }
    }
    let seen = dry(cx, PACKAGE, &body).await?;
    if !cx.out.json() || has(matches, "dry-run") {
        cx.out.either(&seen, || {
            let mut pairs = vec![
                ("new models", cell(&seen["new_models"])),
                ("stay as they are", cell(&seen["present_models"])),
            ];
            pairs.extend(plan(&seen["plan"]));
            cx.out.pairs(&pairs)?;
            warnings(cx, &seen);
            Ok(())
        })?;
    }
    may_go_on(cx, matches, &seen)?;
    if has(matches, "dry-run") {
        return Ok(());
    }
    let job = cx.client.post(PACKAGE, Some(&Value::Object(body))).await?.json;
    jobs::follow(cx, job).await
}

async fn model(cx: &Cx, matches: &ArgMatches, mut body: Map<String, Value>, name: &str) -> Outcome<()> {
    let manifest = manifest(cx, text(matches, "DIR").unwrap_or_default(), name).await?;
    body.insert("manifest_file".to_owned(), manifest.into());
    if has(matches, "rename") {
        body.insert("conflict_strategy".to_owned(), json!("rename"));
    }
    for (option, field) in [("as", "served_name_override"), ("local-path", "local_path_override")] {
        if let Some(value) = text(matches, option) {
            body.insert(field.to_owned(), json!(value));
        }
    }
    let seen = dry(cx, MODEL, &body).await?;
    if !cx.out.json() || has(matches, "dry-run") {
        cx.out.either(&seen, || {
            let new = &seen["would_create"];
            let mut pairs =
                vec![("new model", cell(&new["served_name"])), ("engine", cell(&new["engine_type"]))];
            if seen["conflict"].is_object() {
                pairs.push(("conflict", cell(&seen["conflict"]["message"])));
            }
            pairs.extend(plan(&seen["plan"]));
            cx.out.pairs(&pairs)?;
            warnings(cx, &seen);
            Ok(())
        })?;
    }
    may_go_on(cx, matches, &seen)?;
    if has(matches, "dry-run") {
        return Ok(());
    }
    let mut progress = Progress::new(&cx.out);
    progress.show("importing", "the gateway goes on with it if you leave: `gantry jobs` shows it", None);
    let body = Value::Object(body);
    let made = cx.client.patient_call(Method::POST, MODEL, Some(&body));
    let made = tokio::select! {
        made = made => made,
        _ = tokio::signal::ctrl_c() => {
            drop(progress);
            cx.out.warn("the import goes on: `gantry jobs` shows it, `gantry jobs cancel ID` cancels it");
            return Err(Failure::Interrupted);
        }
    };
    drop(progress);
    let made = made?.json;
    cx.out.either(&made, || {
        let name = cell(&made["served_name"]);
        cx.out.line(&format!("{name} is imported, with id {}", cell(&made["id"])))?;
        warnings(cx, &made);
        cx.out.note(&format!("next: gantry models start {name}"));
        Ok(())
    })
}

/// Finds the manifest of a model in the package, by its file, served name or name.
async fn manifest(cx: &Cx, dir: &str, name: &str) -> Outcome<String> {
    let path = format!("/admin/deployment/model-manifests{}", query(&[("output_dir", dir.to_owned())]));
    let answer = cx.client.get(&path).await?;
    for field in ["manifest_file", "served_name", "name"] {
        let mut found = answer.list().iter().filter(|it| it[field] == name);
        match (found.next(), found.next()) {
            (Some(one), None) => return Ok(one["manifest_file"].as_str().unwrap_or_default().to_owned()),
            (Some(one), Some(_)) => {
                return Err(Failure::Usage(format!(
                    "several models of the package are called `{}`: give the manifest, such as {}",
                    clean(name),
                    cell(&one["manifest_file"])
                )));
            }
            _ => {}
        }
    }
    let all: Vec<_> = answer.list().iter().map(|it| cell(&it["served_name"])).collect();
    Err(Failure::NotFound(format!(
        "the package has no model `{}`; it has: {}",
        clean(name),
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    )))
}

async fn dry(cx: &Cx, path: &str, body: &Map<String, Value>) -> Outcome<Value> {
    let mut body = body.clone();
    body.insert("dry_run".to_owned(), json!(true));
    Ok(cx.client.post(path, Some(&Value::Object(body))).await?.json)
}

/// What would be done with images and files.
fn plan(plan: &Value) -> Vec<(&'static str, String)> {
    let size = |name: &str| plan[name].as_u64().map_or_else(|| "-".to_owned(), bytes);
    let mut pairs = vec![
        ("images to load", cell(&plan["load_images"])),
        ("images that are there", cell(&plan["present_images"])),
        (
            "new files",
            format!(
                "{}, {} (free: {})",
                cell(&plan["new_files"]),
                size("new_bytes"),
                size("available_bytes")
            ),
        ),
        ("files that are there", cell(&plan["present_files"])),
    ];
    if plan["conflicting_files"].as_array().is_some_and(|it| !it.is_empty()) {
        pairs.push(("in the way", cell(&plan["conflicting_files"])));
    }
    pairs
}

fn warnings(cx: &Cx, seen: &Value) {
    for it in seen["warnings"].as_array().into_iter().flatten() {
        cx.out.note(&format!("  {}", cell(it)));
    }
}

/// Asks whether to do what was shown. Refuses what can't be done.
fn may_go_on(cx: &Cx, matches: &ArgMatches, seen: &Value) -> Outcome<()> {
    if seen["can_import"] != true {
        let lists = [&seen["validation_errors"], &seen["plan"]["problems"]];
        let mut why: Vec<_> =
            lists.iter().flat_map(|it| it.as_array().into_iter().flatten()).map(cell).collect();
        if seen["conflict"].is_object() && !has(matches, "rename") {
            why.push("the served name is taken: --rename or --as NAME gives it another".to_owned());
        }
        let why = if why.is_empty() { "see above".to_owned() } else { why.join("; ") };
        if cx.out.json() {
            return Err(Failure::Failed(format!("it can't be imported: {why}")));
        }
        cx.out.note(&format!("gantry: it can't be imported: {why}"));
        return Err(Failure::Told(Exit::Failed));
    }
    if has(matches, "dry-run") {
        return Ok(());
    }
    terminal::agreed(has(matches, "yes"), "Import this?")
}
