//! Files that anybody may read without signing in: the pages of the UI and of the documentation.

use std::{
    borrow::Cow,
    io::Write,
    sync::{Arc, OnceLock},
};

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY},
    },
    response::{IntoResponse, Redirect, Response},
    routing::{MethodRouter, any, get},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

use crate::guard;

/// Files below this size are not worth packing, in bytes.
const SMALL: usize = 1000;

/// A path with a file or a redirect behind it. It can hold nothing that runs and nothing that reads data, so it needs no
/// policy.
#[derive(Debug, Clone)]
pub struct Asset {
    path: Cow<'static, str>,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    File { media_type: &'static str, bytes: Cow<'static, [u8]>, keep: Keep },
    Pages { media_type: &'static str, bytes: Cow<'static, [u8]> },
    Temporarily(&'static str),
    Permanently(&'static str),
}

/// How long browsers may use a file without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// They ask each time whether it has changed.
    Ask,
    /// Its name changes with its content.
    ForEver,
}

impl Asset {
    /// A text file that keeps its name when it changes.
    pub const fn file(path: &'static str, media_type: &'static str, text: &'static str) -> Self {
        let bytes = Cow::Borrowed(text.as_bytes());
        Self { path: Cow::Borrowed(path), content: Content::File { media_type, bytes, keep: Keep::Ask } }
    }

    /// A file that was embedded.
    pub fn embedded(
        path: impl Into<Cow<'static, str>>,
        media_type: &'static str,
        bytes: Cow<'static, [u8]>,
        keep: Keep,
    ) -> Self {
        Self { path: path.into(), content: Content::File { media_type, bytes, keep } }
    }

    /// The page of an application that shows what the path says: it is the answer for every path below `prefix` that has no
    /// asset of its own and does not look like that of a file.
    pub fn pages(prefix: &str, media_type: &'static str, bytes: Cow<'static, [u8]>) -> Self {
        let content = Content::Pages { media_type, bytes };
        Self { path: format!("{prefix}{{*page}}").into(), content }
    }

    /// A redirect to another path for now (307).
    pub const fn redirect(path: &'static str, to: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), content: Content::Temporarily(to) }
    }

