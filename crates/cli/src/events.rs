//! Server-sent events, the format of model logs and of `/admin/events`.

use serde_json::Value;

/// Reads `data:` lines of server-sent events from pieces that may end anywhere.
#[derive(Default)]
pub(crate) struct Events(Vec<u8>);

impl Events {
    /// Adds a piece, and returns the JSON data of the events that are complete now. Data that is not JSON is skipped.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|it| *it == b'\n') else { return Vec::new() };
        let complete: Vec<u8> = self.0.drain(..=end).collect();
        let lines = complete.split(|it| *it == b'\n').filter_map(|it| it.strip_prefix(b"data: "));
        lines.filter_map(|it| serde_json::from_slice(it).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_may_end_in_the_middle_of_a_piece() {
        let mut events = Events::default();
        assert!(events.take(b"data: {\"line\":\"a").is_empty());
        let found = events.take(b"b\"}\n\n: ping\n\ndata: {\"line\":\"c\"}\n\ndata");
        assert_eq!(found, [json!({ "line": "ab" }), json!({ "line": "c" })]);
    }
}
