//! Tensors that several files of a checkpoint have.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::safetensors::{Entry as Tensor, Totals};

/// What a file has of tensors that a file before it has, too. Engines load such a tensor once.
#[derive(Default)]
pub(super) struct Again {
    pub(super) by_dtype: BTreeMap<&'static str, Totals>,
    pub(super) parameters: u64,
}

impl Again {
    pub(super) fn add(&mut self, tensor: &Tensor<'_>, parameters: Option<u64>) {
        let sum = self.by_dtype.entry(tensor.dtype).or_default();
        sum.tensors = sum.tensors.saturating_add(1);
        sum.elements = sum.elements.saturating_add(tensor.elements);
        sum.bytes = sum.bytes.saturating_add(tensor.bytes);
        self.parameters = self.parameters.saturating_add(parameters.unwrap_or(0));
    }
}

/// Returns a hash of a tensor's name.
pub(super) fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
