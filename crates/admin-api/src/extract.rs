//! Reading requests: JSON bodies, query strings, ids and pages, each with errors that name the field.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json,
    body::{Body, HttpBody},
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{HeaderValue, StatusCode, Uri, header::CONTENT_TYPE, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use gantry_domain::{ApiError, ErrorCode, FieldProblem, words::either};
use gantry_store::{Order, Sort};
use http_body_util::BodyExt;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{body_room::Room, duplicate, error::Problem, policy::BodyLimit};

/// Longest time for a body to arrive. The largest bodies have 3 MiB (`BodyLimit::CHAT`).
const BODY_TIME: Duration = Duration::from_secs(30);
/// Longest `q`, in characters.
pub(crate) const MAX_SEARCH: usize = 200;
/// Most bytes that are read of a body that is too large.
const DISCARDED: u64 = 4 << 20;

/// A JSON object as the body; nothing said about its fields yet.
pub(crate) struct Object(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Object {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (json, bytes) = received(request).await?;
        Self::parse(json, &bytes)
    }
}

impl Object {
    fn parse(json: bool, bytes: &[u8]) -> Result<Self, Problem> {
        if !json {
            let message = "send the body as `Content-Type: application/json`";
            return Err(Problem::new(ErrorCode::UnsupportedMediaType, message));
        }
        match serde_json::from_slice::<Value>(bytes) {
            Ok(Value::Object(mut map)) => {
                // If a field came twice, one value would be lost, and the sender may mean that one.
                if let Some(key) = duplicate::first(bytes) {
                    let error = ApiError::new(ErrorCode::DuplicateKey, format!("`{key}` appears twice"))
                        .with_param(key);
                    return Err(error.into());
                }
                map.values_mut().for_each(plain);
                Ok(Self(map))
            }
            Ok(_) => Err(Problem::new(ErrorCode::InvalidJson, "the body must be a JSON object")),
            // serde_json (1.0) shows this reason only in the error's text; it reads 127 levels.
            Err(error) if error.to_string().starts_with("recursion limit exceeded") => Err(Problem::new(
                ErrorCode::InvalidJson,
                "the body is nested too deeply: more than 127 levels",
            )),
            Err(error) => {
                let place = format!("line {} column {}", error.line(), error.column());
                Err(Problem::new(ErrorCode::InvalidJson, format!("the body is not valid JSON ({place})")))
            }
        }
    }
}

/// Writes a whole number without its fraction, in a list too: `7.0` is as good a whole number as `7`.
fn plain(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0);
            if let Some(whole) = whole.and_then(|it| format!("{it:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

/// Like [`Object`], but a request without a body counts as an object without fields.
pub(crate) struct MaybeObject(pub(crate) Object);

impl<S: Send + Sync> FromRequest<S> for MaybeObject {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (json, bytes) = received(request).await?;
        if bytes.is_empty() {
            return Ok(Self(Object(Map::new())));
        }
        Object::parse(json, &bytes).map(Self)
    }
}

/// Returns whether `Content-Type` says that the body is JSON, and the body.
async fn received(request: Request) -> Result<(bool, Bytes), Problem> {
    let limit = request.extensions().get::<BodyLimit>().copied().unwrap_or(BodyLimit::NONE).0;
    let json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
    Ok((json, read(request.into_body(), limit, None).await?))
}

fn is_json(value: &HeaderValue) -> bool {
    let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

/// Reads the body, if it has at most `limit` bytes. The rest of a larger body is read all the same, up to
/// [`DISCARDED`]: many clients look at the answer only when they have sent everything, and hanging up on them would
/// lose it. The same is done with a body that finds no `room`.
async fn read(mut body: Body, limit: usize, mut room: Option<&mut Room>) -> Result<Bytes, Problem> {
    let announced = body.size_hint().lower();
    let (mut bytes, mut n_bytes, mut full) = (BytesMut::new(), 0_u64, None);
    let mut take = async || {
        while n_bytes <= DISCARDED
            && let Some(frame) = body.frame().await
        {
            let data =
                frame.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the body can't be read"))?;
            let data = data.into_data().unwrap_or_default();
            n_bytes += data.len() as u64;
            if n_bytes > limit as u64 || full.is_some() {
                bytes = BytesMut::new();
                continue;
            }
            match room.as_mut().map_or(Ok(()), |it| it.grow(bytes.len() + data.len())) {
                Ok(()) => bytes.extend_from_slice(&data),
                Err(error) => full = Some(error),
            }
        }
        Ok::<_, Problem>(())
    };
    if announced <= DISCARDED {
        let late = |_| Problem::new(ErrorCode::RequestTimeout, "the body did not arrive in time");
        tokio::time::timeout(BODY_TIME, take()).await.map_err(late)??;
        match full {
            Some(error) => return Err(error.into()),
            None if n_bytes <= limit as u64 => return Ok(bytes.freeze()),
            None => {}
        }
    }
    Err(Problem::new(ErrorCode::RequestTooLarge, format!("the body is larger than {limit} bytes")))
}

/// Returns the request once its whole body has arrived.
///
/// # Errors
/// The body is too large or too late, or there is no memory for it (503 `request_memory_full`). 422 `validation_error`
/// for a body on a route that takes none, since it would be misunderstood (an empty object counts as no body).
pub(crate) async fn with_its_body(
    request: Request,
    limit: BodyLimit,
    room: &mut Room,
) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    if limit != BodyLimit::NONE {
        let body = read(body, limit.0, Some(room)).await?;
        return Ok(Request::from_parts(parts, body.into()));
    }
    let said = read(body, 256, None).await;
    if said.is_ok_and(|it| matches!(it.trim_ascii(), b"" | b"{}")) {
        return Ok(Request::from_parts(parts, Body::empty()));
    }
    let message = format!("{} {} takes no body", parts.method, parts.uri.path());
    Err(ApiError::validation(vec![FieldProblem::new("body", message)]).into())
}

/// Takes fields out of an [`Object`] one by one and collects every problem; what is left over is unknown.
pub(crate) struct Fields {
    map: Map<String, Value>,
    problems: Vec<FieldProblem>,
}

impl Fields {
    pub(crate) fn new(object: Object) -> Self {
        Self { map: object.0, problems: Vec::new() }
    }

    pub(crate) fn problem(&mut self, param: &str, message: impl Into<String>) {
        self.problems.push(FieldProblem::new(param, message));
    }

    /// Whether the field was sent, with whatever value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    /// The field as it stands, `None` when absent; `null` is a value.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Value> {
        self.map.shift_remove(name)
    }

    /// Takes the field out if it is `null`.
    pub(crate) fn drop_null(&mut self, name: &str) {
        if self.map.get(name).is_some_and(Value::is_null) {
            self.map.shift_remove(name);
        }
    }

    /// Reads a field with `read`; absent and `null` are `None`.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        self.drop_null(name);
        self.given(name, allowed, read)
    }

    /// Reads a field with `read`; its absence is a problem.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        if self.map.get(name).is_none_or(Value::is_null) {
            self.map.shift_remove(name);
            self.problem(name, format!("`{name}` is required: {allowed}"));
            return None;
        }
        self.optional(name, allowed, read)
    }

    /// Reads a change of a field that always has a value: absent is `None`, and `null` is wrong like any other illegal
    /// value.
    pub(crate) fn given<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.raw(name)?;
        let found = read(&value);
        if found.is_none() {
            self.problem(name, format!("`{name}` must be {allowed}"));
        }
        found
    }

    /// Reads a change of a field that may be unset: absent is `None`, `null` is `Some(None)`.
    #[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
    pub(crate) fn change<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.map.get(name)?.is_null() {
            self.map.shift_remove(name);
            return Some(None);
        }
        self.optional(name, allowed, read).map(Some)
    }

    /// # Errors
    /// 422 with everything that was wrong, unknown fields included.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        for name in std::mem::take(&mut self.map).keys() {
            self.problem(name, format!("there is no field `{name}`"));
        }
        if self.problems.is_empty() { Ok(()) } else { Err(ApiError::validation(self.problems).into()) }
    }
}

