//! The scanner against `serde_json`, and the guards.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn code(body: &str) -> &'static str {
    peek(body.as_bytes()).map_or_else(|error| error.code.as_str(), |_| "ok")
}

#[test]
fn it_reads_what_decides_routing() {
    let body = r#" {"messages":[{"model":"inner","x":"\""}],"model" : "a\u0062c", "stream":true} "#;
    let peeked = peek(body.as_bytes()).unwrap();
    assert_eq!((peeked.model.as_ref(), peeked.stream, peeked.include_usage), ("abc", true, false));
}

#[test]
fn a_second_model_can_not_be_smuggled_in() {
    assert_eq!(code(r#"{"model":"a","model":"b"}"#), "duplicate_key");
    assert_eq!(code(r#"{"model":"a","mod\u0065l":"b"}"#), "duplicate_key");
    assert_eq!(code(r#"{"model":"a","stream":false,"stream":true}"#), "duplicate_key");
}

#[test]
fn what_is_no_object_with_a_model_is_refused() {
    let bad = [
        "",
        "[]",
        "1",
        "{",
        r#"{"model":"a"}x"#,
        r#"{"model":"a",}"#,
        r#"{"model":"a" "b":1}"#,
        r#"{"a":01,"model":"a"}"#,
        r#"{"model":"a","b":"\x"}"#,
        r#"{"model":"\ud800"}"#,
        r#"{"model":"a","b":tru}"#,
        r#"{,"model":"a"}"#,
    ];
    for body in bad {
        assert_eq!(code(body), "invalid_json", "{body}");
    }
    assert_eq!(peek(b"{\"model\":\"\xff\"}").unwrap_err().code, ErrorCode::InvalidJson);
    for body in ["{}", r#"{"model":1}"#, r#"{"model":null}"#, r#"{"model":["a"]}"#] {
        let error = peek(body.as_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::InvalidRequest, Some("model")),
            "{body}"
        );
    }
}

#[test]
fn guards_hold_and_their_limits_pass() {
    let with = |member: &str| code(&format!(r#"{{"model":"a",{member}}}"#));
    let refused = [
        r#""n":17"#,
        r#""n":1e3"#,
        r#""n":"1000""#,
        r#""n":1,"n":99"#,
        r#""best_of":17"#,
        r#""logprobs":101"#,
        r#""top_logprobs":101"#,
        r#""n_cmpl":17"#,
        r#""n_probs":1000000"#,
        r#""n_probs":"101""#,
        r#""logprobs":-1"#,
        r#""prompt_logprobs":101"#,
        r#""prompt_logprobs":-1"#,
        r#""repeat_last_n":2000000000"#,
        r#""dry_penalty_last_n":1e8"#,
        r#""kv_transfer_params":{"remote_host":"10.0.0.1"}"#,
        r#""n_discard":-1"#,
        r#""n_keep":-1"#,
        r#""id_slot":-1"#,
        r#""id_slot":"-2""#,
        r#""chat_template":"x""#,
        r#""background":true"#,
        r#""chat_t\u0065mplate":"x""#,
        r#""chat_template_kwargs":{"chat_template":"x"}"#,
        r#""chat_template_kwargs":{"enable_thinking":true,"tok\u0065nize":true}"#,
        r#""chat_template_kwargs":"{\"return_dict\":true}""#,
        r#""ec_transfer_params":{}"#,
        r#""priority":-1"#,
        r#""data_parallel_rank":0"#,
        r#""request_id":"x""#,
    ];
    for member in refused {
        assert_eq!(with(member), "parameter_not_allowed", "{member}");
    }
    let passed = [
        r#""n":16"#,
        r#""best_of":16"#,
        r#""logprobs":true"#,
        r#""top_logprobs":100"#,
        r#""n_probs":100"#,
        r#""n_cmpl":16"#,
        r#""repeat_last_n":-1"#,
        r#""stop":["a","b"]"#,
        r#""kv_transfer_params":null"#,
        r#""n_keep":0"#,
        r#""chat_template":null"#,
        r#""background":false"#,
        r#""deep":{"n":99,"chat_template":"x"}"#,
        r#""chat_template_kwargs":{"enable_thinking":false,"deep":{"tokenize":true}}"#,
        r#""chat_template_kwargs":null"#,
        r#""priority":null"#,
        r#""structured_outputs":{"json":{"type":"object"}}"#,
    ];
    for member in passed {
        assert_eq!(with(member), "ok", "{member}");
    }
    let messages = |n: usize| with(&format!(r#""messages":[{}]"#, vec!["{}"; n].join(",")));
    assert_eq!((messages(10_000), messages(10_001)), ("ok", "parameter_not_allowed"));
    let of_size = |name: &str, n: usize| with(&format!(r#""{name}":"{}""#, "x".repeat(n - 2)));
    for (name, max) in [
        ("structured_outputs", 128 << 10),
        ("response_format", 128 << 10),
        ("guided_regex", 128 << 10),
        ("grammar", 128 << 10),
        ("logit_bias", 64 << 10),
        ("mm_processor_kwargs", 4 << 10),
    ] {
        let around = (of_size(name, max), of_size(name, max + 1));
        assert_eq!(around, ("ok", "parameter_not_allowed"), "{name}");
    }
    for name in ["bad_words", "stop_token_ids"] {
        let elements = |n: usize| with(&format!(r#""{name}":[{}]"#, vec!["1"; n].join(",")));
        assert_eq!((elements(1_000), elements(1_001)), ("ok", "parameter_not_allowed"), "{name}");
    }
    let stops = |n: usize| with(&format!(r#""stop":[{}]"#, vec!["\"a\""; n].join(",")));
    assert_eq!((stops(100), stops(101)), ("ok", "parameter_not_allowed"));
    let choices = |member: &str| peek(format!(r#"{{"model":"a",{member}}}"#).as_bytes()).unwrap().choices;
    assert_eq!((choices(r#""n_cmpl":7"#), choices(r#""n":3,"n_cmpl":2"#)), (Some(7), Some(3)));
}

#[test]
fn nesting_ends_at_64() {
    let nested = |n: usize| code(&format!(r#"{{"model":"a","x":{}{}}}"#, "[".repeat(n), "]".repeat(n)));
    assert_eq!((nested(63), nested(64)), ("ok", "parameter_not_allowed"));
    assert_eq!(nested(100_000), "parameter_not_allowed");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |it| it.is_finite()).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[\"\\\\\u{0}-\u{1f}]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z\"\\\\é]{0,6}", inner, 0..5)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

/// Parses with `serde_json`. Differences on purpose are left out: see the doc of the module `peek`.
fn serde_accepts(text: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice::<Map<String, Value>>(text).ok()
}

proptest! {
    #[test]
    fn it_reads_what_serde_json_reads(rest in json_value(), model in "\\PC{0,20}", stream: bool, pretty: bool) {
        let body = json!({"a": rest, "model": model, "stream": stream, "z": rest});
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let peeked = peek(text.as_bytes()).unwrap();
        prop_assert_eq!(peeked.model.as_ref(), model);
        prop_assert_eq!(peeked.stream, stream);
    }

    #[test]
    fn a_mutated_body_is_judged_like_serde_json_judges_it(
        rest in json_value(), at: prop::sample::Index, byte in prop::sample::select(br#"{}[]",:\ux0e.-+t "#.to_vec()), kind in 0..3,
    ) {
        let mut text = serde_json::to_vec(&json!({"a": rest, "model": "m", "b": rest})).unwrap();
        let at = at.index(text.len());
        match kind {
            0 => { text[at] = byte; }
            1 => { text.remove(at); }
            _ => { text.insert(at, byte); }
        }
        match (peek(&text), serde_accepts(&text)) {
            (Ok(peeked), Some(map)) => prop_assert_eq!(Some(peeked.model.as_ref()), map["model"].as_str()),
            (Ok(_), None) => {
                // Only a number out of range or a lone surrogate: the grammar itself must be right.
                let ignored = serde_json::from_slice::<serde::de::IgnoredAny>(&text);
                prop_assert!(ignored.is_ok(), "{}", String::from_utf8_lossy(&text));
            }
            (Err(error), Some(map)) => {
                prop_assert!(error.code != ErrorCode::InvalidJson, "{error:?} {}", String::from_utf8_lossy(&text));
                prop_assert!(error.code != ErrorCode::InvalidRequest || !map.get("model").is_some_and(Value::is_string));
            }
            (Err(_), None) => {}
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), braces: bool) {
        let mut bytes = bytes;
        if braces { bytes.insert(0, b'{'); bytes.push(b'}'); }
        let _ = peek(&bytes);
    }
}

#[test]
fn all_that_is_asked_for_is_counted() {
    let of = |members: &str| {
        let body = format!(r#"{{"model":"a",{members}}}"#);
        let peeked = peek(body.as_bytes()).unwrap();
        (peeked.choices, peeked.prompts, peeked.max_tokens)
    };
    for (members, want) in [
        (r#""prompt":"x""#, (None, 1, None)),
        (r#""n":4"#, (Some(4), 1, None)),
        // `n_cmpl` is llama-server's name for `n`, and the one that the engine uses if both are there.
        (r#""n":2,"n_cmpl":3"#, (Some(3), 1, None)),
        (r#""n":"4","max_tokens":"7""#, (Some(4), 1, Some(7))),
        (r#""n":4,"n":null"#, (None, 1, None)),
        (r#""prompt":["a","b","c"]"#, (None, 3, None)),
        (r#""prompt":[[1,2],[3]]"#, (None, 2, None)),
        // One prompt, in tokens.
        (r#""prompt":[1,2,3]"#, (None, 1, None)),
        (r#""prompt":["a",2,3]"#, (None, 1, None)),
        (r#""prompt":[]"#, (None, 1, None)),
        (r#""messages":[{"prompt":["a","b"]}]"#, (None, 1, None)),
    ] {
        assert_eq!(of(members), want, "{members}");
    }
    assert_eq!(peek(br#"{"model":"a","prompt":["a"]}"#).unwrap().prompt_bytes, 5);
    assert_eq!(code(r#"{"model":"a","n_cmpl":17}"#), "parameter_not_allowed");
}

#[test]
fn tensors_are_found_where_engines_load_them() {
    let tensors = |members: &str| peek(format!(r#"{{"model":"a",{members}}}"#).as_bytes()).unwrap().tensors;
    let part = |part: &str| tensors(&format!(r#""messages":[{{"role":"user","content":[{part}]}}]"#));
    assert!(tensors(r#""prompt_embeds":"AAAA""#) && tensors(r#""prompt":"x","prompt_embeds":["AAAA"]"#));
    assert!(part(r#"{"type":"image_embeds","image_embeds":"AAAA"}"#));
    assert!(part(r#"{"type":"image_embeds","image_embeds":{"image_embeds":"AAAA","image_grid_thw":"A"}}"#));
    assert!(part(r#"{"audio_emb\u0065ds":"AAAA"}"#));
    assert!(!part(r#"{"type":"image_embeds","image_embeds":null,"uuid":"7"}"#));
    assert!(!tensors(r#""prompt_embeds":null"#) && !tensors(r#""metadata":{"image_embeds":"x"}"#));
    assert!(!tensors(r#""tools":[{"parameters":{"image_embeds":{"type":"string"}}}]"#));
}
