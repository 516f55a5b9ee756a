//! Folders below the models directory: lists them, and inspects one.

mod check;
mod groups;
mod hub;
mod instead;
mod measure;
mod parts;
mod recommend;
mod response;
mod walk;

use std::{path::Path, sync::Arc};

use gantry_domain::view;

pub use self::{
    check::{Checked, Role, check},
    hub::{cached_gguf, cached_snapshot, is_cached},
    measure::{Measured, Precision, measure, weight_of},
    response::{
        EngineRecommendation, GgufGroup, GgufMetadata, GgufValidation, Inspection, SafetensorInfo, SideFile,
        Status,
    },
    walk::{MAX_DEPTH, MAX_ENTRIES},
};
use self::{
    groups::Grouped,
    instead::{instead, named},
    recommend::Findings,
    response::mib,
    walk::{FoundFile, Walk},
};
pub(crate) use self::{
    groups::gguf_header,
    parts::{split_name, without_part},
};
pub use crate::base::{Base, InspectError};
use crate::{
    About, Cache, Concern, TaskHint,
    base::{Entry, EntryKind},
    hf,
};

/// Most folders in one answer of [`local_folders`].
pub const MAX_FOLDERS: usize = 2_000;
/// Most folders of safetensors that are read to find one that an engine can load.
const MAX_CHECKPOINTS: usize = 32;

view! {
    /// One folder that may hold a model.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LocalFolder {
        pub name: String,
        /// Path relative to the models directory, as `inspect-folder` takes it.
        pub path: String,
        pub has_gguf: bool,
        pub has_safetensors: bool,
        /// Size of all files in it, as deep as an inspection looks.
        pub size_bytes: u64,
    }
}

/// Returns the folders directly below `base`, sorted by name. A folder that holds only folders, as in
/// `organisation/model`, is followed by those. If model files lie in `base` itself, it comes first, as `.`.
///
/// # Errors
/// `base` can't be read.
pub fn local_folders(base: &Path) -> Result<Vec<LocalFolder>, InspectError> {
    let base = Base::open(base)?;
    let root = base.resolve("")?;
    let listing = base.list(&root, MAX_ENTRIES).map_err(InspectError::Base)?;
    let mut folders = Vec::new();
    let loose: Vec<FoundFile> = listing.entries.iter().filter_map(found).collect();
    let Formats { has_gguf, has_safetensors } = Formats::of(&loose);
    if has_gguf || has_safetensors {
        let size_bytes = loose.iter().fold(0_u64, |sum, it| sum.saturating_add(it.len));
        let here = || ".".to_owned();
        folders.push(LocalFolder { name: here(), path: here(), has_gguf, has_safetensors, size_bytes });
    }
    for entry in subfolders(&listing.entries) {
        folders.push(describe(&base, &entry.path, entry.name.clone()));
        let Ok(inner) = base.list(&entry.path, MAX_ENTRIES) else { continue };
        let only_folders = inner.entries.iter().all(|it| !matches!(it.kind, EntryKind::File { .. }));
        for model in subfolders(&inner.entries).filter(|_| only_folders) {
            folders.push(describe(&base, &model.path, format!("{}/{}", entry.name, model.name)));
        }
        if folders.len() >= MAX_FOLDERS {
            folders.truncate(MAX_FOLDERS);
            break;
        }
    }
    Ok(folders)
}

fn subfolders(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(|it| matches!(it.kind, EntryKind::Folder) && !it.name.starts_with('.'))
}

fn found(entry: &Entry) -> Option<FoundFile> {
    match entry.kind {
        EntryKind::File { len } => Some(FoundFile { rel: entry.name.clone(), path: entry.path.clone(), len }),
        _ => None,
    }
}

fn describe(base: &Base, path: &Path, name: String) -> LocalFolder {
    let walk = walk::walk(base, path);
    let Formats { has_gguf, has_safetensors } = Formats::of(&walk.files);
    LocalFolder { path: name.clone(), name, has_gguf, has_safetensors, size_bytes: walk.size_bytes }
}

/// Which formats of models some files have.
struct Formats {
    has_gguf: bool,
    has_safetensors: bool,
}

