//! `/admin/deployment/model-manifests`, `import-model` and `import`: what a package holds, and taking it in.

use std::{borrow::Cow, collections::BTreeSet, io::Read, path::PathBuf};

use axum::{Json, extract::State};
use futures_util::FutureExt;
use gantry_domain::{
    ApiError, ErrorCode, ModelId, Role, Timestamp,
    audit::{Action, AuditEntry},
    deployment::{ImportPlan, ImportRequest},
    job::Job,
    model::{EngineKind, Model, ModelDraft, Task},
    schema::{Components, one_of},
    view,
};
use gantry_package::{
    checksums::Sha256Sum,
    contents::Model as Listing,
    model_manifest::{LARGEST_MODEL, ModelManifest},
    package::Package,
    path::PackagePath,
};
use serde_json::{Map, Value, json};

use super::{DeploymentJob, folder};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    models,
    operation::{
        Accepted, Body, Created, Either, Field, Line, Listed, Name, Operation, Query, Required, form, query,
    },
};

/// What a name gets that is taken, with `rename`.
const SUFFIX: &str = "-IMPORTED";
/// Most names that are tried.
const MOST_NAMES: usize = 1000;

query! {
    pub(crate) struct Manifests {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: Required<String>,
    }
}

view! {
    /// A model in a package.
    #[derive(Debug)]
    pub(crate) struct ModelInPackage {
        /// What `import-model` calls it: `model-7.json`.
        manifest_file: String,
        /// Whether the manifest can be read and is as the package says.
        ok: bool,
        /// Why it is not `ok`.
        problem: Option<String>,
        /// Its id on the gateway that exported it.
        model_id: i64,
        name: String,
        served_name: String,
        task: Option<String>,
        engine_type: Option<String>,
        /// The image that it ran in; `null` for a program.
        image: Option<String>,
        image_in_package: bool,
        weights_in_package: bool,
        /// Bytes of its weights in the package.
        weights_bytes: u64,
        local_path: Option<String>,
        repo_id: Option<String>,
        /// Secrets that are not in the package and have to be set again.
        redacted: Vec<String>,
    }
}

pub(crate) const MANIFESTS: Operation = Operation::new("listModelManifests", "The models in a package")
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::HostUnavailable]);

pub(crate) async fn manifests(
    app: State<App>,
    Query(Manifests { output_dir: Required(output_dir) }): Query<Manifests>,
) -> Outcome<Listed<ModelInPackage>> {
    let dirs = app.files.export_dirs.clone();
    let look = move || {
        let dir = folder::existing(&dirs, &output_dir, "output_dir")?;
        let package = folder::package(&dir, None)?;
        Ok::<_, Problem>(
            package.manifest().contents.models.iter().map(|it| shown(&package, it)).collect::<Vec<_>>(),
        )
    };
    let listed = app.files.disk.look(look).await??;
    let n = listed.len() as i64;
    Ok(Listed(listed, n))
}

fn shown(package: &Package, listing: &Listing) -> ModelInPackage {
    let read = read(package, &listing.manifest);
    let text = |name: &str| {
        let body = &read.as_ref().ok()?.model;
        body.get(name).and_then(Value::as_str).map(str::to_owned)
    };
    let manifest = package.manifest();
    let of_model = |it: &&PackagePath| listing.weights.iter().any(|place| it.is_at(place));
    let weights = manifest.files.iter().filter(|(path, _)| of_model(path)).map(|(_, it)| it.size);
    ModelInPackage {
        manifest_file: listing.manifest.below_top().unwrap_or_default().to_owned(),
        ok: read.is_ok(),
        problem: read.as_ref().err().cloned(),
        model_id: listing.id,
        name: listing.name.clone(),
        served_name: listing.served_name.clone(),
        task: text("task"),
        engine_type: text("engine_type"),
        image_in_package: listing
            .image
            .as_ref()
            .is_some_and(|image| manifest.contents.images.iter().any(|it| it.reference == *image)),
        image: listing.image.clone(),
        weights_in_package: !listing.weights.is_empty(),
        weights_bytes: weights.sum(),
        local_path: text("local_path"),
        repo_id: text("repo_id"),
        redacted: read.map(|it| it.redacted).unwrap_or_default(),
    }
}

