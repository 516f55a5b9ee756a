//! Arguments of `extra_args` that are written so that no engine reads them: each element of the list is one word of the
//! command, and no shell splits it.

use gantry_domain::{engine::owned, model::Model};
use serde_json::{Map, Value};

use super::{Severity, Warning};

const FIELD: &str = "extra_args";

/// Warns of elements that hold an option and its value, or an option with spaces around it.
pub(super) fn badly_written(model: &Model) -> Option<Warning> {
    let words: Vec<&str> = model.config.texts(FIELD).collect();
    let fixed: Vec<Vec<&str>> = words.iter().map(|it| split(it)).collect();
    let bad = |(word, fixed): &(&&str, &Vec<&str>)| fixed[..] != [**word];
    let bad: Vec<_> = words.iter().zip(&fixed).filter(bad).collect();
    if bad.is_empty() {
        return None;
    }
    let shown = |words: &[&str]| words.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let said: Vec<&str> = bad.iter().map(|it| *it.0).collect();
    let better: Vec<_> = bad.iter().flat_map(|it| it.1.iter().copied()).collect();
    let message = format!(
        "each element is one word of the command, with its spaces: the engine does not know {}",
        shown(&said)
    );
    let warning = Warning {
        title: "Arguments are not written word by word".to_owned(),
        ..Warning::new(Severity::Warning, "engine", message)
    };
    let warning = warning.about(FIELD).with_fix(Some(format!("write {}", shown(&better))));
    let refused =
        |it: &&str| owned::argument(model.engine, it).is_some() || owned::field(model.engine, it).is_some();
    // A value that would be refused helps nobody.
    if better.iter().any(refused) {
        return Some(warning);
    }
    let all: Vec<Value> = fixed.iter().flatten().map(|it| Value::from(*it)).collect();
    Some(Warning { set: Some(Map::from_iter([(FIELD.to_owned(), Value::from(all))])), ..warning })
}

/// Returns the words that an element was meant to be: the element itself, unless it is an option with more.
fn split(element: &str) -> Vec<&str> {
    let text = element.trim();
    let begins = |it: char| it == '-' || it.is_alphabetic();
    let is_option = text.strip_prefix('-').is_some_and(|it| it.starts_with(begins));
    if !is_option {
        return vec![element];
    }
    // What follows `=` is a value, which may have spaces.
    let name_ends = text.find('=').unwrap_or(text.len());
    match text.split_once(char::is_whitespace) {
        Some((option, rest)) if option.len() < name_ends => {
            let rest = rest.trim();
            // Quotes were meant for a shell, and keep a value in one piece.
            let unquoted = ['\'', '"'].into_iter().find_map(|it| rest.strip_prefix(it)?.strip_suffix(it));
            let mut words = vec![option];
            match unquoted {
                Some(value) => words.push(value),
                None if rest.starts_with(['{', '[']) => words.push(rest),
                None => words.extend(rest.split_whitespace()),
            }
            words
        }
        _ => vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_with_more_is_split_and_other_words_stay() {
        for (element, words) in [
            ("--x", &["--x"][..]),
            (" --x", &["--x"]),
            ("--x ", &["--x"]),
            ("--x 1", &["--x", "1"]),
            ("-c  4096", &["-c", "4096"]),
            ("--x 1 --y=2", &["--x", "1", "--y=2"]),
            (r#"--json '{"a": 1}'"#, &["--json", r#"{"a": 1}"#]),
            (r#"--json {"a": 1}"#, &["--json", r#"{"a": 1}"#]),
            (r#"--json={"a": 1}"#, &[r#"--json={"a": 1}"#]),
            ("a value with spaces", &["a value with spaces"]),
            (" value", &[" value"]),
            ("-1 2", &["-1 2"]),
            ("", &[""]),
        ] {
            assert_eq!(split(element), words, "{element}");
        }
    }
}