/// Readers for [`Fields`].
pub(crate) mod read {
    use gantry_domain::{Timestamp, name};
    use serde_json::Value;

    /// Reads a name: `1..=max` characters that follow the rule in [`named`].
    pub(crate) fn name(max: usize) -> impl Fn(&Value) -> Option<String> {
        move |value| value.as_str().filter(|it| name::is_name(it, max)).map(str::to_owned)
    }

    /// What [`name`] takes, in words.
    pub(crate) fn named(max: usize) -> String {
        format!("a name of 1 to {max} characters, {}", name::RULE)
    }

    /// A text that refers to something or is shown: `1..=max` characters without control characters or outer blanks.
    pub(crate) fn line(max: usize) -> impl Fn(&Value) -> Option<String> {
        move |value| {
            let text = value.as_str()?;
            let legal = (1..=max).contains(&text.chars().count())
                && !text.chars().any(char::is_control)
                && text.trim() == text;
            legal.then(|| text.to_owned())
        }
    }

    pub(crate) fn id(value: &Value) -> Option<i64> {
        value.as_i64().filter(|it| *it > 0)
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn positive(max: i64) -> impl Fn(&Value) -> Option<i64> {
        move |value| value.as_i64().filter(|it| (1..=max).contains(it))
    }

    pub(crate) fn time(value: &Value) -> Option<Timestamp> {
        Timestamp::parse_rfc3339(value.as_str()?)
    }
}

/// A query string with only known parameters.
pub(crate) struct Params(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.uri)
    }
}

