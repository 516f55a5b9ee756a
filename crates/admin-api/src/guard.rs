//! What every request to the admin API passes: a known host name, same-site rules, security headers, request ids,
//! and the last form of errors.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header::ORIGIN, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use gantry_domain::{
    ApiError, ErrorCode,
    endpoint::Endpoint,
    net,
    web::{self, Audience},
};

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

/// What the UI's pages may load.
const PAGES: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors \
                     'none'; form-action 'self'";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The outermost layer. It runs for unknown routes too, so every answer has its id, its headers and the one error
/// shape.
pub(crate) async fn outermost(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(RequestId(id.clone()));
    let origin = request.headers().get(ORIGIN).cloned();
    let preflight = request.method() == Method::OPTIONS;
    let authority = request.uri().authority().map(Authority::as_str);
    let mut response = if !app.config.web.knows_host(request.headers(), authority) {
        Problem(app.config.web.unknown_host(request.headers(), authority)).into_response()
    } else if preflight && let Some(allowed) = app.config.web.preflight(Audience::Sessions, request.headers())
    {
        (StatusCode::NO_CONTENT, allowed).into_response()
    } else {
        next.run(request).await
    };
    if let Some(Carried(error)) = response.extensions_mut().remove::<Carried>() {
        response = finish(&error, &id);
    }
    let headers = response.headers_mut();
    add_request_id(headers, &id);
    app.config.web.add_cors(Audience::Sessions, origin.as_ref(), headers);
    app.config.web.add_hsts(headers);
    web::add_security_headers(headers, PAGES);
    response
}

fn add_request_id(headers: &mut HeaderMap, id: &str) {
    if let Ok(id) = HeaderValue::from_str(id) {
        web::add_request_id(headers, &id);
    }
}

/// Returns the request id in the headers if it is sane, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|it| it.to_str().ok());
    let sane = |it: &&str| {
        (1..=128).contains(&it.len())
            && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    given.filter(sane).map_or_else(|| uuid::Uuid::now_v7().to_string(), str::to_owned)
}

/// Returns the final form of an error, as the answer to a request with these headers, for use outside the admin API's
/// own layers.
pub fn error_answer(headers: &HeaderMap, error: &ApiError) -> Response {
    let id = request_id(headers);
    let mut response = finish(error, &id);
    add_request_id(response.headers_mut(), &id);
    web::add_security_headers(response.headers_mut(), PAGES);
    response
}

/// Refuses a request that another site's page made the browser send; a page on another port of this host counts as
/// another site's, too, although the browser sends the session cookie with its requests.
pub(crate) fn same_site(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    if app.config.web.is_same_site(headers) {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::CrossSiteRequest, "this request came from a page of another site"))
}

/// The client's address, with proxies taken into account. `None` only when a trusted proxy sent nonsense.
pub(crate) fn client_ip(app: &App, peer: Peer, headers: &HeaderMap) -> Option<IpAddr> {
    let forwarded = headers.get_all("x-forwarded-for").iter().map(HeaderValue::as_bytes);
    net::client_ip(peer.0.ip(), &app.config.trusted_proxies, forwarded)
}

/// The answer to a path that does not exist.
pub(crate) async fn unknown_route(request: Request) -> Problem {
    let path = request.uri().path();
    let meant =
        Endpoint::meant_by(path).filter(|_| !path.starts_with("/admin/") && !path.starts_with("/auth/"));
    let hint = meant.map(|it| format!("; did you mean {}?", shown(&it))).unwrap_or_default();
    Problem(ApiError::new(ErrorCode::UnknownRoute, format!("there is nothing at {}{hint}", shown(path))))
}

/// The answer to a method that a path does not have.
pub(crate) async fn unknown_method(request: Request) -> Problem {
    let message = format!("{} does not take {}", shown(request.uri().path()), request.method());
    Problem(ApiError::new(ErrorCode::MethodNotAllowed, message))
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}
