//! What is on the disk from earlier exports into the same folder.

use std::{collections::BTreeMap, path::Path};

use super::{
    journal::{Line, Partial},
    place,
};
use crate::{
    checksums::Sha256Sum,
    contents::Image,
    manifest::{FileEntry, Manifest},
    package::Package,
    path::PackagePath,
};

/// What earlier runs left that can be used again.
pub(super) struct Earlier {
    pub(super) files: BTreeMap<PackagePath, FileEntry>,
    pub(super) images: Vec<Image>,
    pub(super) partial: Option<Partial>,
    pub(super) part_sums: Vec<Sha256Sum>,
}

impl Earlier {
    /// Takes what is in the package as it was, and over it what the journal says.
    pub(super) fn of(dir: &Path, old: Option<Package>, lines: Vec<Line>, part_size: Option<u64>) -> Self {
        let mut earlier =
            Self { files: BTreeMap::new(), images: Vec::new(), partial: None, part_sums: Vec::new() };
        let old = old.map(|it| it.into_manifest().0);
        let is_usable = |it: &Manifest| match (&it.parts, part_size) {
            (None, None) => true,
            (Some(parts), Some(size)) => parts.size == size && place::parts_are_as_they_were(dir, it),
            _ => false,
        };
        if let Some(old) = old.filter(is_usable) {
            earlier.files = old.files.into_iter().filter(|(_, it)| !it.in_base).collect();
            earlier.images = old.contents.images;
            earlier.part_sums = old.parts.map(|it| it.sha256).unwrap_or_default();
        }
        for line in lines {
            earlier.take(line, part_size);
        }
        earlier
    }

    fn take(&mut self, line: Line, part_size: Option<u64>) {
        match line {
            Line::Begin { .. } => {}
            Line::File { path, entry } => {
                self.partial = None;
                self.files.insert(path, entry);
            }
            Line::Part { index, sha256 } => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                self.part_sums.truncate(index);
                if self.part_sums.len() == index {
                    self.part_sums.push(sha256);
                }
            }
            Line::Rewritten { from } => {
                let is_before =
                    |at: Option<u64>, size: u64| at.is_some_and(|at| at.saturating_add(size) <= from);
                self.files.retain(|_, it| is_before(it.at, it.size));
                self.partial = self.partial.take().filter(|it| is_before(it.at, it.done));
                let whole = part_size.map_or(0, |it| from / it);
                self.part_sums.truncate(usize::try_from(whole).unwrap_or(usize::MAX));
            }
            Line::Image(image) => self.images.push(image),
            Line::Partial(partial) => self.partial = Some(partial),
        }
    }
}
