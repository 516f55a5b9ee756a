//! The values of a GGUF header, by meaning.
//!
//! Key names: llama.cpp `src/llama-arch.cpp` (`LLM_KV_NAMES`), defaults: `src/llama-model.cpp`
//! (`load_hparams`), both as of b11434.

use std::collections::BTreeMap;

use gantry_domain::memory::PerLayer;

use super::{TensorInfo, Value, name};
use crate::{TaskHint, known};

/// The header of one file that was read without an error.
#[derive(Debug, Clone)]
pub struct GgufHeader {
    /// Format version, 1 to 3. Engines refuse 1.
    pub version: u32,
    /// Every key, by name.
    pub metadata: BTreeMap<Box<str>, Value>,
    /// Tensors in the file's order.
    pub tensors: Vec<TensorInfo>,
    /// Alignment of tensors in the data section, in bytes.
    pub alignment: u64,
    /// Where tensor data starts, in bytes from the start of the file.
    pub data_start: u64,
    /// Size of the file in bytes.
    pub file_len: u64,
    /// Memory that this header takes, at most, in bytes.
    pub kept_bytes: usize,
}

/// What the file is; only [`GgufKind::Model`] can be served by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufKind {
    Model,
    /// A later part of a split model: it holds tensors, but no description.
    Part,
    /// The vision or audio encoder that goes beside a model.
    Mmproj,
    /// A `LoRA` adapter.
    Adapter,
    /// An importance matrix, which quantisers use.
    Imatrix,
    /// A tokenizer without weights.
    VocabOnly,
}

/// Multi-head latent attention: one compressed entry per token instead of a key and a value per head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mla {
    /// Elements of the compressed entry, without the rotary part.
    pub kv_lora_rank: u64,
    pub q_lora_rank: Option<u64>,
    /// Head sizes after decompression.
    pub key_length: Option<u64>,
    pub value_length: Option<u64>,
}

impl GgufHeader {
    /// Returns the metadata value with this key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Returns the metadata value with this key, if it is a text that was kept.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Returns `general.architecture`, which later parts of a split model don't have.
    pub fn architecture(&self) -> Option<&str> {
        self.text("general.architecture").filter(|it| !it.is_empty())
    }

    /// Returns the value of `<architecture>.<suffix>`.
    pub fn arch(&self, suffix: &str) -> Option<&Value> {
        let architecture = self.architecture()?;
        self.get(&format!("{architecture}.{suffix}"))
    }

    /// Returns the value as [`GgufHeader::arch`] does, if it is a whole number that is not negative.
    pub fn arch_u64(&self, suffix: &str) -> Option<u64> {
        self.arch(suffix)?.as_u64()
    }

    fn arch_per_layer(&self, suffix: &str) -> Option<PerLayer> {
        match self.arch(suffix)? {
            Value::Numbers(all) => {
                let each: Option<Vec<u64>> = all.iter().map(|it| it.as_u64()).collect();
                each.map(PerLayer::Each)
            }
            other => other.as_u64().map(PerLayer::All),
        }
    }

    /// Returns `general.name`: the model's name, for people.
    pub fn name(&self) -> Option<&str> {
        self.text("general.name")
    }

    /// Returns the context length that the model was trained for, in tokens.
    pub fn context_length(&self) -> Option<u64> {
        self.arch_u64("context_length")
    }

    /// Returns the number of elements of a token's embedding.
    pub fn embedding_length(&self) -> Option<u64> {
        self.arch_u64("embedding_length")
    }

    /// Returns the number of layers.
    pub fn block_count(&self) -> Option<u64> {
        self.arch_u64("block_count")
    }

    /// Returns the inner size of the feed-forward network, in elements.
    pub fn feed_forward_length(&self) -> Option<PerLayer> {
        self.arch_per_layer("feed_forward_length")
    }

