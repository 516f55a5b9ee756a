//! Reads the weight files of a checkpoint: which files there are, which are missing, and what they hold.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    io::Read,
    ops::ControlFlow,
    path::Path,
};

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};

use super::{
    Quantization,
    again::{Again, hash},
};
use crate::{
    LFS_POINTER,
    base::{Base, Entry, EntryKind, Opened},
    cache::Shard,
    json::{self, JsonError, Limits},
    safetensors::{self, Entry as Tensor, SafetensorsError, Totals},
};

const INDEX: &str = "model.safetensors.index.json";
/// Most files that an index may name.
const MAX_FILES: usize = 10_000;
/// Most header bytes that are parsed for one checkpoint. The largest checkpoints have some 50 MB in all their files.
const MAX_HEADERS: u64 = 1 << 30;
/// Memory for the cached data of one file: a few totals by type and some texts.
const SHARD_BYTES: usize = 1 << 10;
/// Most tensors whose names are compared with those of the other files. The largest checkpoints have some 150,000.
const MAX_COMPARED: usize = 400_000;
/// Most missing files that a message names.
const NAMED: usize = 5;

/// A file that is part of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightFile {
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

/// The facts about all weight files together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    /// `*.safetensors` that make up the model, without copies in other layouts.
    pub files: Vec<WeightFile>,
    /// Files that the index or the other files' names mention, but that are absent.
    pub missing: Vec<String>,
    /// `PyTorch` files (`pytorch_model*.bin`).
    pub pytorch: Vec<WeightFile>,
    /// Size of all tensors in bytes.
    pub tensor_bytes: u64,
    /// Number of weights; `None` if the quantisation hides it.
    pub parameter_count: Option<u64>,
    /// Totals by type, as in `BF16`.
    pub by_dtype: BTreeMap<&'static str, Totals>,
    /// Whether the headers of all files are sound and the files complete.
    pub sound: bool,
    /// Whether some of the errors only say that this gateway could not or would not read a file; an engine may still
    /// read it.
    pub unread: bool,
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Weights {
    /// Returns the size of all files in bytes.
    pub fn total_size(&self) -> u64 {
        self.files.iter().fold(0, |sum, it| sum.saturating_add(it.size))
    }

    /// Returns what is wrong with the files, as sentences that name the file.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }
}

/// Reads the weight files of the checkpoint in `folder`, which has these entries, and shows every tensor to `visit`.
/// `visit` sees no tensor of a cached header; a caller that needs the tensors must open the base without a cache.
pub(super) fn read(
    base: &Base,
    folder: &Path,
    entries: &[Entry],
    quantization: Option<&Quantization>,
    visit: &mut dyn FnMut(&Tensor<'_>),
) -> Weights {
    let mut weights = Weights { sound: true, ..Weights::default() };
    let files = |suffix: &'static str| {
        entries.iter().filter_map(move |it| match it.kind {
            EntryKind::File { len } if it.name.ends_with(suffix) => Some((it.name.as_str(), len)),
            _ => None,
        })
    };
    let present: BTreeMap<&str, u64> = files(".safetensors").collect();
    weights.pytorch = files(".bin")
        .filter(|it| it.0.starts_with("pytorch_model"))
        .map(|(name, size)| WeightFile { name: name.to_owned(), size })
        .collect();
    for outside in entries.iter().filter(|it| matches!(it.kind, EntryKind::Outside)) {
        weights.warnings.push(format!("{}: a link out of the models directory, not followed", outside.name));
    }
    let wanted = wanted(base, folder, &present, &mut weights);
    let mut reader = Reader {
        base,
        folder,
        quantization,
        visit,
        weights,
        parameters: Some(0),
        header_bytes: 0,
        warned: false,
        seen: HashSet::new(),
        again: None,
    };
    for name in wanted {
        match present.get(name.as_str()) {
            None => reader.weights.missing.push(name),
            Some(size) if reader.add(&name, *size).is_break() => break,
            Some(_) => {}
        }
    }
    reader.finish()
}

/// Reads one weight file after the other.
struct Reader<'a> {
    base: &'a Base,
    folder: &'a Path,
    quantization: Option<&'a Quantization>,
    visit: &'a mut dyn FnMut(&Tensor<'_>),
    /// What was read so far.
    weights: Weights,
    /// Number of weights so far; `None` once it is unknown.
    parameters: Option<u64>,
    /// Bytes of headers so far.
    header_bytes: u64,
    /// Whether it was said already that this look has used up its time or its bytes.
    warned: bool,
    /// Hashes of the names of the tensors so far.
    seen: HashSet<u64>,
    /// The first file with tensors that a file before it has, too, and the number of such tensors in all files.
    again: Option<(String, u64)>,
}

