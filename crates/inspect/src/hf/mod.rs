//! Hub checkpoints: a folder with `config.json`, a tokenizer and safetensors files.
//!
//! The names of the files and their precedence are those of huggingface transformers 5
//! (`src/transformers/utils/__init__.py`) and of vLLM 0.32 (`vllm/config/model.py`, `vllm/transformers_utils/`).

mod again;
mod config;
mod quantization;
mod weights;

use std::{collections::BTreeMap, io::Read, path::Path};

use serde_json::Value;

pub(crate) use self::quantization::of_config as quantization_of;
pub use self::{
    config::{AttentionKind, HfConfig, Rope},
    quantization::Quantization,
    weights::{WeightFile, Weights, read_index},
};
use crate::{
    About, Concern, TaskHint,
    base::{Base, Entry, EntryKind, InspectError, Opened},
    json::{self, Brief, JsonError, Limits},
    known, safetensors,
};

/// Most names that are looked at in the folder itself.
const MAX_NAMES: usize = 10_000;
/// Sets of files, each of which is a complete tokenizer.
const TOKENIZERS: &[&[&str]] = &[
    &["tokenizer.json"],
    &["tokenizer.model"],
    &["vocab.json", "merges.txt"],
    &["vocab.txt"],
    &["tekken.json"],
    &["tiktoken.model"],
];

/// The contents of a checkpoint's folder.
#[derive(Debug, Default)]
pub struct HfFolder {
    /// `None`: the file is absent or unreadable; [`HfFolder::errors`] shows which.
    pub config: Option<HfConfig>,
    pub weights: Weights,
    pub quantization: Option<Quantization>,
    pub has_tokenizer: bool,
    pub has_chat_template: bool,
    /// The task, which [`HfConfig`] or the files of sentence-transformers show.
    pub task: Option<TaskHint>,
    /// Set if the folder is a `LoRA` adapter.
    pub adapter: Option<Adapter>,
    /// Numbers from `generation_config.json` (`temperature`, `top_p`, …).
    pub generation: BTreeMap<String, f64>,
    /// Why an engine can't load it, as sentences that name the file.
    pub errors: Vec<String>,
    /// What may go wrong.
    pub warnings: Vec<Concern>,
}

/// The contents of `adapter_config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    pub base_model: Option<String>,
    pub rank: Option<u64>,
}

/// Reads the checkpoint at `rel`. A folder without a checkpoint gives an [`HfFolder`] without configuration or weights.
///
/// # Errors
/// Only a wrong path is an error; problems of files are part of the result.
pub fn read_folder(base: &Base, rel: &str) -> Result<HfFolder, InspectError> {
    let path = base.resolve(rel)?;
    if !path.is_dir() {
        return Err(InspectError::NotAFolder { path: rel.to_owned() });
    }
    Ok(read_in(base, &path))
}

/// Reads a single `config.json`, as a hub sends it.
///
/// # Errors
/// The JSON is wrong. Missing or odd fields are not errors.
pub fn read_config(reader: impl Read) -> Result<(HfConfig, Option<Quantization>), JsonError> {
    let value = json::read_value(reader, Limits::CONFIG)?;
    Ok((HfConfig::from_value(&value), quantization::of_config(&value)))
}

/// Reads the checkpoint in `folder`, a path that [`Base`] gave.
pub(crate) fn read_in(base: &Base, folder: &Path) -> HfFolder {
    read_in_with(base, folder, &mut |_| {})
}

