//! `/admin/deployment/model-manifests`: the models in a package.

use std::io::Read;

use axum::extract::State;
use gantry_domain::{ErrorCode, view};
use gantry_package::{
    checksums::Sha256Sum,
    contents::Model as Listing,
    model_manifest::{LARGEST_MODEL, ModelManifest},
    package::Package,
    path::PackagePath,
};
use serde_json::Value;

use super::folder;
use crate::{
    App,
    error::{Outcome, Problem},
    operation::{Listed, Operation, Query, Required, query},
};

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

pub(crate) const LIST: Operation = Operation::new("listModelManifests", "The models in a package").errors(&[
    ErrorCode::PathNotAllowed,
    ErrorCode::NotFound,
    ErrorCode::HostUnavailable,
]);

pub(crate) async fn list(
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
pub(super) fn read(package: &Package, path: &PackagePath) -> Result<ModelManifest, String> {
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
