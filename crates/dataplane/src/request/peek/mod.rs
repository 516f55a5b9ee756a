//! Reads the few things of a request body that decide what happens to it, without building a tree: one pass over
//! the bytes that also checks the JSON grammar, so that what passes here is what the engine will see.
//!
//! Laxer than `serde_json` in three ways, none of which touches a key or a value that is read here: raw control
//! characters inside strings, numbers beyond the range of a double, and lone surrogates (`\ud800`) in values.

pub(crate) mod media;
mod scan;

use std::{borrow::Cow, ops::Range};

use gantry_domain::{ApiError, ErrorCode};

pub use scan::MAX_DEPTH;
use scan::{JsonKind, Scanner, Value, bad_json};

/// What was found. Ranges are byte offsets in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The served name that the client wants.
    pub model: Cow<'a, str>,
    /// Where the value of `model` stands, with the quotes.
    pub model_at: Range<usize>,
    /// `"stream": true`.
    pub stream: bool,
    /// The client itself asked for the usage event.
    pub include_usage: bool,
    /// The longest answer that the client allows, in tokens, if it sets one.
    pub max_tokens: Option<u64>,
    /// Answers to each prompt, if the client sets the number: `n`, or `n_cmpl`, llama-server's own name for it.
    pub choices: Option<u64>,
    /// Prompts in `prompt`, which only `/v1/completions` has; at least 1.
    pub prompts: u64,
    /// Bytes of `prompt`.
    pub prompt_bytes: u64,
    /// Where `stream_options.include_usage` would have to be changed.
    pub usage_slot: UsageSlot,
    /// It carries tensors, which vLLM loads: `prompt_embeds`, or parts such as `image_embeds`.
    pub tensors: bool,
    /// Addresses of pictures, films, sounds and files which an engine may fetch: everything but `data:`.
    pub fetched: Vec<Cow<'a, str>>,
}

/// The change that makes a body contain `"stream_options":{"include_usage":true}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageSlot {
    /// No `stream_options`: a new member goes here, behind the outermost `{`.
    NewOptions(usize),
    /// `stream_options` is `null`: replace it.
    NullOptions(Range<usize>),
    /// An object without `include_usage`: a new member goes here, behind its `{`.
    NewMember { at: usize, only: bool },
    /// `include_usage` has this value: replace it.
    Replace(Range<usize>),
    /// It is `true` already, or `stream_options` is of a type that the engine will refuse.
    Leave,
}

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

/// Checks and reads a request body.
///
/// # Errors
/// 400 `invalid_json`, `duplicate_key`, `invalid_request` (no usable `model`) or `parameter_not_allowed`.
pub fn peek(body: &[u8]) -> Result<Peek<'_>, ApiError> {
    let text = std::str::from_utf8(body).map_err(|_| bad_json("it is not UTF-8"))?;
    let mut scanner = Scanner::new(text);
    let mut top = Top::default();
    let open = scanner.object_start()?;
    let mut first = true;
    while let Some((key, value)) = scanner.member(&mut first, 1)? {
        top.see(text, &key, &value)?;
    }
    scanner.end()?;
    let no_model = |message| ApiError::new(ErrorCode::InvalidRequest, message).with_param("model");
    let model = top.model.ok_or_else(|| no_model("`model` is missing"))?;
    if model.kind != JsonKind::String {
        return Err(no_model("`model` must be a string"));
    }
    let model_at = model.span.clone();
    let model = scan::string(&text[model_at.clone()]).ok_or_else(|| bad_json("a string has a bad escape"))?;
    let (include_usage, usage_slot) = usage_slot(text, open + 1, top.options.as_ref());
    let stream = top.stream.unwrap_or(false);
    let fetched =
        scanner.media.iter().filter_map(|(span, named)| media::fetched(&text[span.clone()], *named));
    Ok(Peek {
        model,
        model_at,
        stream,
        include_usage,
        max_tokens: top.max_tokens,
        choices: top.n.max(top.n_cmpl),
        prompts: top.prompts.max(1),
        prompt_bytes: top.prompt_bytes,
        usage_slot,
        tensors: scanner.tensors,
        fetched: fetched.collect(),
    })
}

/// Returns the model in a body that [`peek`] refuses, for its row; `None` if it is not clear.
pub(crate) fn named(body: &[u8]) -> Option<String> {
    let mut models = members(body)?.into_iter().filter(|(key, _)| key == "model");
    match (models.next(), models.next()) {
        (Some((_, raw)), None) => serde_json::from_str(raw).ok(),
        _ => None,
    }
}

