//! Reads the texts of embeddings, rerank and score. Refuses values of other types as vLLM 0.32.0 and llama.cpp b11434
//! were seen to do. Where vLLM makes several complaints about one value, only the first one about the field itself is
//! made.

use serde_json::Value;

use super::request::{Fields, invalid, shown};
use crate::flavour::Flavour;
use crate::reply::Refusal;

/// Reads the input of embeddings: a text, a list of texts, token ids, or a list of lists of them. Token ids count as
/// words.
pub(crate) fn embedded(flavour: Flavour, value: &Value) -> Result<Vec<String>, Refusal> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(items) if items.is_empty() => Err(match flavour {
            Flavour::Vllm => Refusal::new(400, "BadRequestError", "You must pass at least one prompt"),
            Flavour::Llamacpp => Refusal::bad(flavour, "\"input\" must not be empty"),
        }),
        Value::Array(items) => one_prompt(flavour, items)
            .map(|prompt| vec![prompt])
            .or_else(|| items.iter().map(|item| prompt(flavour, item)).collect())
            .ok_or_else(|| wrong_input(flavour, value)),
        _ => Err(wrong_input(flavour, value)),
    }
}

/// Reads token ids, which llama.cpp allows to be mixed with texts.
fn one_prompt(flavour: Flavour, items: &[Value]) -> Option<String> {
    let is_word = |it: &Value| it.is_u64() || it.is_i64() || (flavour == Flavour::Llamacpp && it.is_string());
    let is_one = items.iter().all(is_word) && !items.iter().all(Value::is_string);
    is_one.then(|| items.iter().map(word).collect::<Vec<_>>().join(" "))
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads one of several prompts.
fn prompt(flavour: Flavour, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => one_prompt(flavour, items),
        Value::Object(object) if flavour == Flavour::Llamacpp => {
            object.get("prompt_string")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}

fn wrong_input(flavour: Flavour, value: &Value) -> Refusal {
    match (flavour, value) {
        (Flavour::Vllm, Value::Array(_)) => {
            invalid("string_type", "body.input", "Input should be a valid string", &shown(value))
        }
        (Flavour::Vllm, _) => {
            invalid("list_type", "body.input", "Input should be a valid list", &shown(value))
        }
        (Flavour::Llamacpp, _) => Refusal::bad(
            flavour,
            "\"prompt\" elements must be a string, a list of tokens, a JSON object containing a prompt string, or a list \
             of mixed strings & tokens.",
        ),
    }
}

/// Reads the text that the documents of a rerank are compared with.
pub(crate) fn query(flavour: Flavour, fields: &Fields) -> Result<String, Refusal> {
    let value = fields.required(&["query"])?;
    value.as_str().map(str::to_owned).ok_or_else(|| match flavour {
        Flavour::Vllm => {
            invalid("string_type", "body.query", "Input should be a valid string", &shown(value))
        }
        Flavour::Llamacpp => Refusal::bad(flavour, "\"query\" must be a string"),
    })
}

/// Reads the documents of a rerank; vLLM also accepts a single one.
pub(crate) fn documents(flavour: Flavour, fields: &Fields) -> Result<Vec<String>, Refusal> {
    let value = fields.required(&["documents"])?;
    match flavour {
        Flavour::Vllm => compared(fields, &["documents"]),
        Flavour::Llamacpp => strings(value)
            .filter(|it| !it.is_empty())
            .ok_or_else(|| Refusal::bad(flavour, "\"documents\" must be a non-empty string array")),
    }
}

/// Reads one text or several from the first of these fields that is present. vLLM only.
pub(crate) fn compared(fields: &Fields, names: &[&str]) -> Result<Vec<String>, Refusal> {
    let value = fields.required(names)?;
    if let Some(text) = value.as_str() {
        return Ok(vec![text.to_owned()]);
    }
    match strings(value) {
        Some(texts) if texts.is_empty() => {
            Err(Refusal::new(400, "BadRequestError", "At least one text_pair element must be given"))
        }
        Some(texts) => Ok(texts),
        None => {
            let name = names.iter().find(|name| fields.get(name).is_some()).copied().unwrap_or_default();
            let loc = format!("body.{name}");
            Err(invalid("string_type", &loc, "Input should be a valid string", &shown(value)))
        }
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|it| it.as_str().map(str::to_owned)).collect()
}
