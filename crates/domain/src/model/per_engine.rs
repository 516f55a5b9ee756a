//! One value for each engine.

use std::ops::Index;

use super::EngineKind;

/// One value for each engine, looked up by [`EngineKind`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerEngine<T> {
    pub vllm: T,
    pub llamacpp: T,
}

impl<T> PerEngine<T> {
    /// Makes the value of each engine.
    pub fn of(mut make: impl FnMut(EngineKind) -> T) -> Self {
        Self { vllm: make(EngineKind::Vllm), llamacpp: make(EngineKind::Llamacpp) }
    }

    /// Makes another value of each engine's.
    pub fn map<U>(self, mut change: impl FnMut(EngineKind, T) -> U) -> PerEngine<U> {
        PerEngine {
            vllm: change(EngineKind::Vllm, self.vllm),
            llamacpp: change(EngineKind::Llamacpp, self.llamacpp),
        }
    }

    /// Returns each engine with its value, in the order of [`EngineKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (EngineKind, &T)> {
        EngineKind::ALL.into_iter().map(|it| (it, &self[it]))
    }

    /// Returns the values in the order of [`EngineKind::ALL`].
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }
}

impl<T> Index<EngineKind> for PerEngine<T> {
    type Output = T;

    fn index(&self, engine: EngineKind) -> &T {
        match engine {
            EngineKind::Vllm => &self.vllm,
            EngineKind::Llamacpp => &self.llamacpp,
        }
    }
}
