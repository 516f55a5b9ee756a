//! Fills in what a create request for a model leaves open: engine, task, pooling and name from the model's files, and
//! better values from the profile.

use gantry_domain::{
    model::{
        EngineKind, Task,
        check::{is_repo_id, relative_path},
        is_reserved,
    },
    name,
};
use gantry_inspect::{
    TaskHint,
    folder::{self, GgufGroup, InspectError, Inspection, Status},
    hub::{self, HubFiles},
};
use serde_json::{Map, Value};

use super::form::Wish;
use crate::{
    App,
    error::{Outcome, Problem},
};

/// Fills in what the body of a create request leaves open and its files show. What they don't show stays open, so that
/// the reader of the body says what is missing.
pub(super) async fn complete(app: &App, body: &mut Map<String, Value>, wish: Wish) -> Outcome<()> {
    body.retain(|name, value| {
        !(value.is_null() && matches!(name.as_str(), "engine_type" | "task" | "pooling"))
    });
    let path = text(body, "local_path").filter(|it| relative_path(it).is_ok());
    let repo = text(body, "repo_id");
    let online = match text(body, "mode").as_deref() {
        Some(mode) => mode == "online",
        None => path.is_none() && repo.is_some(),
    };
    let mut trained_for = None;
    if let Some(path) = path.filter(|_| !online) {
        trained_for = from_files(app, body, &path, wish).await?;
        name_after(body, &path);
    } else if let Some(repo) = repo.filter(|_| online) {
        from_hub(app, body, &repo).await?;
        name_after(body, repo.split(':').next().unwrap_or(&repo));
    }
    if let Some(engine) = engine_of(body) {
        let task = text(body, "task").and_then(|it| Task::parse(&it)).unwrap_or(Task::Generate);
        wish.tune(engine, task, body, None, trained_for);
    }
    Ok(())
}

