//! Settings with which an engine exits as soon as it is started.

use super::{Command, LlamacppCommand, ModelFacts};

/// A setting with which the engine exits as soon as it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the field in the field table.
    pub field: &'static str,
    /// A sentence for an operator.
    pub message: String,
}

impl Command {
    /// Returns the reasons why the engine will not serve the model with these facts.
    pub fn refusals(&self, facts: &ModelFacts) -> Vec<Refusal> {
        match self {
            Self::Llamacpp(it) => it.refusals(facts),
            Self::Vllm(_) => Vec::new(),
        }
    }
}

impl LlamacppCommand {
    /// Applies the rules of llama.cpp `src/llama-context.cpp`, `llama_init_from_model`; seen with b11434, also with
    /// encoders.
    fn refusals(&self, facts: &ModelFacts) -> Vec<Refusal> {
        let settings = &self.settings;
        let mut refusals = Vec::new();
        if settings.flash_attn == Some(false) {
            if settings.cache_type_v.is_quantized() {
                let message =
                    "a quantised V cache needs flash attention: llama-server will not start".to_owned();
                refusals.push(Refusal { field: "cache_type_v", message });
            }
            // Without flash attention the sizes of the heads don't matter.
            return refusals;
        }
        let plain = || facts.layers.iter().filter(|it| it.latent.is_none());
        let sizes = [
            (
                "cache_type_k",
                settings.cache_type_k,
                plain().map(|it| it.key_length).find(|it| it % BLOCK != 0),
            ),
            (
                "cache_type_v",
                settings.cache_type_v,
                plain().map(|it| it.value_length).find(|it| it % BLOCK != 0),
            ),
        ];
        for (field, kind, size) in sizes {
            if let Some(size) = size.filter(|_| kind.is_quantized()) {
                let message = format!(
                    "a quantised cache has blocks of {BLOCK} elements, and a head of this model has {size}: \
                     llama-server will not start with flash attention"
                );
                refusals.push(Refusal { field, message });
            }
        }
        refusals
    }
}

/// Elements of one block, which is the same for every quantised type of cache.
const BLOCK: u64 = 32;
