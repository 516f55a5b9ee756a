//! Checks and headers that browsers make necessary, for both planes: known host names (against DNS rebinding), requests
//! from pages of other sites, CORS, and security headers.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, HOST, ORIGIN},
};

use crate::{ApiError, ErrorCode};

/// Longest list of request headers that a preflight may ask for, in bytes.
const MAX_ASKED: usize = 2048;
const EXPOSED: &str = "x-total-count, x-request-id, request-id, retry-after, retry-after-ms, x-ratelimit-limit-requests, \
                       x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, \
                       x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, x-should-retry, \
                       x-gantry-budget-warning, x-gantry-simulator";

/// The value that allows every origin, see [`Web::new`].
const ANY: &str = "*";

/// Longest host name that an answer repeats, in characters.
const MAX_SHOWN_HOST: usize = 100;

/// Which credentials a path accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// API keys; sessions, too.
    Keys,
    /// Only sessions.
    Sessions,
}

/// Host names and origins that the operator has listed.
#[derive(Debug, Clone, Default)]
pub struct Web {
    hosts: Vec<String>,
    /// Origins whose pages may use sessions.
    origins: Vec<String>,
    /// Whether pages of all other origins may send requests with keys.
    any: bool,
    /// Value of `Strict-Transport-Security`, if it is sent.
    hsts: Option<HeaderValue>,
}

impl Web {
    /// Makes the rules. `hosts` are names without a port; `origins` are `https://host[:port]`, compared literally. `*`
    /// among the origins lets pages of every other origin read the answers to requests with a key, because a key is not
    /// a cookie that a browser would add by itself.
    pub fn new(hosts: Vec<String>, mut origins: Vec<String>) -> Self {
        let n = origins.len();
        origins.retain(|it| it != ANY);
        let any = origins.len() < n;
        Self { hosts, origins, any, hsts: None }
    }

    /// Makes browsers use only `https` for this number of seconds; 0 sends no such header.
    #[must_use]
    pub fn with_hsts(mut self, seconds: u32) -> Self {
        let header = |seconds| HeaderValue::try_from(format!("max-age={seconds}")).ok();
        self.hsts = (seconds > 0).then_some(seconds).and_then(header);
        self
    }

    /// Adds the header that [`Self::with_hsts`] set.
    pub fn add_hsts(&self, headers: &mut HeaderMap) {
        if let Some(value) = &self.hsts {
            headers.insert(header::STRICT_TRANSPORT_SECURITY, value.clone());
        }
    }

