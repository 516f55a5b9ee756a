//! `POST /admin/models/{id}/dry-run` and `/admin/models/dry-run`: what a start would run, and what is wrong with it,
//! for saved and for unsaved values. Starts nothing.

mod extra_args;
mod view;

use axum::{Json, extract::State};
use gantry_domain::{
    ErrorCode, ModelId,
    engine::{Cure, EngineVersion, LaunchWarning, owned},
    model::{
        EngineKind, Model, Task,
        fields::{Field, Tuned},
        tuned,
    },
};
use gantry_inspect::folder::is_cached;
use serde_json::{Map, Value};

use self::view::DryRun;
pub(super) use self::view::{GpuParts, MemoryEstimate, Severity, Warning};
use super::{
    check, draft_of_change, draft_of_new, estimate, file_checks, find,
    form::{ChangedModel, NewModel, Wish},
};
use crate::{
    App,
    caller::Caller,
    error::Outcome,
    operation::{Body, Id, Operation, OptionalBody},
    ports::Preview,
};

/// Variables whose values are no secrets.
const PLAIN_ENV: &[&str] = &[
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
    "HF_ENDPOINT",
    "LLAMA_CACHE",
    "LLAMA_ARG_OFFLINE",
    "LLAMA_OFFLINE",
    "VLLM_CPU_KVCACHE_SPACE",
];

/// Least and largest `batch_size` that the specification advises, in tokens.
const ADVISED_BATCH: (i64, i64) = (128, 2048);

