//! Reads the files of `apply`. All of them are read and checked before anything is done.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use gantry_domain::spelling::nearest;
use serde_json::{Map, Value, json};

use super::{entry::Entry, section::Section};
use crate::{
    exit::{Failure, Outcome},
    text::clean,
};

/// Most known fields that an error lists.
const FEW: usize = 20;

/// Returns the entries of all files, in the order in which they are applied.
///
/// # Errors
/// A file can't be read or is not JSON, a section or a field is unknown, an entry has no name, or two entries have the same.
pub(super) fn entries(paths: &[&str]) -> Outcome<Vec<Entry>> {
    let mut entries = Vec::new();
    for path in paths {
        for (file, text) in texts(path)? {
            let value = serde_json::from_str::<Value>(&text)
                .map_err(|error| wrong(&file, &format!("is not valid JSON: {error}")))?;
            let Value::Object(sections) = value else {
                return Err(wrong(&file, "does not hold a JSON object"));
            };
            for (word, list) in &sections {
                entries.extend(section(&file, word, list)?);
            }
        }
    }
    each_once(&entries)?;
    // The sort is stable: within a section the order of the files stays.
    entries.sort_by_key(|it| it.section);
    Ok(entries)
}

fn each_once(entries: &[Entry]) -> Outcome<()> {
    let mut seen = BTreeMap::new();
    for it in entries {
        if let Some(other) = seen.insert((it.label(), it.holder()), &it.file) {
            return Err(wrong(&it.file, &format!("has {} again, which is in {other}", it.label())));
        }
    }
    Ok(())
}

fn wrong(file: &str, what: &str) -> Failure {
    Failure::Usage(format!("{} {}", clean(file), clean(what)))
}

/// Returns each file that a path names, with its text.
fn texts(path: &str) -> Outcome<Vec<(String, String)>> {
    if path == "-" {
        let mut text = String::new();
        let read = io::stdin().lock().read_to_string(&mut text);
        read.map_err(|error| Failure::Usage(format!("can't read the standard input: {error}")))?;
        return Ok(vec![("standard input".to_owned(), text)]);
    }
    let refused = |path: &Path, error: &io::Error| {
        Failure::Usage(format!("can't read {}: {error}", clean(&path.display().to_string())))
    };
    let given = Path::new(path);
    let files = if given.is_dir() {
        let files = json_files(given).map_err(|error| refused(given, &error))?;
        if files.is_empty() {
            return Err(wrong(path, "has no *.json files"));
        }
        files
    } else {
        vec![given.to_owned()]
    };
    let mut texts = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| refused(&file, &error))?;
        texts.push((file.display().to_string(), text));
    }
    Ok(texts)
}

/// Returns the JSON files of a folder, sorted by name.
fn json_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for found in fs::read_dir(dir)? {
        let path = found?.path();
        if path.extension().is_some_and(|it| it == "json") && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn section(file: &str, word: &str, list: &Value) -> Outcome<Vec<Entry>> {
    let known = Section::ALL.map(Section::as_str);
    let section = Section::parse(word)
        .ok_or_else(|| wrong(file, &format!("has the unknown section `{word}`{}", meant(word, &known))))?;
    let list = list
        .as_array()
        .ok_or_else(|| wrong(file, &format!("has no list in `{word}`: write {{\"{word}\": [{{…}}]}}")))?;
    list.iter().enumerate().map(|(n, it)| entry(file, section, n + 1, it)).collect()
}

/// Says which known word was probably meant, or which there are.
fn meant(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!(", did you mean `{near}`?"),
        None if known.len() <= FEW => format!("; there are {}", known.join(", ")),
        None => "; `gantry models fields` lists them all".to_owned(),
    }
}

fn entry(file: &str, section: Section, n: usize, value: &Value) -> Outcome<Entry> {
    let nameless = format!("{}, entry {n}", section.as_str());
    let Value::Object(fields) = value else {
        return Err(wrong(file, &format!("has no object in {nameless}")));
    };
    let mut fields = fields.clone();
    let (of, name) = if section == Section::Limits {
        limits_of(file, &nameless, &mut fields)?
    } else {
        (section, text(file, &nameless, &fields, section.name())?)
    };
    let fields = as_shown(section, fields);
    let entry = Entry { file: file.to_owned(), section, of, name, fields };
    let label = entry.label();
    let known = section.fields();
    if let Some(field) = entry.fields.keys().find(|it| !known.contains(&it.as_str())) {
        return Err(wrong(
            file,
            &format!("has the unknown field `{field}` in {label}{}", meant(field, &known)),
        ));
    }
    if section == Section::Keys {
        let holders = ["org_name", "username"].into_iter().filter(|it| entry.fields.contains_key(*it));
        if holders.count() != 1 || entry.holder().is_none() {
            return Err(wrong(
                file,
                &format!("needs either `org_name` or `username` in {label}: whose key it is"),
            ));
        }
    }
    Ok(entry)
}

/// Takes the name of the organisation or the user out of an entry of `limits`.
fn limits_of(file: &str, nameless: &str, fields: &mut Map<String, Value>) -> Outcome<(Section, String)> {
    let (field, of) = match (fields.contains_key("org_name"), fields.contains_key("username")) {
        (true, false) => ("org_name", Section::Organisations),
        (false, true) => ("username", Section::Users),
        _ => {
            let what = format!("needs either `org_name` or `username` in {nameless}: whose limits they are");
            return Err(wrong(file, &what));
        }
    };
    let name = text(file, nameless, fields, field)?;
    fields.shift_remove(field);
    Ok((of, name))
}

fn text(file: &str, nameless: &str, fields: &Map<String, Value>, field: &str) -> Outcome<String> {
    let text = fields.get(field).and_then(Value::as_str).filter(|it| !it.is_empty());
    text.map(str::to_owned).ok_or_else(|| wrong(file, &format!("needs a text as `{field}` in {nameless}")))
}

/// Writes the addresses of a registry entry as the gateway shows them: as a list, without a slash at the end.
fn as_shown(section: Section, mut fields: Map<String, Value>) -> Map<String, Value> {
    if section != Section::Registry {
        return fields;
    }
    if !fields.contains_key("urls")
        && let Some(url) = fields.shift_remove("url")
    {
        fields.insert("urls".to_owned(), json!([url]));
    }
    for url in fields.get_mut("urls").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(text) = url.as_str().and_then(|it| it.strip_suffix('/')) {
            *url = text.into();
        }
    }
    fields
}
