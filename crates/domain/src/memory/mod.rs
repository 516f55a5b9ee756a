//! Estimates how much memory a model needs under an engine: weights, KV cache and compute buffers, per GPU and in RAM.
//!
//! The module is pure arithmetic: its callers read the facts from the files. A value that can't be known is
//! [`Unknown`], never a guess. Formulas, their sources and a table of predicted and measured sizes:
//! `docs/memory-estimate.md`.

mod command;
mod doubt;
mod facts;
mod graph;
mod hyper;
mod kv;
mod llamacpp;
mod placement;
mod planner;
mod refusal;
mod remedy;
mod vllm;
mod words;

use std::fmt;

pub use command::{Command, LlamacppCommand, Room, VllmCommand};
pub use doubt::Doubt;
pub use facts::{Beside, Layer, ModelFacts, Tensor};
pub use hyper::{Hyper, PerLayer, Recurrent, SlidingWindow};
pub use kv::CacheType;
pub use llamacpp::{LlamacppSettings, Side, Slots, SplitMode, estimate_llamacpp};
pub use refusal::Refusal;
pub use remedy::{Number, Remedy, remedy};
pub use vllm::{VllmKvType, VllmSettings, estimate_vllm};

const MIB: u64 = 1 << 20;

/// Memory of one GPU, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuMemory {
    pub total: u64,
    /// Memory that other processes leave free. An estimate is compared with this, not with `total`.
    pub free: u64,
}

/// The memory that one GPU has to provide, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuShare {
    pub weights: u64,
    pub kv_cache: u64,
    pub compute: u64,
    /// Driver context and libraries: a constant, see `docs/memory-estimate.md`.
    pub overhead: u64,
}

impl GpuShare {
    /// Returns the sum of all parts.
    pub fn total(&self) -> u64 {
        sum([self.weights, self.kv_cache, self.compute, self.overhead])
    }
}

/// The memory that a model needs, in bytes. Each part is the sum over GPUs and RAM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Estimate {
    pub weights: u64,
    /// Keys and values of all slots, and the states of recurrent layers.
    pub kv_cache: u64,
    /// Scratch memory of the computation, and the buffer of its results.
    pub compute: u64,
    pub overhead: u64,
    /// The part of `total` that lies in RAM.
    pub host_ram: u64,
    pub total: u64,
    /// One entry for each GPU that was given, in the same order; zeros for a GPU that is not used.
    pub per_gpu: Vec<GpuShare>,
    /// Whether the model fits. `None`: the memory of the GPUs or the RAM is unknown, or the answer depends on what was
    /// left out (see [`Doubt`]).
    pub fits: Option<bool>,
    /// Free memory where the model goes: on its GPUs, or in RAM if it uses none. `None` if unknown.
    pub available: Option<u64>,
    /// Longest context, in tokens, with which the model fits if nothing else changes; at most what the model was
    /// trained for. `Some(0)`: no length fits. `None`: unknown, or the memory does not depend on the context.
    pub max_context_that_fits: Option<u64>,
    /// Layers that the engine keeps on GPUs, if it chooses that number itself and can't keep all of them there.
    pub layers_on_gpus: Option<u64>,
    /// Sentences for an operator: what was left out or assumed.
    pub notes: Vec<String>,
}

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    pub reason: String,
}

impl Unknown {
    /// Makes the value from a sentence for an operator.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unknown {}

/// Adds up without overflow: headers are untrusted, and a huge number must stay huge.
fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::saturating_add)
}

fn product<const N: usize>(values: [u64; N]) -> u64 {
    values.into_iter().fold(1, u64::saturating_mul)
}

/// Rounds up to a multiple of `unit`, which is at least 1.
fn pad(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit.max(1)).saturating_mul(unit)
}

/// Returns the largest multiple of `step` up to `most` for which `fits` holds, or 0 if there is none. Once `fits` is
/// false it must stay false for larger values.
fn largest(step: u64, most: u64, mut fits: impl FnMut(u64) -> bool) -> u64 {
    let step = step.max(1);
    let (mut good, mut bad) = (0, (most / step).saturating_add(1));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle.saturating_mul(step)) { good = middle } else { bad = middle }
    }
    good.saturating_mul(step)
}
