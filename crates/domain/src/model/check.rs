//! Checks whether a value fits its row of the field table. Messages say which values would fit.

use serde_json::{Map, Value};

use super::{
    EngineKind,
    fields::{Field, Kind},
};
use crate::{ErrorCode, engine::owned};

/// An error about a value: a code for programs, a sentence for people.
pub(super) type Wrong = (ErrorCode, String);

/// Request parameters that can't have defaults, because they decide how a request is handled or are its content.
pub const NOT_DEFAULTS: &[&str] = &["model", "stream", "stream_options", "messages", "prompt", "input"];
const LONGEST_PATH: usize = 1000;
/// Longest argument or variable, in bytes.
const LONGEST_WORD: usize = 4000;

/// Whether `value` fits the field's type and bounds.
pub(super) fn check(field: &Field, engine: EngineKind, value: &Value) -> Result<(), Wrong> {
    let name = field.name;
    let fits = |fits: bool, what: String| {
        if fits { Ok(()) } else { Err((ErrorCode::ValidationError, format!("`{name}` must be {what}"))) }
    };
    let whole = |value: &Value, min, max| value.as_i64().is_some_and(|it| (min..=max).contains(&it));
    match field.kind {
        Kind::Bool => fits(value.is_boolean(), "true or false".into()),
        Kind::Int { min, max } => fits(whole(value, min, max), format!("a whole number from {min} to {max}")),
        Kind::IntOneOf(allowed) => {
            let list = allowed.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            fits(value.as_i64().is_some_and(|it| allowed.contains(&it)), format!("one of {list}"))
        }
        Kind::Float { min, max } => {
            let inside = value.as_f64().is_some_and(|it| (min..=max).contains(&it));
            fits(inside, format!("a number from {min} to {max}"))
        }
        Kind::Text { max } => fits(
            value.as_str().is_some_and(|it| is_text(it, max) && !it.chars().any(char::is_control)),
            format!(
                "a text of 1 to {max} characters without control characters that does not begin with `-`"
            ),
        ),
        Kind::Lines { max } => fits(
            value.as_str().is_some_and(|it| {
                is_text(it, max) && !it.chars().any(|it| it.is_control() && !"\n\r\t".contains(it))
            }),
            format!("a text of 1 to {max} characters that does not begin with `-`"),
        ),
        Kind::Repo => fits(
            value.as_str().is_some_and(|it| is_repo(it, engine)),
            "a repository of the hub such as `owner/name`".into(),
        ),
        Kind::OneOf(allowed) => fits(
            value.as_str().is_some_and(|it| allowed.contains(&it)),
            format!("one of {}", allowed.join(", ")),
        ),
        Kind::Path => match value.as_str() {
            Some(path) => path_of(name, path),
            None => fits(false, "a path relative to the models base directory".into()),
        },
        Kind::ModelPath => match value.as_str() {
            Some(path) => path_of(name, below_models(path)),
            None => fits(false, "a path relative to the models base directory, or below `/models/`".into()),
        },
        Kind::RepoOrPath => match value.as_str() {
            Some(text) if is_repo(text, EngineKind::Vllm) => Ok(()),
            Some(text) if text.starts_with('/') || text.split('/').any(|it| it == "..") => {
                path_of(name, below_models(text))
            }
            _ => fits(false, "a repository such as `owner/name`, or a folder below `/models/`".into()),
        },
        Kind::IntList { min, max } => fits(
            value
                .as_array()
                .is_some_and(|items| items.len() <= 64 && items.iter().all(|it| whole(it, min, max)))
                && !repeats(value),
            format!("an array of whole numbers from {min} to {max}, none of them twice"),
        ),
        Kind::NamedPaths { max } => match texts(value, max) {
            Some(items) => items.into_iter().try_for_each(|it| named_path(name, it)),
            None => fits(false, format!("an array of at most {max} texts like `name=folder/file`")),
        },
        Kind::TextList { max } => match texts(value, max) {
            Some(items) => items.into_iter().try_for_each(|it| argument(name, engine, it)),
            None => fits(false, format!("an array of at most {max} texts without control characters")),
        },
        Kind::TextMap => match value.as_object() {
            Some(map) if map.len() <= 200 => variables(name, map),
            _ => fits(false, "an object of texts".into()),
        },
        Kind::Object => match value.as_object() {
            Some(map) => defaults(name, map),
            None => fits(false, "an object".into()),
        },
    }
}

/// Whether an array holds the same value twice.
fn repeats(value: &Value) -> bool {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().enumerate().any(|(at, it)| items[..at].contains(it))
}

/// Whether a text can be the value of an option.
fn is_text(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.chars().count()) && !text.starts_with('-')
}

/// Returns the texts of an array if it is short enough and all of them are plain.
fn texts(value: &Value, max: usize) -> Option<Vec<&str>> {
    let plain = |it: &&str| it.len() <= LONGEST_WORD && !it.chars().any(char::is_control);
    let items = value.as_array().filter(|it| it.len() <= max)?;
    items.iter().map(|it| it.as_str().filter(plain)).collect()
}

/// Whether `text` is `owner/name` or `name`, as the hub allows; for llama.cpp a quantisation may follow.
fn is_repo(text: &str, engine: EngineKind) -> bool {
    let (repo, quant) = match text.split_once(':') {
        Some((repo, quant)) if engine == EngineKind::Llamacpp => (repo, Some(quant)),
        _ => (text, None),
    };
    is_repo_id(repo) && quant.is_none_or(is_repo_word)
}

