//! What an estimate leaves out, and what that leaves of its verdict.

use super::{Command, Estimate, LlamacppCommand, ModelFacts};

/// What an estimate lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// More is needed than was counted: what does not fit does not fit all the same.
    More,
    /// Less is needed: what fits fits all the same.
    Less,
    /// It lies elsewhere, or nobody knows.
    Either,
}

impl Estimate {
    /// Says what was left out, and takes back what can't be said then.
    pub fn leave_out(&mut self, doubt: Doubt, what: &str) {
        self.notes.push(what.to_owned());
        self.max_context_that_fits = None;
        let open = match (doubt, self.fits) {
            (Doubt::More, Some(fits)) => fits,
            (Doubt::Less, Some(fits)) => !fits,
            (Doubt::Either, fits) => fits.is_some(),
            (_, None) => false,
        };
        if open {
            self.fits = None;
            self.notes.push("whether it fits is unknown for that reason".to_owned());
        }
    }
}

/// A setting with which the engine ends as soon as it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the field table.
    pub field: &'static str,
    /// A sentence for an operator.
    pub message: String,
}

impl Command {
    /// Why the engine will not serve the model with these facts.
    pub fn refusals(&self, facts: &ModelFacts) -> Vec<Refusal> {
        match self {
            Self::Llamacpp(it) => it.refusals(facts),
            Self::Vllm(_) => Vec::new(),
        }
    }
}

impl LlamacppCommand {
    /// llama.cpp `src/llama-context.cpp`, `llama_init_from_model`; seen with b11434, of encoders too.
    fn refusals(&self, facts: &ModelFacts) -> Vec<Refusal> {
        let settings = &self.settings;
        let mut refusals = Vec::new();
        if settings.flash_attn == Some(false) {
            if settings.cache_type_v.is_quantized() {
                let message =
                    "a quantised V cache needs flash attention: llama-server will not start".to_owned();
                refusals.push(Refusal { field: "cache_type_v", message });
            }
            // Then the sizes of heads don't matter.
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

/// Elements of a block of every quantised type of cache.
const BLOCK: u64 = 32;
