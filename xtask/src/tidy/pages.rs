//! Compares the pages of the documents with the repository: the commands in their blocks and in their text, the files that
//! they name, and their links. Nothing is run: what can be seen without running it is what is looked at.

mod facts;
mod markdown;
mod shell;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;

use self::{
    facts::Facts,
    markdown::{Block, Page},
};

/// What stands behind the backticks of a block of commands.
const SHELL: [&str; 4] = ["sh", "bash", "shell", "console"];
/// Programs by which a block of commands is recognised that does not say what it is.
const PROGRAMS: [&str; 5] = ["gantry ", "sudo ", "make ", "curl ", "docker "];

/// Blocks of commands of which nothing can be compared: the page, how the block begins, and why.
const UNCHECKED: &[(&str, &str, &str)] = &[
    (
        "deploy/README.md",
        "sudo install -D -m 644 /usr/share/doc/gantry/examples/process-engines.conf",
        "tests/package/guest.sh installs this file on a Debian with the package",
    ),
    ("deploy/README.md", "sudo semanage fcontext", "programs of SELinux"),
    ("docs/clients.md", "cat >\"$(dirname \"$(llm logs path)\")", "tests/clients/snippets.py runs it"),
    ("docs/clients.md", "export ANTHROPIC_BASE_URL", "Claude Code is not ours"),
    ("docs/clients.md", "export OPENAI_API_BASE", "aider is not ours"),
    ("docs/network.md", "sudo ufw allow", "programs of the distributions"),
];

/// Code in a text that begins like a command of ours and is none: the page, and the code.
const NO_COMMANDS: &[(&str, &str)] = &[("docs/package-format.md", "gantry package journal")];

/// It tells of versions that had other commands and files; its links are looked at.
const HISTORY: &str = "CHANGELOG.md";

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) problems: Vec<String>,
    /// How many blocks of commands there are.
    blocks: usize,
    /// Indices in [`UNCHECKED`] of the blocks that nothing was compared of.
    unchecked: Vec<usize>,
}

impl Report {
    /// Returns how much was looked at, and what was not.
    pub(super) fn summary(&self) -> String {
        let mut lines =
            vec![format!("pages: {} blocks of commands, {} unchecked", self.blocks, self.unchecked.len())];
        for (page, begin, why) in self.unchecked.iter().map(|it| UNCHECKED[*it]) {
            lines.push(format!("  {page}: `{begin}…`: {why}"));
        }
        lines.join("\n")
    }

    fn look_at_block(&mut self, facts: &Facts<'_>, name: &str, block: &Block) {
        self.blocks += 1;
        let commands = shell::commands(&script(block));
        let found: Vec<_> = commands.iter().filter_map(|it| Some((it.line, facts.of_command(it)?))).collect();
        for (line, problems) in &found {
            let place = format!("{name}:{}", block.line + line);
            self.problems.extend(problems.iter().map(|it| format!("{place}: {it}")));
        }
        if !found.is_empty() {
            return;
        }
        let begins = |it: &(&str, &str, &str)| it.0 == name && block.text.trim_start().starts_with(it.1);
        match UNCHECKED.iter().position(begins) {
            Some(it) => self.unchecked.push(it),
            None => self.problems.push(format!(
                "{name}:{}: nothing of these commands can be compared with anything; say why in UNCHECKED of \
                 xtask/src/tidy/pages.rs",
                block.line
            )),
        }
    }

    fn look_at_text(&mut self, facts: &Facts<'_>, name: &str, page: &Page) {
        for (line, code) in markdown::code(&page.prose) {
            if !NO_COMMANDS.contains(&(name, code.as_str())) {
                self.problems.extend(facts.of_mention(&code).iter().map(|it| format!("{name}:{line}: {it}")));
            }
        }
        for block in page.blocks.iter().filter(|it| it.language.is_empty()) {
            if block.text.lines().any(|line| PROGRAMS.iter().any(|it| line.starts_with(it))) {
                self.problems.push(format!("{name}:{}: write `sh` behind the backticks", block.line));
            }
        }
    }
}

/// Looks at all pages below `root`.
///
/// # Errors
/// A file can't be read.
pub(super) fn look_at(root: &Path) -> anyhow::Result<Report> {
    let facts = Facts::read(root)?;
    let pages = read(root)?;
    let mut report = Report::default();
    for (name, page) in &pages {
        report.problems.extend(dead_links(root, &pages, name, page));
        if name == HISTORY {
            continue;
        }
        report.look_at_text(&facts, name, page);
        for block in page.blocks.iter().filter(|it| is_script(it)) {
            report.look_at_block(&facts, name, block);
        }
    }
    let stale = UNCHECKED.iter().enumerate().filter(|it| !report.unchecked.contains(&it.0));
    let stale = stale
        .map(|(_, it)| format!("UNCHECKED of xtask/src/tidy/pages.rs: no such block: {} `{}`", it.0, it.1));
    let stale: Vec<_> = stale.collect();
    report.problems.extend(stale);
    Ok(report)
}

