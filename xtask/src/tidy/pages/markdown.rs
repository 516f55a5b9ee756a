//! Reads a page: its blocks of code, and of the rest the code in the text, the links and the anchors.

use std::collections::{BTreeMap, BTreeSet};

/// A page in its parts.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) blocks: Vec<Block>,
    /// What is in no block; empty lines are in the place of blocks, so that lines keep their numbers.
    pub(crate) prose: String,
}

/// A block between lines of three backticks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// Line of its text in the page, from 1.
    pub(crate) line: usize,
    /// What stands behind the backticks; it may be empty.
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Takes a page apart.
pub(crate) fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut open: Option<Block> = None;
    for (n, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let language = language.trim().to_owned();
            match open.take() {
                Some(block) => page.blocks.push(block),
                None => open = Some(Block { line: n + 2, language, text: String::new() }),
            }
        } else if let Some(block) = &mut open {
            block.text.push_str(line);
            block.text.push('\n');
        } else {
            page.prose.push_str(line);
        }
        page.prose.push('\n');
    }
    page.blocks.extend(open);
    page
}

/// Returns the code in a text, between backticks, each with its line from 1. Its white space is single spaces.
pub(crate) fn code(prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, prose);
    while let Some(at) = rest.find('`') {
        line += newlines(&rest[..at]);
        let ticks = run(&rest[at..]);
        let inside = &rest[at + ticks..];
        rest = inside;
        if let Some(end) = closing(inside, ticks) {
            found.push((line, inside[..end].split_whitespace().collect::<Vec<_>>().join(" ")));
            line += newlines(&inside[..end]);
            rest = &inside[end + ticks..];
        }
    }
    found
}

/// Returns where the links of a text lead, each with its line from 1.
pub(crate) fn links(prose: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (n, line) in prose.lines().enumerate() {
        found.extend(targets(line).map(|it| (n + 1, it)));
    }
    found
}

/// Returns the anchors of the headings of a text, as code hosts make them.
pub(crate) fn anchors(prose: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for line in prose.lines() {
        let Some(heading) = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        else {
            continue;
        };
        let anchor = anchor(heading);
        let before = times.entry(anchor.clone()).or_default();
        found.insert(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
        *before += 1;
    }
    found
}

fn anchor(heading: &str) -> String {
    let heading = heading.replace("&lt;", "").replace("&gt;", "").replace("&amp;", "");
    let kept = heading.trim().chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|it| it.split_once(')')).map(|it| it.0)
}

fn newlines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Returns how many backticks a text begins with.
fn run(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

/// Returns where the code ends that `ticks` backticks began: at as many of them, in the same paragraph.
fn closing(text: &str, ticks: usize) -> Option<usize> {
    let text = text.split("\n\n").next().unwrap_or(text);
    let mut from = 0;
    while let Some(at) = text[from..].find('`') {
        let length = run(&text[from + at..]);
        if length == ticks {
            return Some(from + at);
        }
        from += at + length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A page\n\n```sh\ngantry doctor\n```\n\nText.\n\n- a list:\n\n  ```yaml\n  a: 1\n  ```\n";

    #[test]
    fn blocks_have_their_language_and_their_line() {
        let page = read(PAGE);
        let sh = Block { line: 4, language: "sh".to_owned(), text: "gantry doctor\n".to_owned() };
        let yaml = Block { line: 12, language: "yaml".to_owned(), text: "  a: 1\n".to_owned() };
        assert_eq!(page.blocks, [sh, yaml]);
        assert_eq!(page.prose.lines().nth(6), Some("Text."));
    }

    #[test]
    fn a_block_that_nothing_ends_goes_to_the_end_of_the_page() {
        assert_eq!(read("```\na\nb").blocks[0].text, "a\nb\n");
    }

    #[test]
    fn code_goes_over_lines_and_holds_backticks() {
        assert_eq!(
            code("a `b\nc` and\n`` d `e` ``\n\nnot ` this\n\nbut `f`\n"),
            [(1, "b c".to_owned()), (3, "d `e`".to_owned()), (7, "f".to_owned())]
        );
    }

    #[test]
    fn links_and_pictures_have_targets() {
        assert_eq!(
            links("[a](b.md#c) and\n[![d](e.png)](f.md), [`g`](#h)"),
            [(1, "b.md#c"), (2, "e.png"), (2, "f.md"), (2, "#h")]
        );
    }

    #[test]
    fn headings_have_anchors() {
        let found = anchors(
            "# 1. Have an engine\n## `gantry models`\n## files/model-&lt;id&gt;.json\n## A, b\n## A b\n#no\n",
        );
        let expected = ["1-have-an-engine", "a-b", "a-b-1", "filesmodel-idjson", "gantry-models"];
        assert_eq!(Vec::from_iter(found), expected);
    }
}
