//! Turns a model into the engine's command, environment and mounts. There is one file per engine, and no I/O.

mod address;
pub mod llamacpp;
pub mod owned;
pub mod place;
pub mod quantization;
pub mod version;
pub mod vllm;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::{
    ModelId,
    hex::hex,
    model::{
        EngineKind, Model,
        fields::{self, Default, Emit, Field, Own, Version},
    },
};

pub use address::{EngineAddress, LOOPBACK, Scheme};
pub use place::Place;
pub use version::EngineVersion;

/// Port on which every engine listens inside its container.
pub const PORT: u16 = 8000;
/// Where the models base directory is mounted, read-only.
pub const MODELS_MOUNT: &str = "/models";
/// Where the hub cache is mounted (online mode).
pub const HUB_CACHE_MOUNT: &str = "/hub-cache";

/// Facts about this machine that affect a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub cpus: usize,
    /// Indexes of the GPUs that containers can be given; empty on a machine without any.
    pub gpus: Vec<u32>,
}

/// Facts that the gateway itself adds to a start of an engine.
#[derive(Debug, Clone)]
pub struct LaunchContext<'a> {
    pub image: &'a str,
    pub version: EngineVersion,
    pub host: &'a Host,
    /// Key that the gateway sends with every request to this engine.
    pub key: &'a SecretString,
    /// Models must not be fetched from the hub.
    pub offline: bool,
    /// Requests may refer to images and other media by address, which the engine fetches (`MEDIA_URL_HOSTS`).
    pub fetches_media: bool,
    pub hub_endpoint: Option<&'a str>,
    /// How the engine sees files and network.
    pub place: &'a Place,
    /// The program that starts the engine, if not the image's own entry point.
    pub program: Option<&'a [String]>,
}

/// Everything about a container apart from what is the same for all containers; the runtime adds that.
#[derive(Debug, Clone)]
pub struct Launch {
    pub image: String,
    /// Replaces the image's entry point, if that differs between versions of the image.
    pub entrypoint: Option<Vec<String>>,
    pub args: Vec<String>,
    /// Secrets travel here, never in `args`.
    pub env: Vec<(String, SecretString)>,
    /// GPU indexes; empty: none are requested.
    pub gpus: Vec<u32>,
    /// Size of `/dev/shm` in bytes; the 64 MB default breaks tensor parallelism.
    pub shm_bytes: Option<i64>,
    pub mounts_hub_cache: bool,
    /// The engine locks its weights in RAM, which needs a raised memlock limit.
    pub locks_memory: bool,
    /// Limits on what the container can use and change.
    pub confinement: Confinement,
    /// Settings that this version of the engine can't express.
    pub warnings: Vec<LaunchWarning>,
}

/// Limits on a container, beyond those that are the same for all containers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// RAM limit in bytes; `None`: all of the machine's RAM.
    pub memory_bytes: Option<i64>,
    /// The container can't change its own files, except in `/tmp`, which is in RAM.
    pub read_only_root: bool,
    /// Whether the record itself sets `read_only_root`.
    pub read_only_said: bool,
    /// The engine fetches models or media that requests refer to. Otherwise it needs no network except to receive the
    /// gateway's requests.
    pub internet: bool,
}

impl Confinement {
    fn of(model: &Model, cx: &LaunchContext<'_>, mounts_hub_cache: bool) -> Self {
        let said = model.config.bool("read_only_root");
        Self {
            memory_bytes: model.config.int("memory_limit_gib").map(|it| it << 30),
            read_only_root: said.unwrap_or(model.engine == EngineKind::Llamacpp),
            read_only_said: said.is_some(),
            internet: cx.fetches_media || (mounts_hub_cache && !cx.offline),
        }
    }
}

/// A setting that had to be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchWarning {
    pub field: &'static str,
    pub message: String,
    pub cure: Cure,
}

/// What can be done about a [`LaunchWarning`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    /// Use another version of the engine, or leave the setting out.
    Version,
    /// Leave the setting out.
    Unset,
    /// Do what this text says.
    Advice(String),
}

impl Launch {
    /// Returns the identity of what would run: SHA-256 over image, command, mounts and the names of the environment
    /// variables (not their values, which are secrets). If it differs from the label of the running container, the
    /// model needs an apply.
    pub fn spec_hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        part(&self.image);
        self.entrypoint.iter().flatten().for_each(|it| part(it));
        self.args.iter().for_each(|it| part(it));
        self.env.iter().for_each(|(name, _)| part(name));
        self.gpus.iter().for_each(|it| part(&it.to_string()));
        part(if self.mounts_hub_cache { "hub" } else { "" });
        // Only values that a record sets are hashed, so that hashes from earlier versions of the gateway stay the same.
        if let Some(bytes) = self.confinement.memory_bytes {
            part(&format!("memory {bytes}"));
        }
        if self.confinement.read_only_said {
            part(&format!("read-only {}", self.confinement.read_only_root));
        }
        hex(&hash.finalize())
    }
}

