//! Reads server-sent events, from a complete body or as they come.

use reqwest::Response;

/// The `data:` of each event, in order.
pub fn events(body: &str) -> Vec<String> {
    body.split("\n\n").filter_map(data).collect()
}

fn data(event: &str) -> Option<String> {
    let lines: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// An answer that is read event by event. Dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    response: Response,
    buffer: Vec<u8>,
}

impl EventStream {
    /// Takes over an answer, which must be a stream of events.
    pub fn new(response: Response) -> Self {
        let kind = response.headers().get("content-type").map(|it| it.to_str().unwrap().to_owned());
        assert!(kind.as_ref().is_some_and(|it| it.starts_with("text/event-stream")), "{response:?}");
        Self { response, buffer: Vec::new() }
    }

    /// The `data:` of the next event; `None` at the end.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> reqwest::Result<Option<String>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                match data(&String::from_utf8(event).unwrap()) {
                    Some(data) => return Ok(Some(data)),
                    // A comment.
                    None => continue,
                }
            }
            match self.response.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Reads all remaining events.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn rest(mut self) -> reqwest::Result<Vec<String>> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await? {
            all.push(data);
        }
        Ok(all)
    }
}
