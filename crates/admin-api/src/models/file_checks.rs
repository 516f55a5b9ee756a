//! Finds what is wrong with the files that a model names, for a dry run: files that a start would refuse, files that
//! the engine would refuse, and settings that don't go with what the files are. Headers only; see
//! `gantry_inspect::folder::check`.

use std::{io, path::Path, sync::Arc};

use gantry_domain::{
    engine::EngineVersion,
    memory::{Command, Slots},
    model::{EngineKind, Model, Task},
};
use gantry_inspect::{
    Cache, TaskHint,
    folder::{self, Base, Checked, InspectError, Role},
};
use serde_json::{Map, Value};

use super::dry_run::{Severity, Warning};
use crate::{App, error::Outcome, ports::Preview};

/// vLLM before this version loads GGUF files.
const NO_GGUF: [u32; 3] = [0, 24, 0];

/// A path of the settings, with what came of looking at it.
struct Look {
    field: &'static str,
    path: String,
    /// `Ok(None)` if the path is there and nothing more is asked.
    found: Result<Option<Checked>, InspectError>,
}

/// Returns warnings for `model` as `preview` would start it, and the tokens that it was trained for, if its files say
/// so.
pub(super) async fn warnings(
    app: &App,
    model: &Model,
    preview: &Preview,
) -> Outcome<(Vec<Warning>, Option<u64>)> {
    // The simulator loads nothing.
    if preview.simulator {
        return Ok((Vec::new(), None));
    }
    let online = model.config.is_online();
    let paths: Vec<_> =
        model.config.paths().into_iter().filter(|(name, _)| *name != "local_path" || !online).collect();
    let (base, cache, version) =
        (app.files.models_dir.get(), Arc::clone(&app.files.headers.0), preview.version);
    let look = move || -> Vec<Look> {
        let each = |(field, path): (&'static str, String)| {
            let found = look_at(&base, field, &path, version, &cache);
            Look { field, path, found }
        };
        paths.into_iter().map(each).collect()
    };
    let (mut warnings, mut trained_for) = (Vec::new(), None);
    for it in app.files.disk.inspect(look).await? {
        match it.found {
            Ok(None) => {}
            Err(error) => warnings.push(no_file(it.field, &it.path, &error)),
            Ok(Some(checked)) => {
                warnings.extend(said(model, preview, it.field, &it.path, &checked));
                if it.field == "local_path" {
                    trained_for = checked.context_length;
                    warnings.extend(settings(model, preview, &checked));
                }
            }
        }
    }
    Ok((warnings, trained_for))
}

/// Returns why a model would answer none of its requests after a start, if its files are for another task. `None` also
/// if the files can't be looked at, which is a different problem.
pub(super) async fn wrong_task(app: &App, model: &Model) -> Option<String> {
    let path = model.config.text("local_path").filter(|_| !model.config.is_online())?.to_owned();
    if model.task != Task::Generate || app.engines.is_simulated(model) {
        return None;
    }
    let (base, cache) = (app.files.models_dir.get(), Arc::clone(&app.files.headers.0));
    let version = EngineVersion::Unknown(model.engine);
    let look = move || folder::check(&base, &path, Role::Model, version, &cache);
    let found = app.files.disk.inspect(look).await.ok()?.ok()?;
    let warning = other_task(model, &found)?;
    Some(format!("{}: {}", warning.message, warning.fix?))
}

/// Looks at one path of the settings. This call blocks.
fn look_at(
    base: &Path,
    field: &str,
    path: &str,
    version: EngineVersion,
    cache: &Arc<Cache>,
) -> Result<Option<Checked>, InspectError> {
    let role = match field {
        "local_path" | "draft_model_path" => Role::Model,
        "mmproj" => Role::Projector,
        "lora_adapters" => Role::Adapter,
        _ => return Base::open(base)?.resolve(path).map(|_| None),
    };
    folder::check(base, path, role, version, cache).map(Some)
}

