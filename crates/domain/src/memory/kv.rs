//! The memory of cached keys and values.

use super::{Layer, ModelFacts, pad, product, sum};
use crate::words;

words! {
    /// Element types of llama.cpp's cache (`-ctk`, `-ctv`). Their layouts are those of ggml.
    #[derive(Default)]
    pub enum CacheType {
        /// Single precision, 4 bytes.
        F32 = "f32",
        /// Half precision, 2 bytes.
        #[default]
        F16 = "f16",
        /// Half precision with the exponent of single precision, 2 bytes.
        Bf16 = "bf16",
        /// Blocks of 8-bit integers.
        Q8_0 = "q8_0",
        /// Blocks of 5-bit integers with an offset.
        Q5_1 = "q5_1",
        /// Blocks of 5-bit integers.
        Q5_0 = "q5_0",
        /// Blocks of 4-bit integers with an offset.
        Q4_1 = "q4_1",
        /// Blocks of 4-bit integers.
        Q4_0 = "q4_0",
        /// Blocks of 4-bit indices into a table.
        Iq4Nl = "iq4_nl",
    }
}

impl CacheType {
    /// Returns the elements and the bytes of one block (ggml `type_traits`).
    fn block(self) -> (u64, u64) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q8_0 => (32, 34),
            Self::Q5_1 => (32, 24),
            Self::Q5_0 => (32, 22),
            Self::Q4_1 => (32, 20),
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
        }
    }

    /// Whether its elements come in blocks that share a scale.
    pub fn is_quantized(self) -> bool {
        self.block().0 > 1
    }

    pub(super) fn bytes(self, elements: u64) -> u64 {
        let (block, bytes) = self.block();
        elements.div_ceil(block).saturating_mul(bytes)
    }
}

/// How llama-server divides its context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cells {
    /// Cells in each layer that sees everything, all slots together.
    pub(super) all: u64,
    /// Cells in each layer with a sliding window, all slots together.
    pub(super) sliding: u64,
    /// Cells that one computation reads in a layer that sees everything; `seen_sliding` is the number in a layer with a
    /// window.
    pub(super) seen: u64,
    pub(super) seen_sliding: u64,
    pub(super) sequences: u64,
}

/// Follows `llama_context` and `llama_kv_cache_iswa` (llama.cpp `src/`): the cells of a sequence are padded to 256. A
/// window has `window × slots + ubatch` cells (`window + ubatch` per slot unless unified), at most the context.
pub(super) fn cells(facts: &ModelFacts, context: u64, slots: u64, unified: bool, ubatch: u64) -> Cells {
    let slots = slots.max(1);
    let streams = if unified { 1 } else { slots };
    let per_stream = pad(context.div_ceil(streams), 256);
    let window = facts.window.saturating_mul(if unified { slots } else { 1 }).saturating_add(ubatch);
    let sliding = pad(window.min(per_stream), 256);
    Cells {
        all: per_stream.saturating_mul(streams),
        sliding: sliding.saturating_mul(streams),
        seen: per_stream,
        seen_sliding: sliding,
        sequences: slots,
    }
}

/// Returns the bytes that one layer caches. Latent attention caches no values (llama.cpp `llama_kv_cache`:
/// `has_v = !is_mla`).
pub(super) fn layer_bytes(layer: &Layer, cells: &Cells, key: CacheType, value: CacheType) -> u64 {
    let state = product([layer.state(), cells.sequences, 4]);
    let count = if layer.sliding { cells.sliding } else { cells.all };
    if layer.shares_cache {
        return state;
    }
    let per_cell = match layer.latent {
        Some((latent, _)) => key.bytes(latent),
        None => sum([
            key.bytes(layer.n_head_kv.saturating_mul(layer.key_length)),
            value.bytes(layer.n_head_kv.saturating_mul(layer.value_length)),
        ]),
    };
    state.saturating_add(count.saturating_mul(per_cell))
}
