//! Groups GGUF files into models.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use super::{
    parts::{self, Member, Part, Set, split_name, without_part},
    response::{GgufGroup, GgufMetadata, GgufValidation, SideFile, Status, mib},
    walk::FoundFile,
};
use crate::{
    About, Concern, LLAMACPP_LISTED, TaskHint,
    base::{Base, Opened},
    clip,
    gguf::{self, GgufError, GgufHeader, GgufKind, PerLayer},
    known,
};

/// Most GGUF files that are read in one inspection.
const MAX_READ: usize = 2_000;
/// Memory for the headers of one set, in bytes. Once it is used up, no further part is read. With the largest header on
/// top, an inspection stays below 64 MiB.
pub(super) const SET_BYTES: usize = 16 << 20;

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

/// Reads `files`, which lie below the folder `at`, and groups them. With `only`, it reads just the set that contains
/// this path (as [`FoundFile::rel`]).
pub(super) fn group(base: &Base, at: &str, files: &[FoundFile], only: Option<&str>) -> Grouped {
    let mut sets: BTreeMap<Set<'_>, Vec<Member<'_>>> = BTreeMap::new();
    for file in files {
        let (set, number) = split_name(&file.rel);
        sets.entry(set).or_default().push(Member { number, file });
    }
    if let Some(only) = only {
        sets.retain(|_, members| members.iter().any(|it| it.file.rel == only));
    }
    let mut read: BTreeMap<usize, Grouped> = BTreeMap::new();
    let mut skipped = Skipped::default();
    let mut left = MAX_READ;
    for Turn { place, set, mut members, .. } in shared_out(sets) {
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
        members.sort_by_key(|it| it.number);
        for Member { number, file } in members {
            let header = if kept > SET_BYTES {
                Err(GgufError::HeaderTooLarge { limit: SET_BYTES as u64 })
            } else {
                gguf_header(base, &file.path)
            };
            kept = kept.saturating_add(header.as_ref().map_or(0, |it| it.kept_bytes));
            parts.push(Part { file, number, header });
        }
        read.entry(place).or_default().add(at, &set, &parts);
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

/// A set, and when it is read.
struct Turn<'a> {
    /// Number among the sets of its folder.
    round: usize,
    /// Number among all sets, by name.
    place: usize,
    set: Set<'a>,
    members: Vec<Member<'a>>,
}

/// Returns the sets in an order in which folders take turns. So a folder with thousands of files leaves other folders a
/// part of what may be read.
fn shared_out<'a>(sets: BTreeMap<Set<'a>, Vec<Member<'a>>>) -> Vec<Turn<'a>> {
    let mut turns: BTreeMap<&str, usize> = BTreeMap::new();
    let mut order: Vec<Turn<'a>> = Vec::new();
    for (place, (set, members)) in sets.into_iter().enumerate() {
        let folder = members.first().map_or("", |it| it.file.folder());
        let turn = turns.entry(folder).or_default();
        *turn = turn.saturating_add(1);
        order.push(Turn { round: *turn, place, set, members });
    }
    order.sort_by_key(|it| (it.round, it.place));
    order
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
    fn add(&mut self, members: &[Member<'_>]) {
        if let (0, Some(first)) = (self.files, members.first()) {
            self.first.clone_from(&first.file.rel);
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
    let Opened { file, len, stamp } = base.open_file(path).map_err(GgufError::Io)?;
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
                Err(error) => errors.push(format!("{}: {error}", part.file.rel)),
            }
        }
        self.validation.total_files = self.validation.total_files.saturating_add(parts.len());
        let Some(first) = parts.first() else { return };
        let header = first.header.as_deref().ok();

        let kind = header.map_or(GgufKind::Model, GgufHeader::kind);
        // Encoders are recognised by their name, even if they are damaged.
        let kind = if first.file.name().to_ascii_lowercase().starts_with("mmproj") {
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
                        path: join(at, &first.file.rel),
                        size_bytes: first.file.len,
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
                self.warnings.push(format!("{}: this is {what}, which can't be served", first.file.rel));
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
    let missing = parts::missing(set, parts, &mut errors);
    let headers: Vec<&GgufHeader> = parts.iter().filter_map(|it| it.header.as_deref().ok()).collect();
    let first = parts.first().filter(|it| it.number <= 1);
    let header = first.and_then(|it| it.header.as_deref().ok());
    let size_bytes = parts.iter().fold(0_u64, |sum, it| sum.saturating_add(it.file.len));

    let mut concerns = Vec::new();
    let whole = !damaged && !missing;
    if whole && let Some(header) = header {
        parts::check_set(set, parts, header, &mut errors);
        check_model(header, &headers, set, &mut errors, &mut concerns);
    }
    let status = match (missing, errors.is_empty()) {
        _ if damaged => Status::Invalid,
        (true, _) => Status::Incomplete,
        (false, true) => Status::Ready,
        (false, false) => Status::Invalid,
    };
    // Warnings name the set that they are about.
    let label = parts.first().map_or("", |it| it.file.rel.as_str());
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
        files: parts.iter().map(|it| it.file.rel.clone()).collect(),
        total_size_mb: mib(size_bytes),
        is_multipart: set.parts > 1,
        status,
        path: parts.first().map_or_else(String::new, |it| join(at, &it.file.rel)),
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

/// Adds what llama-server refuses (errors) or may refuse (warnings) although the files are sound.
fn check_model(
    header: &GgufHeader,
    all: &[&GgufHeader],
    set: &Set<'_>,
    errors: &mut Vec<String>,
    concerns: &mut Vec<Concern>,
) {
    let file = |text: &str| format!("{}: {text}", set.first());
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
        let text = format!("tensors that the other layers have are missing: {}", missing.join(", "));
        // A model with pruned layers has a separate number of heads for each layer.
        let pruned = matches!(header.head_count(), Some(PerLayer::Each(_)));
        if !pruned && missing.iter().any(|it| gguf::is_vital(it)) {
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