/// Whether `text` is `owner/name` or `name` as the hub allows them: letters, digits, `_`, `-` and `.`. `-` and `.` may
/// not begin or end a part, and may not follow themselves (`huggingface_hub` `utils/_validators.py`,
/// `validate_repo_id`). So such a text can't be a path of a file system.
pub fn is_repo_id(text: &str) -> bool {
    let (owner, name) = match text.split_once('/') {
        Some((owner, name)) => (Some(owner), name),
        None => (None, text),
    };
    owner.is_none_or(is_repo_word) && is_repo_word(name) && name.strip_suffix(".git").is_none()
}

fn is_repo_word(text: &str) -> bool {
    (1..=96).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"_-.".contains(&it))
        && !text.starts_with(['-', '.'])
        && !text.ends_with(['-', '.'])
        && !text.contains("--")
        && !text.contains("..")
}

/// Checks one argument of the operator's own.
fn argument(name: &str, engine: EngineKind, word: &str) -> Result<(), Wrong> {
    match (owned::argument(engine, word), owned::field(engine, word)) {
        (Some(owned), _) => Err(gateways(name, owned)),
        (None, Some(field)) => {
            Err((ErrorCode::ValidationError, format!("`{name}` can't set `{word}`: use the field `{field}`")))
        }
        (None, None) => Ok(()),
    }
}

/// Checks default parameters, which are added to requests that don't carry them.
fn defaults(name: &str, map: &Map<String, Value>) -> Result<(), Wrong> {
    match NOT_DEFAULTS.iter().find(|it| map.contains_key(**it)) {
        Some(key) => Err((
            ErrorCode::ValidationError,
            format!("`{name}` can't hold `{key}`, which each request says for itself"),
        )),
        None => Ok(()),
    }
}

fn gateways(name: &str, what: &str) -> Wrong {
    (ErrorCode::ValidationError, format!("`{name}` can't set `{what}`: the gateway does"))
}

fn path_of(name: &str, path: &str) -> Result<(), Wrong> {
    relative_path(path).map_err(|(code, why)| (code, format!("`{name}` {why}")))
}

/// Checks one adapter. Its path is put into lists that both engines split at commas, and vLLM also at `=`.
fn named_path(name: &str, entry: &str) -> Result<(), Wrong> {
    let shape = || format!("`{name}` entries look like `name=folder/file`, without commas");
    match entry.split_once('=') {
        Some((adapter, path))
            if !adapter.is_empty()
                && !adapter.starts_with('-')
                && !entry.contains(',')
                && !path.contains('=') =>
        {
            path_of(name, path)
        }
        _ => Err((ErrorCode::ValidationError, shape())),
    }
}

fn variables(name: &str, map: &Map<String, Value>) -> Result<(), Wrong> {
    for (variable, value) in map {
        let legal = !variable.is_empty()
            && !variable.starts_with(|it: char| it.is_ascii_digit())
            && variable.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
        let plain = |it: &str| it.len() <= LONGEST_WORD && !it.chars().any(char::is_control);
        if !legal || !value.as_str().is_some_and(plain) {
            let message =
                format!("`{name}` must map names such as `NAME_1` to texts without control characters");
            return Err((ErrorCode::ValidationError, message));
        }
        if owned::variable(variable) {
            return Err(gateways(name, variable));
        }
    }
    Ok(())
}

/// Returns the path relative to the models base directory. `path` may also be given as the container sees it.
pub fn below_models(path: &str) -> &str {
    path.strip_prefix("/models/").unwrap_or(path)
}

/// Checks that `path` stays below the directory that it is relative to, as far as its text shows. Symbolic links are
/// checked when the file is accessed.
///
/// # Errors
/// Says what is wrong with it: [`ErrorCode::PathNotAllowed`] if it would leave the directory, or be read as something
/// other than a path.
pub fn relative_path(path: &str) -> Result<(), (ErrorCode, &'static str)> {
    if path.is_empty() || path.len() > LONGEST_PATH || path.chars().any(char::is_control) {
        return Err((
            ErrorCode::ValidationError,
            "must be a path of 1 to 1000 characters, none a control character",
        ));
    }
    if path.starts_with(['/', '-']) {
        return Err((ErrorCode::PathNotAllowed, "must be relative to the models base directory"));
    }
    let mut parts = path.trim_end_matches('/').split('/');
    if parts.clone().any(|it| it == "..") {
        return Err((ErrorCode::PathNotAllowed, "must not leave the models base directory"));
    }
    // Each file has only one accepted spelling.
    if parts.any(|it| it.is_empty() || it == ".") {
        return Err((ErrorCode::ValidationError, "must be written without `./` and `//`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_base_directory() {
        for bad in ["/etc", "..", "a/../b", "./../a", "a//..", "-x"] {
            assert_eq!(relative_path(bad).unwrap_err().0, ErrorCode::PathNotAllowed, "{bad:?}");
        }
        for bad in ["", "a\nb", "a\u{1b}b", "./a", "a//b", ".", "a/./b"] {
            assert_eq!(relative_path(bad).unwrap_err().0, ErrorCode::ValidationError, "{bad:?}");
        }
        for good in ["a", "a/b c/ü.gguf", "a..b/c", "folder/"] {
            assert!(relative_path(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn a_repository_is_no_path() {
        for good in ["Qwen/Qwen3-8B", "gpt2", "a/b.c_d-E"] {
            assert!(is_repo(good, EngineKind::Vllm), "{good}");
        }
        for bad in
            ["/etc", "../x", "a/b/c", "a b", "a/", "a/b:Q4_K_M", "http://h/x", "a/..", "a--b", "a/b.git"]
        {
            assert!(!is_repo(bad, EngineKind::Vllm), "{bad}");
        }
        assert!(is_repo("a/b:Q4_K_M", EngineKind::Llamacpp));
        assert!(!is_repo("a/b:Q4:x", EngineKind::Llamacpp));
    }
}
