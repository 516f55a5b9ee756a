//! `/admin/system/container-images`: which images an air-gapped start needs, which are there, and taking in those that
//! are not from a file.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{Json, extract::State};
use futures_util::future::try_join_all;
use gantry_domain::{
    ApiError, ErrorCode,
    audit::Action,
    model::{EngineKind, Model, PerEngine},
};
use serde_json::{Map, Value, json};

use crate::{
    App,
    app::Image,
    error::{Outcome, Problem},
    extract::{Fields, Object, Params, read},
    policy::Caller,
};

/// How often an event about the progress of a load is sent.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Image cache
///
/// `offline_ready` is true if every image that a model which is not archived starts with is there, and at least one
/// image. Where engines are processes of the machine, programs stand in place of images.
pub(crate) async fn status(app: State<App>, params: Params) -> Outcome<Json<Value>> {
    params.finish()?;
    let models = app.store.read().await?.models(false).await?;
    let defaults = PerEngine::of(|it| app.engines.image_of(it, None));
    let used = used(&app, &defaults, &models);
    let images =
        try_join_all(used.keys().map(async |reference| {
            Ok::<_, ApiError>((reference.as_str(), app.engines.image(reference).await?))
        }));
    let images: BTreeMap<&str, Option<Image>> = images.await?.into_iter().collect();

    let is_there = |reference: &str| images.get(reference).is_some_and(Option::is_some);
    let missing: Vec<&str> = used
        .iter()
        .filter(|(reference, models)| !models.is_empty() && !is_there(reference))
        .map(|(reference, _)| reference.as_str())
        .collect();
    // Without any image nothing can be started, even if no model is to be started yet.
    let ready = missing.is_empty() && images.values().any(Option::is_some);
    let engines: Map<String, Value> = defaults
        .iter()
        .map(|(kind, image)| (kind.to_string(), view(image, images.get(image.as_str()))))
        .collect();
    let own = used.iter().filter(|(reference, _)| !defaults.values().any(|it| it == *reference));
    let of_models: Vec<Value> = own
        .map(|(reference, models)| {
            let mut view = view(reference, images.get(reference.as_str()));
            view["models"] = json!(models);
            view
        })
        .collect();
    let recommendations: Vec<String> = if app.runtime.runs_images {
        let wanted = if missing.is_empty() && !ready {
            defaults.values().map(String::as_str).collect()
        } else {
            missing
        };
        wanted.into_iter().map(|it| advice(it, app.offline, &app.export_dirs)).collect()
    } else {
        let at = |reference: &str| images.get(reference).and_then(Option::as_ref);
        defaults.iter().filter_map(|(engine, program)| program_advice(engine, program, at(program))).collect()
    };
    Ok(Json(json!({
        "offline_mode": app.offline,
        "offline_ready": ready,
        "engines": engines,
        // Gantry itself is one program: it needs no image.
        "infrastructure": [],
        "models": of_models,
        "summary": {
            "critical_images_cached": ready,
            "total_images_checked": images.len(),
            "cached_count": images.values().flatten().count(),
        },
        "recommendations": recommendations,
    })))
}

/// Load images from a file
///
/// `path` names an archive as `docker save` writes it, in one of the folders of `EXPORT_DIRS`. Answers when the
/// images are there, which may take minutes; `/admin/events` tells meanwhile how far it is (`job`).
pub(crate) async fn load(app: State<App>, caller: Caller, body: Object) -> Outcome<Json<Value>> {
    let mut fields = Fields::new(body);
    let path = fields.required("path", "text of 1 to 1000 characters", read::line(1000));
    fields.finish()?;
    let path = path.unwrap_or_default();
    let (dirs, object) = (app.export_dirs.clone(), path.clone());
    let archive = app.disk.look(move || archive(&dirs, &path)).await??;
    let loaded = load_and_tell(&app, archive, &object).await?;
    let mut tx = app.store.write().await?;
    let entry = caller.did(Action::ImageLoad, &object).created(json!({ "loaded": loaded }));
    tx.audit(&entry, app.clock.now()).await?;
    tx.commit().await?;
    Ok(Json(json!({ "loaded": loaded })))
}