/// Reads as [`read_in`] does, and shows every tensor to `visit`, including those of damaged files.
pub(crate) fn read_in_with(
    base: &Base,
    folder: &Path,
    visit: &mut dyn FnMut(&safetensors::Entry<'_>),
) -> HfFolder {
    let mut out = HfFolder::default();
    let Ok(listing) = base.list(folder, MAX_NAMES) else {
        out.errors.push("the folder can't be read".to_owned());
        return out;
    };
    if listing.cut {
        out.warnings.push(format!("only the first {MAX_NAMES} files were looked at").into());
    }
    // A link out of the base directory counts as absent, because the engine can't follow it either.
    let usable = |it: &&Entry| matches!(it.kind, EntryKind::File { .. } | EntryKind::Folder);
    let names: Vec<&str> = listing.entries.iter().filter(usable).map(|it| it.name.as_str()).collect();
    let has = |name: &str| names.contains(&name);

    let config = config_value(base, folder, "config.json", &mut out);
    out.quantization =
        config.as_ref().and_then(quantization::of_config).or_else(|| quantization_beside(base, folder));
    out.adapter = small(base, folder, "adapter_config.json").map(|it| Adapter {
        base_model: config::text(&it, "base_model_name_or_path"),
        rank: config::whole(&it, "r"),
    });
    out.weights = weights::read(base, folder, &listing.entries, out.quantization.as_ref(), visit);
    out.errors.extend(out.weights.errors.iter().cloned());
    out.warnings.extend(out.weights.warnings.iter().cloned().map(Concern::from));

    let tokenizer_config = picked(base, folder, "tokenizer_config.json", &mut out);
    let damaged = damaged_tokenizers(base, folder, &names, &mut out);
    let sound = |name: &str| has(name) && !damaged.contains(&name);
    out.has_tokenizer = TOKENIZERS.iter().any(|set| set.iter().all(|it| sound(it)));
    out.has_chat_template = has("chat_template.jinja")
        || has("tekken.json")
        || has("chat_templates")
        || tokenizer_config.contains(&("chat_template", Brief::Filled))
        || picked(base, folder, "chat_template.json", &mut out).contains(&("chat_template", Brief::Filled));
    out.generation =
        small(base, folder, "generation_config.json").map(|it| generation(&it)).unwrap_or_default();

    let sentence_transformer =
        has("modules.json") || has("1_Pooling") || has("config_sentence_transformers.json");
    if let Some(value) = config {
        let mut config = HfConfig::from_value(&value);
        let longest = tokenizer_config.iter().find_map(|it| match it {
            ("model_max_length", Brief::Number(tokens)) => Some(*tokens),
            _ => None,
        });
        let encoder = small(base, folder, "sentence_bert_config.json");
        config.bound_context(longest, encoder.and_then(|it| config::whole(&it, "max_seq_length")));
        out.task = Some(config.task(sentence_transformer));
        warn_about(&config, out.quantization.as_ref(), &mut out.warnings);
        out.config = Some(config);
    } else if sentence_transformer {
        out.task = Some(TaskHint::Embed);
    }
    check_whole(base, folder, &names, &mut out);
    out
}

/// Returns the files of a tokenizer that are there and can't be one, and adds an error for each.
fn damaged_tokenizers(base: &Base, folder: &Path, names: &[&str], out: &mut HfFolder) -> Vec<&'static str> {
    let files = TOKENIZERS.iter().copied().flatten().copied().filter(|it| names.contains(it));
    let mut damaged = Vec::new();
    for name in files {
        let Some(opened) = base.file_in(folder, name) else { continue };
        if opened.len == 0 {
            out.errors.push(format!("{name}: it is empty; the download is incomplete"));
        } else if weights::is_lfs_pointer(opened.file) {
            out.errors.push(pointer(name));
        } else {
            continue;
        }
        damaged.push(name);
    }
    damaged
}

fn pointer(name: &str) -> String {
    format!("{name}: this is a git-lfs pointer, not the file itself; run `git lfs pull`")
}

/// Reads the quantisation from the files in which tools put it beside `config.json`.
fn quantization_beside(base: &Base, folder: &Path) -> Option<Quantization> {
    let value =
        small(base, folder, "hf_quant_config.json").or_else(|| small(base, folder, "quantize_config.json"));
    quantization::of_file(&value?)
}

/// Whether a file may be a tokenizer of a family with its own code: `qwen.tiktoken`, `spiece.model`.
fn like_tokenizer(name: &str) -> bool {
    ["token", "vocab", "piece"].iter().any(|part| name.contains(part))
        || Path::new(name).extension().is_some_and(|it| it == "model")
}

fn config_value(base: &Base, folder: &Path, name: &str, out: &mut HfFolder) -> Option<Value> {
    let opened = base.file_in(folder, name)?;
    match json::read_value(opened.file, Limits::CONFIG) {
        Ok(value) if value.is_object() => Some(value),
        Ok(_) => {
            out.errors.push(format!("{name}: it is not an object"));
            None
        }
        Err(error) => {
            let is_pointer = base.file_in(folder, name).is_some_and(|it| weights::is_lfs_pointer(it.file));
            out.errors.push(if is_pointer { pointer(name) } else { format!("{name}: {error}") });
            None
        }
    }
}

