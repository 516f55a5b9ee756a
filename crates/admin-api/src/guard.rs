//! What every request to the admin API passes: a known host name, same-site rules, security headers, request ids,
//! and the last form of errors.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{self, HOST, ORIGIN},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use gantry_domain::{ApiError, ErrorCode, net};

use crate::{
    App,
    error::{Carried, Problem, finish},
};

/// The connection's other end; the listener puts it into the request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The id of this request, for handlers.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(pub(crate) String);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Outermost: runs for unknown routes too, so every answer has its id, its headers and the one error shape.
pub(crate) async fn outermost(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let origin = request.headers().get(ORIGIN).cloned();
    let preflight = request.method() == Method::OPTIONS;
    let mut response = if let Err(problem) = known_host(&app, &request) {
        problem.into_response()
    } else if preflight && let Some(response) = cors_preflight(&app, request.headers()) {
        response
    } else {
        next.run(request).await
    };
    if let Some(Carried(error)) = response.extensions_mut().remove::<Carried>() {
        response = finish(&error, &id);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    cors(&app, origin.as_ref(), headers);
    security_headers(headers);
    response
}

/// The client's id if it is sane, else the one that the listener gave.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok());
    let sane = |it: &&str| {
        (1..=128).contains(&it.len())
            && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    given.filter(sane).map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned)
}

/// Stops DNS rebinding: a page of another site can't talk to a name that the gateway does not know.
fn known_host(app: &App, request: &Request) -> Result<(), Problem> {
    let unknown =
        || Problem::new(ErrorCode::UnknownHost, "this gateway does not go by that name; see ALLOWED_HOSTS");
    let known = |host: &str| {
        host_name(host).is_some_and(|name| {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok()
                || app.allowed_hosts.iter().any(|it| it.eq_ignore_ascii_case(name))
        })
    };
    // A request line with a host of its own counts as much as the header.
    let mut hosts: Vec<_> = request.headers().get_all(HOST).iter().map(|it| it.to_str().ok()).collect();
    let once = hosts.len() <= 1;
    hosts.extend(request.uri().authority().map(|it| Some(it.as_str())));
    let all = hosts.iter().all(|it| it.is_some_and(known));
    if once && all && !hosts.is_empty() { Ok(()) } else { Err(unknown()) }
}

/// `host` of `host` or `host:port`, without the brackets of an IPv6 address.
fn host_name(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |it: &str| it.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Refuses a state-changing request that another site's page made the browser send.
pub(crate) fn same_site(app: &App, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let origin = headers.get(ORIGIN).and_then(|it| it.to_str().ok());
    let allowed = |origin: &str| app.cors_origins.iter().any(|it| it == origin);
    let fine = match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(b"same-origin" | b"none") => true,
        Some(_) => origin.is_some_and(allowed),
        None => match origin {
            // Not a browser.
            None => true,
            Some(origin) => {
                let host = headers.get(HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
                let own = origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host));
                own || allowed(origin)
            }
        },
    };
    if fine {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::CrossSiteRequest, "this request came from a page of another site"))
}

fn cors_preflight(app: &App, headers: &HeaderMap) -> Option<Response> {
    let origin = headers.get(ORIGIN)?.to_str().ok()?;
    headers.get("access-control-request-method")?;
    if !app.cors_origins.iter().any(|it| it == origin) {
        return None;
    }
    let allowed = [
        ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"),
        ("access-control-allow-headers", "content-type, x-request-id"),
        ("access-control-max-age", "600"),
    ];
    Some((StatusCode::NO_CONTENT, allowed).into_response())
}

/// Echoes the origin if it is on the list; says nothing otherwise.
fn cors(app: &App, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    if app.cors_origins.is_empty() {
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin
        && app.cors_origins.iter().any(|it| it.as_bytes() == origin.as_bytes())
    {
        headers.insert("access-control-allow-origin", origin.clone());
        headers.insert("access-control-allow-credentials", HeaderValue::from_static("true"));
        headers
            .insert("access-control-expose-headers", HeaderValue::from_static("x-total-count, x-request-id"));
    }
}

fn security_headers(headers: &mut HeaderMap) {
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        (
            "content-security-policy",
            "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; \
             form-action 'self'",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// The client's address, with proxies taken into account. `None` only when a trusted proxy sent nonsense.
pub(crate) fn client_ip(app: &App, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
    let forwarded = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
    net::client_ip(peer.0.ip(), &app.trusted_proxies, forwarded)
}

/// The answer to a path that does not exist.
pub(crate) async fn unknown_route(request: Request) -> Problem {
    Problem(ApiError::new(
        ErrorCode::UnknownRoute,
        format!("there is nothing at {}", shown(request.uri().path())),
    ))
}

/// The answer to a method that a path does not have.
pub(crate) async fn unknown_method(request: Request) -> Problem {
    let message = format!("{} does not take {}", shown(request.uri().path()), request.method());
    Problem(ApiError::new(ErrorCode::MethodNotAllowed, message))
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_brackets_are_not_part_of_a_name() {
        for (host, name) in [
            ("a.b:80", "a.b"),
            ("a.b", "a.b"),
            ("[::1]:8084", "::1"),
            ("[::1]", "::1"),
            ("1.2.3.4:5", "1.2.3.4"),
        ] {
            assert_eq!(host_name(host), Some(name));
        }
        for host in ["a:", "a:b", "a:80.b", "[::1", "[::1]b", "[::1]:80.b", "::1", "a:99999"] {
            assert_eq!(host_name(host), None, "{host}");
        }
    }
}