async fn load_and_tell(app: &App, archive: PathBuf, path: &str) -> Result<Vec<String>, ApiError> {
    let total = tokio::fs::metadata(&archive).await.map_or(0, |it| it.len());
    let sent = Arc::new(AtomicU64::new(0));
    let tell = |state: &str| {
        let done = sent.load(Relaxed);
        app.feed.job(json!({
            "job": "image_load", "path": path, "state": state, "done_bytes": done, "total_bytes": total,
        }));
    };
    let mut work = app.engines.load_images(archive, Arc::clone(&sent));
    let mut tick = tokio::time::interval(TELL_EVERY);
    let loaded = loop {
        tokio::select! {
            loaded = &mut work => break loaded,
            _ = tick.tick() => tell("running"),
        }
    };
    tell(if loaded.is_ok() { "done" } else { "failed" });
    loaded
}

/// Every image that is looked for, with the ids of the models that start with it.
fn used(app: &App, defaults: &PerEngine<String>, models: &[Model]) -> BTreeMap<String, Vec<i64>> {
    let mut used: BTreeMap<String, Vec<i64>> = defaults.values().map(|it| (it.clone(), Vec::new())).collect();
    for model in models {
        let image = app.engines.image_of(model.engine, model.config.text("engine_image"));
        used.entry(image).or_default().push(model.id.0);
    }
    used
}

fn view(reference: &str, image: Option<&Option<Image>>) -> Value {
    let image = image.and_then(Option::as_ref);
    json!({
        "image": reference,
        "cached": image.is_some(),
        "size_mb": image.map(|it| (it.size_bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0),
        "created": image.and_then(|it| it.created.as_deref()),
    })
}

fn advice(image: &str, offline: bool, dirs: &[PathBuf]) -> String {
    if offline {
        format!(
            "{image} is missing: on a machine with a network run `docker pull {image} && docker save {image} -o image.tar`, \
             put the file into {} and load it here with `gantry images load image.tar`",
            dirs.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(" or ")
        )
    } else {
        format!("{image} is missing: it is pulled at the first start, or now with `docker pull {image}`")
    }
}

/// Returns what to install, where engines are processes.
fn program_advice(engine: EngineKind, program: &str, found: Option<&Image>) -> Option<String> {
    let name = match engine {
        EngineKind::Vllm => "vLLM",
        EngineKind::Llamacpp => "llama.cpp",
    };
    let setting = crate::models::dry_run::setting(engine);
    match found {
        None => Some(format!(
            "{name} is not installed: the program `{program}` is not on this machine. Install it so that its program is \
             in PATH, or name the program in {setting}, and start the gateway again"
        )),
        Some(it) if it.simulator => Some(format!(
            "{setting} names the simulator, so models of {name} are simulated; name the engine's program there"
        )),
        Some(_) => None,
    }
}

/// Returns the file behind `path`. It must exist and, with all links followed, lie in one of `dirs`.
fn archive(dirs: &[PathBuf], path: &str) -> Result<PathBuf, Problem> {
    let refused =
        |message: &str| Problem(ApiError::new(ErrorCode::PathNotAllowed, message).with_param("path"));
    let inside = |dir: &Path| {
        let dir = dir.canonicalize().ok()?;
        let real = dir.join(path).canonicalize().ok()?;
        real.starts_with(&dir).then_some(real)
    };
    match dirs.iter().find_map(|dir| inside(dir)) {
        Some(file) if file.is_file() => Ok(file),
        Some(_) => Err(refused("`path` is not a file")),
        None if is_missing(dirs, Path::new(path)) => {
            let message =
                format!("there is no `{path}` in the folders of EXPORT_DIRS, which `gantry settings` prints");
            Err(Problem(ApiError::new(ErrorCode::NotFound, message).with_param("path")))
        }
        None => Err(refused("`path` leaves the folders of EXPORT_DIRS")),
    }
}

/// Returns whether `path` stays in one of `dirs`, as far as its text shows, and nothing exists there.
fn is_missing(dirs: &[PathBuf], path: &Path) -> bool {
    let up = path.components().any(|it| it == Component::ParentDir);
    !up && dirs.iter().any(|dir| {
        let file = dir.join(path);
        file.starts_with(dir) && !file.is_symlink() && !file.exists()
    })
}