/// Reads all pages, by their path below `root`.
fn read(root: &Path) -> anyhow::Result<BTreeMap<String, Page>> {
    let mut pages = BTreeMap::new();
    for file in super::words::files(root)?.iter().filter(|it| it.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        pages.insert(name, markdown::read(&text));
    }
    Ok(pages)
}

/// Whether a block has commands. `text` is what the help of a verb is in, with its examples.
fn is_script(block: &Block) -> bool {
    SHELL.contains(&block.language.as_str())
        || block.language == "text" && block.text.lines().any(|it| it.trim_start().starts_with("gantry "))
}

/// Returns the commands of a block. They stand behind the prompt in a session at a terminal. The commands of a help are its
/// examples, which an explanation may follow in a column of its own.
fn script(block: &Block) -> String {
    let command = |line: &str| match block.language.as_str() {
        "console" => line.strip_prefix("$ ").or(line.strip_prefix("# ")).unwrap_or_default().to_owned(),
        "text" if line.trim_start().starts_with("gantry ") => {
            line.trim_start().split("   ").next().unwrap_or_default().to_owned()
        }
        "text" => String::new(),
        _ => line.to_owned(),
    };
    block.text.lines().map(command).collect::<Vec<_>>().join("\n")
}

/// Returns the links of a page that lead to no file or to no heading of it.
fn dead_links(root: &Path, pages: &BTreeMap<String, Page>, name: &str, page: &Page) -> Vec<String> {
    let mut problems = Vec::new();
    for (line, link) in markdown::links(&page.prose) {
        if link.contains("://") || link.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { name.to_owned() } else { resolved(name, path) };
        let has_heading = |it: &Page| anchor.is_empty() || markdown::anchors(&it.prose).contains(anchor);
        let is_there = root.join(&target).exists() && pages.get(&target).is_none_or(has_heading);
        if !is_there {
            problems.push(format!("{name}:{line}: the link `{link}` leads nowhere"));
        }
    }
    problems
}

/// Returns the path below the root of what a page links to.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// What is found on a page of this name and text.
    fn report(name: &str, text: &str) -> Report {
        let root = root();
        let (facts, page) = (Facts::read(&root).unwrap(), markdown::read(text));
        let mut report = Report::default();
        report.look_at_text(&facts, name, &page);
        for block in page.blocks.iter().filter(|it| is_script(it)) {
            report.look_at_block(&facts, name, block);
        }
        report
    }

    #[test]
    fn a_wrong_command_is_named_with_its_line() {
        let page = "# A\n\n```sh\ngantry doctor\n\ngantry doktor   # no such verb\n```\n\n`gantry keys creat` and `make chek`.\n";
        let found = report("a.md", page).problems;
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].starts_with("a.md:9: `gantry keys creat`")
                && found[1].starts_with("a.md:9: the Makefile"),
            "{found:?}"
        );
        assert!(found[2].starts_with("a.md:6: `gantry doktor`"), "{found:?}");
    }

    #[test]
    fn what_is_at_a_prompt_or_in_a_help_is_read() {
        let console = report("a.md", "```console\n$ gantry doktor\ngantry is well\n```\n");
        assert_eq!((console.blocks, console.problems.len()), (1, 1), "{:?}", console.problems);
        let help = "```text\nAn example:\n  gantry models fields context      which field is it?\n```\n";
        assert_eq!(report("a.md", help).problems, [""; 0]);
        assert_eq!(report("a.md", "```text\n+ users/joe\n```\n").blocks, 0);
    }

    #[test]
    fn a_block_of_which_nothing_can_be_said_has_a_reason() {
        let block = "```sh\nsudo ufw allow 443/tcp\n```\n";
        let listed = report("docs/network.md", block);
        assert_eq!(listed.problems, [""; 0]);
        assert!(
            listed.summary().contains("1 blocks of commands, 1 unchecked\n  docs/network.md: `sudo ufw"),
            "{}",
            listed.summary()
        );
        assert!(report("docs/other.md", block).problems[0].contains("UNCHECKED"));
    }

    #[test]
    fn a_block_of_commands_says_what_it_is() {
        assert!(report("a.md", "```\ngantry doctor\n```\n").problems[0].starts_with("a.md:2: write `sh`"));
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let text = "## One thing\n[a](#one-thing) [b](#other) [c](../README.md) [d](../README.md#nothing) [e](nothing.md) [f](https://example.com)\n";
        let page = markdown::read(text);
        let mut pages = BTreeMap::from([("docs/try.md".to_owned(), markdown::read(text))]);
        pages.insert("README.md".to_owned(), markdown::read("# Gantry\n"));
        let found = dead_links(&root(), &pages, "docs/try.md", &page);
        let links: Vec<_> = found.iter().filter_map(|it| it.split('`').nth(1)).collect();
        assert_eq!(links, ["#other", "../README.md#nothing", "nothing.md"]);
    }
}