/// Whether the settings of `model` still lead to the container that was made from its blueprint, whatever the gateway's
/// own settings are. A model that was never started has no other settings than its own.
pub fn is_as_launched(model: &Model) -> bool {
    model.launched.as_ref().is_none_or(|launched| {
        // The common case, for which no command has to be built.
        (launched.task == model.task && launched.config == model.config)
            || same_container(&launched.put_into(model), model)
    })
}

/// Whether both records lead to the same container, whatever the gateway's own settings are: they are equal, or differ
/// only in what the gateway does itself (time-outs, request defaults). A setting that the engine's version can't
/// express counts as a difference as well: if the image's tag does not show the version, the engine may support it.
fn same_container(a: &Model, b: &Model) -> bool {
    let key = SecretString::from("");
    // The host is large enough that no setting is reduced.
    let host = Host { cpus: 4096, gpus: (0..64).collect() };
    let launched = |model: &Model| {
        let image = model.config.text("engine_image").unwrap_or_default();
        let cx = LaunchContext {
            image,
            version: EngineVersion::of_image(model.engine, image),
            host: &host,
            key: &key,
            offline: false,
            fetches_media: false,
            hub_endpoint: None,
            place: &Place::container(),
            program: None,
        };
        launch(model, &cx)
    };
    let (old, new) = (a, b);
    let (a, b) = (launched(a), launched(b));
    let mut left_out = a.warnings.iter().chain(&b.warnings).map(|it| it.field);
    if left_out.any(|it| old.config.get(it) != new.config.get(it)) {
        return false;
    }
    // The hash leaves out the values of variables, because anyone can read it from a container's labels.
    let values =
        |it: &Launch| it.env.iter().map(|(_, value)| value.expose_secret().to_owned()).collect::<Vec<_>>();
    a.spec_hash() == b.spec_hash() && values(&a) == values(&b)
}

/// Derives the key of the engine that runs one generation of a model, in hexadecimal digits: HMAC-SHA256 under the
/// internal key. It opens no other engine, and the internal key can't be computed from it.
pub fn instance_key(internal: &SecretString, model: ModelId, generation: i64) -> SecretString {
    // HMAC takes keys of any length.
    let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(internal.expose_secret().as_bytes()) else {
        return SecretString::from("");
    };
    mac.update(format!("gantry engine key\0{}\0{generation}", model.0).as_bytes());
    SecretString::from(hex(&mac.finalize().into_bytes()))
}

/// Returns the key of the engine that `model` runs on, or that its next start will create.
pub fn key_of(internal: &SecretString, model: &Model) -> SecretString {
    match &model.launched {
        Some(launched) if launched.own_key => instance_key(internal, model.id, model.phase.generation()),
        _ => internal.clone(),
    }
}

/// Returns the fingerprint of an engine's key for the container's label: enough to detect a rotation, useless to anyone
/// else.
pub fn key_fingerprint(key: &SecretString) -> String {
    let mut hash = Sha256::new();
    hash.update(b"gantry internal key fingerprint\0");
    hash.update(key.expose_secret());
    hex(&hash.finalize()[..8])
}

/// Builds the command and environment of a model's container.
pub fn launch(model: &Model, cx: &LaunchContext<'_>) -> Launch {
    let mut launch = match model.engine {
        EngineKind::Vllm => vllm::launch(model, cx),
        EngineKind::Llamacpp => llamacpp::launch(model, cx),
    };
    if let Some(program) = cx.program {
        launch.entrypoint = Some(program.to_vec());
    }
    launch.confinement = Confinement::of(model, cx, launch.mounts_hub_cache);
    launch
}

fn text(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|it| (*it).to_owned()).collect()
}

/// Returns the GPUs that the model asks for and the machine has.
fn gpus(model: &Model, host: &Host) -> Vec<u32> {
    if model.config.text("device") == Some("cpu") {
        return Vec::new();
    }
    match model.config.get("selected_gpus").and_then(serde_json::Value::as_array) {
        Some(chosen) => {
            let chosen = chosen.iter().filter_map(serde_json::Value::as_u64).map(|it| it as u32);
            let mut there: Vec<u32> = chosen.filter(|it| host.gpus.contains(it)).collect();
            // Records of older versions of the gateway may name a GPU twice.
            let mut seen = std::collections::HashSet::new();
            there.retain(|it| seen.insert(*it));
            there
        }
        None => host.gpus.clone(),
    }
}

/// The advice for a machine without a GPU that a container can be given.
const NO_GPU: &str = "make a GPU of the machine visible to containers (driver and container toolkit)";

