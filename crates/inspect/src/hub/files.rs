//! The files of a repository that was not fetched, as far as their names and sizes tell.

use std::collections::BTreeMap;

use gantry_domain::view;

use crate::{
    folder::{split_name, without_part},
    gguf::quantization_in_name,
};

/// Most files that are looked at.
const MAX_FILES: usize = 20_000;

view! {
    /// One file of a repository.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HubFile {
        pub path: String,
        /// `null` if the hub does not say.
        pub size_bytes: Option<u64>,
    }
}

view! {
    /// A model that llama.cpp can serve: one GGUF file, or all parts of one.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct HubGguf {
        /// The file, or its first part.
        pub path: String,
        pub parts: u64,
        /// The size of all parts; `null` if the hub does not say.
        pub size_bytes: Option<u64>,
        /// The quantisation, if the name tells it.
        pub quant_type: Option<String>,
        /// The `repo_id` of a model record that serves this one; `null` if llama.cpp can't be told it apart from another.
        pub repo_id: Option<String>,
    }
}

view! {
    /// The weight files of a repository.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct HubFiles {
        pub gguf: Vec<HubGguf>,
        pub safetensors: Vec<HubFile>,
        /// Encoders of pictures or sound for the GGUF files.
        pub projectors: Vec<HubFile>,
        pub(super) pytorch: bool => hidden,
    }
}

impl HubFiles {
    /// Sorts out the files of the repository `repo_id`.
    pub fn of(repo_id: &str, files: &[HubFile]) -> Self {
        let ends = |it: &HubFile, end: &str| it.path.to_ascii_lowercase().ends_with(end);
        let with = |end: &str| files.iter().take(MAX_FILES).filter(|it| ends(it, end)).cloned().collect();
        let ggufs: Vec<HubFile> = with(".gguf");
        let (projectors, models): (Vec<_>, Vec<_>) = ggufs.into_iter().partition(is_projector);
        Self {
            gguf: grouped(repo_id, &models),
            safetensors: with(".safetensors"),
            projectors,
            pytorch: files.iter().any(|it| it.path.starts_with("pytorch_model") && ends(it, ".bin")),
        }
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Projectors are recognised by their name, as llama.cpp does.
fn is_projector(file: &HubFile) -> bool {
    name_of(&file.path).to_ascii_lowercase().contains("mmproj")
}

/// Puts the parts of split files together.
fn grouped(repo_id: &str, files: &[HubFile]) -> Vec<HubGguf> {
    let mut sets = BTreeMap::new();
    for file in files {
        sets.entry(split_name(&file.path).0).or_insert_with(Vec::new).push(file);
    }
    let mut groups: Vec<HubGguf> = sets
        .into_values()
        .filter_map(|parts| {
            let first = parts.iter().map(|it| &it.path).min()?;
            Some(HubGguf {
                quant_type: quantization_in_name(name_of(&without_part(first))),
                parts: parts.len() as u64,
                size_bytes: parts.iter().map(|it| it.size_bytes).sum(),
                path: first.clone(),
                repo_id: None,
            })
        })
        .collect();
    // llama.cpp takes a file by its quantisation (`-hf owner/name:Q4_K_M`), or takes the only one.
    let quants: Vec<_> = groups.iter().map(|it| it.quant_type.clone()).collect();
    for group in &mut groups {
        group.repo_id = match &group.quant_type {
            Some(quant) if quants.iter().flatten().filter(|it| *it == quant).count() == 1 => {
                Some(format!("{repo_id}:{quant}"))
            }
            None if quants.len() == 1 => Some(repo_id.to_owned()),
            Some(_) | None => None,
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_model_and_each_has_the_name_by_which_llama_cpp_takes_it() {
        let file = |path: &str, size_bytes| HubFile { path: path.to_owned(), size_bytes };
        let found = HubFiles::of(
            "me/x",
            &[
                file("BF16/x-BF16-00002-of-00002.gguf", Some(5)),
                file("BF16/x-BF16-00001-of-00002.gguf", Some(7)),
                file("x-Q4_K_M.gguf", Some(3)),
                file("x-q8_0.gguf", None),
                file("other/x-Q8_0.gguf", Some(4)),
                file("mmproj-x-F16.gguf", Some(1)),
                file("README.md", Some(1)),
            ],
        );
        let shown: Vec<_> = found
            .gguf
            .iter()
            .map(|it| (it.path.as_str(), it.parts, it.size_bytes, it.repo_id.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("BF16/x-BF16-00001-of-00002.gguf", 2, Some(12), Some("me/x:BF16")),
                ("other/x-Q8_0.gguf", 1, Some(4), None),
                ("x-Q4_K_M.gguf", 1, Some(3), Some("me/x:Q4_K_M")),
                ("x-q8_0.gguf", 1, None, None),
            ]
        );
        assert_eq!(found.projectors, [file("mmproj-x-F16.gguf", Some(1))]);
        let only = HubFiles::of("me/x", &[file("model.gguf", Some(1))]);
        assert_eq!(only.gguf[0].repo_id.as_deref(), Some("me/x"));
    }
}
