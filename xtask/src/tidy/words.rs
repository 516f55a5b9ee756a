//! Rules on words, for pages and Rust files: what a pattern can find, and what to write instead.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// One rule. The next rule is one more line in [`RULES`].
struct Rule {
    /// Words that nobody should write; a phrase has single spaces.
    words: &'static [&'static str],
    look: Look,
    instead: &'static str,
    /// A line that breaks the rule, for the test.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the test reads it"))]
    example: &'static str,
}

/// Where a rule looks, and how it compares.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// In pages, and in all of a Rust file; small and capital letters are alike.
    Everywhere,
    /// At the beginning of a sentence in pages and comments, and of a text: the words as they are, with their capital
    /// letter.
    SentenceStart,
}

use Look::{Everywhere, SentenceStart};

#[rustfmt::skip]
const RULES: &[Rule] = &[
    Rule { words: &["he", "his", "him", "himself"], look: Everywhere, instead: "write `they`, or name the role: the user, the owner", example: "A user changes his password." },
    Rule { words: &["whoever"], look: Everywhere, instead: "name who it is: the caller, the client, anybody who …", example: "Whoever listens there is no Postgres." },
    Rule { words: &["mend", "mends", "mended", "mending"], look: Everywhere, instead: "write `fix`, or say what to do", example: "what is missing, and how to mend it" },
    Rule { words: &["at most so", "for so long", "for so many", "of so many", "by so much", "by so many", "so many of"], look: Everywhere, instead: "name the number, or what it counts", example: "number(\"limit\", \"N\", \"At most so many\")" },
    Rule { words: &["is told so", "are told so", "be told so"], look: Everywhere, instead: "say what happens: the answer says it, the request is refused", example: "// One that comes later is told so." },
    Rule { words: &["an own", "the own"], look: Everywhere, instead: "write whose it is: its own, the gateway's own, one of its own", example: "/// Belongs to the own user." },
    Rule { words: &["told from", "told of"], look: Everywhere, instead: "write `distinguished from`, or who learns it and how: the log says, the answer names", example: "/// A missing file is told from an empty one." },
    Rule { words: &["next life", "last life", "previous life", "life before"], look: Everywhere, instead: "write `the next start`, `the previous process`", example: "// The next life ships them." },
    Rule { words: &["So many", "So much", "So long"], look: SentenceStart, instead: "write a sentence whose subject is the thing that is counted", example: "/// So many concurrent streams." },
    Rule { words: &["Of"], look: SentenceStart, instead: "begin with the subject of the sentence", example: "// Of repeated keys only the first counts." },
];

/// Folders that are free of the rules until their own clean-up is done.
const LATER: &[&str] = &[];

/// Folders with nothing that we wrote: build outputs, data of a gateway, other people's packages.
const NOT_OURS: &[&str] = &["target", "node_modules", "__pycache__"];
const NOT_OURS_AT_THE_TOP: &[&str] = &["data", "models", "packages"];

/// This file, whose table has every word.
const THIS: &str = "xtask/src/tidy/words.rs";

/// Returns one line for each word in the pages and Rust files below `root` that breaks a rule.
pub(super) fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in files(root)? {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        if name == THIS || LATER.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
        problems.extend(look_at(&name, written_by_hand(&name, &text)));
    }
    Ok(problems)
}

/// Returns the pages and Rust files below `root`, sorted.
pub(super) fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(root, NOT_OURS_AT_THE_TOP, &mut files)?;
    files.sort();
    Ok(files)
}

/// Finds pages and Rust files below `dir`. Hidden folders, those in [`NOT_OURS`] and those in `skipped` are left out.
fn collect(dir: &Path, skipped: &[&str], files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("can't read {}", dir.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let ours = !name.starts_with('.') && !NOT_OURS.contains(&&*name) && !skipped.contains(&&*name);
        if entry.file_type()?.is_dir() {
            if ours {
                collect(&path, &[], files)?;
            }
        } else if path.extension().is_some_and(|it| it == "md" || it == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the part of a file that the rules are for: nothing of a generated page, and the newest version of the changes.
fn written_by_hand<'a>(name: &str, text: &'a str) -> &'a str {
    if text.starts_with("<!-- Generated") {
        return "";
    }
    match text.match_indices("\n## ").nth(1) {
        Some((end, _)) if name == "CHANGELOG.md" => &text[..end],
        _ => text,
    }
}

fn look_at(name: &str, text: &str) -> Vec<String> {
    let page = Path::new(name).extension().is_some_and(|it| it == "md");
    let mut problems = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for rule in RULES {
            for word in rule.words.iter().filter(|it| breaks(rule.look, it, line, page)) {
                problems.push(format!("{name}:{}: \"{word}\": {}", n + 1, rule.instead));
            }
        }
    }
    problems
}

/// Whether the line has this word where the rule looks.
fn breaks(look: Look, word: &str, line: &str, page: bool) -> bool {
    match look {
        Everywhere => has(&line.to_lowercase(), word),
        // In the middle of a sentence only a name has a capital letter, and no name begins with these words.
        SentenceStart if page || line.trim_start().starts_with("//") => has(line, word),
        SentenceStart => line.contains(&format!("\"{word} ")),
    }
}

/// Whether `line` has `word`, and not as a part of a longer one.
fn has(line: &str, word: &str) -> bool {
    let inside = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        !inside(line[..at].chars().next_back()) && !inside(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_catches_its_example() {
        for rule in RULES {
            let found = look_at("a.rs", &format!("//! A file.\n{}\n", rule.example));
            assert_eq!(found.len(), 1, "{}: {found:?}", rule.example);
            assert!(found[0].starts_with("a.rs:2: ") && found[0].ends_with(rule.instead), "{found:?}");
        }
    }

    #[test]
    fn other_words_pass() {
        let fine = "// The cache is this one's; we recommend him_self. It is so long that nobody waits, of course.\n\
                    let its = \"some Of the pools\";\n";
        assert_eq!(look_at("a.rs", fine), [""; 0]);
    }

    #[test]
    fn generated_pages_and_old_changes_are_left_alone() {
        let generated = "<!-- Generated by `cargo xtask gen`. Do not edit. -->\nhis\n";
        assert_eq!(written_by_hand("docs/cli.md", generated), "");
        let changes = "# Changes\n\n## Unreleased\nnew\n\n## 0.1.0\nhis\n";
        assert_eq!(written_by_hand("CHANGELOG.md", changes), "# Changes\n\n## Unreleased\nnew\n");
        assert_eq!(written_by_hand("README.md", changes), changes);
    }
}
