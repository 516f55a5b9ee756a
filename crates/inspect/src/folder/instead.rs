//! What a folder has in place of a model: parts that have to be joined, unfinished downloads, links to nothing, and a
//! pipeline that neither engine serves.

use std::collections::BTreeMap;

use super::walk::{FoundFile, Walk};

/// Most parts that a command names.
const MOST_PARTS: usize = 32;
/// Most names in a sentence.
const NAMED: usize = 5;
/// Extensions that browsers and other programs give to a download that has not ended.
const UNFINISHED: [&str; 4] = ["part", "incomplete", "aria2", "crdownload"];

#[derive(Default)]
pub(super) struct Instead {
    pub(super) warnings: Vec<String>,
    /// Why there is no model, for a folder that has none.
    pub(super) reason: Option<String>,
    /// Whether it is a pipeline of diffusers: the checkpoints in its folders are no models by themselves.
    pub(super) pipeline: bool,
}

pub(super) fn instead(walk: &Walk) -> Instead {
    let pipeline = walk.files.iter().any(|it| it.rel == "model_index.json");
    let mut out = Instead { pipeline, ..Instead::default() };
    if out.pipeline {
        let text = "A pipeline of diffusers (`model_index.json`), as for images: neither vLLM nor llama.cpp serves it.";
        out.warnings.push(
            "model_index.json: it is of a pipeline of diffusers, which neither engine serves".to_owned(),
        );
        out.reason = Some(text.to_owned());
    }
    for text in joins(&walk.files) {
        out.reason.get_or_insert_with(|| format!("{text}. Then inspect again."));
        out.warnings.push(text);
    }
    let unfinished: Vec<&str> = walk
        .files
        .iter()
        .filter(|it| UNFINISHED.iter().any(|extension| it.has_extension(extension)))
        .map(|it| it.rel.as_str())
        .collect();
    if !unfinished.is_empty() {
        let text =
            format!("{}: unfinished downloads; let them end, or load the files again", named(&unfinished));
        out.reason.get_or_insert_with(|| format!("There is no whole model here. {text}."));
        out.warnings.push(text);
    }
    for (links, what) in [
        (&walk.broken, "links to what is not there; load the files again"),
        (
            &walk.outside,
            "links out of the models directory; put the files themselves there, or mount their folder there",
        ),
    ] {
        if !links.is_empty() {
            let reason = || format!("There is no model that can be read here. {}: {what}.", named(links));
            out.reason.get_or_insert_with(reason);
        }
    }
    out
}

/// Returns names as they stand in a sentence.
pub(super) fn named(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Returns a sentence for each file that is there in parts, and is not there as a whole.
fn joins(files: &[FoundFile]) -> Vec<String> {
    let mut sets: BTreeMap<(&str, usize), BTreeMap<usize, &str>> = BTreeMap::new();
    for file in files {
        if let Some((whole, number, count)) = part(&file.rel) {
            sets.entry((whole, count)).or_default().insert(number, &file.rel);
        }
    }
    sets.retain(|(whole, _), _| files.iter().all(|it| it.rel != *whole));
    sets.iter().map(|((whole, count), parts)| join(whole, *count, parts)).collect()
}

fn join(whole: &str, count: usize, parts: &BTreeMap<usize, &str>) -> String {
    if let Some(missing) = (1..=count).find(|it| !parts.contains_key(it)) {
        return format!("{whole}: part {missing} of {count} is missing; the download is incomplete");
    }
    if count > MOST_PARTS {
        return format!(
            "{whole}: it is in {count} parts; join them in the order of their numbers with `cat`"
        );
    }
    let words: Vec<String> = parts.values().map(|it| quoted(it)).collect();
    format!("{whole}: it is in {count} parts; join them with `cat {} > {}`", words.join(" "), quoted(whole))
}

/// Reads a name such as `x.gguf.part1of2`: the name of the whole, the number of the part, and how many there are.
fn part(rel: &str) -> Option<(&str, usize, usize)> {
    let (whole, numbers) = rel.rsplit_once(".part")?;
    let (number, count) = numbers.split_once("of")?;
    let digits = |it: &str| if it.bytes().all(|it| it.is_ascii_digit()) { it.parse().ok() } else { None };
    let (number, count): (usize, usize) = (digits(number)?, digits(count)?);
    (count > 1 && (1..=count).contains(&number) && !whole.is_empty()).then_some((whole, number, count))
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "._-/+=@%".contains(it);
    if word.chars().all(plain) && !word.starts_with('-') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
