//! The numbers from a model's header or `config.json` that affect memory.

/// A number that may differ from layer to layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PerLayer {
    /// The same value for all layers.
    All(u64),
    /// One value for each layer.
    Each(Vec<u64>),
}

impl PerLayer {
    /// Returns the value of layer `index`; `None` beyond the list.
    pub fn at(&self, index: usize) -> Option<u64> {
        match self {
            Self::All(it) => Some(*it),
            Self::Each(all) => all.get(index).copied(),
        }
    }

    /// Returns the largest value of all layers.
    pub fn max(&self) -> u64 {
        match self {
            Self::All(it) => *it,
            Self::Each(all) => all.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Says which layers see only the last `window` tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Length of the window in tokens.
    pub window: u64,
    /// One entry per layer, 1 if the layer has the window; or a period `n`, in which the last layer sees everything (0:
    /// every layer has the window). `None`: the architecture decides.
    pub pattern: Option<PerLayer>,
}

impl SlidingWindow {
    /// Whether layer `index` has the window; `None` for an architecture that is not listed. Only the period of
    /// Gemma 3 was measured (b11434).
    pub(super) fn covers(&self, architecture: &str, index: usize) -> Option<bool> {
        let period = match &self.pattern {
            Some(PerLayer::Each(all)) => return all.get(index).map(|it| *it != 0),
            Some(PerLayer::All(period)) => *period,
            None => match architecture {
                "gemma2" | "gpt-oss" | "gpt_oss" => 2,
                "cohere2" | "llama4" | "exaone4" | "olmo2" => 4,
                "gemma3n" => 5,
                "gemma3" | "gemma3_text" | "gemma-embedding" => 6,
                // Files of these architectures carry the key, and the engines ignore it.
                "llama" | "qwen2" | "qwen3" | "qwen2moe" | "qwen3moe" | "phi3" => return Some(false),
                _ => return None,
            },
        };
        Some(period == 0 || (index as u64) % period < period.saturating_sub(1))
    }
}

/// The state that a recurrent layer keeps per sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recurrent {
    /// Steps of the convolution.
    pub d_conv: u64,
    pub d_inner: u64,
    pub d_state: u64,
    pub n_group: u64,
}

impl Recurrent {
    /// Returns the elements per sequence: those of the convolution and of the state. Measured for Mamba 2.
    pub(super) fn elements(&self) -> u64 {
        self.convolution().saturating_add(self.d_state.saturating_mul(self.d_inner))
    }

    pub(super) fn convolution(&self) -> u64 {
        self.d_conv.saturating_sub(1).saturating_mul(self.channels())
    }

    /// Returns the number of channels that the convolution runs over.
    pub(super) fn channels(&self) -> u64 {
        self.d_inner.saturating_add(self.n_group.saturating_mul(self.d_state).saturating_mul(2))
    }
}

/// Hyper-parameters as a file states them; `None` is "not stated".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hyper {
    /// `general.architecture`, or `model_type` of `config.json`.
    pub architecture: String,
    pub n_layer: Option<u64>,
    pub n_embd: Option<u64>,
    pub n_head: Option<PerLayer>,
    /// Heads of keys and values; as many as `n_head` unless stated.
    pub n_head_kv: Option<PerLayer>,
    /// Elements of a key head; `n_embd / n_head` unless stated.
    pub key_length: Option<u64>,
    pub value_length: Option<u64>,
    /// Key and value head sizes of layers with a sliding window, where they differ.
    pub swa_lengths: Option<(u64, u64)>,
    pub n_ff: Option<PerLayer>,
    /// Size of the feed-forward part of one expert; `n_ff` unless stated.
    pub n_ff_expert: Option<u64>,
    pub n_expert: Option<u64>,
    pub n_expert_used: Option<u64>,
    pub n_vocab: Option<u64>,
    /// Tokens that the model was trained for.
    pub context_train: Option<u64>,
    pub sliding_window: Option<SlidingWindow>,
    /// How many layers, counted from the last, use the cache of earlier ones (`attention.shared_kv_layers`,
    /// `num_kv_shared_layers`).
    pub shared_kv_layers: Option<u64>,
    /// Elements of a compressed entry, without its rotary part, in multi-head latent attention that caches such
    /// entries. `None` if the engine caches the heads all the same.
    pub kv_lora_rank: Option<u64>,
    /// Elements of the rotary part (`rope.dimension_count`, `qk_rope_head_dim`).
    pub rope_dim: Option<u64>,
    pub recurrent: Option<Recurrent>,
    /// Layers whose attention keeps no growing cache, for files whose tensor names don't show it (one entry per layer,
    /// 1 if recurrent).
    pub recurrent_layers: Option<PerLayer>,
    /// The model is an encoder: it keeps no cache and sees the whole input at once.
    pub encoder: bool,
    /// Vectors are pooled to one per input, so there are no logits.
    pub pooled: bool,
}
