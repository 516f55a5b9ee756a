//! A model's `request_defaults`: parameters put into requests that do not carry them. A byte splice; what the client
//! sent stays as it is.

use bytes::Bytes;
use gantry_domain::model::check::NOT_DEFAULTS;
use serde_json::Value;

use crate::request::peek;

/// Names of the same limit: if a client sends one of them, none of the others is added.
const LIMITS: &[&str] = &["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// The parameters that a model's requests get, encoded so that they can be put in.
#[derive(Debug)]
pub struct RequestDefaults {
    members: Box<[DefaultMember]>,
    choices: Option<u64>,
    max_tokens: Option<u64>,
}

#[derive(Debug)]
struct DefaultMember {
    key: Box<str>,
    /// `"key":value,`
    bytes: Box<[u8]>,
}

impl RequestDefaults {
    /// `None` if there is nothing to put in. Keys that can't be defaults, which records of older versions of the gateway
    /// may hold, are left out.
    pub fn new<'a>(members: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Option<Self> {
        let (mut choices, mut max_tokens) = (None, None);
        let members: Box<[_]> = members
            .into_iter()
            .filter(|(key, _)| !NOT_DEFAULTS.contains(&key.as_str()))
            .map(|(key, value)| {
                match key.as_str() {
                    "n" | "n_cmpl" => choices = choices.max(value.as_u64()),
                    "n_predict" => max_tokens = max_tokens.max(value.as_u64()),
                    key if LIMITS.contains(&key) => max_tokens = max_tokens.max(value.as_u64()),
                    _ => {}
                }
                DefaultMember {
                    key: key.as_str().into(),
                    bytes: format!("{}:{value},", Value::from(key.as_str())).into_bytes().into(),
                }
            })
            .collect();
        (!members.is_empty()).then_some(Self { members, choices, max_tokens })
    }

    /// Returns the number of answers to each prompt, for a request that does not set it.
    pub(crate) fn choices(&self) -> Option<u64> {
        self.choices
    }

    /// Returns the longest answer in tokens, for a request that does not limit it.
    pub(crate) fn max_tokens(&self) -> Option<u64> {
        self.max_tokens
    }

    /// Puts the parameters that a checked request body lacks behind its outermost `{`. The body has a `model`, so a
    /// member follows.
    pub(crate) fn splice(&self, body: Bytes) -> Bytes {
        let (Some(sent), Some(brace)) = (peek::members(&body), memchr::memchr(b'{', &body)) else {
            return body;
        };
        let has = |key: &str| sent.iter().any(|(it, _)| it == key);
        let limited = LIMITS.iter().any(|it| has(it));
        let lacks = |it: &&DefaultMember| !has(&it.key) && (!limited || !LIMITS.contains(&&*it.key));
        let absent: Vec<_> = self.members.iter().filter(lacks).map(|it| &*it.bytes).collect();
        if absent.is_empty() {
            return body;
        }
        let (head, tail) = body.split_at(brace + 1);
        let mut out = Vec::with_capacity(body.len() + absent.iter().map(|it| it.len()).sum::<usize>());
        out.extend_from_slice(head);
        for it in absent {
            out.extend_from_slice(it);
        }
        out.extend_from_slice(tail);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn defaults(value: &Value) -> Option<RequestDefaults> {
        RequestDefaults::new(value.as_object().unwrap())
    }

    fn spliced(defaults: &Value, body: &'static str) -> String {
        let defaults = self::defaults(defaults).unwrap();
        String::from_utf8(defaults.splice(Bytes::from_static(body.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn what_is_absent_is_put_in_and_nothing_else_changes() {
        let given = json!({"temperature": 0.5, "stop": ["\n"], "n\"": null});
        assert_eq!(
            spliced(&given, " { \"x\":1e400, \"model\":\"m\", \"t\\u0065mperature\" : 0.10 }"),
            " {\"stop\":[\"\\n\"],\"n\\\"\":null, \"x\":1e400, \"model\":\"m\", \"t\\u0065mperature\" : 0.10 }"
        );
    }

    #[test]
    fn a_limit_by_another_name_is_a_limit() {
        let given = json!({"max_tokens": 5, "top_k": 1});
        assert_eq!(
            spliced(&given, r#"{"model":"m","max_completion_tokens":9}"#),
            r#"{"top_k":1,"model":"m","max_completion_tokens":9}"#
        );
    }

    #[test]
    fn what_decides_routing_is_no_default() {
        assert!(defaults(&json!({"model": "x", "stream": true, "messages": []})).is_none());
        assert!(defaults(&json!({})).is_none());
    }

    proptest! {
        #[test]
        fn without_the_splice_it_is_the_original(
            sent in prop::collection::btree_map("[a-e\"é]{0,2}", "\\PC{0,6}", 0..5),
            given in prop::collection::btree_map("[a-e\"é]{0,2}", -9..9_i64, 1..5), pretty: bool,
        ) {
            let mut body: Map<String, Value> = sent.into_iter().map(|(key, value)| (key, value.into())).collect();
            body.insert("model".into(), "m".into());
            let given = Value::Object(given.into_iter().map(|(key, value)| (key, value.into())).collect());
            let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
            let out = defaults(&given).unwrap().splice(text.clone().into());

            let mut want = given.as_object().unwrap().clone();
            want.extend(body);
            prop_assert_eq!(serde_json::from_slice::<Map<String, Value>>(&out).unwrap(), want);
            let mut back = out.to_vec();
            back.drain(1..=out.len() - text.len());
            prop_assert_eq!(back, text.as_bytes());
        }
    }
}