/// Reads the manifest of a model, and compares it with what the package says. The error is one line.
fn read(package: &Package, path: &PackagePath) -> Result<ModelManifest, String> {
    let entry = package.manifest().files.get(path).ok_or("the package does not have it")?;
    if entry.size > LARGEST_MODEL {
        return Err("it is too large".to_owned());
    }
    let mut text = Vec::new();
    let content = package.content(path).and_then(|mut it| it.read_to_end(&mut text));
    content.map_err(|error| format!("it can't be read: {error}"))?;
    if Sha256Sum::of(&text) != entry.sha256 {
        return Err("it has another content than the package's manifest says".to_owned());
    }
    ModelManifest::parse(&text).map_err(|error| error.to_string())
}

/// What to do with a name that another model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    Error,
    Rename,
}

impl Field for Conflict {
    type Value = Self;

    fn allowed() -> Cow<'static, str> {
        "`error` or `rename`".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Self> {
        match value.as_str()? {
            "error" => Some(Self::Error),
            "rename" => Some(Self::Rename),
            _ => None,
        }
    }

    fn schema(_: &mut Components) -> Value {
        one_of(&["error", "rename"])
    }
}

form! {
    pub(crate) struct ImportModel {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: required Line<1000>,
        /// The model's manifest in the package: `model-7.json`.
        manifest_file: required Line<100>,
        /// What to do if another model has its served name: `error` (if it is left out) refuses, `rename` appends
        /// `-IMPORTED`, `-IMPORTED-2` and so on to both names.
        conflict_strategy: optional Conflict,
        /// Only says what would be done.
        dry_run: optional bool,
        /// Another served name than that of the manifest.
        served_name_override: optional Name<200>,
        /// Another `local_path` than that of the manifest, below the models base directory. The package's weights are then
        /// left where they are.
        local_path_override: optional Line<1000>,
        /// Loads the model's image, if the package has it; `true` if it is left out.
        include_images: optional bool,
        /// Puts the model's weights in place, if the package has them; `true` if it is left out.
        include_weights: optional bool,
        /// The folder of the base package, for a difference.
        base_dir: optional Line<1000>,
    }
}

view! {
    /// The model that an import makes.
    #[derive(Debug)]
    pub(crate) struct WouldCreate {
        name: String,
        served_name: String,
        task: Task,
        engine_type: EngineKind,
        image: Option<String>,
        local_path: Option<String>,
        repo_id: Option<String>,
    }
}

view! {
    /// Who has the name.
    #[derive(Debug)]
    pub(crate) struct ConflictWith {
        served_name: String,
        message: String,
    }
}

view! {
    /// What an import of a model would do.
    #[derive(Debug)]
    pub(crate) struct DryImport {
        dry_run: bool,
        /// `null` if the manifest can't become a model; `validation_errors` says why.
        would_create: Option<WouldCreate>,
        conflict: Option<ConflictWith>,
        warnings: Vec<String>,
        validation_errors: Vec<String>,
        can_import: bool,
        /// What would be done with images and files.
        plan: ImportPlan,
    }
}

view! {
    /// A model that was imported.
    #[derive(Debug)]
    pub(crate) struct Imported {
        id: ModelId,
        name: String,
        served_name: String,
        warnings: Vec<String>,
    }
}

pub(crate) const MODEL: Operation = Operation::new("importModel", "Import one model from a package")
    .about(
        "The model's image is loaded and its weights are put below the models base directory where they are missing; a file \
         that is there is never overwritten. All of it is verified before it is used. The answer comes when it is done, which may \
         take minutes; it goes on if the client leaves. `dry_run` says what would be done, and changes nothing.",
    )
    .errors(&[
        ErrorCode::PathNotAllowed,
        ErrorCode::NotFound,
        ErrorCode::ServedNameConflict,
        ErrorCode::JobRunning,
        ErrorCode::RuntimeUnavailable,
        ErrorCode::HostUnavailable,
    ]);

