//! Makes a model's container. Files and image are checked first, so that errors are described in our words rather than
//! in an engine's log.

use std::{
    future::Future,
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
    sync::Arc,
    time::Duration,
};

use gantry_domain::{
    engine::{EngineVersion, key_fingerprint, key_of},
    image::is_simulator,
    model::{InstanceNumber, Model, lifecycle::Failure},
};
use gantry_runtime::{ContainerSpec, ImageInfo, RuntimeError};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{Control, previous_log, runtime_status::Pull, versions::START_WAITS};

/// Longest time for looking at a model's files.
const FILES: Duration = Duration::from_secs(20);

/// Why no container was made.
pub(super) enum NoStart {
    Failed(Failure),
    /// The operator gave another command while the image was being pulled.
    Superseded,
}

impl From<RuntimeError> for NoStart {
    fn from(error: RuntimeError) -> Self {
        Self::Failed(match error {
            RuntimeError::ImageMissing { .. } => Failure::ImageNotAvailable { detail: error.to_string() },
            RuntimeError::ProgramMissing { .. } => Failure::EngineMissing { detail: error.to_string() },
            error => Failure::StartFailed { detail: error.to_string() },
        })
    }
}

fn failed(detail: impl Into<String>) -> NoStart {
    NoStart::Failed(Failure::StartFailed { detail: detail.into() })
}

/// Makes and starts the container of `model`. `superseded` ends a pull.
pub(super) async fn launch(
    control: &Control,
    model: &Model,
    superseded: impl Future<Output = ()>,
) -> Result<(), NoStart> {
    let (config, traits) = (&control.config, control.runtime.traits());
    let image = config.image(model);
    let mut superseded = std::pin::pin!(superseded);
    // The list may have changed since the record was saved.
    if traits.runs_images && !config.images.allows(image) {
        return Err(failed(format!("image {image} is not allowed: ENGINE_IMAGE_ALLOWLIST does not name it")));
    }
    let info = match control.runtime.image(image).await? {
        Some(info) => info,
        None if !traits.runs_images => {
            return Err(RuntimeError::ProgramMissing { program: image.to_owned() }.into());
        }
        None => pull(control, model, image, superseded.as_mut()).await?,
    };
    is_what_it_says(image, config.is_simulated(model), &info)?;
    // Read once, so that the directory that is checked is the one that is mounted.
    let models_dir = config.models_dir.get();
    if !info.simulator {
        files(Arc::clone(&models_dir), model).await?;
    }
    let found = tokio::select! {
        found = control.version(model.engine, image, Some(&info), START_WAITS) => found,
        () = superseded => return Err(NoStart::Superseded),
    };
    let version = found.version;
    if matches!(version, EngineVersion::Unknown(_)) && !info.simulator {
        warn!(model = model.id.0, image, "the image's version is not known: it gets the newest arguments");
    }
    let launch = control.launch_of(model, version, &models_dir);
    for warning in &launch.warnings {
        warn!(model = model.id.0, field = warning.field, "{}", warning.message);
    }
    if launch.mounts_hub_cache {
        let dir = config.hub_cache_dir.clone();
        let made = on_disk(move || private_dir(&dir)).await?;
        made.map_err(|error| failed(format!("hub cache: {}", error.kind())))?;
    }
    let simulator = if info.simulator { " (a simulator, not a real engine)" } else { "" };
    info!(model = model.id.0, image, %version, "starting the {}{simulator}", traits.instance);
    let spec = ContainerSpec {
        name: &model.instance_name(),
        model_id: model.id,
        number: InstanceNumber::FIRST,
        generation: model.generation,
        launch: &launch,
        models_dir: &models_dir,
        hub_cache_dir: &config.hub_cache_dir,
        key_fingerprint: &key_fingerprint(&key_of(&config.internal_key, model)),
    };
    // The launch removes what is left of the run before.
    previous_log::keep_leftover(control, model).await;
    control.runtime.launch(&spec).await?;
    Ok(())
}

/// Checks that an image is Gantry's simulator if and only if it is named so.
fn is_what_it_says(image: &str, named_simulator: bool, info: &ImageInfo) -> Result<(), NoStart> {
    let why = match (named_simulator, info.simulator) {
        (false, true) => "it is Gantry's simulator under the name of an engine",
        (true, false) => "it has the name of Gantry's simulator and is something else",
        _ => return Ok(()),
    };
    Err(failed(format!("image {image} is not used: {why}")))
}