impl Formats {
    fn of(files: &[FoundFile]) -> Self {
        let any = |extension| files.iter().any(|it| it.has_extension(extension));
        Self { has_gguf: any("gguf"), has_safetensors: any("safetensors") }
    }
}

/// Inspects the folder, or the single `.gguf` file, at `rel` below `base`.
///
/// # Errors
/// Only a wrong path is an error; problems of files are part of the result.
pub fn inspect(base: &Path, rel: &str) -> Result<Inspection, InspectError> {
    inspect_in(&Base::open(base)?, rel)
}

/// Inspects as [`inspect`] does, but does not read headers again that `cache` has.
///
/// # Errors
/// The errors are those of [`inspect`].
pub fn inspect_cached(base: &Path, rel: &str, cache: &Arc<Cache>) -> Result<Inspection, InspectError> {
    inspect_in(&Base::open(base)?.with_cache(cache), rel)
}

fn inspect_in(base: &Base, rel: &str) -> Result<Inspection, InspectError> {
    let path = base.resolve(rel)?;
    if path.is_dir() {
        return Ok(inspect_folder(base, &path));
    }
    inspect_file(base, &path, rel)
}

/// Inspects one GGUF file, with the other parts of its set.
fn inspect_file(base: &Base, path: &Path, rel: &str) -> Result<Inspection, InspectError> {
    let not_a_folder = || InspectError::NotAFolder { path: rel.to_owned() };
    // The requested name is used: links of a hub cache lead to files without an extension.
    let (parent, name) = rel.rsplit_once('/').unwrap_or(("", rel));
    if !path.is_file() || !has_extension(name, "gguf") {
        return Err(not_a_folder());
    }
    let folder = base.resolve(parent)?;
    let listing = base
        .list(&folder, MAX_ENTRIES)
        .map_err(|source| InspectError::Io { path: parent.to_owned(), source })?;
    let files: Vec<FoundFile> =
        listing.entries.iter().filter_map(found).filter(|it| it.has_extension("gguf")).collect();
    let grouped = groups::group(base, &base.relative(&folder), &files, Some(name));
    let collected = Collected {
        path: base.relative(&folder.join(name)),
        grouped,
        has_gguf: true,
        ..Collected::default()
    };
    Ok(collected.into_inspection(cut_warning(listing.cut).into_iter().collect()))
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it.eq_ignore_ascii_case(extension))
}

fn inspect_folder(base: &Base, path: &Path) -> Inspection {
    let walk = walk::walk(base, path);
    let mut warnings = walk_warnings(&walk);
    let instead = instead(&walk);
    warnings.extend(instead.warnings);
    let checkpoint = if instead.pipeline { None } else { checkpoint(base, path, &walk, &mut warnings) };

    let Formats { has_gguf, has_safetensors } = Formats::of(&walk.files);
    let gguf: Vec<FoundFile> = walk.files.into_iter().filter(|it| it.has_extension("gguf")).collect();
    let grouped = groups::group(base, &base.relative(path), &gguf, None);
    let mut collected = Collected {
        path: base.relative(path),
        grouped,
        has_gguf,
        has_safetensors,
        instead: instead.reason,
        ..Collected::default()
    };
    let Some(Checkpoint { hf, at }) = checkpoint else { return collected.into_inspection(warnings) };
    if let Some(adapter) = hf.adapter {
        let size_bytes = hf.weights.total_size();
        collected.grouped.adapters.push(SideFile { path: at, size_bytes, base_model: adapter.base_model });
    } else if !hf.weights.files.is_empty() || !hf.weights.missing.is_empty() {
        collected.foreign = has_foreign_architecture(&hf);
        collected.unloadable = hf.warnings.iter().any(|it| it.about == About::Quantization);
        collected.info = Some(checkpoint_info(hf, at));
    } else {
        collected.pytorch = (!hf.weights.pytorch.is_empty() && hf.config.is_some()).then_some(at);
        // Beside GGUF files, the remains of a checkpoint are ignored.
        if !has_gguf {
            warnings.extend(hf.errors);
        }
    }
    collected.into_inspection(warnings)
}

/// A folder with a checkpoint.
struct Checkpoint {
    hf: hf::HfFolder,
    /// Path from the models directory.
    at: String,
}

