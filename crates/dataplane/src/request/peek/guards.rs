//! Parameters that clients may not send, and why.

use std::borrow::Cow;

use gantry_domain::{ApiError, ErrorCode};

use super::{
    scan::{self, JsonKind, Scanner, Value},
    values::{as_number, is_true},
};

/// The rule by which a guarded parameter is refused.
#[derive(Debug, Clone, Copy)]
enum Guard {
    /// Numbers above it, also when written as a string (pydantic coerces those).
    AtMost(f64),
    /// Numbers above it or below 0, also when written as a string.
    UpTo(f64),
    /// Arrays with more elements.
    ElementsAtMost(u32),
    NotNegative,
    /// What the engine takes for `true`.
    NotTrue,
    /// Everything but `null`.
    Never,
    /// Values that are longer, in bytes of the body.
    BytesAtMost(usize),
    /// Objects that have one of these members.
    Without(&'static [&'static str]),
}

/// Limit for a grammar or a schema that an answer must keep to. Engines compile it before they answer, while others
/// wait.
const GRAMMAR: Guard = Guard::BytesAtMost(128 << 10);
/// Limit for lists that an engine goes through with each token.
const EACH_TOKEN: Guard = Guard::ElementsAtMost(1_000);

/// Parameters that clients may not send, whether or not the engine accepts them: each of these makes an engine
/// allocate, compute or run a template out of proportion, or crashes a known build. Decisions §5.
const GUARDS: &[(&str, Guard)] = &[
    ("n", Guard::AtMost(16.0)),
    // llama-server's own names of `n` and `logprobs`.
    ("n_cmpl", Guard::AtMost(16.0)),
    ("n_probs", Guard::UpTo(100.0)),
    ("best_of", Guard::AtMost(16.0)),
    // To vLLM, -1 is the whole vocabulary.
    ("logprobs", Guard::UpTo(100.0)),
    ("top_logprobs", Guard::UpTo(100.0)),
    ("prompt_logprobs", Guard::UpTo(100.0)),
    ("messages", Guard::ElementsAtMost(10_000)),
    // llama-server b11434 allocates this many elements at once: 1.2 GB for 10^8 of the second parameter (seen). -1
    // means all there are.
    ("repeat_last_n", Guard::AtMost(1_000_000.0)),
    ("dry_penalty_last_n", Guard::AtMost(1_000_000.0)),
    // llama-server looks for each of them in its whole vocabulary, while all others wait.
    ("dry_sequence_breakers", Guard::ElementsAtMost(100)),
    // Each is looked for after each token: 8,000 take 30 ms for it there (seen).
    ("stop", Guard::ElementsAtMost(100)),
    ("n_discard", Guard::NotNegative),
    ("n_keep", Guard::NotNegative),
    ("id_slot", Guard::NotNegative),
    ("chat_template", Guard::Never),
    // vLLM hands them to the call that renders the template, and they override its own arguments (CVE-2025-62426).
    (
        "chat_template_kwargs",
        Guard::Without(&[
            "chat_template",
            "conversation",
            "max_length",
            "padding",
            "return_assistant_tokens_mask",
            "return_dict",
            "return_tensors",
            "tokenize",
            "tokenizer_kwargs",
            "truncation",
        ]),
    ),
    ("structured_outputs", GRAMMAR),
    ("response_format", GRAMMAR),
    ("json_schema", GRAMMAR),
    ("grammar", GRAMMAR),
    ("guided_json", GRAMMAR),
    ("guided_regex", GRAMMAR),
    ("guided_grammar", GRAMMAR),
    ("guided_choice", GRAMMAR),
    // Has the schema of an answer in `/v1/responses`.
    ("text", GRAMMAR),
    // This is enough for some thousand tokens.
    ("logit_bias", Guard::BytesAtMost(64 << 10)),
    ("bad_words", EACH_TOKEN),
    ("stop_token_ids", EACH_TOKEN),
    ("samplers", Guard::ElementsAtMost(100)),
    // The sizes to which vLLM scales pictures and films; arguments of plugins.
    ("mm_processor_kwargs", Guard::BytesAtMost(4 << 10)),
    ("vllm_xargs", Guard::BytesAtMost(4 << 10)),
    // These name other machines from which vLLM gets a prompt's cache and its pictures.
    ("kv_transfer_params", Guard::Never),
    ("ec_transfer_params", Guard::Never),
    // These let a request go before all others, or to a chosen part of the engine.
    ("priority", Guard::Never),
    ("data_parallel_rank", Guard::Never),
    // An engine mixes up two requests with the same id. The gateway sends its own id as a header.
    ("request_id", Guard::Never),
    // The answer to such a request comes before its tokens do, and is fetched from a path that is not proxied.
    ("background", Guard::NotTrue),
];

/// Checks an outermost member of a body.
///
/// # Errors
/// 400 `parameter_not_allowed`.
pub(super) fn check(text: &str, key: &str, value: &Value) -> Result<(), ApiError> {
    if let Some((name, guard)) = GUARDS.iter().find(|(name, _)| *name == key)
        && let Some(problem) = guard.refuses(text, value)
    {
        let message = format!("`{name}` {problem}");
        return Err(ApiError::new(ErrorCode::ParameterNotAllowed, message).with_param(*name));
    }
    Ok(())
}

impl Guard {
    fn refuses(self, text: &str, value: &Value) -> Option<String> {
        let raw = &text[value.span.clone()];
        let as_number = || as_number(text, value);
        match self {
            Self::AtMost(max) => as_number().filter(|it| *it > max).map(|_| format!("may be at most {max}")),
            Self::UpTo(max) => {
                let outside = as_number().filter(|it| !(0.0..=max).contains(it));
                outside.map(|_| format!("must be between 0 and {max}"))
            }
            Self::ElementsAtMost(max) => {
                (value.n_elements > max).then(|| format!("may have at most {max} elements"))
            }
            Self::NotNegative => as_number().filter(|it| *it < 0.0).map(|_| "may not be negative".to_owned()),
            Self::NotTrue => is_true(text, value).then(|| "can't be metered".to_owned()),
            Self::BytesAtMost(max) => (raw.len() > max).then(|| format!("may have at most {max} bytes")),
            Self::Without(names) => {
                let found = member_of(raw, value.kind, names)?;
                Some(format!("may not have `{found}`, which is the operator's to set"))
            }
            Self::Never => (raw != "null").then(|| "is the operator's to set".to_owned()),
        }
    }
}

/// Returns the first of `names` that an object has as a member, in a part of a body that was checked.
fn member_of(raw: &str, kind: JsonKind, names: &[&'static str]) -> Option<&'static str> {
    // An engine may accept an object that is written as a string.
    let inner = if kind == JsonKind::String { scan::string(raw)? } else { Cow::Borrowed(raw) };
    let mut scanner = Scanner::new(&inner);
    scanner.object_start().ok()?;
    let mut first = true;
    while let Ok(Some((key, _))) = scanner.member(&mut first, 1) {
        if let Some(name) = names.iter().find(|it| **it == key) {
            return Some(name);
        }
    }
    None
}