fn text(body: &Map<String, Value>, name: &str) -> Option<String> {
    body.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn engine_of(body: &Map<String, Value>) -> Option<EngineKind> {
    EngineKind::parse(body.get("engine_type")?.as_str()?)
}

/// Looks at `path` below the models base directory. Gives the tokens that the model was trained for, if that is known.
async fn from_files(
    app: &App,
    body: &mut Map<String, Value>,
    path: &str,
    wish: Wish,
) -> Outcome<Option<u64>> {
    let (base, headers, rel) = (app.files.models_dir.get(), app.files.headers.clone(), path.to_owned());
    let Ok(found) = app.files.disk.inspect(move || folder::inspect_cached(&base, &rel, &headers.0)).await
    else {
        // A disk that does not answer holds up only what has to be read from it.
        return Ok(None);
    };
    let found = match found {
        Ok(found) => found,
        // The file may come later: its name shows the engine.
        Err(InspectError::NotFound { .. } | InspectError::BrokenLink { .. })
            if wish.force() && is_gguf(path) =>
        {
            body.entry("engine_type").or_insert_with(|| EngineKind::Llamacpp.as_str().into());
            return Ok(None);
        }
        Err(error @ InspectError::NotAllowed { .. }) if !body.contains_key("engine_type") => {
            return Err(Problem::invalid("local_path", error.to_string()));
        }
        // Whether that is a reason to refuse is decided later.
        Err(_) => return Ok(None),
    };
    let Some(seen) = Seen::of(&found, path, engine_of(body), body.contains_key("engine_type"))? else {
        return Ok(None);
    };
    body.entry("engine_type").or_insert_with(|| seen.engine.as_str().into());
    if seen.path != path {
        body.insert("local_path".to_owned(), seen.path.into());
    }
    if let Some(hint) = seen.task {
        task(body, seen.engine, hint);
    }
    Ok(seen.trained_for)
}

/// The values that a record for the files would have.
struct Seen {
    engine: EngineKind,
    path: String,
    task: Option<TaskHint>,
    trained_for: Option<u64>,
}

impl Seen {
    /// `wanted` is the engine that the request names. With `given` and no `wanted`, the request names an engine that
    /// does not exist.
    fn of(found: &Inspection, path: &str, wanted: Option<EngineKind>, given: bool) -> Outcome<Option<Self>> {
        let advice = &found.engine_recommendation;
        let engine = match (wanted, EngineKind::parse(&advice.recommended_engine)) {
            (None, _) if given => return Ok(None),
            (Some(engine), _) | (None, Some(engine)) => engine,
            (None, None) => {
                let message = format!(
                    "the files of `{path}` tell no engine: {}. Say `vllm` or `llamacpp` if they can be loaded",
                    first_error(found).unwrap_or(&advice.reason).trim_end_matches('.')
                );
                return Err(Problem::invalid("engine_type", message));
            }
        };
        if engine == EngineKind::Vllm {
            let path = match (wanted, &advice.path) {
                (None, Some(better)) => better.clone(),
                _ => path.to_owned(),
            };
            let task = found.safetensor_info.as_ref().map(|it| it.task).or(advice.task);
            return Ok(Some(Self { engine, path, task, trained_for: None }));
        }
        let group = if is_gguf(path) { found.gguf_groups.first() } else { only(&found.gguf_groups, path)? };
        Ok(group.map(|it| Self {
            engine,
            path: if is_gguf(path) { path.to_owned() } else { it.path.clone() },
            task: (it.status == Status::Ready).then_some(it.task),
            trained_for: it.metadata.as_ref().and_then(|it| it.context_length),
        }))
    }
}

/// Returns why the first of the files can't be loaded.
fn first_error(found: &Inspection) -> Option<&str> {
    let checkpoint = found.safetensor_info.iter().flat_map(|it| &it.errors);
    let groups = found.gguf_groups.iter().flat_map(|it| &it.errors);
    checkpoint.chain(groups).chain(&found.gguf_validation.errors).next().map(String::as_str)
}

/// The one model of a folder that can be loaded.
fn only<'a>(groups: &'a [GgufGroup], folder: &str) -> Outcome<Option<&'a GgufGroup>> {
    let ready: Vec<&GgufGroup> = groups.iter().filter(|it| it.status == Status::Ready).collect();
    if ready.len() > 1 {
        let list: Vec<String> = ready.iter().take(10).map(|it| format!("`{}`", it.path)).collect();
        let message =
            format!("`{folder}` holds {} models: name one of them, as {}", ready.len(), list.join(", "));
        return Err(Problem::invalid("local_path", message));
    }
    Ok(ready.first().copied())
}

fn is_gguf(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".gguf")
}

/// Sets task and pooling where they are not given.
fn task(body: &mut Map<String, Value>, engine: EngineKind, hint: TaskHint) {
    let task = match hint {
        TaskHint::Generate => Task::Generate,
        TaskHint::Embed | TaskHint::Rerank => Task::Embed,
    };
    body.entry("task").or_insert_with(|| task.as_str().into());
    let ranks = hint == TaskHint::Rerank && engine == EngineKind::Llamacpp;
    if ranks && text(body, "task").as_deref() == Some(Task::Embed.as_str()) {
        body.entry("pooling").or_insert_with(|| "rank".into());
    }
}

/// Fills in values from the hub. Asks the hub only if that is needed: a record for a known engine needs nothing from
/// it.
async fn from_hub(app: &App, body: &mut Map<String, Value>, repo: &str) -> Outcome<()> {
    if body.contains_key("engine_type") {
        return Ok(());
    }
    // Only llama.cpp knows these names.
    if repo.contains(':') {
        body.insert("engine_type".to_owned(), EngineKind::Llamacpp.as_str().into());
        return Ok(());
    }
    if !is_repo_id(repo) {
        return Ok(());
    }
    let token = text(body, "hub_token").filter(|it| !it.is_empty()).map(Into::into);
    let untold = |why: &str| {
        let message = format!("`engine_type` must be said (vllm or llamacpp), since {why}");
        Problem::invalid("engine_type", message)
    };
    let repository = app.hub.repository(repo, token).await.map_err(|it| untold(&it.message))?;
    let config = repository.config.as_deref().and_then(|it| hub::read_config(it).ok());
    let files = repository.files.map(|it| HubFiles::of(repo, &it));
    let advice = hub::recommend(config.as_ref().map(|it| &it.summary), files.as_ref());
    let engine = EngineKind::parse(&advice.recommended_engine)
        .ok_or_else(|| untold(&format!("the repository does not tell: {}", advice.reason)))?;
    body.insert("engine_type".to_owned(), engine.as_str().into());
    if let Some(hint) = advice.task {
        task(body, engine, hint);
    }
    Ok(())
}