pub(crate) async fn model(
    app: State<App>,
    caller: Caller,
    Body(body): Body<ImportModel>,
) -> Outcome<Either<Created<Imported>, Json<DryImport>>> {
    let rename = body.conflict_strategy == Some(Conflict::Rename);
    let (package, request) = opened(&app, &body).await?;
    let name = format!("manifests/{}", body.manifest_file);
    let listed = package.manifest().contents.models.iter().find(|it| it.manifest.as_str() == name).cloned();
    let listed = listed.ok_or_else(|| {
        let message = format!("the package has no model with the manifest `{}`", body.manifest_file);
        Problem(ApiError::new(ErrorCode::NotFound, message).with_param("manifest_file"))
    })?;
    let manifest = app.files.disk.look(move || read(&package, &listed.manifest)).await?;
    let manifest = manifest
        .map_err(|why| Problem::invalid("manifest_file", format!("the manifest can't be used: {why}")))?;
    let mut wanted = Wanted { body: manifest.model.clone(), rename };
    wanted.set("served_name", body.served_name_override.as_ref());
    wanted.set("local_path", body.local_path_override.as_ref());
    let plan = app.deployment.plan_import(request.clone()).await?;
    if body.dry_run == Some(true) {
        return Ok(Either::Second(Json(dry(&app, caller.role(), &manifest, &wanted, plan).await?)));
    }
    // Refused before anything is loaded or copied.
    let checked = wanted.checked(&app, caller.role()).await?;
    if !plan.is_possible() {
        return Err(impossible(&plan));
    }
    let warnings = warnings(&app, &manifest, &checked, &plan).await;
    let did = caller.did(Action::PackageImport, &body.output_dir).created(json!({
        "output_dir": body.output_dir, "manifest_file": body.manifest_file,
    }));
    let (sender, made) = tokio::sync::oneshot::channel();
    let (own, by) = (app.0.clone(), caller);
    let then = move || {
        async move {
            let model = wanted.create(&own, &by).await.map_err(|it| it.0)?;
            let summary = json!([{ "id": model.id, "served_name": model.served_name }]);
            // Nobody may be waiting.
            let _ = sender.send(model);
            Ok(summary)
        }
        .boxed()
    };
    let started = app.deployment.import(request, did, Box::new(then)).await?;
    started.done.await?;
    let Model { id, name, served_name, .. } = made.await.map_err(|_| Problem(ApiError::internal()))?;
    Ok(Either::First(Created(Imported { id, name, served_name, warnings })))
}

/// Opens the package of a request.
async fn opened(app: &App, body: &ImportModel) -> Outcome<(Package, ImportRequest)> {
    let (dirs, output_dir, base_dir) =
        (app.files.export_dirs.clone(), body.output_dir.clone(), body.base_dir.clone());
    let look = move || {
        let (dir, base) = places(&dirs, &output_dir, base_dir.as_deref())?;
        Ok::<_, Problem>((folder::package(&dir, base.as_deref())?, dir, base))
    };
    let (package, dir, base) = app.files.disk.look(look).await??;
    let own_weights = body.local_path_override.is_none() && body.include_weights.unwrap_or(true);
    let request = ImportRequest {
        dir,
        base,
        manifest_file: Some(body.manifest_file.clone()),
        include_images: body.include_images.unwrap_or(true),
        include_weights: own_weights,
        include_hub_cache: own_weights,
    };
    Ok((package, request))
}

fn places(
    dirs: &[PathBuf],
    output_dir: &str,
    base_dir: Option<&str>,
) -> Result<(PathBuf, Option<PathBuf>), Problem> {
    let base = base_dir.map(|it| folder::existing(dirs, it, "base_dir")).transpose()?;
    Ok((folder::existing(dirs, output_dir, "output_dir")?, base))
}

fn impossible(plan: &ImportPlan) -> Problem {
    let message = match (plan.problems.first(), plan.conflicting_files.first()) {
        (Some(problem), _) => problem.clone(),
        (None, Some(file)) => {
            format!(
                "`{file}` is there already with another content: it is left as it is; move it away and import again"
            )
        }
        (None, None) => {
            format!("the weights need {} bytes, and {} are free", plan.new_bytes, plan.available_bytes)
        }
    };
    Problem::invalid("output_dir", message)
}

