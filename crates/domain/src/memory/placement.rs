//! Computes where llama.cpp puts each layer.

use super::GpuMemory;

/// Returns the GPU of each of the `n_layer` layers (`None`: RAM) and, as the last entry, that of the output.
///
/// Follows llama.cpp `src/llama-model.cpp` (`load_tensors`, builds of 2026): with `ngl` the output is placed first,
/// then the last `ngl - 1` layers; layers are distributed by cumulative share. Builds of 2025 place the output last,
/// which differs only for `ngl` up to the number of layers.
pub(super) fn place(n_layer: usize, ngl: u64, split: &[f64], gpus: &[GpuMemory]) -> Vec<Option<usize>> {
    let slots = n_layer + 1;
    let offloaded = usize::try_from(ngl).unwrap_or(usize::MAX).min(slots);
    let shares: Vec<f64> = (0..gpus.len())
        .map(|at| {
            if split.iter().any(|it| *it > 0.0) {
                split.get(at).copied().filter(|it| it.is_finite() && *it > 0.0).unwrap_or(0.0)
            } else {
                gpus[at].free as f64
            }
        })
        .collect();
    let total: f64 = shares.iter().sum();
    let start = slots - offloaded;
    (0..slots)
        .map(|layer| {
            if layer < start || gpus.is_empty() {
                return None;
            }
            if total <= 0.0 {
                return Some(0);
            }
            let position = (layer - start) as f64 / offloaded.max(1) as f64;
            let mut reached = 0.0;
            let found = shares.iter().position(|share| {
                reached += share / total;
                position < reached
            });
            Some(found.unwrap_or(gpus.len() - 1))
        })
        .collect()
}
