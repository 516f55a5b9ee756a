//! The one change that the gateway makes to a request body: asking the engine for token counts at the end of a
//! stream. A byte splice; everything else stays as the client sent it.

use std::ops::Range;

use bytes::Bytes;

use crate::peek::UsageSlot;

/// Replaces `range` of a body by `with`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub range: Range<usize>,
    pub with: &'static str,
}

/// The patch that makes a body say `"stream_options":{"include_usage":true}`; `None` if it says so already.
pub fn include_usage(slot: &UsageSlot) -> Option<Patch> {
    match slot {
        // The body has a `model`, so another member follows.
        UsageSlot::NewOptions(at) => {
            Some(Patch { range: *at..*at, with: r#""stream_options":{"include_usage":true},"# })
        }
        UsageSlot::NullOptions(range) => {
            Some(Patch { range: range.clone(), with: r#"{"include_usage":true}"# })
        }
        UsageSlot::NewMember { at, only: true } => {
            Some(Patch { range: *at..*at, with: r#""include_usage":true"# })
        }
        UsageSlot::NewMember { at, only: false } => {
            Some(Patch { range: *at..*at, with: r#""include_usage":true,"# })
        }
        UsageSlot::Replace(range) => Some(Patch { range: range.clone(), with: "true" }),
        UsageSlot::Leave => None,
    }
}

impl Patch {
    /// The patched body. `range` must lie within `body`.
    pub fn apply(&self, body: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(body.len() - self.range.len() + self.with.len());
        out.extend_from_slice(&body[..self.range.start]);
        out.extend_from_slice(self.with.as_bytes());
        out.extend_from_slice(&body[self.range.end..]);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::peek::peek;

    fn options() -> impl Strategy<Value = Option<Value>> {
        prop_oneof![
            Just(None),
            Just(Some(Value::Null)),
            Just(Some(json!({}))),
            Just(Some(json!({"include_usage": false}))),
            Just(Some(json!({"include_usage": true}))),
            Just(Some(json!({"include_usage": null, "x": [1, "}"]}))),
            Just(Some(json!({"continuous_usage_stats": true}))),
        ]
    }

    proptest! {
        #[test]
        fn nothing_but_the_option_changes(
            options in options(),
            content in ".{0,40}",
            pretty: bool,
            before: bool,
        ) {
            let mut body = serde_json::Map::new();
            if before { body.insert("model".into(), "m".into()); }
            if let Some(options) = options { body.insert("stream_options".into(), options); }
            body.insert("messages".into(), json!([{"role": "user", "content": content}]));
            if !before { body.insert("model".into(), "m".into()); }
            let body = Value::Object(body);
            let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();

            let peeked = peek(text.as_bytes()).unwrap();
            let asked = body["stream_options"]["include_usage"] == json!(true);
            prop_assert_eq!(peeked.include_usage, asked);
            let Some(patch) = include_usage(&peeked.usage_slot) else {
                prop_assert!(asked);
                return Ok(());
            };
            let patched = patch.apply(text.as_bytes());
            let mut want = body.clone();
            if !want["stream_options"].is_object() { want["stream_options"] = json!({}); }
            want["stream_options"]["include_usage"] = json!(true);
            let got: Value = serde_json::from_slice(&patched).unwrap();
            // Order of keys is not compared by `Value`.
            prop_assert_eq!(got, want);

            let end = patch.range.start + patch.with.len();
            let mut back = patched[..patch.range.start].to_vec();
            back.extend_from_slice(&text.as_bytes()[patch.range.clone()]);
            back.extend_from_slice(&patched[end..]);
            prop_assert_eq!(back, text.as_bytes());
        }
    }
}