/// Warns about settings that this machine can't fulfil, whatever the engine.
fn warn_of_hardware(args: &mut Args<'_>, host: &Host, given: &[u32]) {
    let config = &args.model.config;
    let chosen = config.get("selected_gpus").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
    if config.text("device") == Some("cpu") {
        return;
    }
    if chosen > given.len() {
        let cure = match host.gpus.len() {
            0 => Cure::Advice(format!("{NO_GPU}, or unset `selected_gpus`")),
            _ => Cure::Advice("choose among the GPUs that there are, or unset `selected_gpus`".to_owned()),
        };
        let message = format!("this machine can give containers {} GPUs", host.gpus.len());
        args.warn_with("selected_gpus", message, cure);
    } else if config.text("device") == Some("cuda") && given.is_empty() {
        let cure = Cure::Advice(format!("{NO_GPU}, or set `device` to cpu"));
        args.warn_with("device", "this machine has no GPU that a container can be given", cure);
    }
}

/// Collects arguments from the field table.
struct Args<'a> {
    model: &'a Model,
    place: &'a Place,
    version: Version,
    words: Vec<String>,
    warnings: Vec<LaunchWarning>,
}

impl<'a> Args<'a> {
    fn new(model: &'a Model, cx: &LaunchContext<'a>) -> Self {
        let version = cx.version.number();
        Self { model, place: cx.place, version, words: Vec::new(), warnings: Vec::new() }
    }

    /// Returns where the engine finds a path below the models base directory.
    fn file(&self, path: &str) -> String {
        self.place.model(path)
    }

    fn push(&mut self, parts: &[&str]) {
        self.words.extend(parts.iter().map(|it| (*it).to_owned()));
    }

    fn warn(&mut self, field: &'static str, message: impl Into<String>) {
        self.warn_with(field, message, Cure::Unset);
    }

    /// Warns about a setting that only other versions of the engine support.
    fn warn_of_version(&mut self, field: &'static str, message: impl Into<String>) {
        self.warn_with(field, message, Cure::Version);
    }

    fn warn_with(&mut self, field: &'static str, message: impl Into<String>, cure: Cure) {
        self.warnings.push(LaunchWarning { field, message: message.into(), cure });
    }

    /// Returns the set value, else the specification's default, as one word of a command line.
    fn value(&self, field: &Field) -> Option<String> {
        use serde_json::Value;
        match (self.model.config.get(field.name), field.default) {
            (Some(Value::String(text)), _) => Some(text.clone()),
            // Engines read numbers in single precision, and llama-server refuses a number that is too small for that.
            (Some(value), _) if value.as_f64().is_some_and(|it| it != 0.0 && it.abs() < 1e-9) => {
                Some("0".into())
            }
            (Some(Value::Null), _) | (None, Default::Engine) => None,
            (None, _) if field.own == Own::LeftOut => None,
            (None, _) if field.default_for(self.model.task).is_none() => None,
            (Some(value), _) => Some(value.to_string()),
            (None, Default::Bool(it)) => Some(it.to_string()),
            (None, Default::Int(it)) => Some(it.to_string()),
            (None, Default::Float(it)) => Some(it.to_string()),
            (None, Default::Text(it)) => Some(it.to_owned()),
        }
    }

    fn value_of(&self, name: &str) -> Option<String> {
        fields::find(name, self.model.engine).and_then(|field| self.value(field))
    }

    /// Adds every field whose row defines its own arguments. `skip` names fields that don't apply now.
    fn table(&mut self, skip: &[&str]) {
        let engine = self.model.engine;
        for field in fields::all().filter(|it| it.applies_to(engine) && !skip.contains(&it.name)) {
            if let Some(value) = self.value(field) {
                self.emit(field, field.emit, &value);
            }
        }
    }

    fn emit(&mut self, field: &'static Field, how: Emit, value: &str) {
        match how {
            Emit::Special => {}
            Emit::Flag(_) if field.own == Own::LeftOut && field.default.is(value) => {}
            Emit::Flag(flag) => self.push(&[flag, value]),
            Emit::Words(flag) => {
                self.push(&[flag]);
                self.words.extend(value.split(',').map(|it| it.trim().to_owned()));
            }
            Emit::Switch(on, off) => match (value, off) {
                ("true", _) => self.push(&[on]),
                (_, Some(off)) => self.push(&[off]),
                _ => {}
            },
            Emit::Positive(flag) => {
                if value.parse::<f64>().is_ok_and(|it| it > 0.0) {
                    self.push(&[flag, value]);
                }
            }
            Emit::Choice(flag, values) => match values.iter().find(|it| it.0 == value) {
                Some((_, from, before)) if !(*from..*before).contains(&self.version) => self.warn_of_version(
                    field.name,
                    format!("this version of the engine does not know the value `{value}`"),
                ),
                _ => self.push(&[flag, value]),
            },
            Emit::Since(ways) => {
                let way = ways.iter().find(|(from, before, _)| (*from..*before).contains(&self.version));
                match way {
                    Some((_, _, how)) => self.emit(field, *how, value),
                    None => self.warn_of_version(
                        field.name,
                        format!("this version of the engine has no setting for `{}`", field.name),
                    ),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