/// Returns the keys and raw values of a checked body's outermost object, in their order.
pub(crate) fn members(body: &[u8]) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let text = std::str::from_utf8(body).ok()?;
    let mut scanner = Scanner::new(text);
    scanner.object_start().ok()?;
    let (mut members, mut first) = (Vec::new(), true);
    while let Some((key, value)) = scanner.member(&mut first, 1).ok()? {
        members.push((key, &text[value.span]));
    }
    Some(members)
}

#[derive(Default)]
struct Top {
    model: Option<Value>,
    stream: Option<bool>,
    options: Option<Value>,
    max_tokens: Option<u64>,
    n: Option<u64>,
    n_cmpl: Option<u64>,
    prompts: u64,
    prompt_bytes: u64,
}

impl Top {
    fn see(&mut self, text: &str, key: &str, value: &Value) -> Result<(), ApiError> {
        match key {
            "model" if self.model.is_some() => return Err(duplicate(key)),
            "model" => self.model = Some(value.clone()),
            "stream" if self.stream.is_some() => return Err(duplicate(key)),
            "stream" => self.stream = Some(is_true(text, value)),
            // The last one counts, as for the engines' parsers.
            "stream_options" => self.options = Some(value.clone()),
            _ => {
                if let Some((name, guard)) = GUARDS.iter().find(|(name, _)| *name == key)
                    && let Some(problem) = guard.refuses(text, value)
                {
                    let message = format!("`{name}` {problem}");
                    return Err(ApiError::new(ErrorCode::ParameterNotAllowed, message).with_param(*name));
                }
                match key {
                    "n" => self.n = count(text, value),
                    "n_cmpl" => self.n_cmpl = count(text, value),
                    "prompt" => {
                        // An array with a number in it is one prompt in tokens, to both engines.
                        self.prompts = if value.has_numbers { 1 } else { value.n_elements.into() };
                        self.prompt_bytes = value.span.len() as u64;
                    }
                    // The names of both engines and of all three APIs; if a client sends two, the larger one counts.
                    "max_tokens" | "max_completion_tokens" | "max_output_tokens" | "n_predict" => {
                        self.max_tokens = self.max_tokens.max(count(text, value));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// pydantic's lax mode also takes `1`, `"true"` and friends; an engine that then streams must be treated so.
fn is_true(text: &str, value: &Value) -> bool {
    let raw = &text[value.span.clone()];
    match value.kind {
        JsonKind::Literal => raw == "true",
        JsonKind::Number => number(raw) == Some(1.0),
        JsonKind::String => scan::string(raw).is_some_and(|it| {
            ["true", "1", "on", "t", "y", "yes"].iter().any(|word| it.trim().eq_ignore_ascii_case(word))
        }),
        JsonKind::Object | JsonKind::Array => false,
    }
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

/// Returns a number that is not negative (`-1` is "without limit" to llama.cpp), also when written as a string
/// (pydantic coerces those); fractions are cut off.
fn count(text: &str, value: &Value) -> Option<u64> {
    as_number(text, value).filter(|it| *it >= 0.0).map(|it| it as u64)
}

fn as_number(text: &str, value: &Value) -> Option<f64> {
    let raw = &text[value.span.clone()];
    match value.kind {
        JsonKind::Number => number(raw),
        JsonKind::String => scan::string(raw).and_then(|it| number(it.trim())),
        _ => None,
    }
}

fn number(raw: &str) -> Option<f64> {
    raw.replace('_', "").parse().ok()
}

fn usage_slot(text: &str, after_brace: usize, options: Option<&Value>) -> (bool, UsageSlot) {
    let Some(options) = options else { return (false, UsageSlot::NewOptions(after_brace)) };
    if &text[options.span.clone()] == "null" {
        return (false, UsageSlot::NullOptions(options.span.clone()));
    }
    if options.kind != JsonKind::Object {
        return (false, UsageSlot::Leave);
    }
    let inner = &text[options.span.clone()];
    let mut scanner = Scanner::new(inner);
    let (mut found, mut first, mut empty) = (None, true, true);
    // The grammar of this part has been checked already.
    if scanner.object_start().is_ok() {
        while let Ok(Some((key, value))) = scanner.member(&mut first, 1) {
            empty = false;
            if key == "include_usage" {
                found = Some(value);
            }
        }
    }
    let base = options.span.start;
    match found {
        None => (false, UsageSlot::NewMember { at: base + 1, only: empty }),
        Some(value) if is_true(inner, &value) => (true, UsageSlot::Leave),
        Some(value) => (false, UsageSlot::Replace(base + value.span.start..base + value.span.end)),
    }
}

fn duplicate(key: &str) -> ApiError {
    ApiError::new(ErrorCode::DuplicateKey, format!("`{key}` appears twice")).with_param(key)
}

#[cfg(test)]
mod tests;
