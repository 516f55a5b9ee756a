//! Files that anybody may read without signing in: the pages of the UI and of the documentation.

use axum::{
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse, Redirect},
    routing::{MethodRouter, get},
};

/// A path with a file or a redirect behind it. It can hold nothing that runs and nothing that reads data, so it needs no
/// policy.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    path: &'static str,
    content: Content,
}

#[derive(Debug, Clone, Copy)]
enum Content {
    File { media_type: &'static str, text: &'static str },
    Temporarily(&'static str),
    Permanently(&'static str),
}

impl Asset {
    /// A text file. Browsers ask each time whether it has changed.
    pub const fn file(path: &'static str, media_type: &'static str, text: &'static str) -> Self {
        Self { path, content: Content::File { media_type, text } }
    }

    /// A redirect to another path for now (307).
    pub const fn redirect(path: &'static str, to: &'static str) -> Self {
        Self { path, content: Content::Temporarily(to) }
    }

    /// A redirect to another path for good (308).
    pub const fn moved(path: &'static str, to: &'static str) -> Self {
        Self { path, content: Content::Permanently(to) }
    }

    pub(crate) fn path(self) -> &'static str {
        self.path
    }

    /// Returns the handler, for a router with any state.
    pub(crate) fn handler<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(async move || match self.content {
            Content::File { media_type, text } => text_file(media_type, text).into_response(),
            Content::Temporarily(to) => Redirect::temporary(to).into_response(),
            Content::Permanently(to) => Redirect::permanent(to).into_response(),
        })
    }
}

/// The answer with a text file.
pub(crate) fn text_file(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-cache")], text)
}