/// A model that is to be made.
struct Wanted {
    body: Map<String, Value>,
    rename: bool,
}

/// A draft, and the names that it would have.
struct Checked {
    draft: ModelDraft,
    conflict: Option<ConflictWith>,
}

impl Wanted {
    fn set(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.body.insert(name.to_owned(), json!(value));
        }
    }

    /// Returns the draft with a name that is free, or that of the manifest if names are not to be changed.
    async fn draft(&self, app: &App, role: Role) -> Outcome<Checked> {
        let draft = |body: &Map<String, Value>| {
            ModelDraft::create(body, role).map_err(|it| Problem(ApiError::validation(it)))
        };
        let original = draft(&self.body)?;
        models::check(app, &original, &self.body).await?;
        let mut tx = app.store.read().await?;
        let Some(message) = models::name_taken(&mut tx, &original).await? else {
            return Ok(Checked { draft: original, conflict: None });
        };
        let conflict = Some(ConflictWith { served_name: original.served_name.clone(), message });
        if !self.rename {
            return Ok(Checked { draft: original, conflict });
        }
        for n in 1..=MOST_NAMES {
            let suffix = if n == 1 { SUFFIX.to_owned() } else { format!("{SUFFIX}-{n}") };
            let mut body = self.body.clone();
            body.insert("served_name".to_owned(), json!(format!("{}{suffix}", original.served_name)));
            body.insert("name".to_owned(), json!(format!("{}{suffix}", original.name)));
            let renamed = draft(&body)?;
            if models::name_taken(&mut tx, &renamed).await?.is_none() {
                return Ok(Checked { draft: renamed, conflict });
            }
        }
        Err(conflicting(conflict.as_ref()))
    }

    /// The same, and refuses a conflict that is not to be solved.
    async fn checked(&self, app: &App, role: Role) -> Outcome<ModelDraft> {
        let checked = self.draft(app, role).await?;
        if checked.conflict.is_some() && !self.rename {
            return Err(conflicting(checked.conflict.as_ref()));
        }
        Ok(checked.draft)
    }

    /// Makes the model.
    async fn create(&self, app: &App, caller: &Caller) -> Outcome<Model> {
        for _ in 0..MOST_NAMES {
            let draft = self.checked(app, caller.role()).await?;
            match models::insert(app, caller, &draft).await {
                // Somebody took the name in this moment.
                Err(error) if self.rename && error.0.code == ErrorCode::ServedNameConflict => {}
                done => return done,
            }
        }
        Err(conflicting(None))
    }
}

fn conflicting(conflict: Option<&ConflictWith>) -> Problem {
    let message = conflict.map_or("the served name is taken", |it| it.message.as_str());
    let message =
        format!("{message}: import it with `conflict_strategy` `rename`, or with `served_name_override`");
    Problem(ApiError::new(ErrorCode::ServedNameConflict, message).with_param("served_name"))
}

async fn dry(
    app: &App,
    role: Role,
    manifest: &ModelManifest,
    wanted: &Wanted,
    plan: ImportPlan,
) -> Outcome<DryImport> {
    let (checked, errors) = match wanted.draft(app, role).await {
        Ok(checked) => (Some(checked), Vec::new()),
        // Only what is wrong with the manifest is an answer; a database that is away is an error.
        Err(Problem(error)) if error.code.status() == 422 || error.code == ErrorCode::Forbidden => {
            let details: Vec<_> = error.details.iter().map(|it| it.message.clone()).collect();
            (None, if details.is_empty() { vec![error.message] } else { details })
        }
        Err(error) => return Err(error),
    };
    let warnings = match &checked {
        Some(it) => warnings(app, manifest, &it.draft, &plan).await,
        None => Vec::new(),
    };
    let conflict_stops = !wanted.rename && checked.as_ref().is_some_and(|it| it.conflict.is_some());
    let can_import = checked.is_some() && !conflict_stops && plan.is_possible();
    let (draft, conflict) = checked.map(|it| (it.draft, it.conflict)).unzip();
    Ok(DryImport {
        dry_run: true,
        would_create: draft.map(|it| WouldCreate {
            image: manifest.image.clone(),
            local_path: it.config.text("local_path").map(str::to_owned),
            repo_id: it.config.text("repo_id").map(str::to_owned),
            name: it.name,
            served_name: it.served_name,
            task: it.task,
            engine_type: it.engine,
        }),
        conflict: conflict.flatten(),
        warnings,
        validation_errors: errors,
        can_import,
        plan,
    })
}

