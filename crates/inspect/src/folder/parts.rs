//! Split GGUF models: how names tell the parts of a set, and what must hold of them.
//!
//! Names of split files: llama.cpp `src/llama.cpp` (`llama_split_path`), `<prefix>-%05d-of-%05d.gguf`, numbered from 1.
//! The numbers inside the files (`split.no`) begin with 0.

use std::sync::Arc;

use super::walk::FoundFile;
use crate::gguf::{GgufError, GgufHeader};

/// Most missing parts that a message names.
const NAMED: usize = 5;

/// The set that a file belongs to, as its name says.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Set<'a> {
    /// Path up to the number; for a single file, the whole path.
    pub(super) prefix: &'a str,
    /// Number of parts; 0 for a single file.
    pub(super) parts: u64,
}

impl Set<'_> {
    /// Returns the path of its first file.
    pub(super) fn first(&self) -> String {
        match self.parts {
            0 => self.prefix.to_owned(),
            parts => format!("{}-00001-of-{parts:05}.gguf", self.prefix),
        }
    }
}

/// A file and its header, or why the header could not be read.
pub(super) struct Part<'a> {
    pub(super) file: &'a FoundFile,
    /// Number of the part, from 1; 0 for a single file.
    pub(super) number: u64,
    pub(super) header: Result<Arc<GgufHeader>, GgufError>,
}

/// A file that belongs to a set by its name.
pub(super) struct Member<'a> {
    /// Number of the part, from 1; 0 for a single file.
    pub(super) number: u64,
    pub(super) file: &'a FoundFile,
}

/// Returns the set that a file belongs to by its name, and its number there.
pub(crate) fn split_name(rel: &str) -> (Set<'_>, u64) {
    let split = || {
        let stem = rel.get(..rel.len().checked_sub(5)?)?;
        let (prefix, number, parts) = (
            stem.get(..stem.len().checked_sub(15)?)?,
            stem.get(stem.len().checked_sub(14)?..stem.len().checked_sub(9)?)?,
            stem.get(stem.len().checked_sub(5)?..)?,
        );
        let middle = stem.get(stem.len().checked_sub(9)?..stem.len().checked_sub(5)?)?;
        let dash = stem.get(prefix.len()..prefix.len().checked_add(1)?)?;
        let digits = |it: &str| if it.bytes().all(|it| it.is_ascii_digit()) { it.parse().ok() } else { None };
        let (number, parts): (u64, u64) = (digits(number)?, digits(parts)?);
        (dash == "-" && middle.eq_ignore_ascii_case("-of-") && parts > 0)
            .then_some((Set { prefix, parts }, number))
    };
    split().unwrap_or((Set { prefix: rel, parts: 0 }, 0))
}

/// Returns the name of a part without its number, so that `-00001-of-00002` does not hide the quantisation.
pub(crate) fn without_part(rel: &str) -> String {
    let (set, _) = split_name(rel);
    if set.parts > 0 { format!("{}.gguf", set.prefix) } else { rel.to_owned() }
}

/// Adds an error if parts are missing. Returns whether they are.
pub(super) fn missing(set: &Set<'_>, parts: &[Part<'_>], errors: &mut Vec<String>) -> bool {
    let absent = || (1..=set.parts).filter(|number| parts.iter().all(|it| it.number != *number));
    let count = absent().count();
    if count == 0 {
        return false;
    }
    let named: Vec<String> =
        absent().take(NAMED).map(|it| format!("{}-{it:05}-of-{:05}.gguf", set.prefix, set.parts)).collect();
    let more = count.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    errors.push(format!("{}{more}: missing; the download is incomplete", named.join(", ")));
    true
}

/// Checks a set whose files are sound and complete, and adds errors.
pub(super) fn check_set(set: &Set<'_>, parts: &[Part<'_>], first: &GgufHeader, errors: &mut Vec<String>) {
    let inside = first.split();
    if set.parts <= 1 {
        if let Some((number, count)) = inside {
            errors.push(format!(
                "it is part {} of {count} of a split model but not named so; restore its name (…-00001-of-{count:05}.gguf)",
                number.saturating_add(1)
            ));
        }
        return;
    }
    for part in parts {
        let rel = &part.file.rel;
        if part.number == 0 || part.number > set.parts {
            errors.push(format!("{rel}: there is no part {} of {}", part.number, set.parts));
        }
        let split = part.header.as_deref().ok().and_then(GgufHeader::split);
        match split {
            Some((number, count)) if count == set.parts && number.checked_add(1) == Some(part.number) => {}
            Some((number, count)) => errors.push(format!(
                "{rel}: inside it says part {} of {count}; it was renamed or belongs to another model",
                number.saturating_add(1)
            )),
            None => errors.push(format!("{rel}: inside it is not part of a split model (no `split.count`)")),
        }
    }
    let twice = parts.iter().zip(parts.iter().skip(1)).find(|(a, b)| a.number == b.number);
    if let Some((a, b)) = twice {
        errors.push(format!("{} and {}: the same part twice", a.file.rel, b.file.rel));
    }
    let tensors = parts
        .iter()
        .filter_map(|it| it.header.as_deref().ok())
        .map(|it| it.tensors.len() as u64)
        .sum::<u64>();
    if let Some(promised) = first.split_tensor_count().filter(|it| *it != tensors) {
        errors.push(format!("its parts hold {tensors} tensors, the first one promises {promised}"));
    }
}