impl Reader<'_> {
    /// Adds a file that is there. After a break no further file is to be added.
    fn add(&mut self, name: &str, size: u64) -> ControlFlow<()> {
        let weights = &mut self.weights;
        weights.files.push(WeightFile { name: name.to_owned(), size });
        if self.base.is_spent() {
            if !std::mem::replace(&mut self.warned, true) {
                weights.warnings.push(format!(
                    "{name} and the weight files after it were not read: the headers before it are too large or the \
                     file system is slow"
                ));
            }
            weights.sound = false;
            return ControlFlow::Continue(());
        }
        if self.header_bytes > MAX_HEADERS {
            let read = self.header_bytes;
            self.unread(format!("{name}: not read, the files before it have {read} bytes of headers"));
            return ControlFlow::Break(());
        }
        let Some(opened) = self.base.file_in(self.folder, name) else {
            self.unread(format!("{name}: it can't be read"));
            return ControlFlow::Continue(());
        };
        match self.shard(opened) {
            Ok((shard, again)) => self.count(name, shard, &again),
            Err(error) => {
                self.weights.sound = false;
                self.weights.errors.push(format!("{name}: {error}"));
            }
        }
        ControlFlow::Continue(())
    }

    fn unread(&mut self, error: String) {
        (self.weights.sound, self.weights.unread) = (false, true);
        self.weights.errors.push(error);
    }

    /// Returns the header of one file, from the cache or by reading it, and what of it was there before.
    fn shard(&mut self, Opened { file, len, stamp }: Opened) -> Result<(Shard, Again), SafetensorsError> {
        let quantization = self.quantization;
        let key = (stamp, quantization.map(|it| (it.method.clone(), it.bits)));
        let cache = self.base.cache().map(|it| &it.shards);
        if let Some(shard) = cache.and_then(|it| it.get(&key))
            && !shard.names.iter().any(|it| self.seen.contains(it))
        {
            return Ok((shard, Again::default()));
        }
        let (mut parameters, mut names, mut again) = (Some(0_u64), Vec::new(), Again::default());
        let count = &mut |tensor: &Tensor<'_>| {
            let own = weights_of(tensor, quantization);
            parameters = parameters.and_then(|sum| sum.checked_add(own?));
            let name = hash(tensor.name);
            if names.len() < MAX_COMPARED {
                names.push(name);
            }
            if self.seen.contains(&name) {
                again.add(tensor, own);
            } else {
                (self.visit)(tensor);
            }
        };
        let header = safetensors::read_header_with(file, len, count)?;
        let shard = Shard { header, parameters, names: names.into() };
        if let Some(cache) = cache {
            cache.put(key, shard.clone(), SHARD_BYTES.saturating_add(size_of_val(&*shard.names)));
        }
        Ok((shard, again))
    }

    fn count(&mut self, name: &str, shard: Shard, again: &Again) {
        let Shard { header, parameters, names } = shard;
        let own = parameters.map(|it| it.saturating_sub(again.parameters));
        self.parameters = self.parameters.and_then(|sum| sum.checked_add(own?));
        self.header_bytes = self.header_bytes.saturating_add(header.header_bytes);
        let mut repeated = 0_u64;
        for (dtype, totals) in header.by_dtype {
            let before = again.by_dtype.get(dtype).copied().unwrap_or_default();
            repeated = repeated.saturating_add(before.tensors);
            if before == totals {
                continue;
            }
            let bytes = totals.bytes.saturating_sub(before.bytes);
            let sum = self.weights.by_dtype.entry(dtype).or_default();
            sum.tensors = sum.tensors.saturating_add(totals.tensors.saturating_sub(before.tensors));
            sum.elements = sum.elements.saturating_add(totals.elements.saturating_sub(before.elements));
            sum.bytes = sum.bytes.saturating_add(bytes);
            self.weights.tensor_bytes = self.weights.tensor_bytes.saturating_add(bytes);
        }
        if repeated > 0 {
            let (_, count) = self.again.get_or_insert_with(|| (name.to_owned(), 0));
            *count = count.saturating_add(repeated);
        }
        let room = MAX_COMPARED.saturating_sub(self.seen.len());
        self.seen.extend(names.iter().take(room));
    }

    fn finish(self) -> Weights {
        let mut weights = self.weights;
        if let Some((name, count)) = self.again {
            weights.warnings.push(format!(
                "{name}: tensors that a file before it has, too, are counted once ({count} in all files)"
            ));
        }
        if !weights.missing.is_empty() {
            weights.sound = false;
            let named = weights.missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
            let more = weights.missing.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            weights.errors.push(format!("{named}{more}: missing; the download is incomplete"));
        }
        weights.parameter_count = self.parameters.filter(|it| *it > 0 && weights.sound);
        weights
    }
}

