//! Describes fields in words: types and defaults in readable form, and the field that a wrong name probably meant.

use super::{Default, Field, Kind, all};
use crate::{model::EngineKind, spelling};

impl Kind {
    /// Describes type and bounds; values stand in backticks.
    pub fn words(self) -> String {
        match self {
            Self::Bool => "boolean".to_owned(),
            Self::Int { min, max } => format!("integer {min}–{max}"),
            Self::IntOneOf(allowed) => allowed.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
            Self::Float { min, max } => format!("number {min}–{max}"),
            Self::Text { max } => format!("text, at most {max} characters"),
            Self::OneOf(allowed) => allowed.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "),
            Self::Lines { max } => format!("text, at most {max} characters, may have several lines"),
            Self::Repo => "repository of the hub".to_owned(),
            Self::Path => "path below the base directory".to_owned(),
            Self::ModelPath => "path below the base directory, or below `/models/`".to_owned(),
            Self::RepoOrPath => "repository of the hub, or path below `/models/`".to_owned(),
            Self::NamedPaths { max } => format!("array of at most {max} texts `name=path`"),
            Self::IntList { min, max } => format!("array of different integers {min}–{max}"),
            Self::TextList { max } => format!("array of at most {max} texts"),
            Self::TextMap => "object of texts".to_owned(),
            Self::Object => "object".to_owned(),
        }
    }
}

impl Default {
    /// Returns the value as text; `None` if the engine decides.
    pub fn text(self) -> Option<String> {
        match self {
            Self::Engine => None,
            Self::Bool(it) => Some(it.to_string()),
            Self::Int(it) => Some(it.to_string()),
            Self::Float(it) => Some(it.to_string()),
            Self::Text(it) => Some(it.to_owned()),
        }
    }
}

impl Field {
    /// Returns every engine option that the field may become, such as `--ctx-size`.
    pub fn options(&self) -> Vec<&'static str> {
        let in_words = self.becomes.split(['`', ' ', ',']).filter(|it| it.starts_with("--"));
        let mut options: Vec<_> = self.emit.flags().into_iter().chain(in_words).collect();
        options.sort_unstable();
        options.dedup();
        options
    }
}

/// Returns the field of `engine` that an unknown name probably meant: the name may be an option of the engine
/// (`ctx_size`, `--ctx-size`) or a typing error.
pub fn meant(name: &str, engine: EngineKind) -> Option<&'static str> {
    let plain = |text: &str| text.trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    let given = plain(name);
    let rows = || all().filter(|it| it.applies_to(engine));
    let by_option = rows().find(|it| it.options().iter().any(|option| plain(option) == given));
    by_option.map(|it| it.name).or_else(|| spelling::nearest(&given, rows().map(|it| it.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_own_names_lead_to_fields() {
        for (engine, name, field) in [
            (EngineKind::Llamacpp, "ctx_size", Some("context_size")),
            (EngineKind::Llamacpp, "--n-gpu-layers", Some("ngl")),
            (EngineKind::Llamacpp, "contxt_size", Some("context_size")),
            (EngineKind::Llamacpp, "n_gpu_layers", Some("ngl")),
            (EngineKind::Llamacpp, "max_model_len", None),
            (EngineKind::Vllm, "max_model_length", Some("max_model_len")),
            (EngineKind::Vllm, "temperature", None),
        ] {
            assert_eq!(meant(name, engine), field, "{name}");
        }
    }
}
