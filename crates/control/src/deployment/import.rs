//! The job that takes images and weights from a package.

use std::{
    io::{self, Read, Write},
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream};
use gantry_domain::{
    ApiError,
    deployment::{ImportPlan, ImportRequest},
};
use gantry_package::{
    checksums::Sha256Sum,
    contents::{HUB_CACHE, IMAGES, Image, MODELS},
    images::{ImageError, ImageSource, check, diff_ids, put_together},
    package::Package,
    path::PackagePath,
    sign::{PublicKey, Signature},
    stop::stopped,
    unpack::{Staged, Unpack, UnpackError, remove_quarantines},
};
use gantry_runtime::ImageInfo;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    artifacts, failed,
    images::as_loaded,
    plan::{available, unanswered},
    thread::{Work, cancelled},
};
use crate::Control;

/// Bytes of an archive of images that are handed to the container runtime at a time.
const PIECE: usize = 1 << 20;
/// Pieces that wait for the container runtime.
const AHEAD: usize = 4;

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

/// What of a package is taken in.
pub(super) struct Selection {
    package: Package,
    images: Vec<Image>,
    /// Images that models need, and that are not in the package.
    absent: Vec<String>,
    weights: Vec<PackagePath>,
    hub_cache: Vec<PackagePath>,
}

impl Selection {
    /// Opens the package. Blocks.
    pub(super) fn of(control: &Control, request: &ImportRequest) -> Result<Self, ApiError> {
        let package = open(control, &request.dir, request.base.as_deref())?;
        let contents = &package.manifest().contents;
        let whole = |top: &str| PackagePath::new(top).into_iter().collect::<Vec<_>>();
        let (mut images, mut absent) = (contents.images.clone(), Vec::new());
        let (mut weights, mut hub_cache) = (whole(MODELS), whole(HUB_CACHE));
        if let Some(name) = &request.manifest_file {
            let listed =
                contents.models.iter().find(|it| it.manifest.as_str() == format!("manifests/{name}"));
            let model = listed.ok_or_else(|| {
                ApiError::invalid(
                    "manifest_file",
                    format!("the package has no model with the manifest {name:?}"),
                )
            })?;
            images.retain(|it| model.image.as_ref() == Some(&it.reference));
            absent.extend(model.image.clone().filter(|_| images.is_empty()));
            let of = |top: &str| model.weights.iter().filter(|it| it.top() == top).cloned().collect();
            (weights, hub_cache) = (of(MODELS), of(HUB_CACHE));
        } else {
            let needed = contents.models.iter().filter_map(|it| it.image.clone());
            absent.extend(needed.filter(|it| !images.iter().any(|image| image.reference == *it)));
            absent.sort();
            absent.dedup();
        }
        if !request.include_images || !control.runtime.traits().loads_archives {
            images.clear();
            absent.clear();
        }
        if !request.include_weights {
            weights.clear();
        }
        if !request.include_hub_cache {
            hub_cache.clear();
        }
        Ok(Self { package, images, absent, weights, hub_cache })
    }

    fn unpacks<'a>(&'a self, control: &'a Control, base_dir: &'a Path) -> [Unpack<'a>; 2] {
        let (package, hub_cache) = (&self.package, &control.config.hub_cache_dir);
        [
            Unpack { package, places: &self.weights, to: base_dir },
            Unpack { package, places: &self.hub_cache, to: hub_cache },
        ]
    }

    /// Says what there is to do with files. Blocks.
    fn plan_files(&self, control: &Control) -> Result<ImportPlan, ApiError> {
        let mut plan = ImportPlan::default();
        let base_dir = control.config.models_dir.get();
        for unpack in self.unpacks(control, &base_dir) {
            let files = unpack.plan();
            plan.new_files += files.missing.len() as u64;
            plan.new_bytes = plan.new_bytes.saturating_add(files.bytes);
            plan.present_files += files.present.len() as u64;
            plan.conflicting_files.extend(files.taken.iter().map(ToString::to_string));
            let lacking = files.missing.iter().copied().find(|it| !self.package.has(it));
            plan.problems.extend(lacking.map(|it| self.needs_base(it)));
        }
        let refused = self.images.iter().find(|it| !control.config.images.allows(&it.reference));
        plan.problems.extend(refused.map(|it| {
            format!("image {} is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it", it.reference)
        }));
        plan.available_bytes = available(&base_dir)?;
        Ok(plan)
    }

    fn needs_base(&self, path: &PackagePath) -> String {
        if self.package.base().is_some() {
            return format!("`{path}` is to be in the base package, and is not");
        }
        let id = self.package.manifest().base.as_ref().map(|it| it.id.clone()).unwrap_or_default();
        format!("`{path}` is in the base package {id}: name its folder in `base_dir`")
    }

    /// Returns whether an image of the machine is this one. `None` if that can't be told because the package's base is missing.
    fn is_there(&self, image: &Image, found: &ImageInfo) -> Option<bool> {
        let layers = diff_ids(image, &Blobs(&self.package)).ok()?;
        Some(found.is(&image.config, &layers))
    }
}

/// Opens a package, whose signature must be of the trusted key if there is one.
pub(super) fn open(control: &Control, dir: &Path, base: Option<&Path>) -> Result<Package, ApiError> {
    let unusable = |param: &'static str| {
        move |error: gantry_package::package::OpenError| ApiError::invalid(param, error.to_string())
    };
    let package = Package::open(dir).map_err(unusable("output_dir"))?;
    check_origin(control, &package)?;
    match base {
        // The difference, whose origin was checked, has the checksum of the base's manifest, and that of the one below it.
        Some(base) => package.with_base_at(base).map_err(unusable("base_dir")),
        None => Ok(package),
    }
}

