//! The memory-relevant facts of one model, computed from its tensor names, their sizes and the hyper-parameters.

use super::{Hyper, PerLayer, Recurrent, Unknown, sum};

/// Most layers that a model may have. Real models have fewer, but a header may claim anything.
const MAX_LAYERS: u64 = 2048;
/// Architectures whose memory follows other rules than this module's.
const OTHER_RULES: &[&str] = &[
    "clip",
    "t5",
    "t5encoder",
    "wavtokenizer-dec",
    "deepseek4",
    "deepseek_v4",
    "deepseek_v41",
    "dflash",
    "eagle3",
];

/// One tensor as a file lists it.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    pub name: &'a str,
    pub n_elements: u64,
    pub bytes: u64,
}

/// The weights of one layer and what it keeps in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties")]
pub struct Layer {
    /// All weights, in bytes.
    pub bytes: u64,
    /// The part of `bytes` that is experts, which `--n-cpu-moe` leaves in RAM.
    pub expert_bytes: u64,
    /// The part of `bytes` that llama.cpp converts to another layout for the CPU.
    pub repack_bytes: u64,
    pub n_head: u64,
    /// Heads of keys and values; 0: the layer caches none.
    pub n_head_kv: u64,
    pub key_length: u64,
    pub value_length: u64,
    /// Elements of the compressed entry with its rotary part, and without it. The layer caches this instead of keys and
    /// values.
    pub latent: Option<(u64, u64)>,
    /// The layer sees only the last [`ModelFacts::window`] tokens.
    pub sliding: bool,
    /// The layer reads the cache of an earlier layer and has none of its own.
    pub shares_cache: bool,
    /// The layer keeps a state of fixed size.
    pub recurrent: Option<Recurrent>,
    /// Elements between the projections of the dense part.
    pub n_ff: u64,
    /// Elements between the projections of one expert; 0 in a dense layer.
    pub n_ff_expert: u64,
    /// The layer has an `ffn_gate`.
    pub gated: bool,
    /// Queries and keys are normalised per head.
    pub qk_norm: bool,
}

impl Layer {
    /// Returns the elements of its state, per sequence.
    pub(super) fn state(&self) -> u64 {
        self.recurrent.map_or(0, |it| it.elements())
    }
}

/// Weights of GGUF files that are loaded beside the model, in bytes; 0 if there is no such file or nothing is known
/// about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// The encoder of images or sound (`--mmproj`).
    pub projector: u64,
    /// All `LoRA` adapters together.
    pub adapters: u64,
    /// The draft model.
    pub draft: u64,
}

/// Everything about a model that its memory depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    pub architecture: String,
    pub layers: Vec<Layer>,
    /// Input embeddings and what goes with them, in bytes; llama.cpp keeps them in RAM.
    pub input_bytes: u64,
    /// Output matrix and the norm before it, in bytes. If the matrix is tied to the token embedding, only the norm.
    pub output_bytes: u64,
    /// Size of the token embedding, in bytes, if it doubles as output matrix.
    pub tied_bytes: u64,
    /// The part of `output_bytes` that llama.cpp converts to another layout for the CPU.
    pub output_repack_bytes: u64,
    /// Size of all other tensors (vision tower and the like), in bytes.
    pub other_bytes: u64,
    pub n_embd: u64,
    pub n_vocab: u64,
    pub n_expert: u64,
    pub n_expert_used: u64,
    pub context_train: Option<u64>,
    /// Window of the layers that are `sliding`, in tokens.
    pub window: u64,
    pub encoder: bool,
    pub pooled: bool,
    /// Whether the files say how the weights were quantised. If not, an engine may quantise them while it loads them.
    pub quantized: bool,
    /// Files that are loaded with the model.
    pub beside: Beside,
    /// Assumptions that were made.
    pub notes: Vec<String>,
}

