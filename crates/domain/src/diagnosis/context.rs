//! What is known of a model when a signature has matched.

use crate::model::{EngineKind, ModelConfig};

/// A matched signature's captures and settings, from which values to try are made.
pub(super) struct MatchContext<'a> {
    pub engine: EngineKind,
    pub config: &'a ModelConfig,
    pub captures: Vec<(&'static str, &'a str)>,
    /// The field that the current advice is about.
    pub field: Option<&'static str>,
}
