//! Groups GGUF files into models.
//!
//! Names of split files: llama.cpp `src/llama.cpp` (`llama_split_path`), `<prefix>-%05d-of-%05d.gguf`, numbered from 1.
//! The numbers inside the files (`split.no`) begin with 0.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{
    base::Base,
    response::{GgufGroup, GgufMetadata, GgufValidation, SideFile, Status, mib},
    walk::Found,
};
use crate::{
    About, Concern, LLAMACPP_LISTED, TaskHint, clip,
    gguf::{self, GgufError, GgufHeader, GgufKind, PerLayer},
    known,
};

/// Most GGUF files that are read in one inspection.
const MAX_READ: usize = 2_000;
/// Memory for the headers of one set, in bytes. Once it is used up, no further part is read. With the largest header on
/// top, an inspection stays below 64 MiB.
pub(super) const SET_BYTES: usize = 16 << 20;
/// Most missing parts that a message names.
const NAMED: usize = 5;

/// The GGUF files of a folder, by kind.
#[derive(Default)]
pub(super) struct Grouped {
    pub(super) groups: Vec<GgufGroup>,
    pub(super) mmproj: Vec<SideFile>,
    pub(super) adapters: Vec<SideFile>,
    pub(super) validation: GgufValidation,
    pub(super) warnings: Vec<String>,
    /// Number of files that were found and not read.
    pub(super) unread: usize,
}

/// The set that a file belongs to, as its name says.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Set<'a> {
    /// Path up to the number; for a single file, the whole path.
    pub(super) prefix: &'a str,
    /// Number of parts; 0 for a single file.
    pub(super) parts: u64,
}

/// A file and its header, or why the header could not be read.
struct Part<'a> {
    found: &'a Found,
    /// Number of the part, from 1; 0 for a single file.
    number: u64,
    header: Result<Arc<GgufHeader>, GgufError>,
}

/// The files that belong to one set by their names, with their numbers.
type Members<'a> = Vec<(u64, &'a Found)>;

/// Reads `files`, which lie below the folder `at`, and groups them. With `only`, it reads just the set that contains
/// this path (as [`Found::rel`]).
pub(super) fn group(base: &Base, at: &str, files: &[Found], only: Option<&str>) -> Grouped {
    let mut sets: BTreeMap<Set<'_>, Members<'_>> = BTreeMap::new();
    for found in files {
        let (set, number) = split_name(&found.rel);
        sets.entry(set).or_default().push((number, found));
    }
    if let Some(only) = only {
        sets.retain(|_, members| members.iter().any(|it| it.1.rel == only));
    }
    let mut read: BTreeMap<usize, Grouped> = BTreeMap::new();
    let mut skipped = Skipped::default();
    let mut left = MAX_READ;
    for (at_place, set, mut members) in shared_out(sets) {
        // A set is skipped as a whole: no errors are reported about a set that was not read.
        if skipped.spent || base.is_spent() {
            skipped.spent = true;
            skipped.add(&members);
            continue;
        }
        let Some(remaining) = left.checked_sub(members.len()) else {
            skipped.add(&members);
            continue;
        };
        left = remaining;
        let mut kept = 0_usize;
        let mut parts: Vec<Part<'_>> = Vec::new();
        members.sort_by_key(|it| it.0);
        for (number, found) in members {
            let header = if kept > SET_BYTES {
                Err(GgufError::HeaderTooLarge { limit: SET_BYTES as u64 })
            } else {
                gguf_header(base, &found.path)
            };
            kept = kept.saturating_add(header.as_ref().map_or(0, |it| it.kept_bytes));
            parts.push(Part { found, number, header });
        }
        read.entry(at_place).or_default().add(at, &set, &parts);
    }
    let mut out = Grouped::default();
    // The results are put in the order of their names; the sets were read in another order.
    for one in read.into_values() {
        out.append(one);
    }
    out.groups.sort_by(|a, b| {
        a.status.cmp(&b.status).then(b.size_bytes.cmp(&a.size_bytes)).then(a.path.cmp(&b.path))
    });
    out.unread = skipped.files;
    out.warnings.extend(skipped.warning());
    out
}

