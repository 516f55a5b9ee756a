//! Reading a request's body: JSON objects within a size and a time, with errors that say what is wrong.

use std::time::Duration;

use axum::{
    body::{Body as HttpBody, HttpBody as _},
    extract::{FromRequest, Request},
    http::{HeaderValue, header::CONTENT_TYPE},
};
use bytes::{Bytes, BytesMut};
use gantry_domain::{ApiError, ErrorCode, FieldProblem};
use http_body_util::BodyExt;
use serde_json::{Map, Value};

use super::form::{Fields, Form};
use crate::{App, body_room::Room, duplicate, error::Problem, policy::BodyLimit};

/// Longest time for a body to arrive. The largest bodies have 8 MiB (`BodyLimit::COMPLETION`).
const BODY_TIME: Duration = Duration::from_secs(30);
/// Most bytes that are read of a body that is too large.
const DISCARDED: u64 = 9 << 20;

/// Most values of a body: each takes up to a hundred times its text in memory.
const MOST_VALUES: usize = 100_000;

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
        if values(bytes) > MOST_VALUES {
            let message = format!("the body has more than {MOST_VALUES} values");
            return Err(Problem::new(ErrorCode::RequestTooLarge, message));
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

/// Returns how many values a text has at most, if it is JSON: one more than it has commas and opening brackets outside of
/// strings.
fn values(text: &[u8]) -> usize {
    let (mut n, mut quoted, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => n += 1,
            _ => {}
        }
    }
    n
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

/// A JSON body that is read as the form `F`, with every mistake in it found at once.
pub(crate) struct Body<F>(pub(crate) F);

/// Like [`Body`], but a request without a body counts as an object without fields.
pub(crate) struct OptionalBody<F>(pub(crate) F);

impl<F: Form> FromRequest<App> for Body<F> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let object = Object::from_request(request, app).await?;
        read_form(object, app).map(Self)
    }
}

impl<F: Form> FromRequest<App> for OptionalBody<F> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let MaybeObject(object) = MaybeObject::from_request(request, app).await?;
        read_form(object, app).map(Self)
    }
}

fn read_form<F: Form>(object: Object, app: &App) -> Result<F, Problem> {
    let mut fields = Fields::new(object.0, app.clock.now());
    let form = F::read(&mut fields);
    fields.finish()?;
    // Without a problem there is a form.
    form.ok_or_else(|| ApiError::internal().into())
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
async fn read(mut body: HttpBody, limit: usize, mut room: Option<&mut Room>) -> Result<Bytes, Problem> {
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
        return Ok(Request::from_parts(parts, HttpBody::empty()));
    }
    let message = format!("{} {} takes no body", parts.method, parts.uri.path());
    Err(ApiError::validation(vec![FieldProblem::new("body", message)]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, n) in [("{}", 2), (r#"{"a":[1,2,{"b":"x,[\\\"{,"}]}"#, 6), ("[[[]]]", 4)] {
            assert_eq!(values(text.as_bytes()), n, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_body_that_does_not_come() {
        let stuck = HttpBody::from_stream(futures_util::stream::pending::<Result<&[u8], std::io::Error>>());
        let begin = tokio::time::Instant::now();
        assert_eq!(read(stuck, 100, None).await.unwrap_err().0.code, ErrorCode::RequestTimeout);
        assert_eq!(begin.elapsed(), Duration::from_secs(30));
    }
}