/// Returns the warning about a path that a start would refuse, in the same words.
fn no_file(field: &'static str, path: &str, error: &InspectError) -> Warning {
    let (severity, title, message, fix) = match error {
        InspectError::NotAllowed { .. } => (
            Severity::Error,
            "A path leaves the base directory",
            format!("`{field}` leaves the models base directory"),
            Some(format!("take away the link that leads out, or change `{field}`")),
        ),
        InspectError::NotFound { .. } => (
            Severity::Error,
            "File not found",
            format!("there is no `{path}` below the models base directory"),
            Some(format!("put it there, or change `{field}`")),
        ),
        InspectError::BrokenLink { .. } => (
            Severity::Error,
            "A link to nothing",
            error.to_string(),
            Some(format!("put there what it leads to, or change `{field}`")),
        ),
        InspectError::Base(_) => (
            Severity::Error,
            "No models base directory",
            "the models base directory does not exist or can't be read".to_owned(),
            None,
        ),
        InspectError::NotAFolder { .. } => {
            (Severity::Error, "It can't be loaded", format!("`{path}` is no file and no folder"), None)
        }
        // A start looks for it in the same way; if only the file itself can't be read, its check says so.
        InspectError::Io { source, .. } => {
            let why = match source.kind() {
                io::ErrorKind::PermissionDenied => "may not enter a folder on the way to",
                _ => "can't reach",
            };
            let fix = "let the gateway's user enter (`x`) every folder on the way to it".to_owned();
            (Severity::Error, "File can't be reached", format!("the gateway {why} `{path}`"), Some(fix))
        }
    };
    Warning { title: title.to_owned(), ..Warning::new(severity, "files", message) }.about(field).with_fix(fix)
}

/// Returns the warnings about the file itself.
fn said(model: &Model, preview: &Preview, field: &'static str, path: &str, found: &Checked) -> Vec<Warning> {
    let entry = |severity, text: &str| {
        let title = match severity {
            Severity::Error => "It can't be loaded",
            _ => "It may not load, or not work as intended",
        };
        // Inspection begins some sentences with the file's name.
        let file = path.rsplit_once('/').map_or(path, |it| it.1);
        let text = text.strip_prefix(file).and_then(|it| it.strip_prefix(": ")).unwrap_or(text);
        let message = format!("`{path}`: {text}");
        Warning { title: title.to_owned(), ..Warning::new(severity, "files", message) }.about(field)
    };
    let mut warnings: Vec<Warning> = found.errors.iter().map(|it| entry(Severity::Error, it)).collect();
    warnings.extend(found.warnings.iter().map(|it| entry(Severity::Warning, it)));
    if let (Some(first), Some(warning)) = (&found.first_part, warnings.first_mut()) {
        let whole =
            path.rsplit_once('/').map_or_else(|| first.clone(), |(folder, _)| format!("{folder}/{first}"));
        warning.fix = Some(format!("set `{field}` to `{whole}`"));
        warning.set = Some(Map::from_iter([(field.to_owned(), Value::from(whole))]));
    }
    if let Some(text) = found.no_config.as_ref().filter(|_| model.config.text("hub_config_path").is_none()) {
        warnings.push(entry(Severity::Error, text));
    }
    if let Some(text) = &found.no_weights {
        let told = preview.command.iter().any(|it| it.starts_with("--load-format"));
        warnings.push(entry(if told { Severity::Warning } else { Severity::Error }, text));
    }
    warnings
}