/// Returns the sets with their original positions, ordered so that folders take turns. So a folder with thousands of
/// files leaves other folders a part of what may be read.
fn shared_out<'a>(
    sets: BTreeMap<Set<'a>, Members<'a>>,
) -> impl Iterator<Item = (usize, Set<'a>, Members<'a>)> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut order: Vec<_> = Vec::new();
    for (place, (set, members)) in sets.into_iter().enumerate() {
        let folder = members.first().map_or("", |it| it.1.folder());
        let turn = turns.entry(folder).or_default();
        *turn = turn.saturating_add(1);
        order.push((*turn, place, set, members));
    }
    order.sort_by_key(|it| (it.0, it.1));
    order.into_iter().map(|(_, place, set, members)| (place, set, members))
}

/// Files that were found and not looked into.
#[derive(Default)]
struct Skipped {
    files: usize,
    first: String,
    /// Whether reading took too long or too many bytes; otherwise there were too many files.
    spent: bool,
}

impl Skipped {
    fn add(&mut self, members: &[(u64, &Found)]) {
        if let (0, Some(first)) = (self.files, members.first()) {
            self.first.clone_from(&first.1.rel);
        }
        self.files = self.files.saturating_add(members.len());
    }

    fn warning(&self) -> Option<String> {
        let Self { files, first, spent } = self;
        let why = if *spent {
            "the headers before it are too large or the file system is slow".to_owned()
        } else {
            format!("at most {MAX_READ} are read at once")
        };
        let more = files.saturating_sub(1);
        let more = if more > 0 { format!(" and {more} more GGUF files") } else { String::new() };
        (*files > 0)
            .then(|| format!("{first}{more} were not read: {why}; inspect a smaller folder or a single file"))
    }
}

/// Returns the header of the GGUF file at `path`, which [`Base`] gave: from the cache, or by reading it.
pub(crate) fn gguf_header(base: &Base, path: &Path) -> Result<Arc<GgufHeader>, GgufError> {
    let (file, len, stamp) = base.open_stamped(path).map_err(GgufError::Io)?;
    let cache = base.cache().map(|it| &it.gguf);
    if let Some(header) = cache.and_then(|it| it.get(&stamp)) {
        return Ok(header);
    }
    let header = Arc::new(gguf::read(file, len)?);
    if let Some(cache) = cache {
        cache.put(stamp, Arc::clone(&header), header.kept_bytes);
    }
    Ok(header)
}

/// Joins a path from the models directory. Links are not resolved, because those of a hub cache lead to meaningless
/// names.
fn join(at: &str, rel: &str) -> String {
    if at == "." { rel.to_owned() } else { format!("{at}/{rel}") }
}

/// Returns the set that a file belongs to by its name, and its number there.
pub(super) fn split_name(rel: &str) -> (Set<'_>, u64) {
    let split = || {
        let stem = rel.get(..rel.len().checked_sub(5)?)?;
        let (prefix, number, parts) = (
            stem.get(..stem.len().checked_sub(15)?)?,
            stem.get(stem.len().checked_sub(14)?..stem.len().checked_sub(9)?)?,
            stem.get(stem.len().checked_sub(5)?..)?,
        );
        let middle = stem.get(stem.len().checked_sub(9)?..stem.len().checked_sub(5)?)?;
        let dash = stem.get(prefix.len()..prefix.len().checked_add(1)?)?;
        let digits = |it: &str| if it.bytes().all(|it| it.is_ascii_digit()) { it.parse().ok() } else { None };
        let (number, parts): (u64, u64) = (digits(number)?, digits(parts)?);
        (dash == "-" && middle.eq_ignore_ascii_case("-of-") && parts > 0)
            .then_some((Set { prefix, parts }, number))
    };
    split().unwrap_or((Set { prefix: rel, parts: 0 }, 0))
}

