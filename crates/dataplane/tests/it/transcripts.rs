//! Recorded answers of real engines, and sending them again.

use std::path::Path;

use crate::engine::{SSE_HEAD, chunk, with_status};

pub(crate) struct Transcript {
    /// `200 OK`
    pub(crate) status: String,
    pub(crate) body: String,
    /// What the client had sent.
    pub(crate) request: String,
    pub(crate) streams: bool,
}

/// `name` is the path below `tests/transcripts`, less its ending.
pub(crate) fn transcript(name: &str) -> Transcript {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/transcripts")
        .join(name)
        .with_added_extension("http");
    let text = std::fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let (head, body) = rest.split_once("\r\n\r\n").unwrap();
    let status = head.lines().next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
    let request = first.split_once(" -d ").unwrap().1;
    // The recorder added a line feed.
    let body = body.strip_suffix('\n').unwrap_or(body);
    Transcript {
        status: status.to_owned(),
        streams: head.to_ascii_lowercase().contains("text/event-stream"),
        body: body.to_owned(),
        request: request.to_owned(),
    }
}

impl Transcript {
    /// Returns the answer as the engine sent it.
    pub(crate) fn answer(&self) -> String {
        if !self.streams {
            return with_status(&self.status, &self.body);
        }
        let mut out = SSE_HEAD.to_owned();
        for event in self.body.split_inclusive("\n\n") {
            out.push_str(&chunk(event));
        }
        out + "0\r\n\r\n"
    }

    /// Returns the request, for the gateway's model `name`.
    pub(crate) fn request_to(&self, name: &str) -> String {
        let mut request: serde_json::Value = serde_json::from_str(&self.request).unwrap();
        request["model"] = name.into();
        request.to_string()
    }
}
