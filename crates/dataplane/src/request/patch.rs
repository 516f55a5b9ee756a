//! The changes that the gateway makes to a request body: it asks the engine for token counts at the end of a stream, and
//! names the model as the engine does, where that has another name for it. Byte splices; everything else stays as the
//! client sent it.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;
use serde_json::Value;

use crate::request::peek::UsageSlot;

/// Replaces `range` of a body by `with`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'a> {
    pub range: Range<usize>,
    pub with: Cow<'a, str>,
}

/// Returns the patch that sets the `model` at `range` to `name`.
pub fn name_model(range: Range<usize>, name: &str) -> Patch<'static> {
    Patch { range, with: Value::from(name).to_string().into() }
}

/// Returns the patch that sets `"stream_options":{"include_usage":true}`; `None` if the body has it already.
pub fn include_usage(slot: &UsageSlot) -> Option<Patch<'static>> {
    let patch = |range, with: &'static str| Some(Patch { range, with: with.into() });
    match slot {
        // The body has a `model`, so another member follows.
        UsageSlot::NewOptions(at) => patch(*at..*at, r#""stream_options":{"include_usage":true},"#),
        UsageSlot::NullOptions(range) => patch(range.clone(), r#"{"include_usage":true}"#),
        UsageSlot::NewMember { at, only: true } => patch(*at..*at, r#""include_usage":true"#),
        UsageSlot::NewMember { at, only: false } => patch(*at..*at, r#""include_usage":true,"#),
        UsageSlot::Replace(range) => patch(range.clone(), "true"),
        UsageSlot::Leave => None,
    }
}

/// Returns the patched body. The ranges must lie within it and not overlap.
pub fn apply<const N: usize>(body: Bytes, patches: [Option<Patch<'_>>; N]) -> Bytes {
    let mut patches = patches;
    patches.sort_by_key(|it| it.as_ref().map(|it| it.range.start));
    let given = || patches.iter().flatten();
    if given().next().is_none() {
        return body;
    }
    let more: usize = given().map(|it| it.with.len()).sum();
    let mut out = Vec::with_capacity(body.len() + more);
    let mut done = 0;
    for patch in given() {
        out.extend_from_slice(&body[done..patch.range.start]);
        out.extend_from_slice(patch.with.as_bytes());
        done = patch.range.end;
    }
    out.extend_from_slice(&body[done..]);
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::request::peek::peek;

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
            let body_bytes = Bytes::from(text.clone());
            let patched = apply(body_bytes.clone(), [None, Some(patch.clone())]);
            let mut want = body.clone();
            if !want["stream_options"].is_object() { want["stream_options"] = json!({}); }
            want["stream_options"]["include_usage"] = json!(true);
            let got: Value = serde_json::from_slice(&patched).unwrap();
            // `Value` does not compare the order of keys.
            prop_assert_eq!(&got, &want);

            let end = patch.range.start + patch.with.len();
            let mut back = patched[..patch.range.start].to_vec();
            back.extend_from_slice(&text.as_bytes()[patch.range.clone()]);
            back.extend_from_slice(&patched[end..]);
            prop_assert_eq!(back, text.as_bytes());

            // The model's name is patched with it, whichever stands first.
            let name = "org/\"other\"";
            let renamed = apply(body_bytes, [Some(name_model(peeked.model_at.clone(), name)), Some(patch)]);
            want["model"] = name.into();
            prop_assert_eq!(serde_json::from_slice::<Value>(&renamed).unwrap(), want);
        }
    }
}
