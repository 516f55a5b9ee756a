//! What a start would do, without doing it: the command, the image and whether it is there.

use gantry_domain::{
    engine::{self, EngineVersion, Launch, LaunchContext, LaunchWarning},
    model::Model,
};
use gantry_runtime::{ImageInfo, Program};

use crate::Control;

/// See [`Control::preview`].
pub struct Preview {
    pub launch: Launch,
    /// `None`: the container runtime does not answer.
    pub image_cached: Option<bool>,
    /// The image is there, and is our simulator.
    pub simulator: bool,
    /// `unknown` where neither label nor tag tells.
    pub version: EngineVersion,
    /// Why the image could not be had, if it is missing.
    pub image_refused: Option<&'static str>,
    pub n_gpus: usize,
    /// There are no images: the engine is a program of this machine.
    pub is_process: bool,
}

impl Control {
    /// The container that a start of `model` would make now. Looks for the image, changes nothing.
    pub async fn preview(&self, model: &Model) -> Preview {
        let image = self.config.image(model);
        let found = self.runtime.image(image).await;
        let info = found.as_ref().ok().and_then(Option::as_ref);
        let version = version(model, image, info);
        let launch = self.launch_of(model, version);
        let is_process = self.config.programs.is_some();
        let refused = match (self.config.offline, self.config.require_precache) {
            _ if is_process => Some("programs are not fetched"),
            (true, _) => Some("the system is in offline mode"),
            (_, true) => Some("only images that are there already may be used (REQUIRE_IMAGE_PRECACHE)"),
            _ => None,
        };
        Preview {
            launch,
            image_cached: found.as_ref().ok().map(Option::is_some),
            simulator: info.is_some_and(|it| it.simulator),
            version,
            image_refused: refused.filter(|_| matches!(found, Ok(None))),
            n_gpus: self.config.host.gpus.len(),
            is_process,
        }
    }

    pub(crate) fn launch_of(&self, model: &Model, version: EngineVersion) -> Launch {
        let config = &self.config;
        let cx = LaunchContext {
            image: config.image(model),
            version,
            host: &config.host,
            internal_key: &config.internal_key,
            offline: config.offline,
            hub_endpoint: config.hub_endpoint.as_deref(),
            place: &config.place,
            program: config.program(model).map(|it| it.words.as_slice()),
        };
        let mut launch = engine::launch(model, &cx);
        if let Some(program) = config.program(model) {
            launch.warnings.extend(process_warnings(model, program, &launch));
        }
        launch
    }
}

/// What a record says that means nothing, or too much, where engines are processes.
fn process_warnings(model: &Model, program: &Program, launch: &Launch) -> Vec<LaunchWarning> {
    let image = model.config.text("engine_image").filter(|it| *it != program.reference);
    let image = image.map(|_| LaunchWarning {
        field: "engine_image",
        message: format!(
            "engines are processes here, so images mean nothing: `{}` is used",
            program.reference
        ),
    });
    let variable = gantry_runtime::refused_variable(launch).map(|name| LaunchWarning {
        field: "extra_env",
        message: format!(
            "`{name}` can't be set for an engine that is a process of this machine: a start fails"
        ),
    });
    image.into_iter().chain(variable).collect()
}

/// The image's label says it, else its tag.
pub(crate) fn version(model: &Model, image: &str, info: Option<&ImageInfo>) -> EngineVersion {
    let label = info.and_then(|it| it.version_label.as_deref());
    match label.map(|it| EngineVersion::parse(model.engine, it)) {
        Some(version @ EngineVersion::Known(..)) => version,
        _ => EngineVersion::of_image(model.engine, image),
    }
}