/// Says what is to be done after the import, so that the model can start.
async fn warnings(app: &App, manifest: &ModelManifest, draft: &ModelDraft, plan: &ImportPlan) -> Vec<String> {
    let mut warnings = Vec::new();
    for secret in &manifest.redacted {
        warnings.push(match secret.strip_prefix("extra_env.") {
            None => "the model-hub token is not in the package: add a model-hub token (`hub_token`) after the import".to_owned(),
            Some(name) => {
                format!("the value of the environment variable {name} is not in the package: set it again in `extra_env`")
            }
        });
    }
    if draft.config.is_online() {
        let repo = draft.config.text("repo_id").unwrap_or_default();
        if manifest.weights.is_empty() {
            warnings.push(format!(
                "the model is fetched from the hub ({repo}), and the package does not have it: the start needs a network, or the \
                 repository in the hub cache"
            ));
        }
    } else if let Some(path) = draft.config.text("local_path") {
        let there = models::is_there(app, path).await;
        let comes = plan.new_files > 0 || plan.present_files > 0;
        if !there && !comes {
            warnings.push(format!(
                "`{path}` is not below the models base directory and not in the package: put it there before the start"
            ));
        }
    }
    warnings.extend(plan.missing_images.iter().map(|it| {
        format!("image {it} is neither in the package nor on this machine: load it before the start")
    }));
    warnings.extend(
        plan.replaced_images
            .iter()
            .map(|it| format!("another image has the name {it} now: the name moves to the package's image")),
    );
    warnings
}

form! {
    pub(crate) struct Import {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: required Line<1000>,
        /// The folder of the base package, for a difference.
        base_dir: optional Line<1000>,
        /// Loads images that are missing; `true` if it is left out.
        include_images: optional bool,
        /// Puts weights in place that are missing; `true` if it is left out.
        include_weights: optional bool,
        /// Puts files of the hub cache in place that are missing; `true` if it is left out.
        include_hub_cache: optional bool,
        /// Makes the models of the package; `true` if it is left out. A model that is there with the same served name is
        /// left as it is.
        include_models: optional bool,
        /// Only says what would be done.
        dry_run: optional bool,
    }
}

view! {
    /// What an import of a package would do.
    #[derive(Debug)]
    pub(crate) struct DryPackage {
        dry_run: bool,
        /// Served names of models that would be made.
        new_models: Vec<String>,
        /// Served names of models that are left as they are, because there is one of that name.
        present_models: Vec<String>,
        warnings: Vec<String>,
        can_import: bool,
        plan: ImportPlan,
    }
}

pub(crate) const PACKAGE: Operation = Operation::new("importPackage", "Import a whole package")
    .about(
        "Images are loaded, weights are put in place and models are made, as far as they are missing; nothing that is there is \
         changed. The answer is the job, or with `dry_run` what it would do. The database is restored by `restore-database`.",
    )
    .errors(&[
        ErrorCode::PathNotAllowed,
        ErrorCode::NotFound,
        ErrorCode::JobRunning,
        ErrorCode::RuntimeUnavailable,
        ErrorCode::HostUnavailable,
    ]);

