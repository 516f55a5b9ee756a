//! Summarises a log in one line for people: what was started, how far the start got, and the first thing that went
//! wrong.

use super::{
    lines::{self, Level, Line},
    pattern::{find, shorten},
};

/// Lines of the engines that show how far a start got, as (pattern, name, prefix, suffix).
const FACTS: &[(&str, &str, &str, &str)] = &[
    ("█  version {it}", "it", "vLLM ", ""),
    ("model: Resolved architecture: {it}", "it", "", ""),
    ("Resolved architecture: {it}", "it", "", ""),
    ("load_model: loading model '{it}'", "it", "loading ", ""),
    ("Starting to load model {it}...", "it", "loading ", ""),
    ("Model loading took {it#} GiB", "it", "", " GiB of weights"),
    ("KV cache size: {it} tokens", "it", "KV cache of ", " tokens"),
    ("n_slots = {a#}, n_ctx_slot = {it#}", "it", "", " tokens per slot"),
];
/// Longest summary, in bytes.
const MAX: usize = 400;

/// Summarises `log` in one line for people.
pub fn summary(log: &str) -> String {
    let lines = lines::read(log);
    let mut parts: Vec<String> = Vec::new();
    for (pattern, name, before, after) in FACTS {
        let fact = lines.iter().find_map(|line| find(pattern, &line.text));
        let value = fact.and_then(|it| it.into_iter().find(|it| it.0 == *name));
        if let Some((_, value)) = value {
            let part = format!("{before}{}{after}", shorten(value, 100));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    let ready = lines.iter().rposition(says_ready);
    let error = lines.iter().skip(ready.map_or(0, |it| it + 1)).find(|it| it.is_error());
    match (ready, error) {
        (None, Some(error)) => parts.push(format!("failed: {}", cause(error))),
        (Some(_), Some(error)) => parts.push(format!("ready, then: {}", cause(error))),
        (Some(_), None) => parts.push("ready".to_owned()),
        (None, None) if lines.is_empty() => parts.push("the log is empty".to_owned()),
        (None, None) => parts.push("not ready, no error".to_owned()),
    }
    let n_warnings = lines.iter().filter(|it| it.level == Level::Warning).count();
    if n_warnings > 0 {
        parts.push(format!("{n_warnings} warnings"));
    }
    shorten(&parts.join("; "), MAX).to_owned()
}

/// Whether the line says that the engine accepts requests from now on.
pub(super) fn says_ready(line: &Line<'_>) -> bool {
    let signs = ["Application startup complete", "llama_server: model loaded", "main: model loaded"];
    line.level < Level::Error && signs.iter().any(|it| line.text.contains(it))
}

/// Returns what an error line says, without the exception's name and other wrapping.
pub(super) fn cause<'a>(line: &'a Line<'_>) -> &'a str {
    let text = line.text.trim();
    let text = text.split_once("error loading model: ").map_or(text, |it| it.1);
    shorten(text, 250)
}
