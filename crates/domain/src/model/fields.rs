//! The model-field table: name, type, bounds, default, engine and help of every field of a model record.
//!
//! Validation, the engine's command line, the generated reference and the forms are all made from this table. The rows
//! come from the specification's field tables and decisions §7; the flags of each engine version come from the engines'
//! own releases.

mod common;
mod llamacpp;
mod vllm;
mod words;

/// Builds of llama-server in which the meaning of a field changed.
pub(crate) mod llamacpp_builds {
    pub(crate) use super::llamacpp::{
        FIT, FLASH_ATTN_VALUE, JINJA_DEFAULT, LOAD_MODE, MMPROJ, OPTIONS, SPEC_TYPE,
    };
}

use serde_json::Value;

pub use self::words::meant;
use crate::model::{EngineKind, Task};

/// Type and bounds of a field's JSON value. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number within bounds.
    Int { min: i64, max: i64 },
    /// One of these numbers.
    IntOneOf(&'static [i64]),
    /// A number within bounds.
    Float { min: f64, max: f64 },
    /// Text of at most `max` characters.
    Text { max: usize },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Text of at most `max` characters that may have several lines (`\n`, `\t`).
    Lines { max: usize },
    /// A model-hub repository: `owner/name` or `name`, for llama.cpp with `:quantisation`.
    Repo,
    /// A file or folder below the models base directory, relative to it.
    Path,
    /// A path as in `Path`, or as the container sees it: below `/models/`.
    ModelPath,
    /// A model-hub repository, or a path as the container sees it: below `/models/`.
    RepoOrPath,
    /// Array of `name=path`, paths as in `Path`.
    NamedPaths { max: usize },
    /// Array of whole numbers without repetition.
    IntList { min: i64, max: i64 },
    /// Array of texts.
    TextList { max: usize },
    /// Object of text values: environment variables.
    TextMap,
    /// Parameters of requests: a JSON object without [`NOT_DEFAULTS`](crate::model::check::NOT_DEFAULTS).
    Object,
}

/// The default that the specification names or that the gateway applies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// The engine decides.
    Engine,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'static str),
}

impl Default {
    /// Returns the value as a record shows it; `None` if the engine decides.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Engine => None,
            Self::Bool(it) => Some(it.into()),
            Self::Int(it) => Some(it.into()),
            Self::Float(it) => Some(it.into()),
            Self::Text(it) => Some(it.into()),
        }
    }

    /// Whether `word`, a word of a command line, means the same value.
    pub fn is(self, word: &str) -> bool {
        match self {
            Self::Engine => false,
            Self::Bool(it) => word.parse() == Ok(it),
            Self::Int(it) => word.parse() == Ok(it as f64),
            Self::Float(it) => word.parse() == Ok(it),
            Self::Text(it) => word == it,
        }
    }
}

/// What the engine does if the option is not given, compared with the default of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// There is nothing to compare: the field has no default, or only the gateway itself uses it.
    Nothing,
    /// The engine does the same.
    Same,
    /// The engine does the same, and the option is not sent for a value that equals it, because some versions and
    /// models refuse the option.
    LeftOut,
    /// The engine does something else, which the text describes.
    Other(&'static str),
}

/// A value with which a model is faster or can do more than with the default of the specification.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuned {
    pub value: Default,
    /// The gain and the cost.
    pub why: &'static str,
    /// The same in German.
    pub why_de: &'static str,
    /// The value helps only models for this task; `None`: all models.
    pub task: Option<Task>,
}

/// The lowest role that may change a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// Admins and owners.
    Admin,
    /// Only an owner may set it, because it gives power over the host: which image runs, with which arguments, with
    /// whose code.
    Owner,
}