impl Grouped {
    fn append(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.mmproj.extend(other.mmproj);
        self.adapters.extend(other.adapters);
        self.warnings.extend(other.warnings);
        let (mine, other) = (&mut self.validation, other.validation);
        mine.total_files = mine.total_files.saturating_add(other.total_files);
        mine.valid_files = mine.valid_files.saturating_add(other.valid_files);
        mine.invalid_files = mine.invalid_files.saturating_add(other.invalid_files);
        mine.errors.extend(other.errors);
    }

    fn add(&mut self, at: &str, set: &Set<'_>, parts: &[Part<'_>]) {
        let mut errors = Vec::new();
        let mut readable = 0;
        for part in parts {
            match &part.header {
                Ok(_) => readable += 1,
                Err(error) => errors.push(format!("{}: {error}", part.found.rel)),
            }
        }
        self.validation.total_files = self.validation.total_files.saturating_add(parts.len());
        let Some(first) = parts.first() else { return };
        let header = first.header.as_deref().ok();

        let kind = header.map_or(GgufKind::Model, GgufHeader::kind);
        // Encoders are recognised by their name, even if they are damaged.
        let kind = if first.found.name().to_ascii_lowercase().starts_with("mmproj") {
            GgufKind::Mmproj
        } else {
            kind
        };
        let damaged = errors.len();
        let sound = header.is_some_and(|_| errors.is_empty());
        match kind {
            GgufKind::Mmproj | GgufKind::Adapter => {
                if sound {
                    let side = SideFile {
                        path: join(at, &first.found.rel),
                        size_bytes: first.found.len,
                        base_model: header.and_then(|it| it.text("general.base_model.0.name")).map(clip),
                    };
                    if kind == GgufKind::Mmproj { self.mmproj.push(side) } else { self.adapters.push(side) }
                }
            }
            GgufKind::Imatrix | GgufKind::VocabOnly if sound => {
                let what = if kind == GgufKind::Imatrix {
                    "an importance matrix"
                } else {
                    "a tokenizer without weights"
                };
                self.warnings.push(format!("{}: this is {what}, which can't be served", first.found.rel));
            }
            _ => {
                let group = build(at, set, parts, errors.clone());
                // Errors of the whole set are added to those of its files.
                errors.clone_from(&group.errors);
                self.groups.push(group);
            }
        }
        let refused = damaged == 0 && !errors.is_empty() && set.parts == 0;
        let valid = if refused { 0 } else { readable };
        self.validation.valid_files = self.validation.valid_files.saturating_add(valid);
        self.validation.invalid_files =
            self.validation.invalid_files.saturating_add(parts.len().saturating_sub(valid));
        self.validation.errors.extend(errors);
    }
}

