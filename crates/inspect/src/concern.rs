//! Warnings about a model whose files are sound.

use std::{fmt, ops::Deref};

/// A warning, and its subject: whether it matters to an engine may depend on the engine's version and on the model's
/// settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    pub about: About,
    pub text: String,
}

/// The subject of a [`Concern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The architecture is not on the list of those that the engines know. The list is that of llama.cpp
    /// [`LLAMACPP_LISTED`] and vLLM 0.32.
    Architecture,
    /// The weights were quantised in a way that vLLM does not load.
    Quantization,
    /// Some layers lack tensors that an engine may do without.
    Tensors,
    Tokenizer {
        /// Whether no file looks like a tokenizer.
        vital: bool,
    },
    ChatTemplate,
    Other,
}

/// Build of llama-server from which the list of architectures was taken.
pub const LLAMACPP_LISTED: u32 = 11_434;

impl Concern {
    pub(crate) fn new(about: About, text: impl Into<String>) -> Self {
        Self { about, text: text.into() }
    }
}

impl From<String> for Concern {
    fn from(text: String) -> Self {
        Self::new(About::Other, text)
    }
}

impl Deref for Concern {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
