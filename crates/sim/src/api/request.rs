//! Reads request bodies and refuses bad ones with the messages of each engine.

use std::fmt::Write as _;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::config::Config;
use crate::flavour::Flavour;
use crate::reply::Refusal;

/// A JSON object, with typed reads that fail as the engine's validation does.
#[derive(Debug)]
pub(crate) struct Fields {
    flavour: Flavour,
    pub body: Map<String, Value>,
}

impl Fields {
    pub(crate) fn read(config: &Config, bytes: &Bytes) -> Result<Self, Refusal> {
        let flavour = config.flavour;
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(body)) => Ok(Self { flavour, body }),
            Ok(other) => Err(match flavour {
                Flavour::Vllm => invalid(
                    "model_attributes_type",
                    "body",
                    "Input should be a valid dictionary or object to extract fields from",
                    &shown(&other),
                ),
                Flavour::Llamacpp => Refusal::bad(flavour, "the body must be a JSON object"),
            }),
            Err(error) => Err(not_json(flavour, bytes, &error)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.body.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(other) => Err(match self.flavour {
                Flavour::Vllm => invalid(
                    "bool_parsing",
                    &format!("body.{name}"),
                    "Input should be a valid boolean, unable to interpret input",
                    &shown(other),
                ),
                Flavour::Llamacpp => wrong_type(name, "boolean", other),
            }),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Refusal> {
        let Some(value) = self.get(name) else { return Ok(None) };
        if let Some(number) = value.as_f64() {
            return Ok(Some(number));
        }
        match (self.flavour, value) {
            (Flavour::Vllm, Value::String(text)) => match text.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(invalid(
                    "float_parsing",
                    &format!("body.{name}"),
                    "Input should be a valid number, unable to parse string as a number",
                    &shown(value),
                )),
            },
            (Flavour::Vllm, _) => {
                let loc = format!("body.{name}");
                Err(invalid("float_type", &loc, "Input should be a valid number", &shown(value)))
            }
            (Flavour::Llamacpp, _) => Err(wrong_type(name, "number", value)),
        }
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(number) = self.number(name).map_err(|refusal| self.as_integer(name, refusal))? else {
            return Ok(None);
        };
        if number.fract() != 0.0 && self.flavour == Flavour::Vllm {
            return Err(invalid(
                "int_from_float",
                &format!("body.{name}"),
                "Input should be a valid integer, got a number with a fractional part",
                &number.to_string(),
            ));
        }
        Ok(Some(number as i64))
    }

    /// Turns the refusal into the one for an integer.
    fn as_integer(&self, name: &str, refusal: Refusal) -> Refusal {
        match (self.flavour, self.get(name)) {
            (Flavour::Vllm, Some(value @ Value::String(_))) => invalid(
                "int_parsing",
                &format!("body.{name}"),
                "Input should be a valid integer, unable to parse string as an integer",
                &shown(value),
            ),
            (Flavour::Vllm, Some(value)) => {
                invalid("int_type", &format!("body.{name}"), "Input should be a valid integer", &shown(value))
            }
            _ => refusal,
        }
    }

    /// Returns the first of `names` that is present, or the engine's error about the first name.
    pub(crate) fn required(&self, names: &[&str]) -> Result<&Value, Refusal> {
        if let Some(value) = names.iter().find_map(|name| self.get(name)) {
            return Ok(value);
        }
        let first = names.first().copied().unwrap_or("");
        Err(match self.flavour {
            Flavour::Llamacpp => Refusal::bad(self.flavour, format!("'{first}' is required")),
            Flavour::Vllm => missing(names, self.body.len()),
        })
    }

    /// Reads `stop`: one text or several.
    pub(crate) fn stops(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns vLLM's error about missing fields.
fn missing(names: &[&str], n_fields: usize) -> Refusal {
    let plural = if names.len() == 1 { "" } else { "s" };
    let mut lines = String::new();
    for name in names {
        let _ = write!(
            lines,
            "\n  {{'type': 'missing', 'loc': 'body.{name}', 'msg': 'Field required', \
             'input': '<dict of {n_fields} items>'}}"
        );
    }
    let first = names.first().copied().unwrap_or("");
    Refusal::new(400, "Bad Request", format!("{} validation error{plural}:{lines}", names.len()))
        .param(&format!("body.{first}"))
}

/// Returns vLLM's error about one field.
pub(crate) fn invalid(kind: &str, loc: &str, msg: &str, input: &str) -> Refusal {
    let text = format!(
        "1 validation error:\n  {{'type': '{kind}', 'loc': '{loc}', 'msg': '{msg}', 'input': {input}}}"
    );
    Refusal::new(400, "Bad Request", text).param(loc)
}

/// Formats a value as vLLM's messages do.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{text}'"),
        Value::Object(object) => format!("'<dict of {} items>'", object.len()),
        Value::Array(array) => format!("'<list of {} items>'", array.len()),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        Value::Number(number) => number.to_string(),
    }
}

fn wrong_type(name: &str, wanted: &str, value: &Value) -> Refusal {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let text =
        format!("Field '{name}': [json.exception.type_error.302] type must be {wanted}, but is {kind}");
    Refusal::bad(Flavour::Llamacpp, text)
}

fn not_json(flavour: Flavour, bytes: &Bytes, error: &serde_json::Error) -> Refusal {
    let at = if error.is_eof() { bytes.len() } else { offset(bytes, error.line(), error.column()) };
    match flavour {
        Flavour::Vllm => {
            let text = format!(
                "1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{at}', 'msg': 'JSON decode error', \
                 'input': '<dict of 0 items>', 'ctx': {{'error': 'Expecting value'}}}}"
            );
            Refusal::new(400, "Bad Request", text).param(&format!("body.{at}"))
        }
        Flavour::Llamacpp => {
            let what = if error.is_eof() {
                "unexpected end of input; expected '[', '{', or a literal"
            } else {
                "invalid literal"
            };
            let text = format!(
                "[json.exception.parse_error.101] parse error at line {}, column {}: syntax error while parsing \
                 value - {what}",
                error.line(),
                error.column() + 1
            );
            Refusal::bad(flavour, text)
        }
    }
}

fn offset(bytes: &[u8], line: usize, column: usize) -> usize {
    let before: usize =
        bytes.split(|byte| *byte == b'\n').take(line.saturating_sub(1)).map(|l| l.len() + 1).sum();
    before + column.saturating_sub(1)
}
