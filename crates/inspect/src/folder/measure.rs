//! Reads the facts that a model's memory depends on from its files: all tensors of all parts, and the hyper-parameters.

use std::{collections::BTreeMap, sync::Arc};

use gantry_domain::memory::{Hyper, ModelFacts, PerLayer, Recurrent, SlidingWindow, Tensor, Unknown};

use super::{
    groups::{SET_BYTES, gguf_header},
    has_extension,
    parts::split_name,
};
use crate::{
    TaskHint,
    base::Base,
    gguf::{GgufHeader, GgufKind},
    hf::{self, AttentionKind, HfConfig, HfFolder},
    known,
};

/// Memory for the names of one checkpoint's tensors, in bytes. The largest checkpoints have some 100,000 tensors.
const NAMES_BYTES: usize = 24 << 20;
/// Memory for each name's other data, in bytes.
const ENTRY_BYTES: usize = 48;
/// Architectures in which only some layers have the window. Older files don't say which: the architecture decides.
const MIXED: &[&str] = &[
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gemma3n",
    "gemma3n_text",
    "gpt_oss",
    "cohere2",
    "exaone4",
    "llama4",
    "llama4_text",
    "olmo3",
];

/// Architectures whose compressed entries vLLM 0.32 caches (`vllm/transformers_utils/model_arch_config_convertor.py`,
/// `is_deepseek_mla`). For others with a `kv_lora_rank` (`MiniCPM` 3) it caches the heads.
const LATENT: &[&str] = &[
    "axk1",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "deepseek_mtp",
    "dots3_note",
    "k3_dspark",
    "glm5_next",
    "glm5_next_text",
    "glm_moe_dsa",
    "glm4_moe_lite",
    "glm4_moe_lite_mtp",
    "kimi_k2",
    "kimi_linear",
    "longcat_flash",
    "pangu_ultra_moe",
    "pangu_ultra_moe_mtp",
    "bailing_hybrid",
    "bailing_hybrid_mtp",
    "bailing_hybrid_v3_mtp",
    "hy_v4",
    "hy_v4_mtp",
];

/// The precision in which an engine keeps weights that are not quantised. GGUF weights stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// 2 bytes each, also of `F32` files: vLLM's `--dtype auto` makes them 16 bits wide (`vllm/config/model.py`,
    /// `_resolve_auto_dtype`).
    #[default]
    Half,
    /// 4 bytes each.
    Single,
}

/// The facts of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    pub facts: ModelFacts,
    /// Bytes of the tensors by their type in the files, as in `Q4_K` or `BF16`.
    pub by_type: BTreeMap<String, u64>,
}

/// Reads the headers of the model at `rel` below `base`: a `.gguf` file with the other parts of its set, or a folder
/// with a `config.json` and safetensors.
///
/// # Errors
/// Says why its memory can't be known.
pub fn measure(base: &Base, rel: &str, precision: Precision) -> Result<Measured, Unknown> {
    let path = base.resolve(rel).map_err(|error| Unknown::because(error.to_string()))?;
    if !path.is_dir() {
        return of_headers(&gguf_headers(base, rel)?);
    }
    let mut tensors = Tensors { precision, ..Tensors::default() };
    let folder = hf::read_in_with(base, &path, &mut |it| tensors.add(it));
    checkpoint(&folder, tensors)
}

/// Returns the bytes of the tensors of the GGUF file at `rel` below `base`, including the other parts of its set;
/// `None` if they can't be read.
pub fn weight_of(base: &Base, rel: &str) -> Option<u64> {
    let headers = gguf_headers(base, rel).ok()?;
    let sum = headers.iter().fold(0_u64, |sum, it| sum.saturating_add(it.tensor_bytes()));
    headers.iter().all(|it| it.unknown_type().is_none()).then_some(sum)
}

/// Returns the headers of all parts, the first part first.
fn gguf_headers(base: &Base, rel: &str) -> Result<Vec<Arc<GgufHeader>>, Unknown> {
    if !has_extension(rel, "gguf") {
        return Err(Unknown::because(format!("`{rel}` is neither a folder nor a `.gguf` file")));
    }
    let (set, number) = split_name(rel);
    let names: Vec<String> = match set.parts {
        0 => vec![rel.to_owned()],
        _ if number != 1 => {
            return Err(Unknown::because(format!("`{rel}` is part {number}; name the first part")));
        }
        // A file's name may claim any number of parts; reading stops at the first part that is missing.
        parts => (1..=parts).map(|it| format!("{}-{it:05}-of-{parts:05}.gguf", set.prefix)).collect(),
    };
    let (mut headers, mut kept) = (Vec::<Arc<GgufHeader>>::new(), 0_usize);
    for name in &names {
        if kept > SET_BYTES || base.is_spent() {
            return Err(Unknown::because("the headers of its parts are too large"));
        }
        let unreadable = |error: String| Unknown::because(format!("{name}: {error}"));
        let path = base.resolve(name).map_err(|error| unreadable(error.to_string()))?;
        let header = gguf_header(base, &path).map_err(|error| unreadable(error.to_string()))?;
        kept = kept.saturating_add(header.kept_bytes);
        headers.push(header);
    }
    Ok(headers)
}

