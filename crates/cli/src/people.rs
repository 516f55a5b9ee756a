//! Whom a command means: organisations and users by name or id.

use clap::ArgMatches;
use serde_json::Value;

use crate::{
    Cx,
    args::{int, text},
    exit::{Failure, Outcome},
    http::query,
    out::clean,
};

const MAX_ROWS: i64 = 1000;

/// `--limit` and `--search` as parameters of a list.
pub(crate) fn window(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let mut pairs = vec![("limit", int(matches, "limit").unwrap_or(MAX_ROWS).min(MAX_ROWS).to_string())];
    if let Some(words) = text(matches, "search") {
        pairs.push(("q", words.to_owned()));
    }
    pairs
}

/// The organisation of this name, else of this id.
pub(crate) async fn org_id(cx: &Cx, given: &str) -> Outcome<i64> {
    lookup(cx, "/admin/orgs/lookup", "name", "organisation", given).await
}

/// The user of this name, else of this id.
pub(crate) async fn user_id(cx: &Cx, given: &str) -> Outcome<i64> {
    lookup(cx, "/admin/users/lookup", "username", "user", given).await
}

async fn lookup(cx: &Cx, path: &str, field: &str, what: &str, given: &str) -> Outcome<i64> {
    let answer = cx.client.get(path).await?;
    let same = |it: &&Value| it[field].as_str().is_some_and(|name| name == given);
    // Names are compared without regard to case only where nothing is exactly the same.
    let alike =
        |it: &&Value| it[field].as_str().is_some_and(|name| name.to_lowercase() == given.to_lowercase());
    let by_id = |it: &&Value| given.parse::<i64>().is_ok_and(|id| it["id"] == id);
    let list = answer.list();
    let found =
        list.iter().find(same).or_else(|| list.iter().find(alike)).or_else(|| list.iter().find(by_id));
    let id = found.and_then(|it| it["id"].as_i64());
    id.ok_or_else(|| Failure::NotFound(format!("there is no {what} `{}`", clean(given))))
}

/// Every entry of a list, on all its pages, that `wanted` takes.
pub(crate) async fn among(
    cx: &Cx,
    path: &str,
    more: &[(&'static str, String)],
    wanted: impl Fn(&Value) -> bool,
) -> Outcome<Vec<Value>> {
    let (mut offset, mut found) = (0, Vec::new());
    loop {
        let mut pairs = vec![("limit", MAX_ROWS.to_string()), ("offset", offset.to_string())];
        pairs.extend_from_slice(more);
        let page = cx.client.get(&format!("{path}{}", query(&pairs))).await?;
        found.extend(page.list().iter().filter(|it| wanted(it)).cloned());
        offset += page.list().len();
        if page.list().is_empty() || page.total().is_none_or(|it| offset >= it) {
            return Ok(found);
        }
    }
}