/// Reads a small optional file; `None` also if it is damaged, since the engine works without it.
fn small(base: &Base, folder: &Path, name: &str) -> Option<Value> {
    let opened = base.file_in(folder, name)?;
    json::read_value(opened.file, Limits::CONFIG).ok()
}

fn picked(base: &Base, folder: &Path, name: &str, out: &mut HfFolder) -> json::Picked {
    let Some(Opened { file, stamp, .. }) = base.file_in(folder, name) else { return json::Picked::new() };
    let cache = base.cache().map(|it| &it.tokenizers);
    if let Some(picked) = cache.and_then(|it| it.get(&stamp)) {
        return picked;
    }
    match json::pick(file, &["chat_template", "model_max_length"]) {
        Ok(picked) => {
            if let Some(cache) = cache {
                cache.put(stamp, picked.clone(), size_of::<json::Picked>());
            }
            picked
        }
        Err(error) => {
            out.warnings.push(format!("{name}: {error}").into());
            json::Picked::new()
        }
    }
}

fn generation(value: &Value) -> BTreeMap<String, f64> {
    const KEYS: [&str; 7] =
        ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "max_length"];
    let number = |key: &str| Some((key.to_owned(), value.get(key)?.as_f64()?));
    KEYS.into_iter().filter_map(number).collect()
}

fn warn_about(config: &HfConfig, quantization: Option<&Quantization>, warnings: &mut Vec<Concern>) {
    match &config.architecture {
        None => warnings.push("config.json: it names no architecture (`architectures`)".to_owned().into()),
        Some(name) if !known::vllm_knows(name) => {
            let fallback = if config.needs_remote_code {
                "it brings its own code, so `trust_remote_code` is needed"
            } else {
                "it starts only if the engine's image is newer or its transformers knows it"
            };
            let text = format!("config.json: vLLM 0.32 does not know the architecture `{name}`; {fallback}");
            warnings.push(Concern::new(About::Architecture, text));
        }
        Some(_) => {}
    }
    if let Some(quantization) = quantization
        && !known::vllm_knows_quantization(&quantization.method)
    {
        let text = format!("config.json: vLLM does not load the quantisation `{}`", quantization.method);
        warnings.push(Concern::new(About::Quantization, text));
    }
}

/// Says that weights have no configuration, unless it was said what is wrong with it.
fn without_config(has_params: bool, out: &mut HfFolder) {
    // Mistral publishes in a layout of its own, too, which vLLM reads.
    if has_params && out.weights.files.iter().all(|it| it.name.starts_with("consolidated")) {
        let text = "params.json: this is Mistral's own layout, without a config.json: vLLM reads it, and the gateway knows \
                    neither its context length nor its memory";
        out.warnings.push(text.to_owned().into());
    } else if out.errors.iter().all(|it| !it.starts_with("config.json")) {
        out.errors.push("config.json: it is missing; the engine can't tell what model this is".to_owned());
    }
}

/// Adds errors and warnings about missing files of the folder, which has these names.
fn check_whole(base: &Base, folder: &Path, names: &[&str], out: &mut HfFolder) {
    if out.adapter.is_some() || out.weights.files.is_empty() {
        return;
    }
    if out.config.is_none() {
        without_config(names.contains(&"params.json"), out);
    }
    if !out.has_tokenizer {
        let text = "no tokenizer (tokenizer.json, tokenizer.model, vocab.txt); set `tokenizer`";
        out.warnings
            .push(Concern::new(About::Tokenizer { vital: !names.iter().any(|it| like_tokenizer(it)) }, text));
    }
    if out.task == Some(TaskHint::Generate) && !out.has_chat_template {
        let text = "no chat template; chat is turned into plain completion unless one is set";
        out.warnings.push(Concern::new(About::ChatTemplate, text));
    }
    let downloads = base.resolve(&format!("{}/.cache/huggingface/download", base.relative(folder)));
    let unfinished = downloads
        .ok()
        .and_then(|it| base.list(&it, MAX_NAMES).ok())
        .map_or(0, |listing| listing.entries.iter().filter(|it| it.name.ends_with(".incomplete")).count());
    if unfinished > 0 {
        let text =
            format!("{unfinished} unfinished downloads (*.incomplete); the hub download was interrupted");
        out.warnings.push(text.into());
    }
}