pub(crate) const SAVED: Operation = Operation::new("previewSavedModel", "Preview a saved model's command")
    .about(
        "The body may have changes, as a change request has them: the preview is that of the changed record. Nothing is \
         stored. Memory that the model itself holds now counts as free.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::HostUnavailable]);

pub(crate) async fn saved(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    OptionalBody(ChangedModel { wish, body }): OptionalBody<ChangedModel>,
) -> Outcome<Json<DryRun>> {
    let mut model = find(&app, id).await?;
    if !body.is_empty() || wish != Wish::default() {
        let draft = draft_of_change(&caller, &model, wish, &body)?;
        check(&app, &draft, &body).await?;
        model = model.with(draft);
    }
    preview(&app, &model).await.map(Json)
}

pub(crate) const UNSAVED: Operation =
    Operation::new("previewModel", "Preview the command of values that are not saved")
        .about("The body is that of a create request. Nothing is stored.")
        .errors(&[ErrorCode::PathNotAllowed, ErrorCode::HostUnavailable]);

pub(crate) async fn unsaved(
    app: State<App>,
    caller: Caller,
    Body(form): Body<NewModel>,
) -> Outcome<Json<DryRun>> {
    let (draft, body) = draft_of_new(&app, &caller, form).await?;
    check(&app, &draft, &body).await?;
    let model = Model::new(ModelId(0), draft, app.clock.now());
    preview(&app, &model).await.map(Json)
}

async fn preview(app: &App, model: &Model) -> Outcome<DryRun> {
    let preview = app.engines.preview(model).await;
    let mut warnings = warnings(model, &preview);
    warnings.extend(not_allowed(app, &preview));
    warnings.extend(taken_name(app, model).await?);
    warnings.extend(not_fetched(app, model, &preview).await?);
    let (said, trained_for) = file_checks::warnings(app, model, &preview).await?;
    warnings.extend(said);
    let memory = estimate::report(app, model, &preview).await?;
    if !preview.simulator {
        // Files of the hub are looked at by the estimate only.
        let trained_for = trained_for.or(memory.estimate.as_ref().and_then(|it| it.trained_for));
        warnings.extend(plain_defaults(model, trained_for));
    }
    warnings.extend(memory.warnings);
    let valid = warnings.iter().all(|it| it.severity != Severity::Error);
    let env: Map<String, Value> =
        preview.env.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect();
    let owned = |it: &&String| owned::argument(model.engine, it).is_some();
    Ok(DryRun {
        served_name: model.served_name.clone(),
        command_str: pasted(model, &preview),
        gateway_options: preview.command.iter().filter(owned).cloned().collect(),
        command: preview.command,
        valid,
        env,
        image: preview.image,
        image_cached: preview.image_cached,
        engine_version: preview.version.to_string(),
        simulator: preview.simulator,
        vram_estimate_gb: memory.gb,
        vram_estimate: memory.estimate,
        warnings,
    })
}

/// Fields that are not set and could be better than their defaults. `trained_for`: tokens, if known.
fn plain_defaults(model: &Model, trained_for: Option<u64>) -> Option<Warning> {
    let open = tuned::open(model.engine, model.task, model.config.values(), trained_for);
    if open.is_empty() {
        return None;
    }
    let word = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let each = |(field, tuned, _): &(&Field, Tuned, Value)| {
        let now = field.default_for(model.task).map(|it| word(&it)).unwrap_or_default();
        format!("`{}` is {now} ({})", field.name, tuned.why)
    };
    let said: Vec<String> = open.iter().map(each).collect();
    let fixes: Vec<String> = open.iter().map(|it| format!("`{}` to {}", it.0.name, word(&it.2))).collect();
    let warning = Warning {
        title: "Some defaults could be faster or larger".to_owned(),
        ..Warning::new(
            Severity::Info,
            "defaults",
            format!("these are the defaults, and the engine or the machine can do more: {}", said.join("; ")),
        )
    };
    let set = open.into_iter().map(|(field, _, value)| (field.name.to_owned(), value)).collect();
    let fix = format!("set {}, which the profile `{}` does", fixes.join(", "), tuned::PROFILE);
    Some(Warning { set: Some(set), ..warning.with_fix(Some(fix)) })
}

fn shown(name: &str, value: &str) -> Value {
    if PLAIN_ENV.contains(&name) { value.into() } else { "***".into() }
}

/// Returns the command as a line for a shell. Images of llama.cpp start their program themselves: the program is put
/// before the arguments then.
fn pasted(model: &Model, preview: &Preview) -> String {
    let bare = preview.command.first().is_some_and(|it| it.starts_with('-'));
    let program =
        (bare && model.engine == EngineKind::Llamacpp && !preview.simulator).then_some("llama-server");
    let words = program.into_iter().chain(preview.command.iter().map(String::as_str));
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Quotes a word, so that a POSIX shell reads it back as it is.
fn quoted(word: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&it);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn warnings(model: &Model, preview: &Preview) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = preview.unsupported.iter().map(|it| left_out(it, preview)).collect();
    match (preview.image_cached, &preview.image_refused) {
        (Some(false), _) if preview.is_process => warnings.push(Warning {
            severity: Severity::Error,
            category: "image",
            title: "The engine is not installed".to_owned(),
            message: format!("the program `{}` is not on this machine", preview.image),
            fix: Some(format!(
                "install it, or name its program in {}, and start the gateway again",
                setting(model.engine)
            )),
            field: None,
            set: None,
        }),
        (Some(false), Some(why)) => warnings.push(Warning {
            severity: Severity::Error,
            category: "image",
            title: "Image not available".to_owned(),
            message: format!("image {} is not available locally and {why}", preview.image),
            fix: Some("load the image, or go online".to_owned()),
            field: Some("engine_image"),
            set: None,
        }),
        (Some(false), None) => warnings.push(Warning {
            severity: Severity::Info,
            category: "image",
            title: "The image will be pulled".to_owned(),
            message: format!("image {} is not on this machine yet", preview.image),
            fix: None,
            field: Some("engine_image"),
            set: None,
        }),
        (None, _) => warnings.push(Warning {
            severity: Severity::Error,
            category: "runtime",
            title: "Container runtime not reachable".to_owned(),
            message: "the container runtime does not answer, so nothing can be started".to_owned(),
            fix: Some("start it, or set CONTAINER_HOST".to_owned()),
            field: None,
            set: None,
        }),
        (Some(true), _) => {}
    }
    warnings.extend(preview.refused_variable.as_deref().map(refused_variable));
    warnings.extend(unknown_version(preview));
    warnings.extend(too_many_gpus(model, preview));
    warnings.extend(extra_args::badly_written(model));
    warnings.extend(odd_split(model));
    warnings.extend(odd_batch(model));
    warnings.extend(wide_split(model, preview));
    warnings
}

/// The setting that names the program of an engine, where engines are processes.
pub(crate) fn setting(engine: EngineKind) -> &'static str {
    match engine {
        EngineKind::Vllm => "PRIMARY_ENGINE_COMMAND",
        EngineKind::Llamacpp => "SECONDARY_ENGINE_COMMAND",
    }
}