/// Sets a served name from the last part of a path or repository, if it can be one without its invisible characters.
fn name_after(body: &mut Map<String, Value>, path: &str) {
    if ["served_name", "served_model_name"].iter().any(|it| body.get(*it).is_some_and(|it| !it.is_null())) {
        return;
    }
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mut stem = if is_gguf(last) { &last[..last.len() - ".gguf".len()] } else { last };
    if let Some((start, _)) = stem.rsplit_once("-of-") {
        let numbered = start.rsplit_once('-').filter(|it| it.1.bytes().all(|it| it.is_ascii_digit()));
        stem = numbered.map_or(stem, |it| it.0);
    }
    let llamacpp = engine_of(body) == Some(EngineKind::Llamacpp);
    let two_names = llamacpp && stem.contains(',');
    let seen: String = stem.chars().filter(|it| !name::is_invisible(*it)).collect();
    let seen = seen.trim();
    if name::is_name(seen, 200) && !is_reserved(seen) && !seen.starts_with('-') && !two_names {
        body.insert("served_name".to_owned(), seen.into());
    }
}

/// Refuses a path of the settings, as `(field, path)`, that leads to nothing: 422. A model whose files come later is
/// made with `force`.
pub(super) async fn files_are_there(app: &App, named: Option<(&'static str, String)>) -> Outcome<()> {
    let Some((field, path)) = named else { return Ok(()) };
    let (base, looked_for) = (app.files.models_dir.get(), path.clone());
    let look = move || folder::Base::open(&base).and_then(|it| it.resolve(&looked_for)).err();
    match app.files.disk.look(look).await? {
        Some(InspectError::NotFound { .. }) => {
            let message = format!(
                "there is no `{path}` below the models base directory: correct `{field}`, or send `force`: true (`--force`) \
                 if it comes later"
            );
            Err(Problem::invalid(field, message))
        }
        Some(error @ InspectError::BrokenLink { .. }) => {
            let message =
                format!("{error}: correct `{field}`, or send `force`: true (`--force`) if it comes later");
            Err(Problem::invalid(field, message))
        }
        Some(InspectError::Base(_)) => {
            let message = "the models base directory does not exist or can't be read (MODELS_DIR), so that no file is found: \
                           make it, or send `force`: true (`--force`) if it comes later";
            Err(Problem::invalid(field, message))
        }
        // A dry run says what else may be wrong with the file.
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_come_from_the_last_part_of_a_path() {
        for (engine, path, name) in [
            ("llamacpp", "qwen3-8b-q4_k_m.gguf", json!("qwen3-8b-q4_k_m")),
            ("llamacpp", "a/b-00001-of-00003.GGUF", json!("b")),
            ("vllm", "Qwen/Qwen3-8B/", json!("Qwen3-8B")),
            ("vllm", "one-of-many", json!("one-of-many")),
            ("llamacpp", "\u{1f469}\u{200d}\u{1f467} \u{202e}x\u{feff} .gguf", json!("\u{1f469}\u{1f467} x")),
            ("llamacpp", "a,b.gguf", json!(null)),
            ("vllm", "x/running", json!(null)),
            ("vllm", "-x", json!(null)),
        ] {
            let mut body = Map::from_iter([("engine_type".to_owned(), engine.into())]);
            name_after(&mut body, path);
            assert_eq!(body.get("served_name").cloned().unwrap_or_default(), name, "{path}");
        }
    }
}
