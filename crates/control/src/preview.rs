//! Computes what a start would do, without doing it: the command, the image and whether the image is on the machine.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use gantry_domain::{
    engine::{self, Cure, EngineVersion, Launch, LaunchContext, LaunchWarning, Place},
    image::is_simulator,
    model::Model,
};
use gantry_runtime::{ImageInfo, Program, Runtime};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    Control,
    versions::{Finding, PREVIEW_WAITS},
};

/// See [`Control::preview`].
pub struct Preview {
    pub launch: Launch,
    /// Whether the image is on the machine; `None` if the container runtime does not answer.
    pub image_cached: Option<bool>,
    /// Whether the image is our simulator.
    pub simulator: bool,
    /// The engine's version; `unknown` if neither tag nor label nor the image itself says it, or the image is not on
    /// the machine.
    pub version: EngineVersion,
    /// If true, the image is being asked for its version: look again.
    pub version_pending: bool,
    /// Why the image can't be obtained, if it is missing.
    pub image_refused: Option<&'static str>,
    /// If true, there are no images: the engine is a program of this machine.
    pub is_process: bool,
    /// A variable because of which a start is refused.
    pub refused_variable: Option<String>,
}

/// Recent answers of the container runtime about images. With them, comparing what runs with what would run needs no
/// query.
#[derive(Default)]
pub struct Images(Mutex<HashMap<String, (Instant, Option<ImageInfo>)>>);

/// Longest time that an answer is used. The tag may have moved meanwhile.
const IMAGE_AGE: Duration = Duration::from_mins(1);

impl Images {
    async fn get(&self, runtime: &dyn Runtime, reference: &str) -> Option<ImageInfo> {
        let known = match self.map().get_mut(reference) {
            Some((at, info)) if at.elapsed() < IMAGE_AGE => Some(info.clone()),
            // Other callers use the old answer while this one asks, so that there is one query for all models of an
            // image.
            Some((at, _)) => {
                *at = Instant::now();
                None
            }
            None => None,
        };
        if let Some(info) = known {
            return info;
        }
        let info = runtime.image(reference).await.ok()?;
        self.map().insert(reference.to_owned(), (Instant::now(), info.clone()));
        info
    }

    fn map(&self) -> MutexGuard<'_, HashMap<String, (Instant, Option<ImageInfo>)>> {
        self.0.lock()
    }
}

impl Control {
    /// Returns the container that a start would make now, if its image is there and its version known. The answer may
    /// be a minute old.
    pub(crate) async fn launch_now(&self, model: &Model) -> Option<Launch> {
        let image = self.config.image(model);
        let info = self.images.get(&*self.runtime, image).await?;
        let version = self.version_unasked(model.engine, image, Some(&info)).await.ok()?;
        Some(self.launch_of(model, version, &self.config.models_dir.get()))
    }

    /// Returns what a start of `model` would make now. Looks for the image, changes nothing.
    pub async fn preview(&self, model: &Model) -> Preview {
        let image = self.config.image(model);
        let found = self.runtime.image(image).await;
        let info = found.as_ref().ok().and_then(Option::as_ref);
        let Finding { version, pending } = self.version(model.engine, image, info, PREVIEW_WAITS).await;
        let launch = self.launch_of(model, version, &self.config.models_dir.get());
        let traits = self.runtime.traits();
        let refused_variable = self.runtime.refused_variable(&launch).map(str::to_owned);
        let refused = match (self.config.engines.offline_mode, self.config.engines.require_image_precache) {
            _ if !traits.runs_images => Some("programs are not fetched"),
            _ if is_simulator(image) => {
                Some("simulators are never pulled: `gantry engine-sim image` makes it")
            }
            (true, _) => Some("the system is in offline mode"),
            (_, true) => Some("only images that are there already may be used (REQUIRE_IMAGE_PRECACHE)"),
            _ => None,
        };
        Preview {
            launch,
            image_cached: found.as_ref().ok().map(Option::is_some),
            simulator: self.config.is_simulated(model),
            version,
            version_pending: pending,
            image_refused: refused.filter(|_| matches!(found, Ok(None))),
            is_process: !traits.runs_images,
            refused_variable,
        }
    }

    /// Returns how an engine that is started now sees files and network.
    fn place(&self, models_dir: &Path) -> Place {
        if self.runtime.traits().host_paths {
            Place::process(models_dir, &self.config.hub_cache_dir)
        } else {
            Place::container()
        }
    }

    /// `models_dir`: the models base directory. It can change at any time, so a caller that needs it more than once reads
    /// it once and passes that value.
    pub(crate) fn launch_of(&self, model: &Model, version: EngineVersion, models_dir: &Path) -> Launch {
        let config = &self.config;
        let cx = LaunchContext {
            image: config.image(model),
            version,
            host: &config.host,
            key: &engine::key_of(&config.internal_key, model),
            offline: config.engines.offline_mode,
            fetches_media: !config.media_hosts.is_empty(),
            hub_endpoint: config.engines.hub_endpoint.as_deref(),
            place: &self.place(models_dir),
            program: config.program(model).map(|it| it.words.as_slice()),
        };
        let mut launch = engine::launch(model, &cx);
        if let Some(program) = config.program(model) {
            launch.warnings.extend(process_warning(model, program));
            launch.warnings.extend(unconfined(model));
        }
        launch
    }
}

/// Warns of settings that confine a container but have no effect on a process.
fn unconfined(model: &Model) -> impl Iterator<Item = LaunchWarning> {
    let set = ["memory_limit_gib", "read_only_root"].into_iter().filter(|it| model.config.get(it).is_some());
    set.map(|field| LaunchWarning {
        field,
        message: "engines are processes here, and nothing holds them to this".to_owned(),
        cure: Cure::Unset,
    })
}

/// Warns if a record names an image that means nothing because engines are processes.
fn process_warning(model: &Model, program: &Program) -> Option<LaunchWarning> {
    model.config.text("engine_image").filter(|it| *it != program.reference)?;
    let message =
        format!("engines are processes here, so images mean nothing: `{}` is used", program.reference);
    Some(LaunchWarning { field: "engine_image", message, cure: Cure::Unset })
}