    /// A redirect to another path for good (308).
    pub const fn moved(path: &'static str, to: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), content: Content::Permanently(to) }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the handler, for a router with any state.
    pub(crate) fn handler<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        match self.content {
            Content::File { media_type, bytes, keep } => {
                let file = Arc::new(File::new(media_type, bytes, keep));
                get(async move |headers: HeaderMap| File::answer(&file, &headers).await)
            }
            Content::Pages { media_type, bytes } => {
                let file = Arc::new(File::new(media_type, bytes, Keep::Ask));
                any(async move |request: Request| {
                    // A script of an earlier version must not be answered with a page.
                    if request.uri().path().contains(['.', '%']) {
                        return guard::unknown_route(request).await.into_response();
                    }
                    if !matches!(*request.method(), Method::GET | Method::HEAD) {
                        return guard::unknown_method(request).await.into_response();
                    }
                    File::answer(&file, request.headers()).await
                })
            }
            Content::Temporarily(to) => get(async move || Redirect::temporary(to)),
            Content::Permanently(to) => get(async move || Redirect::permanent(to)),
        }
    }
}

/// A file with what is made of it when it is first asked for.
struct File {
    media_type: &'static str,
    plain: Bytes,
    keep: Keep,
    tag: OnceLock<Option<HeaderValue>>,
    packed: OnceLock<Option<Bytes>>,
}

impl File {
    fn new(media_type: &'static str, bytes: Cow<'static, [u8]>, keep: Keep) -> Self {
        let plain = match bytes {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        Self { media_type, plain, keep, tag: OnceLock::new(), packed: OnceLock::new() }
    }

    async fn answer(file: &Arc<Self>, headers: &HeaderMap) -> Response {
        let mut fixed = HeaderMap::new();
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
        fixed.insert(CACHE_CONTROL, HeaderValue::from_static(file.keep.rule()));
        fixed.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if let (Keep::Ask, Some(tag)) = (file.keep, file.tag()) {
            fixed.insert(ETAG, tag.clone());
            if headers.get_all(IF_NONE_MATCH).iter().any(|it| names(it, tag)) {
                return (StatusCode::NOT_MODIFIED, fixed).into_response();
            }
        }
        if accepts_gzip(headers)
            && let Some(packed) = Self::packed(file).await
        {
            fixed.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            return (fixed, packed).into_response();
        }
        (fixed, file.plain.clone()).into_response()
    }

    /// The first bytes of the SHA-256 of the content. It is weak, because the packed file has the same.
    fn tag(&self) -> Option<&HeaderValue> {
        let make = || {
            let sum: [u8; 32] = Sha256::digest(&self.plain).into();
            let start = u64::from_be_bytes(*sum.first_chunk()?);
            HeaderValue::from_str(&format!("W/\"{start:016x}\"")).ok()
        };
        self.tag.get_or_init(make).as_ref()
    }

    /// Returns the file packed with gzip, if that makes it smaller. Packing takes milliseconds, so it is done elsewhere.
    async fn packed(file: &Arc<Self>) -> Option<Bytes> {
        if file.plain.len() < SMALL || !is_text(file.media_type) {
            return None;
        }
        if let Some(packed) = file.packed.get() {
            return packed.clone();
        }
        let own = Arc::clone(file);
        let packed = tokio::task::spawn_blocking(move || own.packed.get_or_init(|| pack(&own.plain)).clone());
        packed.await.ok().flatten()
    }
}

impl Keep {
    fn rule(self) -> &'static str {
        match self {
            Self::Ask => "no-cache",
            Self::ForEver => "public, max-age=31536000, immutable",
        }
    }
}

fn pack(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    let packed = encoder.finish().ok()?;
    (packed.len() < plain.len()).then(|| packed.into())
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || matches!(media_type, "image/svg+xml" | "application/json")
}

/// Whether a list of entity tags names this one. Tags are compared weakly (RFC 9110, 13.1.2).
fn names(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let (Ok(list), Ok(tag)) = (list.to_str(), tag.to_str()) else { return false };
    let weak = |it: &str| it.trim().trim_start_matches("W/").to_owned();
    list.split(',').any(|it| it.trim() == "*" || weak(it) == weak(tag))
}

/// Whether the client takes gzip (RFC 9110, 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    let mut codings = values.flat_map(|it| it.split(',')).map(|it| {
        let (name, rest) = it.split_once(';').unwrap_or((it, ""));
        let refused = rest.trim().strip_prefix("q=").is_some_and(|it| it.parse() == Ok(0.0_f32));
        (name.trim().to_ascii_lowercase(), refused)
    });
    codings.any(|(name, refused)| name == "gzip" && !refused)
}

/// The answer with a text file.
pub(crate) fn text_file(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-cache")], text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    async fn ask(file: &Arc<File>, given: &HeaderMap) -> (Response, Bytes) {
        let answer = File::answer(file, given).await;
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (Response::from_parts(parts, axum::body::Body::empty()), body)
    }

    #[tokio::test]
    async fn a_file_is_packed_for_those_who_take_it_and_sent_once() {
        let text = "gantry ".repeat(1000).into_bytes();
        let file = Arc::new(File::new("text/css", Cow::Owned(text.clone()), Keep::Ask));
        let (plain, body) = ask(&file, &HeaderMap::new()).await;
        assert_eq!((plain.headers().get(CONTENT_ENCODING), &body[..]), (None, &text[..]));
        for refused in ["br", "gzip;q=0, br", "identity"] {
            assert_eq!(ask(&file, &headers(ACCEPT_ENCODING, refused)).await.1, text, "{refused}");
        }
        let (packed, body) = ask(&file, &headers(ACCEPT_ENCODING, "br, GZIP;q=0.5")).await;
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&body[..]), &mut read).unwrap();
        assert_eq!(read, text);

        let tag = packed.headers()[ETAG].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("\"other\", {tag}"), tag.replace("W/", ""), "*".to_owned()] {
            let (answer, body) = ask(&file, &headers(IF_NONE_MATCH, &known)).await;
            assert_eq!((answer.status(), body.len()), (StatusCode::NOT_MODIFIED, 0), "{known}");
        }
        assert_eq!(ask(&file, &headers(IF_NONE_MATCH, "\"other\"")).await.0.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_file_whose_name_changes_with_it_is_kept_for_ever() {
        let font = Arc::new(File::new("font/woff2", Cow::Owned(vec![0; 5000]), Keep::ForEver));
        let (answer, body) = ask(&font, &headers(ACCEPT_ENCODING, "gzip")).await;
        assert_eq!(answer.headers()[CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(
            (answer.headers().get(CONTENT_ENCODING), body.len()),
            (None, 5000),
            "it is packed already"
        );
    }
}
