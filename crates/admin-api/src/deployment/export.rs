//! `/admin/deployment/export`, `export-model` and `estimate-size`.

use std::{borrow::Cow, path::PathBuf};

use axum::{Json, extract::State};
use gantry_domain::{
    ErrorCode, ModelId, Timestamp,
    audit::Action,
    deployment::{DISK_MARGIN, Estimate, ExportRequest},
    schema::{self, Components, map, text},
    view,
};
use serde_json::{Map, Value, json};

use super::{DeploymentJob, folder};
use crate::{
    App,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Accepted, Body, Field, Id, Line, Operation, OptionalBody, form},
};

/// Smallest size of parts, in bytes.
const SMALLEST_PART: i64 = 1 << 20;
/// Largest size of parts, in bytes.
const LARGEST_PART: i64 = 1 << 44;

form! {
    pub(crate) struct Export {
        /// The package's folder: relative to the first folder of `EXPORT_DIRS`, or inside one of them. It is made if it is not
        /// there. If there is a package in it, what has not changed stays, and the old package stays whole until the new one is.
        output_dir: required Line<1000>,
        /// Container images; `true` if it is left out.
        include_images: optional bool,
        /// A dump of the database, without secrets; `true` if it is left out.
        include_db: optional bool,
        /// The settings, secrets masked; `true` if it is left out.
        include_configs: optional bool,
        /// A manifest for every model; `true` if it is left out.
        include_models_manifest: optional bool,
        /// The weights in the models base directory; `false` if it is left out.
        tar_models: optional bool,
        /// The hub cache; `false` if it is left out.
        tar_hub_cache: optional bool,
        /// The values of models' environment variables (`extra_env`) that do not look like secrets; `false` if it is left out.
        include_env: optional bool,
        /// Images that are not on the machine are pulled; `true` if it is left out. Otherwise the export fails.
        allow_pull_images: optional bool,
        /// Size of parts in bytes, 1 MiB or more, for disks that hold no large files, such as those with FAT32. Without it,
        /// files are in the package as they are.
        part_size: optional PartSize,
        /// A package, or a copy of the `manifest.json` of one, inside the folders of `EXPORT_DIRS`: only what it lacks is
        /// exported.
        since: optional Line<1000>,
    }
}

/// Bytes of a part.
pub(crate) struct PartSize;

impl Field for PartSize {
    type Value = u64;

    fn allowed() -> Cow<'static, str> {
        "a number of bytes, 1 MiB or more".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<u64> {
        value.as_i64().filter(|it| (SMALLEST_PART..=LARGEST_PART).contains(it)).map(i64::unsigned_abs)
    }

    fn schema(_: &mut Components) -> Value {
        schema::whole(SMALLEST_PART, LARGEST_PART)
    }
}

pub(crate) const EXPORT: Operation = Operation::new("exportDeployment", "Export the installation into a package")
    .about(
        "The answer is the job, which goes on in the background; one deployment job runs at a time. An export into the folder of \
         a package writes what changed. One that was interrupted goes on where it stopped when it is begun again.",
    )
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::JobRunning, ErrorCode::HostUnavailable]);

pub(crate) async fn export(
    app: State<App>,
    caller: Caller,
    Body(body): Body<Export>,
) -> Outcome<Accepted<DeploymentJob>> {
    let (dirs, output_dir, since) =
        (app.files.export_dirs.clone(), body.output_dir.clone(), body.since.clone());
    let look = move || {
        let since = since.map(|it| folder::existing(&dirs, &it, "since")).transpose()?;
        Ok::<_, Problem>((folder::new(&dirs, &output_dir, "output_dir")?, since))
    };
    let (dir, since) = app.files.disk.look(look).await??;
    let request = ExportRequest {
        dir,
        model: None,
        include_images: body.include_images.unwrap_or(true),
        include_db: body.include_db.unwrap_or(true),
        include_configs: body.include_configs.unwrap_or(true),
        include_models_manifest: body.include_models_manifest.unwrap_or(true),
        include_weights: body.tar_models.unwrap_or(false),
        include_hub_cache: body.tar_hub_cache.unwrap_or(false),
        include_env: body.include_env.unwrap_or(false),
        allow_pull_images: body.allow_pull_images.unwrap_or(true),
        part_size: body.part_size,
        since,
    };
    begin(&app, &caller, request, &body.output_dir).await
}

/// Begins an export. Its row of the audit log says what goes into the package, because a package leaves the machine.
async fn begin(
    app: &App,
    caller: &Caller,
    request: ExportRequest,
    object: &str,
) -> Outcome<Accepted<DeploymentJob>> {
    let did = caller.did(Action::PackageExport, object).created(json!({
        "output_dir": object, "model": request.model, "include_images": request.include_images,
        "include_db": request.include_db, "include_configs": request.include_configs,
        "include_models_manifest": request.include_models_manifest, "tar_models": request.include_weights,
        "tar_hub_cache": request.include_hub_cache, "include_env": request.include_env,
    }));
    let job = app.deployment.export(request, did).await?;
    Ok(Accepted(DeploymentJob::of(app, job)))
}

form! {
    #[derive(Default)]
    pub(crate) struct ModelExport {
        /// As in `exportDeployment`; `model-<id>` if it is left out.
        output_dir: optional Line<1000>,
        /// The model's image; `true` if it is left out.
        include_images: optional bool,
        /// The model's weights; `true` if it is left out.
        tar_models: optional bool,
        /// The model's repository in the hub cache; `true` if it is left out.
        tar_hub_cache: optional bool,
        /// As in `exportDeployment`.
        include_env: optional bool,
        /// As in `exportDeployment`.
        allow_pull_images: optional bool,
        /// As in `exportDeployment`.
        part_size: optional PartSize,
        /// As in `exportDeployment`.
        since: optional Line<1000>,
    }
}