/// How a field is written as arguments of the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Emit {
    /// The field has no argument of its own: the engine's module combines it with other fields.
    Special,
    /// `--flag value`.
    Flag(&'static str),
    /// `--flag` if true; if false the second flag, if there is one.
    Switch(&'static str, Option<&'static str>),
    /// Comma-separated text as `--flag a b c`.
    Words(&'static str),
    /// `--flag value`. It is left out at 0, which means that the feature is off.
    Positive(&'static str),
    /// `--flag value`, where some values exist only in some versions, as `(value, from, before)`.
    Choice(&'static str, &'static [(&'static str, Version, Version)]),
    /// Different forms for different versions, as `(from, before, how)`. A version outside all ranges does not support
    /// the field.
    Since(&'static [(Version, Version, Emit)]),
}

impl Emit {
    /// Returns every flag that this may become in any version.
    pub fn flags(self) -> Vec<&'static str> {
        match self {
            Self::Special => Vec::new(),
            Self::Flag(flag) | Self::Words(flag) | Self::Positive(flag) | Self::Choice(flag, _) => vec![flag],
            Self::Switch(on, off) => std::iter::once(on).chain(off).collect(),
            Self::Since(ways) => ways.iter().flat_map(|it| it.2.flags()).collect(),
        }
    }
}

/// A version of an engine: `0.32.0` of vLLM is `[0, 32, 0]`, build `b11434` of llama.cpp is `[11434, 0, 0]`.
pub type Version = [u32; 3];
/// A version lower than every real version.
pub const V_FIRST: Version = [0, 0, 0];
/// A version higher than every real version.
pub const V_LAST: Version = [u32::MAX, 0, 0];

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    pub name: &'static str,
    /// `None`: both engines have it.
    pub engine: Option<EngineKind>,
    pub kind: Kind,
    pub default: Default,
    /// The default applies only to models with this task; `None`: to all.
    pub default_task: Option<Task>,
    /// How the default compares with what the engine does if the option is not given.
    pub own: Own,
    /// What to set it to for more speed or room; see [`crate::model::tuned`].
    pub tuned: Option<Tuned>,
    /// Unit of the value, for forms and docs.
    pub unit: Option<&'static str>,
    /// Heading under which forms and docs show it.
    pub group: &'static str,
    pub set_by: SetBy,
    pub emit: Emit,
    pub help: &'static str,
    /// The help in German, which pages show in place of the English one.
    pub help_de: &'static str,
    /// What the field becomes, in words, if `emit` does not say it.
    pub becomes: &'static str,
    /// Example values for a text whose legal values only the engine defines. Every engine version that the table
    /// describes accepts them, unless `emit` says otherwise.
    pub examples: &'static [&'static str],
}

impl Field {
    const fn new(
        name: &'static str,
        group: &'static str,
        kind: Kind,
        emit: Emit,
        help: &'static str,
        help_de: &'static str,
    ) -> Self {
        Self {
            name,
            engine: None,
            kind,
            default: Default::Engine,
            default_task: None,
            own: Own::Nothing,
            tuned: None,
            unit: None,
            group,
            set_by: SetBy::Admin,
            emit,
            help,
            help_de,
            becomes: "",
            examples: &[],
        }
    }

    const fn of(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    const fn default(mut self, default: Default) -> Self {
        self.default = default;
        self
    }

    const fn default_to_generate(mut self, default: Default) -> Self {
        self.default = default;
        self.default_task = Some(Task::Generate);
        self
    }

    const fn own(mut self, own: Own) -> Self {
        self.own = own;
        self
    }

    const fn tuned(mut self, value: Default, why: &'static str, why_de: &'static str) -> Self {
        self.tuned = Some(Tuned { value, why, why_de, task: None });
        self
    }

    /// Sets a tuned value that only helps models that generate text.
    const fn tuned_to_generate(mut self, value: Default, why: &'static str, why_de: &'static str) -> Self {
        self.tuned = Some(Tuned { value, why, why_de, task: Some(Task::Generate) });
        self
    }

    const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    const fn becomes(mut self, words: &'static str) -> Self {
        self.becomes = words;
        self
    }

    const fn examples(mut self, examples: &'static [&'static str]) -> Self {
        self.examples = examples;
        self
    }

    const fn owner(mut self) -> Self {
        self.set_by = SetBy::Owner;
        self
    }

    /// Returns the value that a record with this task shows if the field is not set; `None`: no value.
    pub fn default_for(&self, task: Task) -> Option<Value> {
        self.default.value().filter(|_| self.default_task.is_none_or(|it| it == task))
    }

    /// Returns whether models of this engine have the field.
    pub fn applies_to(&self, engine: EngineKind) -> bool {
        self.engine.is_none_or(|it| it == engine)
    }
}

/// Returns every row: the common ones, then vLLM's, then llama.cpp's.
pub fn all() -> impl Iterator<Item = &'static Field> {
    common::FIELDS.iter().chain(vllm::FIELDS).chain(llamacpp::FIELDS)
}

/// Returns the row of `name` that applies to `engine`, else the row of another engine.
pub fn find(name: &str, engine: EngineKind) -> Option<&'static Field> {
    let mut rows = all().filter(|row| row.name == name);
    let first = rows.next()?;
    if first.applies_to(engine) {
        Some(first)
    } else {
        Some(rows.find(|it| it.applies_to(engine)).unwrap_or(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_specification_is_there() {
        let wanted = "mode repo_id local_path engine_image startup_timeout_sec tokenizer hub_config_path dtype \
            tensor_parallel_size pipeline_parallel_size gpu_memory_utilization max_model_len max_num_seqs \
            max_num_batched_tokens kv_cache_dtype kv_cache_memory_bytes block_size enforce_eager cuda_graph_sizes \
            cpu_offload_gb swap_space_gb enable_prefix_caching prefix_caching_hash_algo enable_chunked_prefill \
            quantization trust_remote_code gguf_weight_format context_size ngl batch_size threads tensor_split \
            flash_attn mlock no_mmap load_mode numa rope_freq_base rope_freq_scale cache_type_k cache_type_v \
            n_cpu_moe override_tensor fit_memory draft_model_path draft_n draft_p_min";
        for name in wanted.split_whitespace() {
            assert!(all().any(|row| row.name == name), "{name} is missing");
        }
    }

    #[test]
    fn every_row_says_what_it_becomes() {
        for row in all() {
            assert_eq!(row.emit == Emit::Special, !row.becomes.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn german_help_has_the_code_and_the_numbers_of_the_english_one() {
        let sorted = |mut it: Vec<&'static str>| {
            it.sort_unstable();
            it
        };
        let code = |text: &'static str| sorted(text.split('`').skip(1).step_by(2).collect());
        let numbers = |text: &'static str| {
            let parts = text.split(|it: char| !it.is_ascii_digit());
            sorted(parts.filter(|it| !it.is_empty()).collect())
        };
        let tuned = all().filter_map(|row| row.tuned).map(|it| (it.why, it.why_de));
        for (en, de) in all().map(|row| (row.help, row.help_de)).chain(tuned) {
            assert_eq!(code(en), code(de), "{en}: {de}");
            assert_eq!(numbers(en), numbers(de), "{en}: {de}");
            assert_ne!(en, de);
        }
    }

    #[test]
    fn every_default_of_an_engine_is_compared_with_its_own() {
        for row in all().filter(|it| it.engine.is_some()) {
            assert_eq!(row.default == Default::Engine, row.own == Own::Nothing, "{}", row.name);
            // A value that the engine uses anyway needs no tuning.
            assert!(row.tuned.is_none() || matches!(row.own, Own::Other(_)), "{}", row.name);
            assert!(row.tuned.is_none_or(|it| it.value != row.default), "{}", row.name);
        }
    }

    #[test]
    fn no_name_stands_twice_for_one_engine() {
        for engine in EngineKind::ALL {
            let mut names: Vec<_> = all().filter(|it| it.applies_to(engine)).map(|it| it.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