/// Builds a model of one or more parts.
fn build(at: &str, set: &Set<'_>, parts: &[Part<'_>], mut errors: Vec<String>) -> GgufGroup {
    let damaged = !errors.is_empty();
    let missing = missing(set, parts, &mut errors);
    let headers: Vec<&GgufHeader> = parts.iter().filter_map(|it| it.header.as_deref().ok()).collect();
    let first = parts.first().filter(|it| it.number <= 1);
    let header = first.and_then(|it| it.header.as_deref().ok());
    let size_bytes = parts.iter().fold(0_u64, |sum, it| sum.saturating_add(it.found.len));

    let mut concerns = Vec::new();
    let whole = !damaged && !missing;
    if whole && let Some(header) = header {
        check_set(set, parts, header, &mut errors);
        check_model(header, &headers, set, &mut errors, &mut concerns);
    }
    let status = match (missing, errors.is_empty()) {
        _ if damaged => Status::Invalid,
        (true, _) => Status::Incomplete,
        (false, true) => Status::Ready,
        (false, false) => Status::Invalid,
    };
    // Warnings name the set that they are about.
    let label = parts.first().map_or("", |it| it.found.rel.as_str());
    let warnings = concerns.iter().map(|it| format!("{label}: {it}")).collect();
    let unread = |it: &Part<'_>| {
        matches!(
            it.header,
            Err(GgufError::Io(_) | GgufError::HeaderTooLarge { .. } | GgufError::TooMany { .. })
        )
    };
    let quant_type = header
        .and_then(|it| it.quantization(label))
        .or_else(|| gguf::quantization_in_name(&without_part(label)))
        .unwrap_or_else(|| "unknown".to_owned());
    let sum = |of: fn(&GgufHeader) -> u64| headers.iter().fold(0_u64, |sum, it| sum.saturating_add(of(it)));
    let known_types = headers.iter().all(|it| it.unknown_type().is_none());
    GgufGroup {
        metadata: header.map(|it| metadata(it, quant_type.clone())),
        quant_type,
        files: parts.iter().map(|it| it.found.rel.clone()).collect(),
        total_size_mb: mib(size_bytes),
        is_multipart: set.parts > 1,
        status,
        path: parts.first().map_or_else(String::new, |it| join(at, &it.found.rel)),
        size_bytes,
        expected_parts: set.parts.max(1),
        tensor_bytes: (whole && known_types).then(|| sum(GgufHeader::tensor_bytes)),
        parameter_count: whole.then(|| sum(GgufHeader::parameter_count)),
        task: header.map_or(TaskHint::Generate, GgufHeader::task),
        chat_template: header.is_some_and(GgufHeader::has_chat_template),
        tokenizer: header.is_some_and(GgufHeader::has_tokenizer),
        errors,
        warnings,
        concerns,
        unread: parts.iter().any(unread),
    }
}

/// Returns the name of a part without its number, so that `-00001-of-00002` does not hide the quantisation.
fn without_part(rel: &str) -> String {
    let (set, _) = split_name(rel);
    if set.parts > 0 { format!("{}.gguf", set.prefix) } else { rel.to_owned() }
}

/// Adds an error if parts are missing. Returns whether they are.
fn missing(set: &Set<'_>, parts: &[Part<'_>], errors: &mut Vec<String>) -> bool {
    let absent = || (1..=set.parts).filter(|number| parts.iter().all(|it| it.number != *number));
    let count = absent().count();
    if count == 0 {
        return false;
    }
    let named: Vec<String> =
        absent().take(NAMED).map(|it| format!("{}-{it:05}-of-{:05}.gguf", set.prefix, set.parts)).collect();
    let more = count.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    errors.push(format!("{}{more}: missing; the download is incomplete", named.join(", ")));
    true
}

/// Checks a set whose files are sound and complete, and adds errors.
fn check_set(set: &Set<'_>, parts: &[Part<'_>], first: &GgufHeader, errors: &mut Vec<String>) {
    let inside = first.split();
    if set.parts <= 1 {
        if let Some((number, count)) = inside {
            errors.push(format!(
                "it is part {} of {count} of a split model but not named so; restore its name (…-00001-of-{count:05}.gguf)",
                number.saturating_add(1)
            ));
        }
        return;
    }
    for part in parts {
        let rel = &part.found.rel;
        if part.number == 0 || part.number > set.parts {
            errors.push(format!("{rel}: there is no part {} of {}", part.number, set.parts));
        }
        let split = part.header.as_deref().ok().and_then(GgufHeader::split);
        match split {
            Some((number, count)) if count == set.parts && number.checked_add(1) == Some(part.number) => {}
            Some((number, count)) => errors.push(format!(
                "{rel}: inside it says part {} of {count}; it was renamed or belongs to another model",
                number.saturating_add(1)
            )),
            None => errors.push(format!("{rel}: inside it is not part of a split model (no `split.count`)")),
        }
    }
    let twice = parts.iter().zip(parts.iter().skip(1)).find(|(a, b)| a.number == b.number);
    if let Some((a, b)) = twice {
        errors.push(format!("{} and {}: the same part twice", a.found.rel, b.found.rel));
    }
    let tensors = parts
        .iter()
        .filter_map(|it| it.header.as_deref().ok())
        .map(|it| it.tensors.len() as u64)
        .sum::<u64>();
    if let Some(promised) = first.split_tensor_count().filter(|it| *it != tensors) {
        errors.push(format!("its parts hold {tensors} tensors, the first one promises {promised}"));
    }
}