fn check_origin(control: &Control, package: &Package) -> Result<(), ApiError> {
    let Some(trusted) = &control.config.engines.package_trusted_key else { return Ok(()) };
    let refused = |why: String| {
        let message =
            format!("the origin of the package is not proven, and PACKAGE_TRUSTED_KEY asks for that: {why}");
        ApiError::invalid("output_dir", message)
    };
    let key = PublicKey::parse(trusted).map_err(|error| refused(error.to_string()))?;
    let signature = Signature::read(package.dir()).map_err(|error| refused(error.to_string()))?;
    let signature = signature.ok_or_else(|| refused("it is not signed".to_owned()))?;
    signature.verify_package(package, &key).map_err(|error| refused(error.to_string()))?;
    Ok(())
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
                plan.replaced_images.extend(same.map(|_| reference.clone()));
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

/// Returns a blob of an image that is in a base which was not named, or which does not have it.
fn missing_blob(package: &Package, image: &Image) -> Option<PackagePath> {
    let names = std::iter::once(&image.config).chain(&image.layers);
    let paths = names.filter_map(|it| blob(it.strip_prefix("sha256:")?));
    paths.into_iter().find(|it| package.manifest().files.contains_key(it) && !package.has(it))
}

fn blob(digest: impl std::fmt::Display) -> Option<PackagePath> {
    PackagePath::new(&format!("{IMAGES}/blobs/sha256/{digest}")).ok()
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

/// Whether the container runtime has the image as it is in the package.
fn has(work: &Work, selection: &Selection, image: &Image) -> Result<bool, ApiError> {
    let found = work.wait(work.control.runtime.image(&image.reference))?;
    let found = found.map_err(|error| unanswered(&error))?;
    Ok(found.is_some_and(|it| selection.is_there(image, &it) == Some(true)))
}

/// Returns the images that are to be loaded.
fn unloaded(work: &Work, selection: &Selection) -> Result<Vec<Image>, ApiError> {
    let mut wanted = Vec::new();
    for image in &selection.images {
        if !has(work, selection, image)? {
            wanted.push(image.clone());
        }
    }
    Ok(wanted)
}

/// Compares images with their digests, before anything is put in place.
fn verify(work: &Work, selection: &Selection, images: &[Image]) -> Result<(), ApiError> {
    if images.is_empty() {
        return Ok(());
    }
    work.job.step("verifying images");
    let checked = check(images, &Blobs(&selection.package), &mut Counted(work));
    checked.map_err(|error| match error {
        _ if work.is_cancelled() => cancelled(),
        ImageError::Blob { digest, why } => failed(format!("`{IMAGES}/blobs/sha256/{digest}` {why}")),
        error => failed(format!("the images of the package can't be used: {error}")),
    })
}

/// Loads images, and returns their references.
fn load(work: &Work, selection: &Selection, wanted: &[Image]) -> Result<Vec<String>, ApiError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = &work.control.runtime;
    let names: Vec<String> = wanted.iter().map(|it| it.reference.clone()).collect();
    work.job.step(format!("loading images: {}", names.join(", ")));
    let (pieces, archive) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    let archive = stream::unfold(archive, async |mut it| Some((it.recv().await?, it))).boxed();
    let loaded = std::thread::scope(|scope| {
        let package = &selection.package;
        scope.spawn(|| {
            let mut to = Pieces { to: pieces, work, piece: Vec::with_capacity(PIECE) };
            if let Err(error) = put_together(&as_loaded(wanted), &Blobs(package), &mut to) {
                // The runtime is gone if nobody takes it.
                let _ = work.wait(to.to.send(Err(io::Error::other(error))));
            }
        });
        work.wait(runtime.load(archive))
    })?;
    loaded.map_err(|error| failed(format!("the images can't be loaded: {error}")))?;
    for image in wanted {
        if !has(work, selection, image)? {
            let reference = &image.reference;
            return Err(failed(format!(
                "the container runtime did not load {reference} as it is in the package"
            )));
        }
    }
    Ok(names)
}

/// Blobs of the images in a package.
struct Blobs<'a>(&'a Package);

impl ImageSource for Blobs<'_> {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let path = blob(digest).ok_or(io::ErrorKind::NotFound)?;
        let entry = self.0.manifest().files.get(&path).ok_or(io::ErrorKind::NotFound)?;
        Ok((entry.size, Box::new(self.0.content(&path)?)))
    }
}

/// Counts the bytes of what is verified, until the job is cancelled.
struct Counted<'a>(&'a Work);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.is_cancelled() {
            return Err(stopped());
        }
        self.0.progress.bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hands an archive to the container runtime, piece by piece.
struct Pieces<'a> {
    to: mpsc::Sender<io::Result<Bytes>>,
    work: &'a Work,
    piece: Vec<u8>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.work.is_cancelled() {
            return Err(stopped());
        }
        self.piece.extend_from_slice(bytes);
        self.work.progress.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        // A container runtime that takes nothing must not hold up a cancel.
        let sent = self.work.wait(self.to.send(Ok(piece.into()))).map_err(|_| stopped())?;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