    /// Whether a request was sent to a name of this gateway: an address, `localhost` or a listed name. `authority` is
    /// that of the request line, if it has one; it must be known just like the header.
    pub fn knows_host(&self, headers: &HeaderMap, authority: Option<&str>) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().map(|it| it.to_str().ok());
        let given = host.into_iter().chain(authority.map(Some));
        let known = |it: Option<&str>| it.and_then(host_name).is_some_and(|name| self.knows(name));
        hosts.next().is_none() && (host.is_some() || authority.is_some()) && given.into_iter().all(known)
    }

    fn knows(&self, name: &str) -> bool {
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Returns the error for a request whose host [`Self::knows_host`] refuses, with the setting that allows its name.
    pub fn unknown_host(&self, headers: &HeaderMap, authority: Option<&str>) -> ApiError {
        let hosts = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let given: Vec<_> = hosts.chain(authority.map(str::as_bytes)).collect();
        let name = |it: &[u8]| std::str::from_utf8(it).ok().and_then(host_name).map(str::to_owned);
        let strange = given.iter().find(|it| !name(it).is_some_and(|it| self.knows(&it)));
        let message = match strange.map(|it| (name(it).filter(|it| is_plain(it)), it)) {
            None if given.is_empty() => "the request has no `Host` header".to_owned(),
            None => "the request has more than one `Host` header".to_owned(),
            Some((Some(name), _)) => {
                let listed = if self.hosts.is_empty() { "" } else { "…," };
                format!(
                    "this gateway does not answer to the name `{name}`: to allow it, set ALLOWED_HOSTS={listed}{name} and \
                     start the gateway again"
                )
            }
            Some((None, text)) => {
                let text = String::from_utf8_lossy(text);
                let clean = text.chars().map(|it| if it.is_ascii_graphic() { it } else { '?' });
                let shown: String = clean.take(MAX_SHOWN_HOST).collect();
                format!(
                    "`{shown}` in the `Host` header is no name that a gateway can have (see ALLOWED_HOSTS)"
                )
            }
        };
        ApiError::new(ErrorCode::UnknownHost, message)
    }

    /// Whether a request that changes something came from a page of the gateway itself, from a page of a listed origin,
    /// or not from a browser at all: such clients send none of these headers, and have no cookie that could be abused.
    pub fn is_same_site(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(ORIGIN);
        let listed = || origin.is_some_and(|it| self.lists(it));
        if let Some(site) = headers.get("sec-fetch-site") {
            return matches!(site.as_bytes(), b"same-origin" | b"none") || listed();
        }
        let Some(origin) = origin else { return true };
        let host = headers.get(HOST).and_then(|it| it.to_str().ok());
        let own = origin.to_str().ok().and_then(|it| it.split_once("://"));
        own.is_some_and(|(_, authority)| host.is_some_and(|host| host.eq_ignore_ascii_case(authority)))
            || listed()
    }

    fn lists(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|it| it.as_bytes() == origin.as_bytes())
    }

    /// Returns the headers of the answer (204) to a CORS preflight; `None` if the request is not a preflight, or the
    /// origin is not allowed.
    pub fn preflight(&self, audience: Audience, headers: &HeaderMap) -> Option<HeaderMap> {
        headers.get("access-control-request-method")?;
        headers.get(ORIGIN).filter(|it| self.lists(it) || self.is_open_to_all(audience))?;
        // Client libraries send headers of their own, so all requested ones are allowed: none of them grants anything
        // here.
        let asked = headers.get("access-control-request-headers").filter(|it| it.len() <= MAX_ASKED);
        let asked = asked.cloned().unwrap_or(HeaderValue::from_static("content-type, x-request-id"));
        Some(HeaderMap::from_iter([
            (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE")),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, asked),
            (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        ]))
    }

    fn is_open_to_all(&self, audience: Audience) -> bool {
        self.any && audience == Audience::Keys
    }

    /// Whether answers depend on the request's origin at all.
    pub fn has_origins(&self) -> bool {
        self.any || !self.origins.is_empty()
    }

    /// Lets a page of `origin` read an answer: with cookies if the origin is on the list, without them if every origin
    /// may send keys. Adds nothing for other origins, except `Vary`.
    pub fn add_cors(&self, audience: Audience, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if !self.has_origins() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        let Some(origin) = origin else { return };
        if self.lists(origin) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        } else if self.is_open_to_all(audience) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static(ANY));
        } else {
            return;
        }
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    }
}

/// Adds the id of the request under both header names that clients look for: OpenAI's and Anthropic's.
pub fn add_request_id(headers: &mut HeaderMap, id: &HeaderValue) {
    headers.insert(HeaderName::from_static("request-id"), id.clone());
    headers.insert(HeaderName::from_static("x-request-id"), id.clone());
}

/// Whether a request was sent to this machine under a loopback name: `localhost` or a loopback address. `authority` is
/// that of the request line, if it has one.
pub fn is_for_loopback(headers: &HeaderMap, authority: Option<&str>) -> bool {
    let given = headers.get_all(HOST).iter().map(|it| it.to_str().ok()).chain(authority.map(Some));
    let mut names = given.map(|it| it.and_then(host_name)).peekable();
    names.peek().is_some()
        && names.all(|it| {
            it.is_some_and(|name| {
                name.eq_ignore_ascii_case("localhost")
                    || name.parse().is_ok_and(|it: IpAddr| it.to_canonical().is_loopback())
            })
        })
}

/// Adds the security headers that every answer carries.
pub fn add_security_headers(headers: &mut HeaderMap, policy: &'static str) {
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Returns `host` of `host` or `host:port`, without the brackets of an IPv6 address.
fn host_name(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |it: &str| it.parse::<u16>().is_ok();
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

/// Whether `ALLOWED_HOSTS` accepts the name.
fn is_plain(name: &str) -> bool {
    let legal = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    (1..=MAX_SHOWN_HOST).contains(&name.len()) && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_are_for_loopback() {
        let is = |hosts: &[&str], authority: Option<&str>| {
            let mut headers = HeaderMap::new();
            for it in hosts {
                headers.append(HOST, it.parse().unwrap());
            }
            is_for_loopback(&headers, authority)
        };
        for host in
            ["localhost", "LOCALHOST:1", "127.0.0.1:8084", "127.1.2.3", "[::1]:80", "[::ffff:127.0.0.1]"]
        {
            assert!(is(&[host], None), "{host}");
        }
        for host in ["10.0.0.1", "gantry.internal", "localhost.evil.example", "", "0.0.0.0", "127.0.0.1:x"] {
            assert!(!is(&[host], None), "{host}");
            assert!(!is(&["localhost", host], None) && !is(&["localhost"], Some(host)), "{host}");
        }
        assert!(!is(&[], None));
    }

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
