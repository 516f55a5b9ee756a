//! Addresses of HTTP servers, as settings, arguments and requests name them.

use http::{Uri, uri::Scheme};

/// Address of an HTTP server: `http[s]://host[:port][/base]`, without user, query and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    tls: bool,
    host: String,
    port: u16,
    authority: String,
    base: String,
}

impl HttpUrl {
    /// Reads an address; `None` for anything else. The default port is the scheme's.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme()?;
        let tls = *scheme == Scheme::HTTPS;
        let authority = uri.authority()?;
        // `Uri` takes ports that are no number, and drops fragments.
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" => Some(if tls { 443 } else { 80 }),
            port => port.strip_prefix(':')?.parse().ok().filter(|it| *it != 0),
        };
        let plain = (tls || *scheme == Scheme::HTTP) && uri.query().is_none() && !text.contains('#');
        let host = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
        (plain && !host.is_empty()).then_some(Self {
            tls,
            host,
            port: port?,
            authority: authority.as_str().to_owned(),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// The root of `host`, a plain name in lower case, by `https` on its usual port.
    pub fn https(host: &str) -> Self {
        let (host, authority) = (host.to_owned(), host.to_owned());
        Self { tls: true, host, port: 443, authority, base: String::new() }
    }

    /// Whether the scheme is `https`.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// `http` or `https`
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Host name in lower case or IP address, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, which is that of the scheme if the text has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host` or `host:port` as it was written: the value of the `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `host:port`, always with the port.
    pub fn host_and_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Path before all paths of the server, without a slash at its end; empty if there is none.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether both have the same scheme, host and port.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_a_port_and_a_base() {
        for (text, scheme, host, port, authority, base) in [
            ("http://Box.lan", "http", "box.lan", 80, "Box.lan", ""),
            ("https://box.lan/", "https", "box.lan", 443, "box.lan", ""),
            ("HTTPS://box.lan:8443/a/b/", "https", "box.lan", 8443, "box.lan:8443", "/a/b"),
            ("http://[::1]:8080//", "http", "::1", 8080, "[::1]:8080", ""),
            ("http://[::1]", "http", "::1", 80, "[::1]", ""),
        ] {
            let url = HttpUrl::parse(text).unwrap();
            assert_eq!((url.scheme(), url.host(), url.port()), (scheme, host, port), "{text}");
            assert_eq!((url.authority(), url.base()), (authority, base), "{text}");
            assert_eq!(url.is_tls(), scheme == "https", "{text}");
        }
        assert_eq!(HttpUrl::parse("https://box.lan"), Some(HttpUrl::https("box.lan")));
        let url = HttpUrl::parse("http://[::1]/x").unwrap();
        assert_eq!(url.host_and_port(), "[::1]:80");
        assert!(url.has_origin_of(&HttpUrl::parse("http://[::1]:80/y").unwrap()));
        for other in ["https://[::1]:80", "http://[::1]:81", "http://[::2]"] {
            assert!(!url.has_origin_of(&HttpUrl::parse(other).unwrap()), "{other}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in [
            "",
            "/",
            "box",
            "box:80",
            "//box",
            "http:",
            "http://",
            "http:///x",
            "http://:80",
            "ftp://box",
            "http://user@box",
            "http://user:word@box",
            "http://@box",
            "http://box?x",
            "http://box/?x",
            "http://box#x",
            "http://box:",
            "http://box:0",
            "http://box:70000",
            "http://box:port",
            "http://box:-1",
            "http://[::1",
            "http://[::1]x",
            "http://::1",
            "http://box ",
            "http://box/ x",
            "http://box\\@evil",
        ] {
            assert_eq!(HttpUrl::parse(wrong), None, "{wrong}");
        }
    }
}