impl ModelFacts {
    /// Computes the facts from the tensors of all parts of a model. Names are those of GGUF (`blk.0.attn_q.weight`) or
    /// of hub checkpoints (`model.layers.0.self_attn.q_proj.weight`).
    ///
    /// # Errors
    /// Names the fact that is missing.
    pub fn new<'a>(hyper: &Hyper, tensors: impl IntoIterator<Item = Tensor<'a>>) -> Result<Self, Unknown> {
        let architecture = hyper.architecture.clone();
        if architecture.is_empty() {
            return Err(Unknown::because("the file names no architecture"));
        }
        if OTHER_RULES.contains(&architecture.as_str()) || architecture.starts_with("rwkv") {
            return Err(Unknown::because(format!("memory of the architecture `{architecture}` is unknown")));
        }
        let n_layer = known(hyper.n_layer, "the number of layers")?;
        if n_layer > MAX_LAYERS {
            return Err(Unknown::because(format!("the file claims {n_layer} layers")));
        }
        let mut facts = Self {
            architecture,
            layers: vec![Layer::default(); n_layer as usize],
            input_bytes: 0,
            output_bytes: 0,
            tied_bytes: 0,
            output_repack_bytes: 0,
            other_bytes: 0,
            n_embd: known(hyper.n_embd, "the embedding length")?,
            n_vocab: hyper.n_vocab.unwrap_or(0),
            n_expert: hyper.n_expert.unwrap_or(0),
            n_expert_used: hyper.n_expert_used.unwrap_or(0),
            context_train: hyper.context_train,
            window: hyper.sliding_window.as_ref().map_or(0, |it| it.window),
            encoder: hyper.encoder,
            pooled: hyper.pooled || hyper.encoder,
            quantized: false,
            beside: Beside::default(),
            notes: Vec::new(),
        };
        if facts.n_vocab == 0 && !facts.pooled {
            return Err(Unknown::because("the size of the vocabulary is unknown"));
        }
        let mut seen = vec![LayerSigns::default(); facts.layers.len()];
        facts.weigh(tensors, &mut seen);
        if sum([facts.input_bytes, sum(facts.layers.iter().map(|it| it.bytes))]) == 0 {
            return Err(Unknown::because("the sizes of the tensors are unknown"));
        }
        for (index, seen) in seen.into_iter().enumerate() {
            facts.shape(hyper, index, seen)?;
        }
        Ok(facts)
    }

    fn weigh<'a>(&mut self, tensors: impl IntoIterator<Item = Tensor<'a>>, seen: &mut [LayerSigns]) {
        let (mut embedding, mut has_output) = (0, false);
        for tensor in tensors {
            let Tensor { name, bytes, .. } = tensor;
            if let Some((index, rest)) = layer_of(name) {
                let Some((layer, seen)) = self.layers.get_mut(index).zip(seen.get_mut(index)) else {
                    // Layers for multi-token prediction follow the last ordinary layer.
                    self.other_bytes = self.other_bytes.saturating_add(bytes);
                    continue;
                };
                layer.bytes = layer.bytes.saturating_add(bytes);
                if rest.contains("_exps.") || rest.contains(".experts.") {
                    layer.expert_bytes = layer.expert_bytes.saturating_add(bytes);
                    seen.experts = true;
                }
                if repacked(&tensor) {
                    layer.repack_bytes = layer.repack_bytes.saturating_add(bytes);
                }
                seen.note(rest);
            } else if is_output(name) {
                has_output |= !name.contains("norm");
                self.output_bytes = self.output_bytes.saturating_add(bytes);
                if repacked(&tensor) {
                    self.output_repack_bytes = self.output_repack_bytes.saturating_add(bytes);
                }
            } else if is_input(name) {
                if name.starts_with("token_embd.") || name.ends_with("embed_tokens.weight") {
                    embedding = bytes;
                }
                self.input_bytes = self.input_bytes.saturating_add(bytes);
            } else {
                self.other_bytes = self.other_bytes.saturating_add(bytes);
            }
        }
        if !has_output && !self.pooled {
            self.tied_bytes = embedding;
        }
    }

    fn layers_with_cache(&self, hyper: &Hyper) -> u64 {
        (self.layers.len() as u64).saturating_sub(hyper.shared_kv_layers.unwrap_or(0))
    }

    fn shape(&mut self, hyper: &Hyper, index: usize, seen: LayerSigns) -> Result<(), Unknown> {
        let Some(layer) = self.layers.get_mut(index) else { return Ok(()) };
        layer.gated = seen.gate;
        layer.qk_norm = seen.qk_norm;
        layer.n_ff = hyper.n_ff.as_ref().and_then(|it| it.at(index)).unwrap_or(0);
        if seen.experts {
            layer.n_ff_expert = known(
                hyper.n_ff_expert.or((layer.n_ff > 0).then_some(layer.n_ff)),
                "the feed-forward length of an expert",
            )?;
            if !seen.dense {
                layer.n_ff = 0;
            }
        }
        let recurrent = seen.recurrent
            || hyper.recurrent_layers.as_ref().and_then(|it| it.at(index)).is_some_and(|it| it != 0);
        if recurrent {
            let state = hyper
                .recurrent
                .ok_or_else(|| Unknown::because("the file does not say the size of its recurrent state"))?;
            layer.recurrent = Some(state);
            if !seen.attention {
                return Ok(());
            }
        }
        self.shape_attention(hyper, index)
    }

    /// Fills in what layer `index` needs for attention: its heads, and what it caches for them.
    fn shape_attention(&mut self, hyper: &Hyper, index: usize) -> Result<(), Unknown> {
        let each = self.n_embd.checked_div(hyper.n_head.as_ref().map_or(0, PerLayer::max));
        let own = self.layers_with_cache(hyper);
        let Some(layer) = self.layers.get_mut(index) else { return Ok(()) };
        layer.n_head = known(hyper.n_head.as_ref().and_then(|it| it.at(index)), "the number of heads")?;
        layer.n_head_kv = match &hyper.n_head_kv {
            Some(all) => known(all.at(index), "the number of key and value heads of a layer")?,
            None => layer.n_head,
        };
        if layer.n_head_kv == 0 {
            return Ok(());
        }
        layer.shares_cache = index as u64 >= own;
        layer.key_length = known(hyper.key_length.or(each), "the size of a head")?;
        layer.value_length = known(hyper.value_length.or(each), "the size of a head")?;
        if let Some(rank) = hyper.kv_lora_rank.filter(|it| *it > 0 && !hyper.encoder) {
            let rotary = known(hyper.rope_dim, "the rotary part of its latent attention")?;
            layer.latent = Some((rank.saturating_add(rotary), rank));
            return Ok(());
        }
        if let Some(sliding) = &hyper.sliding_window
            && sliding.window > 0
        {
            let covered = sliding.covers(&hyper.architecture, index);
            if covered.is_none() && index == 0 {
                let note =
                    "which layers have the sliding window is unknown, so all count with the whole context";
                self.notes.push(note.to_owned());
            }
            layer.sliding = covered.unwrap_or(false);
            if let Some((key, value)) = hyper.swa_lengths.filter(|_| layer.sliding) {
                (layer.key_length, layer.value_length) = (key, value);
            }
        }
        Ok(())
    }
}

