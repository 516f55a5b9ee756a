//! `cargo xtask tidy --figures`: how the code stands to the bars of its structure, in numbers.

use super::structure::{Crate, FILE_LINES, FUNCTION_LINES, NESTING};

/// Returns the figures as lines of text.
pub(crate) fn report(crates: &[Crate]) -> String {
    let sources = || crates.iter().flat_map(|it| it.names.iter().zip(&it.sources));
    let functions = || sources().flat_map(|(name, it)| it.functions.iter().map(move |it| (name, it)));
    let mut lines: Vec<usize> = sources().map(|(_, it)| it.lines).collect();
    lines.sort_unstable();
    let at =
        |percent: usize| lines.get((lines.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0);
    let mut out = vec![
        format!("files: {}, lines: {}, without tests", lines.len(), lines.iter().sum::<usize>()),
        format!("lines per file: median {}, p90 {}, max {}", at(50), at(90), at(100)),
        format!("functions: {}", functions().count()),
    ];
    section(
        &mut out,
        &format!("files over {FILE_LINES} lines"),
        sources().filter(|it| it.1.lines > FILE_LINES).map(|(name, it)| (name.clone(), it.lines)),
    );
    section(
        &mut out,
        &format!("functions over {FUNCTION_LINES} lines"),
        functions()
            .filter(|it| it.1.lines > FUNCTION_LINES)
            .map(|(name, it)| (format!("{name} {}", it.name), it.lines)),
    );
    section(
        &mut out,
        &format!("functions with more than {NESTING} blocks in each other"),
        functions()
            .filter(|it| it.1.nesting > NESTING)
            .map(|(name, it)| (format!("{name} {}", it.name), it.nesting)),
    );
    section(
        &mut out,
        "files in circles, by crate",
        crates.iter().map(|it| (it.folder.clone(), it.cycles().iter().map(Vec::len).sum())),
    );
    for it in crates {
        for circle in it.cycles() {
            out.push(format!("  a circle of {} files, and what each one uses of it:", circle.len()));
            out.extend(circle.iter().map(|file| format!("    {file}: {}", uses(it, file, &circle))));
        }
    }
    section(
        &mut out,
        "public items without a doc comment, by crate",
        crates.iter().map(|it| (it.folder.clone(), it.sources.iter().map(|it| it.undocumented.len()).sum())),
    );
    for (name, source) in sources().filter(|it| !it.1.undocumented.is_empty()) {
        out.push(format!("  {name}: {}", source.undocumented.join(", ")));
    }
    out.join("\n")
}

/// Returns the files of a circle that one of them uses.
fn uses(it: &Crate, file: &str, circle: &[&str]) -> String {
    let edges = it.names.iter().zip(&it.edges).filter(|(name, _)| *name == file);
    let used = edges.flat_map(|(_, used)| used).map(|used| &*it.names[*used]);
    let src = format!("{}/src/", it.folder);
    let used = used.filter(|it| circle.contains(it)).map(|it| it.trim_start_matches(&src));
    used.collect::<Vec<_>>().join(" ")
}

/// Adds a heading and its rows, biggest first, without those that are 0.
fn section(out: &mut Vec<String>, heading: &str, rows: impl Iterator<Item = (String, usize)>) {
    let mut rows: Vec<_> = rows.filter(|it| it.1 > 0).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out.push(format!("{heading}: {}", rows.len()));
    out.extend(rows.into_iter().map(|(name, figure)| format!("  {figure:4} {name}")));
}