pub(crate) const MODEL: Operation = Operation::new("exportModel", "Export one model into a package")
    .about("The package has the model's manifest, its image, its weights, and the gateway's own program; no database and no settings.")
    .errors(&[ErrorCode::PathNotAllowed, ErrorCode::NotFound, ErrorCode::JobRunning, ErrorCode::HostUnavailable]);

pub(crate) async fn model(
    app: State<App>,
    caller: Caller,
    Id(id): Id,
    OptionalBody(body): OptionalBody<ModelExport>,
) -> Outcome<Accepted<DeploymentJob>> {
    crate::models::find(&app, id).await?;
    let output_dir = body.output_dir.clone().unwrap_or_else(|| format!("model-{id}"));
    let (dirs, object, since) = (app.files.export_dirs.clone(), output_dir.clone(), body.since.clone());
    let look = move || {
        let since = since.map(|it| folder::existing(&dirs, &it, "since")).transpose()?;
        Ok::<_, Problem>((folder::new(&dirs, &output_dir, "output_dir")?, since))
    };
    let (dir, since) = app.files.disk.look(look).await??;
    let request = ExportRequest {
        dir,
        model: Some(ModelId(id)),
        include_images: body.include_images.unwrap_or(true),
        include_db: false,
        include_configs: false,
        include_models_manifest: true,
        include_weights: body.tar_models.unwrap_or(true),
        include_hub_cache: body.tar_hub_cache.unwrap_or(true),
        include_env: body.include_env.unwrap_or(false),
        allow_pull_images: body.allow_pull_images.unwrap_or(true),
        part_size: body.part_size,
        since,
    };
    begin(&app, &caller, request, &object).await
}

form! {
    pub(crate) struct Size {
        /// As in `exportDeployment`.
        output_dir: required Line<1000>,
        /// `true` if it is left out.
        include_images: optional bool,
        /// `true` if it is left out.
        include_db: optional bool,
        /// `false` if it is left out.
        tar_models: optional bool,
        /// `false` if it is left out.
        tar_hub_cache: optional bool,
    }
}

view! {
    /// Whether there is room for a package.
    #[derive(Debug)]
    struct DiskSpace {
        sufficient: bool,
        available_bytes: u64,
        available_formatted: String,
        required_bytes: u64,
        required_formatted: String,
        /// The free space that is required, as a multiple of the estimate.
        safety_margin: f64,
    }
}

view! {
    /// How large a package would be. A package may be smaller: layers that images share are in it once.
    #[derive(Debug)]
    pub(crate) struct SizeEstimate {
        estimated_bytes: u64,
        estimated_formatted: String,
        /// The parts, for people: `container_images`, `database`, `models`, `hub_cache`, `gateway`.
        breakdown: Map<String, Value> as map(text()),
        /// The same in bytes.
        breakdown_bytes: Map<String, Value> as map(schema::count()),
        disk_space: DiskSpace,
        /// Images that are not on the machine: their size is not in the estimate.
        missing_images: Vec<String>,
    }
}

pub(crate) const ESTIMATE: Operation = Operation::new(
    "estimateDeploymentSize",
    "How large a package would be",
)
.about("The sizes are those of the files, the images and the database as they are now. Nothing is written.")
.errors(&[ErrorCode::PathNotAllowed, ErrorCode::RuntimeUnavailable, ErrorCode::HostUnavailable]);

pub(crate) async fn estimate(app: State<App>, Body(body): Body<Size>) -> Outcome<Json<SizeEstimate>> {
    let (dirs, output_dir) = (app.files.export_dirs.clone(), body.output_dir);
    let dir: PathBuf = app.files.disk.look(move || folder::new(&dirs, &output_dir, "output_dir")).await??;
    let request = ExportRequest {
        dir,
        model: None,
        include_images: body.include_images.unwrap_or(true),
        include_db: body.include_db.unwrap_or(true),
        include_configs: true,
        include_models_manifest: true,
        include_weights: body.tar_models.unwrap_or(false),
        include_hub_cache: body.tar_hub_cache.unwrap_or(false),
        include_env: false,
        allow_pull_images: false,
        part_size: None,
        since: None,
    };
    Ok(Json(shown(app.deployment.estimate(request).await?)))
}

fn shown(estimate: Estimate) -> SizeEstimate {
    let parts = [
        ("container_images", estimate.images),
        ("database", estimate.database),
        ("models", estimate.models),
        ("hub_cache", estimate.hub_cache),
        ("gateway", Some(estimate.gateway)),
    ];
    let parts = parts.into_iter().filter_map(|(name, bytes)| Some((name.to_owned(), bytes?)));
    let parts: Vec<(String, u64)> = parts.collect();
    let (total, required) = (estimate.total(), estimate.required());
    SizeEstimate {
        estimated_bytes: total,
        estimated_formatted: formatted(total),
        breakdown: parts.iter().map(|(name, bytes)| (name.clone(), formatted(*bytes).into())).collect(),
        breakdown_bytes: parts.iter().map(|(name, bytes)| (name.clone(), (*bytes).into())).collect(),
        disk_space: DiskSpace {
            sufficient: estimate.is_sufficient(),
            available_bytes: estimate.available,
            available_formatted: formatted(estimate.available),
            required_bytes: required,
            required_formatted: formatted(required),
            safety_margin: DISK_MARGIN,
        },
        missing_images: estimate.missing_images,
    }
}

/// Returns a number of bytes for people: `6.0 GiB`.
fn formatted(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_with_one_decimal() {
        let shown = [0, 1023, 1024, 6 << 30, 1 << 50].map(formatted);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "6.0 GiB", "1024.0 TiB"]);
    }
}
