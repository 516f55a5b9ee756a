//! Reads the few things of a request body that decide what happens to it, without building a tree: one pass over
//! the bytes that also checks the JSON grammar, so that what passes here is what the engine will see.
//!
//! Laxer than `serde_json` in three ways, none of which touches a key or a value that is read here: raw control
//! characters inside strings, numbers beyond the range of a double, and lone surrogates (`\ud800`) in values.

mod guards;
pub(crate) mod media;
mod scan;
mod values;

use std::{borrow::Cow, ops::Range};

use gantry_domain::{ApiError, ErrorCode};

pub use scan::MAX_DEPTH;
use scan::{JsonKind, Scanner, Value, bad_json};
use values::{count, is_true};

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
    let fetched = scanner.media.iter().filter_map(|it| media::fetched(&text[it.span.clone()], it.is_named));
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
            "model" => once(&mut self.model, key, value.clone()),
            "stream" => once(&mut self.stream, key, is_true(text, value)),
            // The last one counts, as for the engines' parsers.
            "stream_options" => {
                self.options = Some(value.clone());
                Ok(())
            }
            _ => {
                guards::check(text, key, value)?;
                self.note(text, key, value);
                Ok(())
            }
        }
    }

    fn note(&mut self, text: &str, key: &str, value: &Value) {
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

/// Sets a member that may stand in a body only once.
fn once<T>(member: &mut Option<T>, key: &str, value: T) -> Result<(), ApiError> {
    match member.replace(value) {
        None => Ok(()),
        Some(_) => Err(duplicate(key)),
    }
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
