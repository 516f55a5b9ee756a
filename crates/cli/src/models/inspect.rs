//! `models inspect`: what a folder, a GGUF file or a repository of the model hub is.

use clap::Command;
use gantry_domain::model::check::is_repo_id;
use serde_json::Value;

use super::form;
use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    http::query,
    options::positional,
    output::{Table, Tone},
    text::{bytes, cell},
};

pub(super) fn command() -> Command {
    Command::new("inspect")
        .about("Shows what a folder, a GGUF file or a repository of the hub is, and which engine suits it")
        .arg(complete::paths(positional(
            "FOLDER",
            "Relative to the models base directory; or `owner/name` of the model hub",
        )))
        .after_help(
            "If nothing is at `owner/name` below the models base directory, the gateway asks the model hub about the repository \
             of that name, unless OFFLINE_MODE is set. Nothing is downloaded.",
        )
}

pub(super) async fn run(cx: &Cx, given: &str) -> Outcome<()> {
    let path = format!("/admin/models/inspect-folder{}", query(&[("folder", given.to_owned())]));
    match cx.client.get(&path).await {
        Err(Failure::Refused(it)) if it.status == 404 && may_be_repository(given) => {
            cx.out.note(&format!(
                "nothing is at `{given}` below the models base directory: the gateway asks the model hub"
            ));
            let path = format!("/admin/models/hub-config{}", query(&[("repo_id", given.to_owned())]));
            repository(cx, &cx.client.get(&path).await?.json)
        }
        answer => folder(cx, &answer?.json),
    }
}

/// A single word is rather a folder, and a file is no repository: their names are not sent to the hub.
fn may_be_repository(given: &str) -> bool {
    given.contains('/') && is_repo_id(given) && !given.to_ascii_lowercase().ends_with(".gguf")
}

fn repository(cx: &Cx, found: &Value) -> Outcome<()> {
    cx.out.either(found, || {
        let (repo, recommended) = (cell(&found["repo_id"]), &found["engine_recommendation"]);
        let ggufs = found["files"]["gguf"].as_array().map(Vec::as_slice).unwrap_or_default();
        cx.out.pairs(&[
            ("repository", repo.clone()),
            ("engine", cell(&recommended["recommended_engine"])),
            ("because", cell(&recommended["reason"])),
        ])?;
        let named = match recommended["recommended_engine"].as_str() {
            Some("vllm") => Some(repo),
            _ => ggufs.iter().find(|it| it["repo_id"].is_string()).map(|it| cell(&it["repo_id"])),
        };
        if let Some(named) = named {
            cx.out.line(&format!("gantry models create --repo {} --start --wait", form::quoted(&named)))?;
        }
        if !ggufs.is_empty() {
            let mut table = Table::new(&["GGUF", "QUANT", "PARTS>", "SIZE>", "REPO"]);
            for file in ggufs {
                let size = file["size_bytes"].as_u64().map_or_else(|| "-".to_owned(), bytes);
                table.row([
                    cell(&file["path"]),
                    cell(&file["quant_type"]),
                    cell(&file["parts"]),
                    size,
                    cell(&file["repo_id"]),
                ]);
            }
            cx.out.line("")?;
            cx.out.table(&table)?;
        }
        for file in found["files"]["projectors"].as_array().into_iter().flatten() {
            cx.out.line(&format!("projector (`mmproj`): {}", cell(&file["path"])))?;
        }
        let known = found["summary"].as_object().into_iter().flatten().filter(|it| !it.1.is_null());
        let known: Vec<_> = known.map(|(name, value)| (name.as_str(), cell(value))).collect();
        if !known.is_empty() {
            cx.out.line("")?;
            cx.out.pairs(&known)?;
        }
        Ok(())
    })
}

/// Returns the shell command that makes a model with these settings.
fn create_line(recommended: &Value) -> Option<String> {
    let pairs = recommended.as_object()?;
    let option = |(name, value): (&String, &Value)| {
        let value = form::quoted(&cell(value));
        match name.as_str() {
            "engine_type" => format!("--engine {value}"),
            "local_path" => format!("--path {value}"),
            "task" => format!("--task {value}"),
            _ => format!("-s {name}={value}"),
        }
    };
    let options: Vec<_> = pairs.iter().map(option).collect();
    Some(format!("gantry models create {} --start --wait", options.join(" ")))
}

fn folder(cx: &Cx, found: &Value) -> Outcome<()> {
    cx.out.either(found, || {
        let recommended = &found["engine_recommendation"];
        cx.out.pairs(&[
            ("path", cell(&found["path"])),
            ("engine", cell(&recommended["recommended_engine"])),
            ("because", cell(&recommended["reason"])),
        ])?;
        if let Some(line) = create_line(&recommended["settings"]) {
            cx.out.line(&line)?;
        }
        let mut table = Table::new(&["GGUF", "QUANT", "FILES>", "MiB>", "STATUS", "TASK"]);
        for group in found["gguf_groups"].as_array().into_iter().flatten() {
            table.row([
                cell(&group["path"]),
                cell(&group["quant_type"]),
                group["files"].as_array().map_or(0, Vec::len).to_string(),
                cell(&group["total_size_mb"]),
                cell(&group["status"]),
                cell(&group["task"]),
            ]);
        }
        if found["has_gguf"] == true {
            cx.out.line("")?;
            cx.out.table(&table)?;
        }
        for (files, what) in [("mmproj_files", "projector (`mmproj`)"), ("adapter_files", "LoRA adapter")] {
            for file in found[files].as_array().into_iter().flatten() {
                cx.out.line(&format!("{what}: {}", cell(&file["path"])))?;
            }
        }
        if let Some(info) = found["safetensor_info"].as_object() {
            cx.out.line("")?;
            let flat = info.iter().filter(|(_, it)| !it.is_null() && !it.is_object() && !it.is_array());
            let pairs: Vec<_> = flat.map(|(name, it)| (name.as_str(), cell(it))).collect();
            cx.out.pairs(&pairs)?;
        }
        for warning in found["warnings"].as_array().into_iter().flatten() {
            cx.out.line(&format!("{}: {}", cx.out.paint(Tone::Busy, "warning"), cell(warning)))?;
        }
        let groups = found["gguf_groups"].as_array().into_iter().flatten();
        for (path, group) in groups
            .map(|it| (cell(&it["path"]), it))
            .chain([(cell(&found["path"]), &found["safetensor_info"])])
        {
            for error in group["errors"].as_array().into_iter().flatten() {
                let head = cx.out.paint(Tone::Bad, "error");
                cx.out.line(&format!("{head}: {path}: {}", cell(error)))?;
            }
        }
        Ok(())
    })
}
