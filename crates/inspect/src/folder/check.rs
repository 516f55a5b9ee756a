//! Checks whether an engine can load the one model, projector or adapter that a setting names. It is an inspection from
//! the engine's point of view.

use std::{path::Path, sync::Arc};

use gantry_domain::{engine::EngineVersion, model::EngineKind};

use super::{GgufGroup, Inspection, Status, has_extension, inspect_in};
use crate::{
    About, Cache, Concern, LLAMACPP_LISTED, TaskHint,
    base::{Base, EntryKind, InspectError},
    hf::{self, HfFolder},
};

/// What a setting names a file or folder for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Model,
    /// The encoder beside a GGUF model.
    Projector,
    /// A `LoRA` adapter: a GGUF file, or for vLLM a folder.
    Adapter,
}

/// The findings, as sentences for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Why the engine will certainly not load it.
    pub errors: Vec<String>,
    /// Why the engine may not load it, or not as intended. A missing template is not among them.
    pub warnings: Vec<String>,
    /// Set if it lacks a tokenizer: a sentence, and whether that is certain. Whether the engine needs one depends on
    /// the settings.
    pub no_tokenizer: Option<(String, bool)>,
    /// Set if vLLM finds no `config.json`; the settings may name another one.
    pub no_config: Option<String>,
    /// Set if vLLM finds no weights; the settings may name another format.
    pub no_weights: Option<String>,
    /// Set if it lacks a chat template.
    pub no_template: Option<String>,
    /// Task of the model. `None`: unknown, or it is not a model.
    pub task: Option<TaskHint>,
    /// Context in tokens that it was trained for.
    pub context_length: Option<u64>,
    /// Set if it is a later part of a split model: the name of the first part, in the same folder.
    pub first_part: Option<String>,
    /// Number of files that it is split into; 1 if it is not split.
    pub parts: u64,
    /// Projectors beside a GGUF model, by their names: paths from the models directory.
    pub projectors: Vec<String>,
}

impl Checked {
    fn refused(why: impl Into<String>) -> Self {
        Self { errors: vec![why.into()], ..Self::default() }
    }

    fn doubtful(why: impl Into<String>) -> Self {
        Self { warnings: vec![why.into()], ..Self::default() }
    }
}

/// Checks `rel` below `base` as an engine of this version would. Headers that `cache` has are not read again.
///
/// # Errors
/// Only a wrong path is an error.
pub fn check(
    base: &Path,
    rel: &str,
    role: Role,
    engine: EngineVersion,
    cache: &Arc<Cache>,
) -> Result<Checked, InspectError> {
    let base = Base::open(base)?.with_cache(cache);
    let path = base.resolve(rel)?;
    let kind = kind_of(engine);
    if path.is_dir() {
        return Ok(match (kind, role) {
            (EngineKind::Vllm, Role::Model) => checkpoint(&base, &path),
            (EngineKind::Vllm, _) => adapter_folder(&base, &path),
            (EngineKind::Llamacpp, _) => {
                Checked::refused("it is a folder, where llama.cpp needs a `.gguf` file")
            }
        });
    }
    if !has_extension(rel, "gguf") {
        return Ok(match kind {
            EngineKind::Vllm => {
                Checked::refused("it is neither a folder with a checkpoint nor a `.gguf` file")
            }
            // llama.cpp goes by the file's contents, not by its name.
            EngineKind::Llamacpp => {
                Checked::doubtful("its name does not end in `.gguf`, so it was not looked at")
            }
        });
    }
    let found = match inspect_in(&base, rel) {
        Ok(found) => found,
        Err(InspectError::Io { .. }) => return Ok(Checked::doubtful("the gateway can't read it")),
        Err(error) => return Err(error),
    };
    Ok(match role {
        Role::Model => Checked { projectors: projectors(&base, rel), ..gguf_model(&found, rel, engine) },
        Role::Projector | Role::Adapter => gguf_beside(&found, role),
    })
}

fn gguf_model(found: &Inspection, rel: &str, engine: EngineVersion) -> Checked {
    let Some(group) = found.gguf_groups.first() else {
        if found.mmproj_files.is_empty() && found.adapter_files.is_empty() {
            return gguf_nothing(found);
        }
        let what = if found.adapter_files.is_empty() { "a projector (`mmproj`)" } else { "a LoRA adapter" };
        return Checked::refused(format!("it is {what}, which goes beside a model"));
    };
    let first = name(&group.path);
    let mut out = Checked {
        task: (group.status == Status::Ready).then_some(group.task),
        context_length: group.metadata.as_ref().and_then(|it| it.context_length),
        parts: group.expected_parts,
        ..Checked::default()
    };
    let errors = group.errors.clone();
    if group.unread {
        out.warnings = errors;
    } else {
        out.errors = errors;
    }
    if group.status == Status::Ready && first != name(rel) {
        out.errors
            .push(format!("it is a later part of a split model; engines are given the first one, `{first}`"));
        out.first_part = Some(first.to_owned());
    }
    concerns(group, engine, &mut out);
    out
}

/// Returns the projectors in the folder of a model. The headers of all files there are not read for that.
fn projectors(base: &Base, rel: &str) -> Vec<String> {
    let parent = rel.rsplit_once('/').map_or("", |it| it.0);
    let listing = base.resolve(parent).ok().and_then(|it| base.list(&it, super::MAX_ENTRIES).ok());
    let entries = listing.map(|it| it.entries).unwrap_or_default().into_iter();
    entries
        .filter(|it| matches!(it.kind, EntryKind::File { .. }) && has_extension(&it.name, "gguf"))
        .filter(|it| it.name.to_ascii_lowercase().contains("mmproj"))
        .map(|it| if parent.is_empty() { it.name } else { format!("{parent}/{}", it.name) })
        .collect()
}