/// Measures a model from `headers`, which are those of all its parts, the first part first.
fn of_headers(headers: &[Arc<GgufHeader>]) -> Result<Measured, Unknown> {
    let first = headers.first().ok_or_else(|| Unknown::because("there is no file"))?;
    if first.kind() != GgufKind::Model {
        return Err(Unknown::because("the file is not a model that can be served"));
    }
    let promised = first.split_tensor_count();
    let found: u64 = headers.iter().map(|it| it.tensors.len() as u64).sum();
    if promised.is_some_and(|it| it != found) {
        return Err(Unknown::because("its parts don't hold the tensors that the first one promises"));
    }
    if let Some(tensor) = headers.iter().find_map(|it| it.unknown_type()) {
        return Err(Unknown::because(format!(
            "tensor `{}` has the unknown {}",
            tensor.name, tensor.ggml_type
        )));
    }
    let mut by_type = BTreeMap::<String, u64>::new();
    let all = || headers.iter().flat_map(|it| &it.tensors);
    for tensor in all() {
        let sum = by_type.entry(tensor.ggml_type.to_string()).or_default();
        *sum = sum.saturating_add(tensor.bytes.unwrap_or(0));
    }
    let tensors =
        all().map(|it| Tensor { name: &it.name, n_elements: it.elements, bytes: it.bytes.unwrap_or(0) });
    let facts = ModelFacts { quantized: true, ..ModelFacts::new(&gguf_hyper(first), tensors)? };
    Ok(Measured { facts, by_type })
}

/// Reads the hyper-parameters. Keys: llama.cpp `src/llama-arch.cpp` (`LLM_KV_NAMES`), b11434.
fn gguf_hyper(header: &GgufHeader) -> Hyper {
    let architecture = header.architecture().unwrap_or_default();
    let size = |key: &str| header.arch_u64(key).unwrap_or(0);
    // For files from before April 2025, and for architectures that were never changed, llama.cpp caches the heads
    // (`src/llama-hparams.cpp`, `is_mla`; seen with b11434).
    let latent = header.mla().filter(|it| it.key_length > Some(0) && it.value_length > Some(0));
    Hyper {
        architecture: architecture.to_owned(),
        n_layer: header.block_count(),
        n_embd: header.embedding_length(),
        n_head: header.head_count(),
        n_head_kv: header.head_count_kv(),
        key_length: header.key_length(),
        value_length: header.value_length(),
        swa_lengths: header.swa_lengths(),
        n_ff: header.feed_forward_length(),
        n_ff_expert: header.arch_u64("expert_feed_forward_length"),
        n_expert: header.expert_count(),
        n_expert_used: header.expert_used_count(),
        n_vocab: header.vocab_size(),
        context_train: header.context_length(),
        sliding_window: header
            .sliding_window()
            .map(|window| SlidingWindow { window, pattern: header.sliding_window_pattern() }),
        shared_kv_layers: header.arch_u64("attention.shared_kv_layers"),
        kv_lora_rank: latent.map(|it| it.kv_lora_rank),
        rope_dim: header.rope_dimension_count(),
        recurrent: header.arch_u64("ssm.inner_size").map(|d_inner| Recurrent {
            d_conv: size("ssm.conv_kernel"),
            d_inner,
            d_state: size("ssm.state_size"),
            n_group: size("ssm.group_count"),
        }),
        recurrent_layers: None,
        encoder: !header.causal() || known::is_gguf_encoder(architecture),
        pooled: header.pooling_type().is_some_and(|it| it > 0),
    }
}

/// Collects the tensors of a checkpoint while they stream by.
#[derive(Default)]
struct Tensors {
    precision: Precision,
    all: Vec<NamedTensor>,
    kept: usize,
    by_type: BTreeMap<String, u64>,
}

/// A tensor of a safetensors file, as far as it decides the memory.
struct NamedTensor {
    name: Box<str>,
    dtype: &'static str,
    elements: u64,
    bytes: u64,
}