/// Checks the query string of a route that reads none: it must have no parameters.
///
/// # Errors
/// 422 `validation_error` with the first parameter; 400 if it can't be read.
pub(crate) fn without_query(uri: &Uri) -> Result<(), Problem> {
    Params::of(uri)?.finish()
}

impl Params {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Ok(Query(pairs)) = pairs else {
            return Err(Problem::new(ErrorCode::InvalidRequest, "the query string can't be read"));
        };
        let mut map = BTreeMap::new();
        for (name, value) in pairs {
            if map.insert(name.clone(), value).is_some() {
                return Err(Problem::invalid(&name, format!("`{name}` stands twice in the query")));
            }
        }
        Ok(Self(map))
    }

    /// Takes a parameter; an empty one counts as absent.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|it| !it.is_empty())
    }

    pub(crate) fn parsed<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => match read(&text) {
                Some(value) => Ok(Some(value)),
                None => Err(Problem::invalid(name, format!("`{name}` must be {allowed}"))),
            },
        }
    }

    /// Takes `q`, a part of a name. Texts longer than the limit find nothing, and databases have limits of their own.
    pub(crate) fn search(&mut self) -> Result<Option<String>, Problem> {
        let allowed = format!("a text of at most {MAX_SEARCH} characters");
        self.parsed("q", &allowed, |it| (it.chars().count() <= MAX_SEARCH).then(|| it.to_owned()))
    }

    pub(crate) fn id(&mut self, name: &str) -> Result<Option<i64>, Problem> {
        self.parsed(name, "a positive whole number", |it| it.parse().ok().filter(|id| *id > 0))
    }

    pub(crate) fn number(&mut self, name: &str, default: i64, max: i64) -> Result<i64, Problem> {
        let allowed = format!("a whole number from 1 to {max}");
        let read = |it: &str| it.parse().ok().filter(|n| (1..=max).contains(n));
        Ok(self.parsed(name, &allowed, read)?.unwrap_or(default))
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        self.flag_or(name, false)
    }

    pub(crate) fn flag_or(&mut self, name: &str, default: bool) -> Result<bool, Problem> {
        let read = |it: &str| match it {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        };
        Ok(self.parsed(name, "true or false", read)?.unwrap_or(default))
    }

    /// `sort`: a column, in descending order with `-` in front or `:desc` behind; `:asc` is the default.
    pub(crate) fn sort<C>(
        &mut self,
        columns: &[&str],
        read: impl FnOnce(&str) -> Option<C>,
    ) -> Result<Option<Sort<C>>, Problem> {
        let allowed =
            format!("{}, with `-` in front or `:desc` behind for the largest first", either(columns));
        self.parsed("sort", &allowed, |text| {
            let (column, order) = match (text.strip_prefix('-'), text.split_once(':')) {
                (Some(column), None) | (None, Some((column, "desc"))) => (column, Order::Desc),
                (None, Some((column, "asc"))) => (column, Order::Asc),
                (None, None) => (text, Order::Asc),
                (_, Some(_)) => return None,
            };
            Some(Sort { by: read(column)?, order })
        })
    }

    /// `limit` (1–1000, default 100) and `offset`.
    pub(crate) fn page(&mut self) -> Result<Page, Problem> {
        let limit = self.number("limit", 100, 1000)?;
        let offset = self.parsed("offset", "a whole number from 0 to 1000000000", |it| {
            it.parse().ok().filter(|n| (0..=1_000_000_000).contains(n))
        })?;
        Ok(Page { limit, offset: offset.unwrap_or(0) })
    }

    /// # Errors
    /// 422 for a parameter that the handler did not take.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Problem::invalid(name, format!("there is no query parameter `{name}`"))),
        }
    }
}