    /// Returns the number of heads of queries.
    pub fn head_count(&self) -> Option<PerLayer> {
        self.arch_per_layer("attention.head_count")
    }

    /// Returns the number of heads of keys and values: the same as that of queries, unless the file states another one.
    pub fn head_count_kv(&self) -> Option<PerLayer> {
        self.arch_per_layer("attention.head_count_kv").or_else(|| self.head_count())
    }

    fn head_size(&self) -> Option<u64> {
        self.embedding_length()?.checked_div(self.head_count()?.max())
    }

    /// Returns the elements of one key head; unless stated, the embedding size divided by the number of heads.
    pub fn key_length(&self) -> Option<u64> {
        self.arch_u64("attention.key_length").or_else(|| self.head_size())
    }

    /// Returns the elements of one value head.
    pub fn value_length(&self) -> Option<u64> {
        self.arch_u64("attention.value_length").or_else(|| self.head_size())
    }

    /// Returns the sizes of key and value heads in layers with a sliding window, if they differ (Gemma 4).
    pub fn swa_lengths(&self) -> Option<(u64, u64)> {
        Some((self.arch_u64("attention.key_length_swa")?, self.arch_u64("attention.value_length_swa")?))
    }

    /// Returns how many tokens a layer with a sliding window sees; `None` if the file states none or 0.
    pub fn sliding_window(&self) -> Option<u64> {
        self.arch_u64("attention.sliding_window").filter(|it| *it > 0)
    }

    /// Returns which layers have the sliding window (1) and which see everything (0), or the period of a repeating
    /// pattern. `None`: the architecture decides, see llama.cpp `load_hparams`.
    pub fn sliding_window_pattern(&self) -> Option<PerLayer> {
        match self.arch("attention.sliding_window_pattern")? {
            Value::Numbers(all) => {
                Some(PerLayer::Each(all.iter().map(|it| u64::from(it.as_bool() == Some(true))).collect()))
            }
            other => other.as_u64().map(PerLayer::All),
        }
    }

    /// Returns the sizes of compressed attention entries; `None` if the model has none.
    pub fn mla(&self) -> Option<Mla> {
        Some(Mla {
            kv_lora_rank: self.arch_u64("attention.kv_lora_rank").filter(|it| *it > 0)?,
            q_lora_rank: self.arch_u64("attention.q_lora_rank"),
            key_length: self.arch_u64("attention.key_length_mla"),
            value_length: self.arch_u64("attention.value_length_mla"),
        })
    }

    /// Returns how many elements of a head are rotated by position.
    pub fn rope_dimension_count(&self) -> Option<u64> {
        self.arch_u64("rope.dimension_count")
    }

    /// Returns the base of the frequencies by which heads are rotated.
    pub fn rope_freq_base(&self) -> Option<f64> {
        self.arch("rope.freq_base")?.as_f64()
    }

    /// Returns the number of experts; `None` for a dense model.
    pub fn expert_count(&self) -> Option<u64> {
        self.arch_u64("expert_count").filter(|it| *it > 0)
    }

    /// Returns the number of experts that each token uses.
    pub fn expert_used_count(&self) -> Option<u64> {
        self.arch_u64("expert_used_count").filter(|it| *it > 0)
    }

    /// Returns `vocab_size`, else the tokenizer's length, else the number of rows of the embedding matrix.
    pub fn vocab_size(&self) -> Option<u64> {
        self.arch_u64("vocab_size").or_else(|| self.get("tokenizer.ggml.tokens")?.array_len()).or_else(|| {
            self.tensors.iter().find(|it| &*it.name == "token_embd.weight")?.dims().get(1).copied()
        })
    }

    /// Returns the pooling type: 0 none, 1 mean, 2 first token, 3 last token, 4 rank (llama.cpp `include/llama.h`,
    /// `llama_pooling_type`).
    pub fn pooling_type(&self) -> Option<u64> {
        self.arch_u64("pooling_type")
    }

