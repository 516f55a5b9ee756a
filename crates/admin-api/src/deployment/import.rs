//! `/admin/deployment/import-model`: taking one model out of a package.

use std::borrow::Cow;

use axum::{Json, extract::State};
use futures_util::FutureExt;
use gantry_domain::{
    ApiError, ErrorCode, ModelId, Role, Timestamp,
    audit::Action,
    deployment::{ImportPlan, ImportRequest},
    model::{EngineKind, Model, Task},
    schema::{Components, one_of},
    view,
};
use gantry_package::{model_manifest::ModelManifest, package::Package};
use serde_json::{Value, json};

use super::{
    folder,
    manifests::read,
    wanted::{ConflictWith, Wanted, warnings},
};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Body, Created, Either, Field, Line, Name, Operation, form},
};

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
        /// Whether the name of an image of this machine moves to another image of the package. A package whose origin is proven
        /// (`PACKAGE_TRUSTED_KEY`) may do that in any case.
        replace_images: optional bool,
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
        return Err(folder::impossible(&plan));
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
        let (dir, base) = folder::places(&dirs, &output_dir, base_dir.as_deref())?;
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
        replace_images: body.replace_images.unwrap_or(false),
    };
    Ok((package, request))
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