/// Returns the checkpoint to show: of the uppermost checkpoints the first, by name, that an engine loads, or else the
/// first of them. Without any safetensors, it is the first folder with a `config.json`.
fn checkpoint(base: &Base, start: &Path, walk: &Walk, warnings: &mut Vec<String>) -> Option<Checkpoint> {
    let read = |folder: &str| {
        // If the walk began at a link within the base, the folder's real path may be elsewhere.
        let path = base.relative(&start.join(folder).canonicalize().ok()?);
        let path = base.resolve(&path).ok()?;
        Some(Checkpoint { hf: hf::read_in(base, &path), at: base.relative(&path) })
    };
    let with_weights = folders(walk, |it| it.has_extension("safetensors"));
    let Some(first) = with_weights.first() else {
        let with_config = folders(walk, |it| it.name() == "config.json");
        return read(with_config.first().copied().unwrap_or_default());
    };
    let depth = |folder: &str| folder.split('/').filter(|it| !it.is_empty()).count();
    let mut best: Option<(Loads, &str, Checkpoint)> = None;
    let beside = with_weights.iter().filter(|it| depth(it) == depth(first));
    for folder in beside.take(MAX_CHECKPOINTS) {
        let Some(found) = read(folder) else { continue };
        let loads = Loads::of(&found.hf);
        if best.as_ref().is_none_or(|it| loads < it.0) {
            best = Some((loads, folder, found));
        }
        if loads == Loads::Yes || base.is_spent() {
            break;
        }
    }
    let (loads, folder, found) = best?;
    let others = with_weights.len().saturating_sub(1);
    if others > 0 {
        let shown = if folder.is_empty() { "this folder" } else { folder };
        let why = if loads == Loads::Yes && folder != *first { ", which can be loaded," } else { "" };
        warnings.push(format!(
            "safetensors are in {others} more folders; the checkpoint in {shown}{why} is shown"
        ));
    }
    Some(found)
}

/// Returns folders with such files, the uppermost first, then by name.
fn folders(walk: &Walk, wanted: fn(&FoundFile) -> bool) -> Vec<&str> {
    // Repositories may hold copies in other layouts, which are left out.
    let copy =
        |folder: &str| folder.split('/').any(|it| matches!(it, "original" | "onnx" | "openvino" | "metal"));
    let mut folders: Vec<&str> =
        walk.files.iter().filter(|it| wanted(it)).map(FoundFile::folder).filter(|it| !copy(it)).collect();
    // Files are listed folder by folder, so equal folders are neighbours.
    folders.dedup();
    folders
}

/// Whether an engine loads a checkpoint. The best outcome comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loads {
    Yes,
    /// It loads only if the engine knows the architecture, which is not on our list.
    Perhaps,
    No,
    /// It is an adapter, which is used beside a model.
    Adapter,
}

impl Loads {
    fn of(hf: &hf::HfFolder) -> Self {
        match status(hf) {
            _ if hf.adapter.is_some() => Self::Adapter,
            Status::Ready if has_foreign_architecture(hf) => Self::Perhaps,
            Status::Ready => Self::Yes,
            Status::Incomplete | Status::Invalid => Self::No,
        }
    }
}

fn has_foreign_architecture(hf: &hf::HfFolder) -> bool {
    hf.warnings.iter().any(|it| it.about == About::Architecture)
}

/// Returns the status that a dry run would give a model without settings of its own.
fn status(hf: &hf::HfFolder) -> Status {
    match (hf.weights.missing.is_empty(), hf.errors.is_empty() && !lacks_tokenizer(hf)) {
        (false, _) => Status::Incomplete,
        (true, true) => Status::Ready,
        (true, false) => Status::Invalid,
    }
}

fn lacks_tokenizer(hf: &hf::HfFolder) -> bool {
    hf.warnings.iter().any(is_vital)
}

fn is_vital(concern: &Concern) -> bool {
    concern.about == About::Tokenizer { vital: true }
}