    /// Whether a token sees only the tokens before it; `false` in encoders.
    pub fn causal(&self) -> bool {
        self.arch("attention.causal").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Whether the file holds a tokenizer. Engines can't start without one, except for models that have none
    /// by design and say `no_vocab` or `none`.
    pub fn has_tokenizer(&self) -> bool {
        match self.text("tokenizer.ggml.model") {
            None => false,
            Some("no_vocab" | "none") => true,
            Some(_) => self.get("tokenizer.ggml.tokens").is_some_and(|it| it.array_len().is_some()),
        }
    }

    /// Whether the file holds a chat template, default or named.
    pub fn has_chat_template(&self) -> bool {
        self.metadata.iter().any(|(key, value)| {
            key.starts_with("tokenizer.chat_template") && (value.is_text() || value.array_len() > Some(0))
        })
    }

    /// Returns the number of this part (from 0) and the number of parts, in a split model.
    pub fn split(&self) -> Option<(u64, u64)> {
        let count = self.get("split.count")?.as_u64().filter(|it| *it > 1)?;
        Some((self.get("split.no")?.as_u64()?, count))
    }

    /// Returns the number of tensors in all parts of a split model.
    pub fn split_tensor_count(&self) -> Option<u64> {
        self.get("split.tensors.count")?.as_u64()
    }

    /// Returns what the file is, as its type, its architecture and its tensors show.
    pub fn kind(&self) -> GgufKind {
        match (self.text("general.type"), self.architecture()) {
            (Some("mmproj"), _) | (_, Some("clip")) => GgufKind::Mmproj,
            (Some("adapter"), _) => GgufKind::Adapter,
            (Some("imatrix"), _) => GgufKind::Imatrix,
            // The first part of a split may hold no tensors at all.
            _ if self.split().is_some_and(|(number, _)| number > 0) => GgufKind::Part,
            _ if self.tensors.is_empty() && self.split().is_none() => GgufKind::VocabOnly,
            _ => GgufKind::Model,
        }
    }

    /// Returns the task, as the pooling and the architecture show.
    pub fn task(&self) -> TaskHint {
        match self.pooling_type() {
            Some(4) => TaskHint::Rerank,
            Some(1..=3) => TaskHint::Embed,
            _ if !self.causal() || self.architecture().is_some_and(known::is_gguf_encoder) => TaskHint::Embed,
            _ => TaskHint::Generate,
        }
    }

    /// Returns the name of the quantisation, as in `Q4_K_M`: from `general.file_type`, else from the file's name, else
    /// the type of most weights.
    pub fn quantization(&self, file_name: &str) -> Option<String> {
        let from_key = || name::file_type_name(self.get("general.file_type")?.as_u64()?).map(str::to_owned);
        from_key().or_else(|| name::quantization_in_name(file_name)).or_else(|| self.majority_type())
    }

    fn majority_type(&self) -> Option<String> {
        let mut bytes = BTreeMap::<_, u64>::new();
        for tensor in &self.tensors {
            let sum = bytes.entry(tensor.ggml_type).or_default();
            *sum = sum.saturating_add(tensor.bytes.unwrap_or(0));
        }
        bytes.into_iter().max_by_key(|(_, sum)| *sum).map(|(it, _)| it.to_string())
    }

    /// Returns the number of weights in this file.
    pub fn parameter_count(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, it| sum.saturating_add(it.elements))
    }

    /// Returns the bytes of the weights in this file, without padding. Tensors of unknown type count as 0:
    /// [`GgufHeader::unknown_type`] says whether there are any.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, it| sum.saturating_add(it.bytes.unwrap_or(0)))
    }

    /// Returns a tensor whose type is not in the table of [`super::GgmlType`], if there is one.
    pub fn unknown_type(&self) -> Option<&TensorInfo> {
        self.tensors.iter().find(|it| it.bytes.is_none())
    }
}
