//! Compares every answer that a test gets with its operation in `openapi.json`: the status, the error code, the media
//! type, and the form of the body.

use std::sync::LazyLock;

use reqwest::Method;
use serde_json::{Map, Value};

use crate::answer::Answer;

const JSON: &str = "application/json";
/// Keywords that say nothing about an answer's form, or that Schemathesis checks: texts and their patterns.
const IGNORED: &[&str] = &[
    "default",
    "description",
    "examples",
    "format",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "pattern",
    "propertyNames",
    "x-gantry-object",
];

struct Contract {
    document: Value,
    /// Path patterns, split at slashes, those with the fewest parameters first.
    paths: Vec<(Vec<String>, Map<String, Value>)>,
}

static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(include_str!("../../../openapi.json")).unwrap();
    let mut paths: Vec<(Vec<String>, Map<String, Value>)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, item)| (path.split('/').map(str::to_owned).collect(), item.as_object().unwrap().clone()))
        .collect();
    paths.sort_by_key(|(path, _)| path.iter().filter(|it| is_parameter(it)).count());
    Contract { document, paths }
});

fn is_parameter(segment: &str) -> bool {
    segment.starts_with('{')
}

/// Returns whether `path` fits the pattern. Names may contain slashes, ids may not.
fn fits(pattern: &[String], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        ([first, pattern @ ..], [segment, path @ ..]) if !is_parameter(first) => {
            first == segment && fits(pattern, path)
        }
        ([first, pattern @ ..], [segment, path @ ..]) if !segment.is_empty() => {
            let most = if first == "{id}" { 0 } else { path.len() };
            (0..=most).any(|n| fits(pattern, &path[n..]))
        }
        _ => false,
    }
}

/// Fails the test if the gateway's answer does not match its document.
#[track_caller]
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    let segments: Vec<&str> = path.split('/').collect();
    let contract = &*CONTRACT;
    let Some((_, item)) = contract.paths.iter().find(|(pattern, _)| fits(pattern, &segments)) else { return };
    let Some(operation) = item.get(&method.as_str().to_ascii_lowercase()) else { return };
    let status = answer.status.to_string();
    let at = format!("{method} {path}: {status} {}", answer.text);
    // Errors of the engines themselves are passed through unchanged, with any status.
    let codes = &contract.document["components"]["schemas"]["ErrorCode"]["enum"];
    let of_engine = operation["tags"][0] == "Inference"
        && answer.status >= 400
        && !codes.as_array().unwrap().iter().any(|it| it == answer.code());
    if of_engine {
        return;
    }
    let documented = contract.behind(&operation["responses"][&status]);
    assert!(documented.is_object(), "not documented: {at}");
    if documented.get("content").is_none() {
        assert!(answer.text.is_empty(), "documented without a body: {at}");
        return;
    }
    let media_type = answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default();
    let content = &documented["content"][media_type];
    assert!(content.is_object(), "not documented: {media_type} of {at}");
    if media_type == JSON
        && let Err(why) = contract.validate(&content["schema"], &answer.json)
    {
        panic!("not as documented, {why}: {at}");
    }
}

/// Fails the test if this is not a JSON answer that the document describes; `line` is such as `GET /auth/me`.
#[track_caller]
pub fn documented(line: &str, status: u16, body: &Value) {
    let (method, path) = line.split_once(' ').unwrap();
    let operation = &CONTRACT.document["paths"][path][method.to_ascii_lowercase()];
    let answer = CONTRACT.behind(&operation["responses"][status.to_string()]);
    let schema = &answer["content"][JSON]["schema"];
    if let Err(why) = CONTRACT.validate(schema, body) {
        panic!("{line}: not as documented, {why}");
    }
}

impl Contract {
    fn behind<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    /// Returns the first thing that does not fit as an error.
    fn validate(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(true) => return Ok(()),
            other => return Err(format!("the schema {other} allows nothing")),
        };
        map.iter().try_for_each(|(keyword, rule)| self.keyword(map, keyword, rule, value))
    }

    fn keyword(
        &self,
        schema: &Map<String, Value>,
        keyword: &str,
        rule: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let rules = || rule.as_array().unwrap().iter();
        let fine = match keyword {
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                return self.validate(self.document.pointer(pointer).unwrap(), value);
            }
            "allOf" => return rules().try_for_each(|it| self.validate(it, value)),
            "anyOf" | "oneOf" => return self.alternatives(keyword, rule, value),
            "items" => {
                let mut items = value.as_array().into_iter().flatten().enumerate();
                let check = |(n, it)| self.validate(rule, it).map_err(|why| format!("{n}: {why}"));
                return items.try_for_each(check);
            }
            "properties" | "additionalProperties" => return self.fields(schema, keyword, rule, value),
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|it| is_a(it, value)),
                kind => is_a(kind, value),
            },
            "enum" => rules().any(|it| it == value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|it| it >= rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|it| it <= rule.as_f64().unwrap()),
            "maxItems" => value.as_array().is_none_or(|it| it.len() as u64 <= rule.as_u64().unwrap()),
            "uniqueItems" => value
                .as_array()
                .is_none_or(|all| all.iter().enumerate().all(|(at, it)| !all[..at].contains(it))),
            "required" => match value.as_object() {
                Some(map) => rules().all(|it| map.contains_key(it.as_str().unwrap())),
                None => true,
            },
            other => {
                assert!(IGNORED.contains(&other), "this reader of schemas does not know `{other}`");
                true
            }
        };
        if fine { Ok(()) } else { Err(format!("{keyword} {rule}")) }
    }

    /// Checks `anyOf` (at least one schema fits) and `oneOf` (exactly one does).
    fn alternatives(&self, keyword: &str, rule: &Value, value: &Value) -> Result<(), String> {
        let results: Vec<_> = rule.as_array().unwrap().iter().map(|it| self.validate(it, value)).collect();
        let n = results.iter().filter(|it| it.is_ok()).count();
        if n == 0 {
            let why: Vec<String> = results.into_iter().filter_map(Result::err).collect();
            return Err(why.join(", nor "));
        }
        if keyword == "anyOf" || n == 1 { Ok(()) } else { Err(format!("{keyword} {rule}")) }
    }

    /// Checks the fields that `properties` lists, or the others against `additionalProperties`.
    fn fields(
        &self,
        schema: &Map<String, Value>,
        keyword: &str,
        rule: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, field) in value.as_object().into_iter().flatten() {
            let own = known.and_then(|it| it.get(name));
            let of = if keyword == "properties" { own } else { Some(rule).filter(|_| own.is_none()) };
            if let Some(schema) = of {
                self.validate(schema, field).map_err(|why| format!("{name}: {why}"))?;
            }
        }
        Ok(())
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no type is called {other}"),
    }
}
