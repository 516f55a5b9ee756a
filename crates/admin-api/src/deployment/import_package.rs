//! `/admin/deployment/import`: taking in a whole package.

use std::collections::BTreeSet;

use axum::{Json, extract::State};
use futures_util::FutureExt;
use gantry_domain::{
    ApiError, ErrorCode, Role,
    audit::{Action, AuditEntry},
    deployment::{ImportPlan, ImportRequest},
    job::Job,
    view,
};
use gantry_package::model_manifest::ModelManifest;
use serde_json::{Value, json};

use super::{
    DeploymentJob, folder,
    manifests::read,
    wanted::{Wanted, warnings},
};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Accepted, Body, Either, Line, Operation, form},
};

form! {
    pub(crate) struct Import {
        /// The package's folder, inside the folders of `EXPORT_DIRS`.
        output_dir: required Line<1000>,
        /// The folder of the base package, for a difference.
        base_dir: optional Line<1000>,
        /// Loads images that are missing; `true` if it is left out.
        include_images: optional bool,
        /// Whether the name of an image of this machine moves to another image of the package. A package whose origin is proven
        /// (`PACKAGE_TRUSTED_KEY`) may do that in any case.
        replace_images: optional bool,
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

pub(crate) const IMPORT: Operation = Operation::new("importPackage", "Import a whole package")
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

pub(crate) async fn import(
    app: State<App>,
    caller: Caller,
    Body(body): Body<Import>,
) -> Outcome<Either<Accepted<DeploymentJob>, Json<DryPackage>>> {
    let (dirs, output_dir, base_dir) =
        (app.files.export_dirs.clone(), body.output_dir.clone(), body.base_dir.clone());
    let look = move || {
        let (dir, base) = folder::places(&dirs, &output_dir, base_dir.as_deref())?;
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
        replace_images: body.replace_images.unwrap_or(false),
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
        return Err(folder::impossible(&plan));
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
                sorted.present.push(served_name);
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
    let then = move || async move { make(&own, &caller, models).await }.boxed();
    Ok(app.deployment.import(request, did, Box::new(then)).await?.job)
}

async fn make(app: &App, caller: &Caller, models: Vec<(Wanted, String)>) -> Result<Value, ApiError> {
    let mut made = Vec::new();
    for (model, _) in models {
        match model.create(app, caller).await {
            Ok(it) => made.push(json!({ "id": it.id, "served_name": it.served_name })),
            // Somebody else made it meanwhile: it is left as it is.
            Err(Problem(error)) if error.code == ErrorCode::ServedNameConflict => {}
            Err(Problem(error)) => return Err(error),
        }
    }
    Ok(Value::Array(made))
}