fn concerns(group: &GgufGroup, engine: EngineVersion, out: &mut Checked) {
    for concern in &group.concerns {
        let text = concern.text.clone();
        let of_llamacpp = kind_of(engine) == EngineKind::Llamacpp;
        let certain = match concern.about {
            // vLLM has other rules for GGUF files.
            About::Architecture | About::ChatTemplate if !of_llamacpp => continue,
            About::ChatTemplate => {
                out.no_template = Some(text);
                continue;
            }
            // llama.cpp has never removed an architecture.
            About::Architecture => {
                matches!(engine, EngineVersion::Known(_, [build, ..]) if build <= LLAMACPP_LISTED)
            }
            About::Tensors | About::Tokenizer { .. } | About::Quantization | About::Other => false,
        };
        if certain { out.errors.push(text) } else { out.warnings.push(text) }
    }
}

fn gguf_beside(found: &Inspection, role: Role) -> Checked {
    let (wanted, what) = match role {
        Role::Adapter => (&found.adapter_files, "a LoRA adapter"),
        Role::Model | Role::Projector => (&found.mmproj_files, "a projector (`mmproj`)"),
    };
    if !wanted.is_empty() {
        return Checked { parts: 1, ..Checked::default() };
    }
    match found.gguf_groups.first() {
        Some(group) if group.unread => Checked { warnings: group.errors.clone(), ..Checked::default() },
        Some(group) if !group.errors.is_empty() && group.metadata.is_none() => {
            Checked { errors: group.errors.clone(), ..Checked::default() }
        }
        Some(_) => Checked::refused(format!("it is a model, not {what}")),
        None if !found.mmproj_files.is_empty() => Checked::refused(format!("it is a projector, not {what}")),
        None if !found.adapter_files.is_empty() => {
            Checked::refused(format!("it is a LoRA adapter, not {what}"))
        }
        None => gguf_nothing(found),
    }
}

/// Makes the result for a file that belongs to no model, or was not read.
fn gguf_nothing(found: &Inspection) -> Checked {
    let errors = found.gguf_validation.errors.clone();
    if errors.is_empty() && found.gguf_validation.total_files == 0 {
        return Checked { warnings: found.warnings.clone(), ..Checked::default() };
    }
    let errors = if errors.is_empty() { found.warnings.clone() } else { errors };
    Checked { errors, ..Checked::default() }
}

fn checkpoint(base: &Base, path: &Path) -> Checked {
    let HfFolder { config, weights, task, adapter, errors, warnings, .. } = hf::read_in(base, path);
    let others = others(base, path);
    let mut out = Checked { parts: 1, task, ..Checked::default() };
    out.context_length = config.as_ref().and_then(|it| it.context_length);
    if weights.unread {
        out.warnings = errors;
    } else {
        out.errors = errors;
    }
    let said = out.errors.iter().chain(&out.warnings).any(|it| it.starts_with("config.json"));
    if adapter.is_some() && config.is_none() {
        out.errors.push("it is a LoRA adapter, which goes beside a model".to_owned());
        return out;
    }
    // Mistral's own layout has another file instead.
    if config.is_none() && !said && !others.mistral {
        out.no_config =
            Some("there is no config.json, so the engine can't tell what model this is".to_owned());
    }
    if weights.files.is_empty() && weights.missing.is_empty() && !others.weights {
        let hint = if others.gguf { "; GGUF files are served by the llamacpp engine" } else { "" };
        out.no_weights = Some(format!("there are no weights (*.safetensors) in it{hint}"));
    }
    for Concern { about, text } in warnings {
        match about {
            About::ChatTemplate => out.no_template = Some(text),
            About::Tokenizer { vital } => out.no_tokenizer = Some((text, vital)),
            // Newer images know more architectures, and transformers implements some of the others.
            About::Architecture | About::Quantization | About::Tensors | About::Other => {
                out.warnings.push(text);
            }
        }
    }
    out
}

/// Files that vLLM accepts beside those that an inspection reads.
#[derive(Default)]
struct Others {
    /// `*.bin` or `*.pt` files: weights as `PyTorch` writes them.
    weights: bool,
    gguf: bool,
    mistral: bool,
}

fn others(base: &Base, path: &Path) -> Others {
    let mut out = Others::default();
    for entry in base.list(path, super::MAX_ENTRIES).map(|it| it.entries).unwrap_or_default() {
        if matches!(entry.kind, EntryKind::File { .. }) {
            let is = |it: &[&str]| it.iter().any(|it| has_extension(&entry.name, it));
            out.weights |= is(&["bin", "pt", "pth", "tensors"]);
            out.gguf |= is(&["gguf"]);
            out.mistral |= entry.name == "params.json";
        }
    }
    out
}

fn adapter_folder(base: &Base, path: &Path) -> Checked {
    let found = hf::read_in(base, path);
    if found.adapter.is_none() {
        return Checked::refused("there is no readable adapter_config.json in it, so it is no LoRA adapter");
    }
    let (unread, all) = (found.weights.unread, found.weights.errors().to_vec());
    let (errors, warnings) = if unread { (Vec::new(), all) } else { (all, Vec::new()) };
    Checked { errors, warnings, parts: 1, ..Checked::default() }
}

fn kind_of(engine: EngineVersion) -> EngineKind {
    match engine {
        EngineVersion::Known(kind, _) | EngineVersion::Unknown(kind) => kind,
    }
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |it| it.1)
}