/// Adds what llama-server refuses (errors) or may refuse (warnings) although the files are sound.
fn check_model(
    header: &GgufHeader,
    all: &[&GgufHeader],
    set: &Set<'_>,
    errors: &mut Vec<String>,
    concerns: &mut Vec<Concern>,
) {
    let file = |text: &str| {
        let prefix = set.prefix;
        if set.parts > 0 {
            format!("{prefix}-00001-of-{:05}.gguf: {text}", set.parts)
        } else {
            format!("{prefix}: {text}")
        }
    };
    if header.version == 1 {
        errors.push(file("GGUF version 1 is not loaded by any current engine; convert it again"));
    }
    let Some(architecture) = header.architecture() else {
        errors.push(file("it does not say its architecture (`general.architecture`)"));
        return;
    };
    if !header.has_tokenizer() {
        errors.push(file("it has no tokenizer (`tokenizer.ggml.model`); the engine can't load it"));
    }
    if header.block_count().is_none() {
        errors.push(file("it does not say how many layers it has (`block_count`)"));
    }
    if !known::llamacpp_knows(architecture) {
        let text = format!(
            "llama.cpp b{LLAMACPP_LISTED} does not know the architecture `{}`; it starts only in a newer engine",
            clip(architecture)
        );
        concerns.push(Concern::new(About::Architecture, text));
    }
    let tensors = all.iter().flat_map(|it| &it.tensors);
    let missing = gguf::missing_block_tensors(architecture, header.block_count().unwrap_or(0), tensors);
    if !missing.is_empty() {
        // A model with pruned layers has a separate number of heads for each layer.
        let pruned = matches!(header.head_count(), Some(PerLayer::Each(_)));
        let vital = !pruned && missing.iter().any(|it| gguf::is_vital(it));
        let text = format!("tensors that the other layers have are missing: {}", missing.join(", "));
        if vital {
            errors.push(file(&text));
        } else {
            concerns.push(Concern::new(About::Tensors, text));
        }
    }
    if let Some(tensor) = all.iter().find_map(|it| it.unknown_type()) {
        let text = format!(
            "tensor `{}` has the unknown {}; a newer engine may know it",
            tensor.name, tensor.ggml_type
        );
        concerns.push(text.into());
    }
    if header.task() == TaskHint::Generate && !header.has_chat_template() {
        // llama.cpp `common/chat.cpp`, `common_chat_templates_init`.
        let text = "no chat template; llama.cpp takes ChatML unless one is set, which the model may not know";
        concerns.push(Concern::new(About::ChatTemplate, text));
    }
}

fn metadata(header: &GgufHeader, file_type: String) -> GgufMetadata {
    let largest = |it: Option<PerLayer>| it.as_ref().map(PerLayer::max);
    GgufMetadata {
        architecture: header.architecture().map(clip),
        context_length: header.context_length(),
        embedding_length: header.embedding_length(),
        block_count: header.block_count(),
        attention_head_count: largest(header.head_count()),
        attention_head_count_kv: largest(header.head_count_kv()),
        vocab_size: header.vocab_size(),
        file_type,
        name: header.name().map(clip),
        gguf_version: header.version,
        sliding_window: header.sliding_window(),
        expert_count: header.expert_count(),
        expert_used_count: header.expert_used_count(),
        pooling_type: header.pooling_type(),
    }
}
