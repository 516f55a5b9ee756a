//! What browsers make necessary, the same on both planes: host names that are known (DNS rebinding), pages of other
//! sites, CORS, and headers that guard pages.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, HOST, ORIGIN},
};

/// Longest list of request headers that a preflight may ask for, in bytes.
const MAX_ASKED: usize = 2048;
const EXPOSED: &str = "x-total-count, x-request-id, retry-after, retry-after-ms, x-ratelimit-limit-requests, \
                       x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, \
                       x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, x-should-retry, \
                       x-gantry-budget-warning";

/// Names and origins that the operator has listed.
#[derive(Debug, Clone, Default)]
pub struct Web {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Web {
    /// `hosts` are names without a port, `origins` are `https://host[:port]`, compared to the letter.
    pub fn new(hosts: Vec<String>, origins: Vec<String>) -> Self {
        Self { hosts, origins }
    }

    /// Whether a request came by a name of this gateway: an address, `localhost` or a listed name. `authority` is that
    /// of the request line, if it has one, and counts as much as the header.
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

    /// Whether a request that changes something came from a page of the gateway's own, from one of a listed origin, or
    /// from no browser at all: those say nothing, and have no cookie to be abused.
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

    /// Headers of the answer (204) to a listed origin's question whether it may ask; `None` if it is no such question.
    pub fn preflight(&self, headers: &HeaderMap) -> Option<HeaderMap> {
        headers.get("access-control-request-method")?;
        headers.get(ORIGIN).filter(|it| self.lists(it))?;
        // Client libraries send headers of their own; none of them means more here than it says.
        let asked = headers.get("access-control-request-headers").filter(|it| it.len() <= MAX_ASKED);
        let asked = asked.cloned().unwrap_or(HeaderValue::from_static("content-type, x-request-id"));
        Some(HeaderMap::from_iter([
            (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE")),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, asked),
            (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
        ]))
    }

    /// Whether answers depend on the origin at all.
    pub fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// Lets a page of `origin` read an answer, if it is on the list; says nothing otherwise.
    pub fn add_cors(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        if !self.has_origins() {
            return;
        }
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin.filter(|it| self.lists(it)) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        }
    }
}

/// What every answer says to browsers, whatever it is.
pub fn add_security_headers(headers: &mut HeaderMap, policy: &'static str) {
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
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