/// Returns the files that make up the model: those that the index names, else all files of the sets that are there.
fn wanted(
    base: &Base,
    folder: &Path,
    present: &BTreeMap<&str, u64>,
    weights: &mut Weights,
) -> BTreeSet<String> {
    if let Some(opened) = base.file_in(folder, INDEX) {
        match json::read_with(opened.file, Limits::STREAMED, Index) {
            Ok(files) => return files,
            Err(error) => {
                weights.sound = false;
                weights.errors.push(format!("{INDEX}: {error}"));
            }
        }
    }
    // Mistral and Llama publish a second copy in their own layout.
    let copies = |name: &str| name.starts_with("consolidated");
    let only_copies = present.keys().all(|it| copies(it));
    let (mut wanted, mut sets) = (BTreeSet::new(), BTreeSet::new());
    for name in present.keys().filter(|it| only_copies || !copies(it)) {
        match shard(name) {
            // The names of a set's other files show which are missing, unless the number is absurd.
            Some(set) if sets.contains(&set) => {}
            Some((prefix, count)) if count as usize <= MAX_FILES => {
                sets.insert((prefix, count));
                wanted.extend((1..=count).map(|it| format!("{prefix}-{it:05}-of-{count:05}.safetensors")));
            }
            _ => {
                wanted.insert((*name).to_owned());
            }
        }
        if wanted.len() > MAX_FILES {
            weights.warnings.push(format!("only {MAX_FILES} weight files were looked at"));
            break;
        }
    }
    wanted
}

/// Returns the prefix and the number of files, for a name such as `model-00001-of-00004.safetensors`.
fn shard(name: &str) -> Option<(&str, u32)> {
    let (rest, count) = name.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let digits = |it: &str| if it.len() == 5 { it.parse::<u32>().ok() } else { None };
    let (number, count) = (digits(number)?, digits(count)?);
    (1..=count).contains(&number).then_some((prefix, count))
}

/// Ends of the names of tensors that belong to a quantised tensor and hold no weights themselves.
const BESIDE_WEIGHTS: &[&str] = &[
    "scales",
    "qzeros",
    "g_idx",
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "input_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
    "absmax",
    "quant_map",
    "nested_absmax",
    "nested_quant_map",
    "quant_state.bitsandbytes__nf4",
    "k_scale",
    "v_scale",
];

/// Returns the number of weights in one tensor; `None` if it can't be determined.
fn weights_of(tensor: &Tensor<'_>, quantization: Option<&Quantization>) -> Option<u64> {
    let Some(quantization) = quantization else { return Some(tensor.elements) };
    if BESIDE_WEIGHTS.iter().any(|it| tensor.name.ends_with(it)) {
        return Some(0);
    }
    let stored_bits = match tensor.dtype {
        "I32" | "U32" => 32,
        "U8" | "I8" => 8,
        _ => return Some(tensor.elements),
    };
    if !quantization.packs() {
        return Some(tensor.elements);
    }
    tensor.elements.checked_mul(stored_bits)?.checked_div(quantization.bits?)
}

pub(super) fn is_lfs_pointer(file: impl Read) -> bool {
    let mut start = Vec::new();
    file.take(LFS_POINTER.len() as u64).read_to_end(&mut start).is_ok() && start == LFS_POINTER
}

/// Reads `model.safetensors.index.json`: the distinct files of `weight_map`.
struct Index;

impl<'de> DeserializeSeed<'de> for Index {
    type Value = BTreeSet<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Index {
    type Value = BTreeSet<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `weight_map`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut files = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "weight_map" && files.is_none() {
                files = Some(map.next_value_seed(WeightMap)?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        files.ok_or_else(|| A::Error::missing_field("weight_map"))
    }
}

struct WeightMap;

impl<'de> DeserializeSeed<'de> for WeightMap {
    type Value = BTreeSet<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap {
    type Value = BTreeSet<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut files = BTreeSet::new();
        while let Some((_, file)) = map.next_entry::<IgnoredAny, String>()? {
            if files.contains(&file) {
                continue;
            }
            // The name must be that of a file beside the index, because it is looked up on disk.
            if file.is_empty()
                || file.len() > 255
                || file.contains(['/', '\\', '\0'])
                || file == ".."
                || file == "."
            {
                return Err(A::Error::custom("it names a file that is not beside it"));
            }
            if files.len() >= MAX_FILES {
                return Err(A::Error::custom("it names too many files"));
            }
            files.insert(file);
        }
        Ok(files)
    }
}

/// Reads a single index file and returns the distinct files that it names.
///
/// # Errors
/// The JSON is wrong.
pub fn read_index(reader: impl Read) -> Result<BTreeSet<String>, JsonError> {
    json::read_with(reader, Limits::STREAMED, Index)
}