/// Checks that the files that the settings name exist. Links that lead out of the base directory were refused when the
/// model was saved; one that was made since is refused here.
async fn files(base: Arc<Path>, model: &Model) -> Result<(), NoStart> {
    let online = model.config.is_online();
    let paths: Vec<_> =
        model.config.paths().into_iter().filter(|(name, _)| *name != "local_path" || !online).collect();
    let check = on_disk(move || {
        let missing = |field: &str, detail| Failure::FileMissing { field: field.to_owned(), detail };
        let Ok(base) = base.canonicalize() else {
            return Err(missing("local_path", "the models base directory does not exist".to_owned()));
        };
        for (name, path) in paths {
            match base.join(&path).canonicalize() {
                Ok(real) if real.starts_with(&base) => {}
                Ok(_) => return Err(missing(name, format!("`{name}` leaves the models base directory"))),
                Err(error) => return Err(missing(name, not_found(name, &path, &error))),
            }
        }
        Ok(())
    });
    check.await?.map_err(NoStart::Failed)
}

/// Makes the folder for files that engines download, accessible to the gateway's user alone. Programs that load these
/// files run code from them, and a file there could be made setuid, to run as its owner.
fn private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let seen = std::fs::metadata(dir)?;
    if seen.permissions().mode() & 0o077 != 0
        && let Err(error) = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
    {
        warn!(%error, dir = %dir.display(), "the hub cache should be the gateway's alone (mode 0700)");
    }
    Ok(())
}

/// Says why a path of the settings leads to nothing.
fn not_found(name: &str, path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            format!("`{name}`: there is no `{path}` below the models base directory")
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "`{name}`: `{path}` can't be reached: the gateway may not enter a folder on the way to it"
            )
        }
        kind => format!("`{name}`: `{path}` can't be reached: {kind}"),
    }
}

/// Runs `work`, which may touch files, with a time limit. Access to a network file system whose server is gone hangs
/// for ever, and must not hang a model's worker.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, NoStart> {
    match timeout(FILES, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) => Err(failed("the files could not be looked at")),
        Err(_) => Err(failed("the files can't be looked at: their file system does not answer")),
    }
}

async fn pull(
    control: &Control,
    model: &Model,
    image: &str,
    superseded: impl Future<Output = ()>,
) -> Result<ImageInfo, NoStart> {
    let config = &control.config;
    let unavailable = |why: &str| {
        let detail = format!("image {image} is not available locally and {why}");
        Err(NoStart::Failed(Failure::ImageNotAvailable { detail }))
    };
    if is_simulator(image) {
        return unavailable("simulators are never pulled: `gantry engine-sim image` makes it");
    }
    if config.engines.offline_mode {
        return unavailable("the system is in offline mode");
    }
    if config.engines.require_image_precache {
        return unavailable("only images that are there already may be used (REQUIRE_IMAGE_PRECACHE)");
    }
    info!(model = model.id.0, image, "pulling the image");
    let (status, id) = (Arc::clone(&control.runtime_status), model.id);
    let progress = Box::new(move |done, known| status.change(id, |it| it.pull = Some(Pull { done, known })));
    let pulled = tokio::select! {
        pulled = control.runtime.pull(image, config.engines.image_pull_timeout, progress) => pulled,
        () = superseded => return Err(NoStart::Superseded),
    };
    match pulled {
        Ok(()) => {}
        Err(RuntimeError::Refused { detail, .. })
            if config.engines.offline_mode_auto_detect && is_network_trouble(&detail) =>
        {
            return unavailable("the system is in offline mode (its registry can't be reached)");
        }
        Err(error) => return Err(failed(format!("image {image} could not be pulled: {error}"))),
    }
    match control.runtime.image(image).await? {
        Some(info) => Ok(info),
        None => unavailable("pulling it had no effect"),
    }
}

/// Whether the error means that the registry can't be reached. The container runtime reports it in its HTTP client's
/// words.
fn is_network_trouble(detail: &str) -> bool {
    let signs = [
        "dial tcp",
        "no such host",
        "i/o timeout",
        "connection refused",
        "network is unreachable",
        "request canceled while waiting for connection",
        "TLS handshake timeout",
        "server misbehaving",
    ];
    signs.iter().any(|it| detail.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hub_cache_is_for_its_user_alone_whoever_made_it() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (fresh, found) = (dir.path().join("new/hub-cache"), dir.path().join("found"));
        std::fs::create_dir(&found).unwrap();
        std::fs::set_permissions(&found, std::fs::Permissions::from_mode(0o777)).unwrap();
        for path in [fresh, found] {
            private_dir(&path).unwrap();
            assert_eq!(mode(&path), 0o700, "{}", path.display());
        }
    }
}
