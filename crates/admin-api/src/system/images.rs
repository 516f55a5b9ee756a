//! `/admin/system/container-images`: which images an air-gapped start needs, which are there, and taking in those that
//! are not from a file.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use axum::{Json, extract::State};
use futures_util::future::try_join_all;
use gantry_domain::{
    ApiError, ErrorCode, ModelId,
    audit::Action,
    model::{EngineKind, Model, PerEngine},
    schema::{Components, Member, Shape, closed},
    view,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    App,
    audit::record,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Body, Line, Operation, form},
    ports::Image,
};

view! {
    /// An image that engines start from, or a program where engines are processes of the machine.
    #[derive(Debug)]
    pub(crate) struct ImageView {
        image: String,
        /// It is on the machine.
        cached: bool,
        /// MiB.
        size_mb: Option<f64>,
        created: Option<String>,
    }
}

/// The image that the gateway's settings name for each engine, by the engine's word.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct EngineImages(BTreeMap<&'static str, ImageView>);

impl Shape for EngineImages {
    fn schema(all: &mut Components) -> Value {
        let image =
            |it: EngineKind| Member { name: it.as_str(), schema: ImageView::schema(all), optional: false };
        closed(EngineKind::ALL.map(image).into())
    }
}

view! {
    /// An image that only the settings of models name.
    #[derive(Debug)]
    pub(crate) struct ModelImage {
        image: ImageView => part,
        /// The models that start with it.
        models: Vec<ModelId>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct ImageSummary {
        critical_images_cached: bool,
        total_images_checked: usize,
        cached_count: usize,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct ImageCache {
        /// The gateway may not use the network.
        offline_mode: bool,
        offline_ready: bool,
        engines: EngineImages,
        /// It is empty: Gantry itself is one program and needs no image.
        infrastructure: [&'static str; 0] as json!({ "type": "array", "maxItems": 0 }),
        models: Vec<ModelImage>,
        summary: ImageSummary,
        recommendations: Vec<String>,
    }
}

pub(crate) const STATUS: Operation = Operation::new("getContainerImages", "Image cache")
    .about(
        "`offline_ready` is true if every image that a model which is not archived starts with is there, and at least \
         one image. Where engines are processes of the machine, programs stand in place of images.",
    )
    .errors(&[ErrorCode::RuntimeUnavailable]);

pub(crate) async fn status(app: State<App>) -> Outcome<Json<ImageCache>> {
    let models = app.store.read().await?.models(false).await?;
    let defaults = PerEngine::of(|it| app.engine_images.image_of(it, None));
    let used = used(&app, &defaults, &models);
    let images = try_join_all(used.keys().map(async |reference| {
        Ok::<_, ApiError>((reference.as_str(), app.engine_images.image(reference).await?))
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
    let of = |reference: &str| view(reference, images.get(reference));
    let engines = defaults.iter().map(|(kind, image)| (kind.as_str(), of(image)));
    let own = used.iter().filter(|(reference, _)| !defaults.values().any(|it| it == *reference));
    let models = own.map(|(reference, models)| ModelImage { image: of(reference), models: models.clone() });
    let recommendations: Vec<String> = if app.config.runtime.runs_images {
        let wanted = if missing.is_empty() && !ready {
            defaults.values().map(String::as_str).collect()
        } else {
            missing
        };
        wanted.into_iter().map(|it| advice(it, app.config.offline, &app.files.export_dirs)).collect()
    } else {
        let at = |reference: &str| images.get(reference).and_then(Option::as_ref);
        defaults.iter().filter_map(|(engine, program)| program_advice(engine, program, at(program))).collect()
    };
    Ok(Json(ImageCache {
        offline_mode: app.config.offline,
        offline_ready: ready,
        engines: EngineImages(engines.collect()),
        infrastructure: [],
        models: models.collect(),
        summary: ImageSummary {
            critical_images_cached: ready,
            total_images_checked: images.len(),
            cached_count: images.values().flatten().count(),
        },
        recommendations,
    }))
}

form! {
    pub(crate) struct Archive {
        path: required Line<1000>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct Loaded {
        /// The images of the file.
        loaded: Vec<String>,
    }
}

pub(crate) const LOAD: Operation = Operation::new("loadContainerImages", "Load images from a file")
    .about(
        "`path` names an archive as `docker save` writes it, in one of the folders of `EXPORT_DIRS`. The answer comes \
         when the images are there, which may take minutes; `GET /admin/events` reports the progress meanwhile (`job`). The load goes on if the client leaves.",
    )
    .errors(&[
        ErrorCode::NotFound,
        ErrorCode::PathNotAllowed,
        ErrorCode::RuntimeUnavailable,
        ErrorCode::HostUnavailable,
    ]);

pub(crate) async fn load(
    app: State<App>,
    caller: Caller,
    Body(Archive { path }): Body<Archive>,
) -> Outcome<Json<Loaded>> {
    let (dirs, object) = (app.files.export_dirs.clone(), path.clone());
    let archive = app.files.disk.look(move || archive(&dirs, &path)).await??;
    let file = object.clone();
    let did = move |loaded: &[String]| {
        caller.did(Action::ImageLoad, &file).created(record(Loaded { loaded: loaded.to_vec() }))
    };
    let loaded = app.engine_images.load_images(archive, object, Box::new(did)).await?;
    Ok(Json(Loaded { loaded }))
}

/// Every image that is looked for, with the ids of the models that start with it.
fn used(app: &App, defaults: &PerEngine<String>, models: &[Model]) -> BTreeMap<String, Vec<ModelId>> {
    let mut used: BTreeMap<String, Vec<ModelId>> =
        defaults.values().map(|it| (it.clone(), Vec::new())).collect();
    for model in models {
        let image = app.engine_images.image_of(model.engine, model.config.text("engine_image"));
        used.entry(image).or_default().push(model.id);
    }
    used
}

fn view(reference: &str, image: Option<&Option<Image>>) -> ImageView {
    let image = image.and_then(Option::as_ref);
    ImageView {
        image: reference.to_owned(),
        cached: image.is_some(),
        size_mb: image.map(|it| (it.size_bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0),
        created: image.and_then(|it| it.created.clone()),
    }
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