/// What the tensor names of one layer show.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent observations")]
struct LayerSigns {
    attention: bool,
    recurrent: bool,
    experts: bool,
    dense: bool,
    gate: bool,
    qk_norm: bool,
}

impl LayerSigns {
    fn note(&mut self, rest: &str) {
        self.recurrent |=
            ["ssm_", "mamba.", "linear_attn.", "shortconv."].iter().any(|it| rest.starts_with(it));
        // This matters only in layers with a state: those of Qwen3-Next have `attn_qkv` too, and keep no cache.
        self.attention |=
            ["attn_k.", "attn_kv_", "self_attn.", "attention."].iter().any(|it| rest.starts_with(it));
        self.gate |= rest.contains("ffn_gate.") || rest.contains("gate_proj");
        self.dense |=
            rest.starts_with("ffn_down.") || rest.contains("shexp") || rest.contains("shared_expert");
        self.qk_norm |= rest.starts_with("attn_q_norm.") || rest.contains(".q_norm.");
    }
}

fn known<T>(value: Option<T>, what: &str) -> Result<T, Unknown> {
    value.ok_or_else(|| Unknown::because(format!("the file does not say {what}")))
}

/// Returns the layer's number and the rest of the name.
fn layer_of(name: &str) -> Option<(usize, &str)> {
    let marks = ["blk.", "layers.", "layer.", "h.", "blocks."];
    // Towers for other media have layers of their own.
    let tower = |it: &str| matches!(it, "v" | "mm") || it.starts_with("vis") || it.starts_with("audio");
    if name.split('.').take(3).any(tower) {
        return None;
    }
    let rest = marks.iter().find_map(|mark| {
        let at = name.find(mark)?;
        (at == 0 || name[..at].ends_with('.')).then(|| &name[at + mark.len()..])
    })?;
    let (number, rest) = rest.split_once('.')?;
    Some((number.parse().ok()?, rest))
}

fn is_output(name: &str) -> bool {
    ["output.", "output_norm.", "cls.", "lm_head.", "score.", "classifier."]
        .iter()
        .any(|it| name.starts_with(it))
        || name == "model.norm.weight"
        || name.ends_with("language_model.norm.weight")
        || name.ends_with(".lm_head.weight")
}

fn is_input(name: &str) -> bool {
    ["token_embd", "token_types", "position_embd", "per_layer_token_embd"]
        .iter()
        .any(|it| name.starts_with(it))
        || name.contains("embed_tokens")
        || name.contains("embeddings.")
        || name.contains(".wte.")
}

/// Whether llama.cpp converts the tensor for the CPU: matrices with 4.5 bits per weight (`Q4_0`, `Q4_K`, `IQ4_NL`).
/// Measured for `Q4_0` on AVX2 only.
fn repacked(tensor: &Tensor<'_>) -> bool {
    tensor.n_elements > 0 && tensor.bytes.saturating_mul(16) == tensor.n_elements.saturating_mul(9)
}