/// A window of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) limit: i64,
    pub(crate) offset: i64,
}

impl Page {
    /// Returns this window of a list that is in memory as a whole.
    pub(crate) fn of<T>(self, all: Vec<T>) -> Listed<T> {
        let n = all.len() as i64;
        Listed(all.into_iter().skip(self.offset as usize).take(self.limit as usize).collect(), n)
    }
}

/// The `{id}` of the path. A text that is not a number can't name anything: 404.
pub(crate) struct Id(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match id_text(parts, state).await?.parse() {
            Ok(id) if id > 0 => Ok(Self(id)),
            _ => Err(Problem(ApiError::new(ErrorCode::NotFound, "ids are positive whole numbers"))),
        }
    }
}

/// The `{id}` of the path, for objects that are named by UUIDs. A text that is not a UUID names nothing: 404.
pub(crate) struct UuidId(pub(crate) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for UuidId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Uuid::try_parse(&id_text(parts, state).await?);
        id.map(Self).map_err(|_| Problem(ApiError::new(ErrorCode::NotFound, "the id is no UUID")))
    }
}

async fn id_text<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| Problem::new(ErrorCode::InvalidRequest, "the path can't be read"))?;
    let id = params.iter().find(|(name, _)| *name == "id");
    Ok(id.map(|(_, value)| value.to_owned()).unwrap_or_default())
}

/// A list with the total in `X-Total-Count`.
pub(crate) struct Listed<T>(pub(crate) Vec<T>, pub(crate) i64);

impl<T: Serialize> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        ([("x-total-count", self.1.to_string())], Json(self.0)).into_response()
    }
}

/// 201 with the object.
pub(crate) struct Created<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

/// 202: recorded; the effect comes later.
pub(crate) struct Accepted<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Accepted<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0)).into_response()
    }
}

/// 200 `{"id":…,"status":"deleted"}`.
pub(crate) fn deleted(id: impl Serialize) -> Json<Value> {
    Json(serde_json::json!({ "id": id, "status": "deleted" }))
}

/// Reads a value with serde, for small closed types.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_body_that_does_not_come() {
        let stuck = Body::from_stream(futures_util::stream::pending::<Result<&[u8], std::io::Error>>());
        let begin = tokio::time::Instant::now();
        assert_eq!(read(stuck, 100, None).await.unwrap_err().0.code, ErrorCode::RequestTimeout);
        assert_eq!(begin.elapsed(), Duration::from_secs(30));
    }
}