fn checkpoint_info(mut hf: hf::HfFolder, path: String) -> SafetensorInfo {
    let status = status(&hf);
    let (vital, rest): (Vec<_>, Vec<_>) = hf.warnings.into_iter().partition(is_vital);
    hf.warnings = rest;
    hf.errors.extend(vital.into_iter().map(|it| it.text));
    let config = hf.config.unwrap_or_default();
    let size_bytes = hf.weights.total_size();
    SafetensorInfo {
        architecture: config.architecture,
        model_type: config.model_type,
        total_size_mb: mib(size_bytes),
        file_count: hf.weights.files.len(),
        context_length: config.context_length,
        num_layers: config.num_layers,
        hidden_size: config.hidden_size,
        num_attention_heads: config.num_attention_heads,
        vocab_size: config.vocab_size,
        status,
        path,
        size_bytes,
        missing_files: hf.weights.missing,
        num_key_value_heads: config.num_key_value_heads.map(|it| it.max()),
        head_dim: config.head_dim,
        intermediate_size: config.intermediate_size,
        sliding_window: config.sliding_window,
        num_experts: config.num_experts,
        num_experts_per_token: config.num_experts_per_token,
        dtype: config.dtype,
        quantization: hf.quantization.map(|it| it.label()),
        tensor_bytes: hf.weights.sound.then_some(hf.weights.tensor_bytes),
        parameter_count: hf.weights.parameter_count,
        tie_word_embeddings: config.tie_word_embeddings,
        needs_remote_code: config.needs_remote_code,
        multimodal: config.multimodal,
        task: hf.task.unwrap_or(TaskHint::Generate),
        chat_template: hf.has_chat_template,
        tokenizer: hf.has_tokenizer,
        generation_defaults: hf.generation,
        errors: hf.errors,
        warnings: hf.warnings.into_iter().map(|it| it.text).collect(),
    }
}

/// The parts from which an answer is made.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts")]
struct Collected {
    path: String,
    grouped: Grouped,
    info: Option<SafetensorInfo>,
    /// Whether the engine is not known to support the checkpoint's architecture.
    foreign: bool,
    unloadable: bool,
    /// A folder with `PyTorch` weights and without safetensors.
    pytorch: Option<String>,
    has_gguf: bool,
    has_safetensors: bool,
    /// What is there in place of a model.
    instead: Option<String>,
}

impl Collected {
    fn into_inspection(self, mut warnings: Vec<String>) -> Inspection {
        let Self { path, grouped, info, foreign, unloadable, pytorch, has_gguf, has_safetensors, instead } =
            self;
        warnings.extend(grouped.warnings);
        warnings.extend(grouped.groups.iter().flat_map(|it| it.warnings.iter().cloned()));
        warnings.extend(info.iter().flat_map(|it| it.errors.iter().chain(&it.warnings).cloned()));
        let engine_recommendation = recommend::recommend(&Findings {
            groups: &grouped.groups,
            checkpoint: info.as_ref(),
            foreign,
            unloadable,
            unread: grouped.unread,
            has_gguf,
            has_safetensors,
            pytorch,
            only_side_files: !grouped.mmproj.is_empty() || !grouped.adapters.is_empty(),
            instead,
        });
        Inspection {
            has_gguf,
            has_safetensors,
            gguf_groups: grouped.groups,
            safetensor_info: info,
            engine_recommendation,
            gguf_validation: grouped.validation,
            path,
            mmproj_files: grouped.mmproj,
            adapter_files: grouped.adapters,
            warnings,
        }
    }
}

fn cut_warning(cut: bool) -> Option<String> {
    cut.then(|| {
        format!("only the first {MAX_ENTRIES} entries, {MAX_DEPTH} folders deep, were looked at; inspect a smaller folder")
    })
}

fn walk_warnings(walk: &Walk) -> Vec<String> {
    let mut warnings: Vec<String> = cut_warning(walk.cut).into_iter().collect();
    for (names, what) in [
        (&walk.outside, "links out of the models directory, not followed"),
        (&walk.broken, "links to what is not there"),
        (&walk.unreadable, "folders that can't be read"),
    ] {
        if !names.is_empty() {
            warnings.push(format!("{}: {what}", named(names)));
        }
    }
    if walk.unreadable_names > 0 {
        warnings.push(format!("{} names are not UTF-8 and were skipped", walk.unreadable_names));
    }
    warnings
}