/// Warns if the image is not on the list: the list was changed since the record was saved. Where engines are processes,
/// images mean nothing.
fn not_allowed(app: &App, preview: &Preview) -> Option<Warning> {
    if preview.is_process || app.config.images.allows(&preview.image) {
        return None;
    }
    let message = format!("image {} is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it", preview.image);
    let warning =
        Warning { title: "Image not allowed".to_owned(), ..Warning::new(Severity::Error, "image", message) };
    let fix = "unset it, or add its repository to ENGINE_IMAGE_ALLOWLIST".to_owned();
    Some(warning.about("engine_image").with_fix(Some(fix)))
}

/// Warns of a setting that the command does not carry as it is.
fn left_out(warning: &LaunchWarning, preview: &Preview) -> Warning {
    let LaunchWarning { field, message, cure } = warning;
    // This is the only case in which an engine can't load a model's files at all. A custom image may have a plugin for
    // them.
    let (severity, title) = match *field {
        "local_path" if is_stock_vllm(preview) => (Severity::Error, "It can't be loaded".to_owned()),
        "local_path" => (Severity::Warning, "It may not load".to_owned()),
        field => (Severity::Warning, format!("`{field}` is not used as it is")),
    };
    let fix = match cure {
        Cure::Version if !preview.is_process => format!("unset `{field}`, or use another `engine_image`"),
        Cure::Version | Cure::Unset => format!("unset `{field}`"),
        Cure::Advice(text) => text.clone(),
    };
    let warning = Warning { title, ..Warning::new(severity, "engine", message.clone()) };
    warning.about(field).with_fix(Some(fix))
}

/// Returns whether the image is one that the makers of vLLM publish (`vllm-openai`, `vllm-openai-cpu`,
/// `vllm-openai-rocm`), of a known version.
fn is_stock_vllm(preview: &Preview) -> bool {
    let name =
        gantry_domain::image::repository(&preview.image).rsplit_once("vllm/vllm-openai").map(|it| it.1);
    matches!(preview.version, EngineVersion::Known(..))
        && name.is_some_and(|it| it.is_empty() || it.starts_with('-') && !it.contains('/'))
}

/// Warns of a name for which a create request would be refused.
async fn taken_name(app: &App, model: &Model) -> Outcome<Option<Warning>> {
    if model.archived {
        return Ok(None);
    }
    let mut tx = app.store.read().await?;
    let taken = tx.taken_name(Some(model.id), &model.served_name, &model.adapters()).await?;
    Ok(taken.map(|(field, message)| {
        let warning =
            Warning { title: "A name is taken".to_owned(), ..Warning::new(Severity::Error, "name", message) };
        warning.about(field).with_fix(Some("choose another name".to_owned()))
    }))
}

/// Warns if the engine may not fetch its model and nothing of it is in the hub cache.
async fn not_fetched(app: &App, model: &Model, preview: &Preview) -> Outcome<Option<Warning>> {
    let repo = model.config.text("repo_id").filter(|_| model.config.is_online());
    let Some(repo) = repo.filter(|_| app.config.offline && !preview.simulator) else { return Ok(None) };
    let (cache, name) = (app.files.hub_cache_dir.clone(), repo.to_owned());
    if app.files.disk.look(move || is_cached(&cache, &name)).await? {
        return Ok(None);
    }
    let message = format!(
        "the system is in offline mode, and nothing of `{repo}` is in the hub cache, so it can't be loaded"
    );
    let warning = Warning {
        title: "Not in the hub cache".to_owned(),
        ..Warning::new(Severity::Error, "files", message)
    };
    let fix = "put it into the hub cache, or set `local_path` and `mode` to offline".to_owned();
    Ok(Some(warning.about("repo_id").with_fix(Some(fix))))
}

/// Warns if the engine's version is not known: the command is then made for the newest version that the field table
/// describes.
fn unknown_version(preview: &Preview) -> Option<Warning> {
    let known = matches!(preview.version, EngineVersion::Known(..));
    let absent = preview.image_cached != Some(true);
    if known || preview.simulator || preview.image_cached.is_none() || (preview.is_process && absent) {
        return None;
    }
    let (what, field, better) = if preview.is_process {
        ("the program", None, "update it, or check what it prints for `--version`")
    } else {
        ("image", Some("engine_image"), "use an image whose tag names a version")
    };
    let (severity, why, fix) = match (preview.image_cached, preview.version_pending) {
        (Some(false), _) => (Severity::Info, "is not on this machine and its tag names no version", None),
        (_, true) => (Severity::Info, "is being asked for its version", Some("look again in a minute")),
        _ => (Severity::Warning, "does not tell its version", Some(better)),
    };
    Some(Warning {
        severity,
        category: "engine",
        title: "The engine's version is not known".to_owned(),
        message: format!("{what} {} {why}: this command is for the newest version", preview.image),
        fix: fix.map(str::to_owned),
        field,
        set: None,
    })
}