/// Returns the warnings about settings that don't go with what the model is.
fn settings(model: &Model, preview: &Preview, found: &Checked) -> Vec<Warning> {
    [
        no_tokenizer(model, preview, found),
        no_template(model, found),
        other_task(model, found),
        too_long(model, preview, found),
        many_parts(model, preview, found),
        unused_projector(model, preview, found),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn no_tokenizer(model: &Model, preview: &Preview, found: &Checked) -> Option<Warning> {
    let (text, vital) = found.no_tokenizer.as_ref().filter(|_| model.config.text("tokenizer").is_none())?;
    let without = preview.command.iter().any(|it| it.starts_with("--skip-tokenizer-init"));
    let severity = if *vital && !without { Severity::Error } else { Severity::Warning };
    let fix = "put the tokenizer's files there, or set `tokenizer`".to_owned();
    let warning =
        Warning { title: "No tokenizer".to_owned(), ..Warning::new(severity, "files", text.clone()) };
    Some(warning.about("tokenizer").with_fix(Some(fix)))
}

fn no_template(model: &Model, found: &Checked) -> Option<Warning> {
    let text = found.no_template.as_ref().filter(|_| model.task == Task::Generate)?;
    if model.config.text("chat_template").or(model.config.text("chat_template_file")).is_some() {
        return None;
    }
    let message = match model.engine {
        EngineKind::Vllm => {
            "the model has no chat template, as base models don't: the gateway turns chats into \
                             completions with the prompt `System: … User: … Assistant:`"
                .to_owned()
        }
        EngineKind::Llamacpp => text.clone(),
    };
    let fix = "if it was trained for chats, set `chat_template_file` or `chat_template`".to_owned();
    let warning = Warning {
        title: "No chat template".to_owned(),
        ..Warning::new(Severity::Warning, "template", message)
    };
    Some(warning.about("chat_template").with_fix(Some(fix)))
}

fn other_task(model: &Model, found: &Checked) -> Option<Warning> {
    let hint = found.task?;
    let llamacpp = model.engine == EngineKind::Llamacpp;
    let ranks = !llamacpp || model.config.text("pooling") == Some("rank");
    let (is, task, then) = match (model.task, hint) {
        (Task::Generate, TaskHint::Embed) => {
            ("for embeddings", Task::Embed, "chats and completions will fail")
        }
        (Task::Generate, TaskHint::Rerank) => {
            ("for reranking", Task::Embed, "chats and completions will fail")
        }
        (Task::Embed, TaskHint::Generate) => (
            "for generating text",
            Task::Generate,
            "its embeddings may be of little use, and chats are refused",
        ),
        (Task::Embed, TaskHint::Rerank) if !ranks => {
            return Some(no_ranking());
        }
        (Task::Embed, TaskHint::Embed | TaskHint::Rerank) | (Task::Generate, TaskHint::Generate) => {
            return None;
        }
    };
    let message = format!("by its files the model is {is}, and `task` is {}: {then}", model.task);
    let warning =
        Warning { title: "Another task".to_owned(), ..Warning::new(Severity::Warning, "task", message) };
    let mut set = Map::from_iter([("task".to_owned(), Value::from(task.as_str()))]);
    let mut fix = format!("set `task` to {task}");
    if hint == TaskHint::Rerank && !ranks {
        set.insert("pooling".to_owned(), "rank".into());
        fix += " and `pooling` to rank";
    }
    Some(Warning { set: Some(set), ..warning.about("task").with_fix(Some(fix)) })
}

/// Warns of a reranker without rank pooling: llama-server makes vectors with a reranker unless it is set to rank.
fn no_ranking() -> Warning {
    let message =
        "by its files the model is for reranking, which llama-server refuses without `pooling` rank";
    let warning = Warning {
        title: "A reranker that does not rank".to_owned(),
        ..Warning::new(Severity::Warning, "task", message.to_owned())
    };
    let set = Map::from_iter([("pooling".to_owned(), Value::from("rank"))]);
    let fix = Some("set `pooling` to rank".to_owned());
    Warning { set: Some(set), ..warning.about("pooling").with_fix(fix) }
}

/// Warns of more context than the model was trained for. vLLM refuses it, llama-server cuts it.
fn too_long(model: &Model, preview: &Preview, found: &Checked) -> Option<Warning> {
    let trained = found.context_length.filter(|it| *it > 0)?;
    let command = Command::parse(model.engine, preview.version, &preview.command).ok()?;
    let asked = command.context()?;
    let (severity, field, most, what) = match &command {
        Command::Llamacpp(it) => {
            let slots = match it.settings.slots {
                Slots::Fixed { slots, unified: false } => slots.max(1),
                Slots::Auto | Slots::Fixed { unified: true, .. } => 1,
            };
            if asked.div_ceil(slots) <= trained {
                return None;
            }
            // If nothing chose the context, it is the gateway's own default.
            let extra = |it: &str| it == "-c" || it.starts_with("--ctx-size");
            let chosen =
                model.config.get("context_size").is_some() || model.config.texts("extra_args").any(extra);
            let severity = if chosen { Severity::Warning } else { Severity::Info };
            let what = "llama-server takes memory for it and lets no request be longer than that";
            (severity, "context_size", trained.saturating_mul(slots), what)
        }
        Command::Vllm(_) if asked <= trained || overrides(preview) => return None,
        Command::Vllm(_) => {
            let allowed = preview.env.iter().any(|it| it.0 == "VLLM_ALLOW_LONG_MAX_MODEL_LEN");
            let severity = if allowed { Severity::Warning } else { Severity::Error };
            (severity, "max_model_len", trained, "vLLM refuses that")
        }
    };
    let message =
        format!("{asked} tokens of context are asked for, the model was trained for {trained}: {what}");
    let warning = Warning {
        title: "Longer than the model was trained for".to_owned(),
        ..Warning::new(severity, "context", message)
    };
    let set = Map::from_iter([(field.to_owned(), Value::from(most))]);
    Some(Warning {
        set: Some(set),
        ..warning.about(field).with_fix(Some(format!("set `{field}` to {most}")))
    })
}

/// Returns whether the engine is given another configuration, which may have another length.
fn overrides(preview: &Preview) -> bool {
    let names = ["--hf-overrides", "--hf-config-path", "--rope-scaling", "--rope-theta"];
    preview.command.iter().any(|word| names.iter().any(|it| word.replace('_', "-").starts_with(it)))
}

/// Tells of a projector beside the model that it is not given: the model then answers as if there were no pictures.
fn unused_projector(model: &Model, preview: &Preview, found: &Checked) -> Option<Warning> {
    let given = preview.command.iter().any(|it| it.starts_with("--mmproj") || it == "-mm");
    let first = found.projectors.first().filter(|_| model.engine == EngineKind::Llamacpp && !given)?;
    let more = match found.projectors.len() {
        1 => String::new(),
        all => format!(" and {} more", all.saturating_sub(1)),
    };
    let message = format!(
        "`{first}`{more}, a projector by its name, lies beside the model: without `mmproj` the model sees no pictures"
    );
    let fix = format!("if it belongs to this model, set `mmproj` to `{first}`");
    let warning = Warning {
        title: "A projector is not used".to_owned(),
        ..Warning::new(Severity::Info, "files", message)
    };
    Some(warning.about("mmproj").with_fix(Some(fix)))
}

fn many_parts(model: &Model, preview: &Preview, found: &Checked) -> Option<Warning> {
    let reads_gguf = matches!(preview.version, EngineVersion::Known(EngineKind::Vllm, it) if it < NO_GGUF);
    (model.engine == EngineKind::Vllm && reads_gguf && found.parts > 1).then(|| {
        let message = format!(
            "the GGUF model is split into {} files, and vLLM's documentation has it load single ones only",
            found.parts
        );
        let fix = "merge the parts (`llama-gguf-split --merge`), or use the llamacpp engine".to_owned();
        let warning = Warning {
            title: "A split GGUF model".to_owned(),
            ..Warning::new(Severity::Warning, "files", message)
        };
        warning.about("local_path").with_fix(Some(fix))
    })
}
