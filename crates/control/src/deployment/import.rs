//! The job that takes images and weights from a package.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gantry_domain::{
    ApiError,
    deployment::{ImportPlan, ImportRequest},
};
use gantry_package::unpack::{Staged, UnpackError, remove_quarantines};
use serde::Serialize;
use serde_json::Value;

use super::{
    artifacts, failed,
    import_images::{load, unloaded, verify},
    plan::unanswered,
    selection::{Selection, missing_blob},
    thread::{Work, cancelled},
};
use crate::Control;

/// Makes the models once everything else is in place; its result becomes part of the job's record.
pub type Then = Box<dyn FnOnce() -> BoxFuture<'static, Result<Value, ApiError>> + Send + 'static>;

/// What an import made, as the job's record has it.
#[derive(Serialize)]
struct Made {
    package_id: String,
    loaded_images: Vec<String>,
    new_files: u64,
    new_bytes: u64,
    models: Value,
}

/// See [`super::plan_import`].
pub(super) async fn plan(control: &Arc<Control>, request: ImportRequest) -> Result<ImportPlan, ApiError> {
    let own = Arc::clone(control);
    let look = move || {
        let selection = Selection::of(&own, &request)?;
        let plan = selection.plan_files(&own)?;
        Ok::<_, ApiError>((selection, plan))
    };
    let (selection, mut plan) =
        tokio::task::spawn_blocking(look).await.map_err(|_| ApiError::internal())??;
    let selection = Arc::new(selection);
    // An image that is refused may have a name that the runtime must not see.
    for image in selection.images.iter().filter(|it| control.config.images.allows(&it.reference)) {
        let found = control.runtime.image(&image.reference).await.map_err(|error| unanswered(&error))?;
        let (known, own) = (Arc::clone(&selection), image.clone());
        let there = tokio::task::spawn_blocking(move || found.map(|it| known.is_there(&own, &it)));
        let reference = image.reference.clone();
        match there.await.map_err(|_| ApiError::internal())? {
            Some(Some(true)) => plan.present_images.push(reference),
            Some(same) => {
                if same.is_some() {
                    plan.replaced_images.push(reference.clone());
                    plan.problems.extend(selection.name_is_taken(control, image));
                }
                plan.load_images.push(reference);
            }
            None => plan.load_images.push(reference),
        }
        if plan.load_images.last() == Some(&image.reference)
            && let Some(path) = missing_blob(&selection.package, image)
        {
            plan.problems.push(selection.needs_base(&path));
        }
    }
    for reference in &selection.absent {
        if control.runtime.image(reference).await.map_err(|error| unanswered(&error))?.is_none() {
            plan.missing_images.push(reference.clone());
        }
    }
    plan.problems.dedup();
    Ok(plan)
}

/// Takes everything in. What is put in place stays in place if a later step fails: it is whole, and another import goes on
/// from there.
pub(super) fn run(work: &Work, request: &ImportRequest, then: Then) -> Result<(), ApiError> {
    let control = &work.control;
    work.job.step("reading the package");
    let selection = Selection::of(control, request)?;
    let plan = selection.plan_files(control)?;
    if let Some(problem) = plan.problems.first() {
        return Err(failed(problem.clone()));
    }
    if plan.new_bytes > plan.available_bytes {
        return Err(failed(format!(
            "no space left: the weights need {} bytes, and {} are free",
            plan.new_bytes, plan.available_bytes
        )));
    }
    let images = unloaded(work, &selection)?;
    // They are read twice: nothing is used before everything is verified. Sizes are the manifest's word.
    let size = images.iter().fold(0_u64, |sum, it| sum.saturating_add(it.size));
    work.job.set_total(plan.new_bytes.saturating_add(size.saturating_mul(2)));
    verify(work, &selection, &images)?;
    files(work, &selection)?;
    let loaded = load(work, &selection, &images)?;
    work.job.step("making models");
    let models = work.wait(then())??;
    work.job.made(artifacts(&Made {
        package_id: selection.package.manifest().id.clone(),
        loaded_images: loaded,
        new_files: plan.new_files,
        new_bytes: plan.new_bytes,
        models,
    }));
    Ok(())
}

/// Puts weights and hub cache in place once both are verified.
fn files(work: &Work, selection: &Selection) -> Result<(), ApiError> {
    let base_dir = work.control.config.models_dir.get();
    let mut staged = Vec::new();
    let unpacks = selection.unpacks(&work.control, &base_dir);
    for unpack in &unpacks {
        remove_quarantines(unpack.to).map_err(|error| unpacked(&error))?;
    }
    for (n, unpack) in unpacks.iter().enumerate().filter(|it| !it.1.places.is_empty()) {
        work.job.step(format!("verifying and copying weights into {}", unpack.to.display()));
        // Both may go into one folder.
        let id = format!("{}-{n}", work.job.id());
        staged.push(unpack.stage(&id, &work.progress).map_err(|error| unpacked(&error))?);
    }
    if work.is_cancelled() {
        return Err(cancelled());
    }
    for done in staged.into_iter().map(Staged::place) {
        let done = done.map_err(|error| unpacked(&error))?;
        work.job.log(format!("{} new files, {} that were there", done.missing.len(), done.present.len()));
    }
    Ok(())
}

fn unpacked(error: &UnpackError) -> ApiError {
    match error {
        UnpackError::Stopped => cancelled(),
        error => failed(format!("weights can't be put in place: {error}")),
    }
}