impl Tensors {
    fn add(&mut self, tensor: &crate::safetensors::Entry<'_>) {
        self.kept = self.kept.saturating_add(tensor.name.len()).saturating_add(ENTRY_BYTES);
        if self.kept > NAMES_BYTES {
            return;
        }
        let sum = self.by_type.entry(tensor.dtype.to_owned()).or_default();
        *sum = sum.saturating_add(tensor.bytes);
        self.all.push(NamedTensor {
            name: tensor.name.into(),
            dtype: tensor.dtype,
            elements: tensor.elements,
            bytes: tensor.bytes,
        });
    }

    /// Returns the bytes of a tensor once it is loaded.
    fn loaded(&self, tensor: &NamedTensor, quantized: bool) -> u64 {
        let width = match (tensor.dtype, self.precision) {
            _ if quantized => return tensor.bytes,
            ("F16" | "BF16" | "F32" | "F64", Precision::Half) => 2,
            ("F16" | "BF16" | "F32" | "F64", Precision::Single) => 4,
            _ => return tensor.bytes,
        };
        tensor.elements.saturating_mul(width)
    }
}

fn checkpoint(folder: &HfFolder, tensors: Tensors) -> Result<Measured, Unknown> {
    let Some(config) = &folder.config else {
        let why = folder.errors.first().cloned();
        return Err(Unknown::because(why.unwrap_or_else(|| "there is no config.json".to_owned())));
    };
    if folder.weights.files.is_empty() && folder.weights.missing.is_empty() {
        return Err(Unknown::because("there are no safetensors files, whose headers say the sizes"));
    }
    if !folder.weights.sound {
        let why = folder.errors.first().cloned();
        return Err(Unknown::because(why.unwrap_or_else(|| "its weight files are damaged".to_owned())));
    }
    if tensors.kept > NAMES_BYTES {
        return Err(Unknown::because("it has too many tensors"));
    }
    if config.encoder_decoder {
        return Err(Unknown::because("memory of a model with encoder and decoder is unknown"));
    }
    let quantized = folder.quantization.is_some();
    let loaded = tensors.all.iter().map(|it| Tensor {
        name: &it.name,
        n_elements: it.elements,
        bytes: tensors.loaded(it, quantized),
    });
    let facts = ModelFacts { quantized, ..ModelFacts::new(&hf_hyper(config, folder.task), loaded)? };
    Ok(Measured { facts, by_type: tensors.by_type })
}

fn hf_hyper(config: &HfConfig, task: Option<TaskHint>) -> Hyper {
    let kind = config.model_type.clone().or_else(|| config.architecture.clone()).unwrap_or_default();
    let text_kind = config.text_model_type.as_deref().unwrap_or(&kind);
    let latent = config.kv_lora_rank.filter(|_| LATENT.contains(&text_kind));
    // Without compressed entries every head caches a key, and a value that is padded to the same size.
    let whole = config.kv_lora_rank.filter(|_| latent.is_none()).and(
        config
            .qk_nope_head_dim
            .zip(config.qk_rope_head_dim)
            .map(|(plain, rotary)| plain.saturating_add(rotary)),
    );
    let head_size = whole.or(config.head_dim);
    let flags = |wanted: AttentionKind| {
        let each: Vec<u64> = config.attention.iter().map(|it| u64::from(*it == wanted)).collect();
        each.contains(&1).then_some(PerLayer::Each(each))
    };
    let all_sliding = config.attention.iter().all(|it| *it == AttentionKind::Sliding);
    let pattern = flags(AttentionKind::Sliding).filter(|_| !(all_sliding && MIXED.contains(&kind.as_str())));
    let window = config.sliding_window.filter(|_| config.attention.contains(&AttentionKind::Sliding));
    let all = |it: u64| PerLayer::All(it);
    Hyper {
        n_layer: config.num_layers,
        n_embd: config.hidden_size,
        n_head: config.num_attention_heads.map(all),
        n_head_kv: match whole {
            Some(_) => config.num_attention_heads.map(all),
            None => config.num_key_value_heads.clone(),
        },
        key_length: head_size,
        value_length: head_size,
        swa_lengths: None,
        n_ff: config.intermediate_size.map(all),
        n_ff_expert: config.moe_intermediate_size,
        n_expert: config.num_experts,
        n_expert_used: config.num_experts_per_token,
        n_vocab: config.vocab_size,
        context_train: config.context_length,
        sliding_window: window.map(|window| SlidingWindow { window, pattern }),
        shared_kv_layers: config.num_kv_shared_layers,
        kv_lora_rank: latent,
        rope_dim: config.qk_rope_head_dim,
        // The sizes of a recurrent layer have other names in every family, so they stay unknown rather than guessed.
        recurrent: None,
        recurrent_layers: flags(AttentionKind::Recurrent),
        // This covers BERT, RoBERTa, ModernBERT, …
        encoder: kind.contains("bert"),
        pooled: task.is_some_and(|it| it != TaskHint::Generate),
        architecture: kind,
    }
}
