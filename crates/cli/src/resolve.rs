//! Finds organisations and users by name or id, and reads lists page by page.

use clap::ArgMatches;
use gantry_domain::Role;
use serde_json::Value;

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
    http::query,
    options::{int, text},
    text::{cell, clean},
};

/// Most entries of one answer.
const PAGE: usize = 1000;

/// For the help of verbs that take a name or an id.
pub(crate) const WHICH: &str = "A number is taken as an id first, then as a name. If it is the id of one and the name of \
another, the command fails: write `id:12` or `name:12`.";

/// Returns `--search` as a query parameter of a list.
pub(crate) fn search(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    text(matches, "search").map(|words| ("q", words.to_owned())).into_iter().collect()
}

/// The signed-in user.
pub(crate) struct Me {
    pub(crate) id: Option<i64>,
    /// `None` for a role that this program does not know.
    pub(crate) role: Option<Role>,
}

impl Me {
    /// Returns whether the user can manage only what is their own.
    pub(crate) fn is_plain_user(&self) -> bool {
        self.role == Some(Role::User)
    }
}

pub(crate) async fn me(cx: &Cx) -> Outcome<Me> {
    let user = cx.client.get("/auth/me").await?.json["user"].clone();
    Ok(Me { id: user["id"].as_i64(), role: user["role"].as_str().and_then(Role::parse) })
}

/// Returns the id of an organisation, given by name or id.
pub(crate) async fn org_id(cx: &Cx, given: &str) -> Outcome<i64> {
    Ok(lookup(cx, "/admin/orgs/lookup", "name", "organisation", given).await?.0)
}

/// Returns the id of a user, given by name or id.
pub(crate) async fn user_id(cx: &Cx, given: &str) -> Outcome<i64> {
    Ok(user(cx, given).await?.0)
}

/// Returns id and name of a user, given by name or id.
pub(crate) async fn user(cx: &Cx, given: &str) -> Outcome<(i64, String)> {
    lookup(cx, "/admin/users/lookup", "username", "user", given).await
}

/// Finds a record by id or name. Other people choose names, and a name may be a number: it must never be taken for an
/// id. A number that is the id of one record and the name of another is refused.
async fn lookup(cx: &Cx, path: &str, field: &str, what: &str, given: &str) -> Outcome<(i64, String)> {
    let (id, name) = read(given)?;
    let (list, _) = listed(cx, path, &[], None).await?;
    let named = |it: &&Value| it[field].as_str().zip(name).is_some_and(|(it, name)| it == name);
    // Names are compared without regard to case only if no name matches exactly.
    let alike = |it: &&Value| {
        it[field].as_str().zip(name).is_some_and(|(it, name)| it.to_lowercase() == name.to_lowercase())
    };
    let by_id = id.and_then(|id| list.iter().find(|it| it["id"] == id));
    let by_name = list.iter().find(named).or_else(|| list.iter().find(alike));
    if let (Some(one), Some(other)) = (by_id, by_name)
        && one["id"] != other["id"]
    {
        let (given, one_name, other_id) = (clean(given), cell(&one[field]), cell(&other["id"]));
        return Err(Failure::Usage(format!(
            "`{given}` is the id of the {what} `{one_name}` and the name of the {what} with id {other_id}: write \
             `id:{given}` or `name:{given}`"
        )));
    }
    let found = by_id.or(by_name).and_then(|it| Some((it["id"].as_i64()?, cell(&it[field]))));
    found.ok_or_else(|| Failure::NotFound(format!("there is no {what} `{}`", clean(given))))
}

/// Returns the id and the name that a word may mean.
pub(crate) fn read(given: &str) -> Outcome<(Option<i64>, Option<&str>)> {
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|it| it.is_ascii_digit()));
    match given.split_once(':') {
        Some(("name", name)) => Ok((None, Some(name))),
        Some(("id", id)) => match number(id) {
            Some(id) => Ok((Some(id), None)),
            None => Err(Failure::Usage(format!(
                "`{0}` is not an id, which is a number; write `name:{0}` for a name that begins like this",
                clean(given)
            ))),
        },
        _ => Ok((number(given), Some(given))),
    }
}

/// Returns the value of `--limit`.
pub(crate) fn most(matches: &ArgMatches) -> Option<usize> {
    int(matches, "limit").and_then(|it| usize::try_from(it).ok())
}

/// Returns the first `most` entries of a list, or all entries, over as many pages as needed; and the list's total
/// length, if the gateway reports it.
pub(crate) async fn listed(
    cx: &Cx,
    path: &str,
    narrow: &[(&'static str, String)],
    most: Option<usize>,
) -> Outcome<(Vec<Value>, Option<usize>)> {
    let mut list = Vec::new();
    let total = pages(cx, path, narrow, most, |page| list.extend_from_slice(page)).await?;
    Ok((list, total))
}

/// Returns every entry of a list, on all its pages, that `wanted` accepts.
pub(crate) async fn among(
    cx: &Cx,
    path: &str,
    narrow: &[(&'static str, String)],
    wanted: impl Fn(&Value) -> bool,
) -> Outcome<Vec<Value>> {
    let mut found = Vec::new();
    let take = |page: &[Value]| found.extend(page.iter().filter(|it| wanted(it)).cloned());
    pages(cx, path, narrow, None, take).await?;
    Ok(found)
}

/// Hands a list to `take` page by page, and returns its total length, if the gateway reports it.
async fn pages(
    cx: &Cx,
    path: &str,
    narrow: &[(&'static str, String)],
    most: Option<usize>,
    mut take: impl FnMut(&[Value]),
) -> Outcome<Option<usize>> {
    let mut offset = 0;
    loop {
        let wanted = most.map_or(PAGE, |most| (most - offset).min(PAGE));
        let mut pairs = vec![("limit", wanted.to_string()), ("offset", offset.to_string())];
        pairs.extend_from_slice(narrow);
        let page = cx.client.get(&format!("{path}{}", query(&pairs))).await?;
        let n = page.list().len();
        take(page.list());
        offset += n;
        let total = page.total();
        let is_last = n == 0 || total.map_or(n < wanted, |total| offset >= total);
        if is_last || most.is_some_and(|most| offset >= most) {
            return Ok(total);
        }
    }
}