fn refused_variable(name: &str) -> Warning {
    Warning {
        severity: Severity::Error,
        category: "engine",
        title: "A variable is not allowed".to_owned(),
        message: format!("`{name}` can't be set for an engine that is a process of this machine"),
        fix: Some("take it out of `extra_env`".to_owned()),
        field: Some("extra_env"),
        set: None,
    }
}

fn too_many_gpus(model: &Model, preview: &Preview) -> Option<Warning> {
    let of = |name| model.config.int(name).unwrap_or(1);
    let (tensor, pipeline) = (of("tensor_parallel_size"), of("pipeline_parallel_size"));
    let wanted = tensor.saturating_mul(pipeline);
    let given = preview.gpus.len();
    let most = given.max(1) as i64;
    // Whichever alone is too much, else the one that multiplies.
    let (field, value) = if tensor > most || pipeline == 1 {
        ("tensor_parallel_size", (most / pipeline).max(1))
    } else {
        ("pipeline_parallel_size", (most / tensor).max(1))
    };
    // On processors the setting means something else: one worker for each NUMA node.
    let on_gpus = model.engine == EngineKind::Vllm && model.config.text("device") != Some("cpu");
    (on_gpus && wanted > most).then(|| Warning {
        severity: if preview.known_gpus > 0 { Severity::Error } else { Severity::Warning },
        category: "vram",
        title: "More GPUs than there are".to_owned(),
        message: match given {
            0 => format!("tensor parallel × pipeline parallel is {wanted}, and the model is given no GPU"),
            _ => {
                format!(
                    "tensor parallel × pipeline parallel is {wanted}, and the model is given {given} GPUs"
                )
            }
        },
        fix: Some(match value {
            1 => format!("set `{field}` to 1"),
            _ => format!("set `{field}` to {value} or less"),
        }),
        field: Some(field),
        set: None,
    })
}

fn odd_split(model: &Model) -> Option<Warning> {
    let split = model.config.text("tensor_split")?;
    let sum: f64 = split.split(',').filter_map(|it| it.trim().parse::<f64>().ok()).sum();
    ((sum - 1.0).abs() > 0.01).then(|| Warning {
        severity: Severity::Warning,
        category: "vram",
        title: "`tensor_split` does not sum to 1".to_owned(),
        message: format!("its parts sum to {sum}; the engine takes them as proportions"),
        fix: None,
        field: Some("tensor_split"),
        set: None,
    })
}

/// Warns of a batch outside the range that the specification advises. For embeddings, a batch has to hold the longest
/// input.
fn odd_batch(model: &Model) -> Option<Warning> {
    let (least, most) = ADVISED_BATCH;
    let batch = model.config.int("batch_size").filter(|_| model.engine == EngineKind::Llamacpp)?;
    let (better, why) = match batch {
        it if it < least => (least, "prompts are read slowly"),
        it if it > most && model.task == Task::Generate => {
            (most, "it takes memory and makes prompts hardly faster")
        }
        _ => return None,
    };
    let message = format!("`batch_size` is {batch}, and {least} to {most} is advisable: {why}");
    let warning = Warning {
        title: "An unusual `batch_size`".to_owned(),
        ..Warning::new(Severity::Warning, "batching", message)
    };
    let set = Map::from_iter([("batch_size".to_owned(), Value::from(better))]);
    let fix = Some(format!("set `batch_size` to {better}"));
    Some(Warning { set: Some(set), ..warning.about("batch_size").with_fix(fix) })
}

/// Warns if the split has more parts than the engine is given GPUs.
fn wide_split(model: &Model, preview: &Preview) -> Option<Warning> {
    let parts = model.config.text("tensor_split")?.split(',').count();
    let given = preview.gpus.len();
    (given > 0 && parts > given).then(|| Warning {
        severity: Severity::Warning,
        category: "vram",
        title: "`tensor_split` has more parts than there are GPUs".to_owned(),
        message: format!(
            "it has {parts} parts and the model is given {given} GPUs: the engine leaves out the parts beyond"
        ),
        fix: Some("give it as many parts as GPUs, or change `selected_gpus`".to_owned()),
        field: Some("tensor_split"),
        set: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--max-model-len"), "--max-model-len");
        assert_eq!(quoted("it's a {{ template }}"), r"'it'\''s a {{ template }}'");
        assert_eq!(quoted(""), "''");
    }
}