pub(crate) async fn package(
    app: State<App>,
    caller: Caller,
    Body(body): Body<Import>,
) -> Outcome<Either<Accepted<DeploymentJob>, Json<DryPackage>>> {
    let (dirs, output_dir, base_dir) =
        (app.files.export_dirs.clone(), body.output_dir.clone(), body.base_dir.clone());
    let look = move || {
        let (dir, base) = places(&dirs, &output_dir, base_dir.as_deref())?;
        let package = folder::package(&dir, base.as_deref())?;
        let listed = &package.manifest().contents.models;
        let manifests = listed.iter().map(|it| (it.served_name.clone(), read(&package, &it.manifest)));
        Ok::<_, Problem>((manifests.collect::<Vec<_>>(), dir, base))
    };
    let (manifests, dir, base) = app.files.disk.look(look).await??;
    let request = ImportRequest {
        dir,
        base,
        manifest_file: None,
        include_images: body.include_images.unwrap_or(true),
        include_weights: body.include_weights.unwrap_or(true),
        include_hub_cache: body.include_hub_cache.unwrap_or(true),
    };
    let plan = app.deployment.plan_import(request.clone()).await?;
    let sorted = sort(&app, caller.role(), manifests, body.include_models.unwrap_or(true), &plan).await?;
    if body.dry_run == Some(true) {
        return Ok(Either::Second(Json(DryPackage {
            dry_run: true,
            can_import: plan.is_possible() && sorted.unusable.is_empty(),
            new_models: sorted.new.iter().map(|it| it.1.clone()).collect(),
            present_models: sorted.present,
            warnings: [sorted.unusable, sorted.warnings].concat(),
            plan,
        })));
    }
    if let Some(problem) = sorted.unusable.first() {
        return Err(Problem::invalid("output_dir", problem.clone()));
    }
    if !plan.is_possible() {
        return Err(impossible(&plan));
    }
    let did =
        caller.did(Action::PackageImport, &body.output_dir).created(json!({ "output_dir": body.output_dir }));
    let started = begin(&app, caller, request, did, sorted.new).await?;
    Ok(Either::First(Accepted(DeploymentJob::of(&app, started))))
}

/// The models of a package, by what is to be done with them.
#[derive(Default)]
struct Sorted {
    new: Vec<(Wanted, String)>,
    present: Vec<String>,
    /// Why a model can't be made.
    unusable: Vec<String>,
    warnings: Vec<String>,
}

async fn sort(
    app: &App,
    role: Role,
    manifests: Vec<(String, Result<ModelManifest, String>)>,
    wanted: bool,
    plan: &ImportPlan,
) -> Outcome<Sorted> {
    let mut sorted = Sorted::default();
    let mut names = BTreeSet::new();
    for (served_name, manifest) in manifests.into_iter().filter(|_| wanted) {
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(why) => {
                sorted.unusable.push(format!("the manifest of {served_name} can't be used: {why}"));
                continue;
            }
        };
        let model = Wanted { body: manifest.model.clone(), rename: false };
        match model.draft(app, role).await {
            Ok(it) if it.conflict.is_some() || !names.insert(served_name.clone()) => {
                sorted.present.push(served_name)
            }
            Ok(it) => {
                let of_model = warnings(app, &manifest, &it.draft, plan).await;
                sorted.warnings.extend(of_model.into_iter().map(|it| format!("{served_name}: {it}")));
                sorted.new.push((model, served_name));
            }
            Err(Problem(error)) if error.code.status() == 422 || error.code == ErrorCode::Forbidden => {
                let why = error.details.first().map_or(error.message.as_str(), |it| it.message.as_str());
                sorted.unusable.push(format!("the model {served_name} can't be made: {why}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sorted)
}

async fn begin(
    app: &App,
    caller: Caller,
    request: ImportRequest,
    did: AuditEntry,
    models: Vec<(Wanted, String)>,
) -> Outcome<Job> {
    let own = app.clone();
    let then = move || {
        async move {
            let mut made = Vec::new();
            for (model, _) in models {
                match model.create(&own, &caller).await {
                    Ok(it) => made.push(json!({ "id": it.id, "served_name": it.served_name })),
                    // Somebody else made it meanwhile: it is left as it is.
                    Err(error) if error.0.code == ErrorCode::ServedNameConflict => {}
                    Err(error) => return Err(error.0),
                }
            }
            Ok(Value::Array(made))
        }
        .boxed()
    };
    Ok(app.deployment.import(request, did, Box::new(then)).await?.job)
}
