//! Answers that say 200 and are none: of a proxy, a login page or a web server in the engine's place.

use std::fmt;

use http::{HeaderMap, Response, header};
use hyper::body::{Body, Incoming};

/// Longest value of a header that is shown, in bytes.
const SHOWN: usize = 40;

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It has this content coding, which nobody asked for.
    Coded(String),
    /// It is a web page.
    Page,
    Empty,
    Redirect,
}

impl Unusable {
    /// Looks at the head of an answer that is not an error; `None` if it may be an engine's.
    pub(crate) fn of(answer: &Response<Incoming>) -> Option<Self> {
        if answer.status().is_redirection() {
            return Some(Self::Redirect);
        }
        if !answer.status().is_success() {
            return None;
        }
        Self::coded(answer.headers())
            .or_else(|| is_page(answer.headers()).then_some(Self::Page))
            .or_else(|| answer.body().is_end_stream().then_some(Self::Empty))
    }

    fn coded(headers: &HeaderMap) -> Option<Self> {
        let coding = headers.get(header::CONTENT_ENCODING)?.as_bytes();
        let shown = String::from_utf8_lossy(&coding[..coding.len().min(SHOWN)]);
        let plain = coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        (!plain).then(|| Self::Coded(shown.escape_default().to_string()))
    }
}

fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|it| it.as_bytes().to_ascii_lowercase());
    kind.is_some_and(|it| it.starts_with(b"text/html") || it.starts_with(b"application/xhtml"))
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what answers in the place of the model's engine is not one: its answer ")?;
        match self {
            Self::Coded(coding) => write!(f, "is compressed (`{coding}`), although nobody asked for that"),
            Self::Page => f.write_str("is a web page"),
            Self::Empty => f.write_str("is empty"),
            Self::Redirect => f.write_str("is a redirect to another address"),
        }
    }
}
