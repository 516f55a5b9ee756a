//! Finds keys and tokens by id, prefix or name.

use serde_json::Value;

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    resolve::{among, read},
    text::{cell, clean},
};

/// Kind of record that is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noun {
    Key,
    Token,
}

impl Noun {
    fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Token => "token",
        }
    }
}

/// Finds the record in the list at `base` by id, prefix or name. Names need not be unique: if several records match,
/// the active one is meant.
///
/// # Errors
/// No record matches, or several do; the error lists their ids and prefixes.
pub(crate) async fn named(cx: &Cx, base: &str, noun: Noun, given: &str) -> Outcome<Value> {
    let (id, name) = read(given)?;
    let by_id = match id {
        // The API can't look up a single id, so the whole list is read.
        Some(id) => among(cx, base, &[], |it| it["id"] == id).await?.pop(),
        None => None,
    };
    let mut by_name = Vec::new();
    if let Some(name) = name.filter(|_| by_id.is_none()) {
        let same = |it: &Value| it["prefix"] == name || it["name"] == name;
        // Only lists of keys can be searched by the gateway. Lists of tokens can't, but there are few tokens.
        let narrow: Vec<_> = (noun == Noun::Key).then(|| ("q", name.to_owned())).into_iter().collect();
        by_name = among(cx, base, &narrow, same).await?;
        for (field, value) in [("prefix", name), ("status", "active")] {
            if by_name.iter().any(|it| it[field] == value) {
                by_name.retain(|it| it[field] == value);
            }
        }
    }
    let (noun, given) = (noun.as_str(), clean(given));
    match (by_id, by_name.as_slice()) {
        (Some(one), _) => Ok(one),
        (None, [one]) => Ok(one.clone()),
        (None, []) => Err(Failure::NotFound(format!(
            "there is no {noun} `{given}`; `gantry {noun}s list` lists them all"
        ))),
        (None, several) => {
            let line = |it: &Value| {
                let [id, prefix, status] = ["id", "prefix", "status"].map(|name| cell(&it[name]));
                format!("\n  id {id}, prefix {prefix}, {status}, of {}", cell(holder(it)))
            };
            let lines: String = several.iter().map(line).collect();
            Err(Failure::Usage(format!("several {noun}s are called `{given}`: give the id or prefix{lines}")))
        }
    }
}

/// Returns the holder of a record: a user, or a whole organisation.
pub(crate) fn holder(record: &Value) -> &Value {
    if record["username"].is_null() { &record["org_name"] } else { &record["username"] }
}
