//! What an import takes of a package.

use std::{
    io::{self, Read},
    path::Path,
};

use gantry_domain::{
    ApiError,
    deployment::{ImportPlan, ImportRequest},
};
use gantry_package::{
    checksums::Sha256Sum,
    contents::{HUB_CACHE, IMAGES, Image, MODELS},
    images::{ImageSource, diff_ids},
    package::Package,
    path::PackagePath,
    sign::{PublicKey, Signature},
    unpack::Unpack,
};
use gantry_runtime::ImageInfo;

use super::plan::available;
use crate::Control;

/// What of a package is taken in.
pub(super) struct Selection {
    pub(super) package: Package,
    pub(super) images: Vec<Image>,
    /// Images that models need, and that are not in the package.
    pub(super) absent: Vec<String>,
    weights: Vec<PackagePath>,
    hub_cache: Vec<PackagePath>,
    pub(super) replace_images: bool,
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
        let replace_images = request.replace_images;
        Ok(Self { package, images, absent, weights, hub_cache, replace_images })
    }

    pub(super) fn unpacks<'a>(&'a self, control: &'a Control, base_dir: &'a Path) -> [Unpack<'a>; 2] {
        let (package, hub_cache) = (&self.package, &control.config.hub_cache_dir);
        [
            Unpack { package, places: &self.weights, to: base_dir },
            Unpack { package, places: &self.hub_cache, to: hub_cache },
        ]
    }

    /// Says what there is to do with files. Blocks.
    pub(super) fn plan_files(&self, control: &Control) -> Result<ImportPlan, ApiError> {
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

    pub(super) fn needs_base(&self, path: &PackagePath) -> String {
        if self.package.base().is_some() {
            return format!("`{path}` is to be in the base package, and is not");
        }
        let id = self.package.manifest().base.as_ref().map(|it| it.id.clone()).unwrap_or_default();
        format!("`{path}` is in the base package {id}: name its folder in `base_dir`")
    }

    /// Says why the image can't take its name from another image of this machine. A model that names it must get
    /// the image that it meant, unless the package is known to be from its owner, or a person agreed.
    pub(super) fn name_is_taken(&self, control: &Control, image: &Image) -> Option<String> {
        let may_move = self.replace_images || control.config.engines.package_trusted_key.is_some();
        (!may_move).then(|| {
            let name = &image.reference;
            format!("another image of this machine has the name {name}: import with `replace_images` to move the name, or rename that one first")
        })
    }

    /// Returns whether an image of the machine is this one. `None` if that can't be told because the package's base is missing.
    pub(super) fn is_there(&self, image: &Image, found: &ImageInfo) -> Option<bool> {
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

/// Returns a blob of an image that is in a base which was not named, or which does not have it.
pub(super) fn missing_blob(package: &Package, image: &Image) -> Option<PackagePath> {
    let names = std::iter::once(&image.config).chain(&image.layers);
    let paths = names.filter_map(|it| blob(it.strip_prefix("sha256:")?));
    paths.into_iter().find(|it| package.manifest().files.contains_key(it) && !package.has(it))
}

fn blob(digest: impl std::fmt::Display) -> Option<PackagePath> {
    PackagePath::new(&format!("{IMAGES}/blobs/sha256/{digest}")).ok()
}

/// Blobs of the images in a package.
pub(super) struct Blobs<'a>(pub(super) &'a Package);

impl ImageSource for Blobs<'_> {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let path = blob(digest).ok_or(io::ErrorKind::NotFound)?;
        let entry = self.0.manifest().files.get(&path).ok_or(io::ErrorKind::NotFound)?;
        Ok((entry.size, Box::new(self.0.content(&path)?)))
    }
}
