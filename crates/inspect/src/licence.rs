//! The licence of a model, as its files name it: `general.license` of a GGUF header, or `license` in the front matter of a
//! model card (<https://huggingface.co/docs/hub/model-cards>). Nothing checks that it is the right one.

use std::{
    io::Read,
    path::{Component, Path, PathBuf},
};

use crate::{base::Base, clip, gguf};

/// Name of the model card.
const CARD: &str = "README.md";
/// Largest part of a model card that is read, in bytes. The front matter is at its beginning.
const MOST: u64 = 64 << 10;
/// Most names of a folder that are looked at.
const MOST_NAMES: usize = 10_000;
/// Folder of the checkouts of a repository in a hub cache.
const SNAPSHOTS: &str = "snapshots";
/// A licence that has no name of its own among the hub's; the card names it elsewhere.
const OTHER: &str = "other";

/// Returns the licence that the files at `rel` name: a GGUF file, the folder of a checkpoint, or a repository of a hub
/// cache. `None` if they name none, or can't be read.
pub fn licence(base: &Base, rel: &str) -> Option<String> {
    let path = base.resolve(rel).ok()?;
    if !path.is_dir() {
        // A card that lies in the base directory itself is not that of one model.
        let parts = Path::new(rel).components().filter(|it| matches!(it, Component::Normal(_))).count();
        return of_gguf(base, &path).or_else(|| of_card(base, path.parent().filter(|_| parts > 1)?));
    }
    let snapshots = path.join(SNAPSHOTS);
    let mut folders = if snapshots.is_dir() { entries(base, &snapshots) } else { vec![path] };
    // Names of checkouts are digests: whichever has a card is as good as another.
    folders.sort();
    folders.iter().find_map(|it| of_folder(base, it))
}

fn of_folder(base: &Base, folder: &Path) -> Option<String> {
    let is_gguf = |it: &&PathBuf| it.extension().is_some_and(|it| it.eq_ignore_ascii_case("gguf"));
    of_card(base, folder)
        .or_else(|| entries(base, folder).iter().find(is_gguf).and_then(|it| of_gguf(base, it)))
}

fn entries(base: &Base, folder: &Path) -> Vec<PathBuf> {
    let listing = base.list(folder, MOST_NAMES);
    listing.map(|it| it.entries.into_iter().map(|it| it.path).collect()).unwrap_or_default()
}

fn of_gguf(base: &Base, path: &Path) -> Option<String> {
    let opened = base.open_file(path).ok()?;
    let header = gguf::read(opened.file, opened.len).ok()?;
    header.text("general.license").and_then(named)
}

fn of_card(base: &Base, folder: &Path) -> Option<String> {
    let mut text = Vec::new();
    base.file_in(folder, CARD)?.file.take(MOST).read_to_end(&mut text).ok()?;
    in_front_matter(&String::from_utf8_lossy(&text))
}

/// Reads the licence from the front matter of a card: YAML between two lines `---`. Only its simplest forms are read, which
/// are those that cards have: `license: mit`, and a list with a line for each.
fn in_front_matter(card: &str) -> Option<String> {
    let mut lines = card.trim_start_matches('\u{feff}').lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let lines: Vec<&str> = lines.take_while(|it| !matches!(it.trim_end(), "---" | "...")).collect();
    let value = |key: &str| {
        let after = |it: &&str| it.strip_prefix(key).is_some_and(|it| it.starts_with(':'));
        let at = lines.iter().position(after)?;
        let value = unquoted(&lines[at][key.len() + 1..]);
        if !value.is_empty() {
            return named(value.trim_start_matches('[').trim_end_matches(']'));
        }
        let items = lines[at + 1..].iter().map_while(|it| it.trim_start().strip_prefix("- "));
        named(&items.map(unquoted).collect::<Vec<_>>().join(", "))
    };
    let licence = value("license")?;
    if licence != OTHER {
        return Some(licence);
    }
    Some(value("license_name").unwrap_or(licence))
}

fn unquoted(text: &str) -> &str {
    let text = text.split(" #").next().unwrap_or_default().trim();
    text.trim_matches(['"', '\''])
}

/// Returns a name as it can be shown.
fn named(text: &str) -> Option<String> {
    let name: String = text.trim().chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    (!name.is_empty()).then(|| clip(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_matter_of_a_card_names_the_licence() {
        for (card, licence) in [
            ("---\nlanguage: en\nlicense: apache-2.0\n---\n# Card", Some("apache-2.0")),
            ("---\nlicense: \"mit\"  # as ever\n---\n", Some("mit")),
            ("\u{feff}---\r\nlicense: mit\r\n---\r\n", Some("mit")),
            ("---\nlicense:\n- mit\n- 'gpl-3.0'\ntags:\n- x\n---\n", Some("mit, gpl-3.0")),
            ("---\nlicense: [mit, gpl-3.0]\n---\n", Some("mit, gpl-3.0")),
            ("---\nlicense: other\nlicense_name: qwen\n---\n", Some("qwen")),
            ("---\nlicense_name: qwen\nlicense: other\n---\n", Some("qwen")),
            ("---\nlicense: other\n---\n", Some("other")),
            ("---\nlicense: a\u{1b}[2Jb\n---\n", Some("a [2Jb")),
            ("---\nlicense:\n---\n", None),
            ("---\nmore:\n  license: mit\n---\n", None),
            ("---\nx: y\n---\nlicense: mit\n", None),
            ("license: mit\n", None),
            ("", None),
        ] {
            assert_eq!(in_front_matter(card).as_deref(), licence, "{card:?}");
        }
        let long = format!("---\nlicense: {}\n---\n", "x".repeat(5000));
        assert_eq!(in_front_matter(&long).unwrap().len(), 200);
    }
}
