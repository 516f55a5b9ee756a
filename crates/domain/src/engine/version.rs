//! Which version of an engine an image holds, as far as its reference or label tells.

use std::fmt;

use crate::model::{EngineKind, fields::Version};

/// A version of one of the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineVersion {
    Known(EngineKind, Version),
    /// Treated as the newest that the field table describes.
    Unknown(EngineKind),
}

impl EngineVersion {
    /// Reads a tag or a label: `v0.32.0`, `0.10.2+cpu`, `server-cuda-b10731`, `b11434`.
    pub fn parse(engine: EngineKind, text: &str) -> Self {
        let found = match engine {
            EngineKind::Vllm => text.split(|it: char| !(it.is_ascii_digit() || it == '.')).find_map(triple),
            EngineKind::Llamacpp => text
                .split(|it: char| !it.is_ascii_alphanumeric())
                .find_map(|word| word.strip_prefix('b')?.parse().ok())
                .map(|build| [build, 0, 0]),
        };
        found.map_or(Self::Unknown(engine), |version| Self::Known(engine, version))
    }

    /// Reads the tag of an image reference; a digest says nothing.
    pub fn of_image(engine: EngineKind, reference: &str) -> Self {
        let name = reference.split('@').next().unwrap_or(reference);
        match name.rsplit('/').next().and_then(|last| last.split_once(':')) {
            Some((_, tag)) => Self::parse(engine, tag),
            None => Self::Unknown(engine),
        }
    }

    /// For comparisons with the field table.
    pub fn number(self) -> Version {
        match self {
            Self::Known(_, version) => version,
            Self::Unknown(EngineKind::Vllm) => [0, 32, 0],
            Self::Unknown(EngineKind::Llamacpp) => [11434, 0, 0],
        }
    }
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(EngineKind::Vllm, [major, minor, patch]) => write!(f, "{major}.{minor}.{patch}"),
            Self::Known(EngineKind::Llamacpp, [build, ..]) => write!(f, "b{build}"),
            Self::Unknown(_) => f.write_str("unknown"),
        }
    }
}

fn triple(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some([major, minor, parts.next().and_then(Result::ok).unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_both_engines_are_understood() {
        let of = |engine, reference| EngineVersion::of_image(engine, reference).to_string();
        assert_eq!(of(EngineKind::Vllm, "vllm/vllm-openai:v0.24.0-cu129"), "0.24.0");
        assert_eq!(of(EngineKind::Vllm, "registry:5000/vllm/vllm-openai:latest"), "unknown");
        assert_eq!(of(EngineKind::Vllm, "registry:5000/vllm"), "unknown");
        assert_eq!(of(EngineKind::Llamacpp, "ghcr.io/ggml-org/llama.cpp:server-cuda-b10731"), "b10731");
        assert_eq!(of(EngineKind::Llamacpp, "ghcr.io/ggml-org/llama.cpp:server"), "unknown");
        assert_eq!(of(EngineKind::Llamacpp, "x:b11434@sha256:00"), "b11434");
    }
}
