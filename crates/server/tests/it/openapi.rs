//! The `OpenAPI` document: what is committed is what is served, the page that shows it needs nothing from elsewhere, and
//! every operation has an example that was really sent.
//!
//! `GANTRY_RECORD_EXAMPLES=1` writes the examples anew; `cargo xtask gen` then takes them into the document.

mod normal;
mod story;
mod surroundings;

use std::{collections::BTreeMap, path::Path};

use gantry_testkit::{Answer, Client, Database, Options, documented};
use reqwest::Method;
use serde_json::{Value, json};

use self::{normal::normal, surroundings::Surroundings};
use crate::support::{GANTRY, start};

const COMMITTED: &str = include_str!("../../../../openapi.json");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../admin-api/src/doc/examples.json");
/// Entries of an array that are kept.
const MOST: usize = 2;
/// Their answers are streams of events, and are shown as what their events are.
const STREAMS: &[&str] = &["streamEvents", "streamOwnEvents", "answerInChat", "followChatAnswer"];
/// What a machine and a moment look like differs: here stand the figures of one that was made up, in the form of the
/// real ones.
const MEASURED: &str = include_str!("openapi/measured.json");

#[tokio::test]
async fn the_committed_document_is_the_served_one() {
    let gateway = start(Options::default().on(Database::Sqlite)).await;
    let served = gateway.client().get("/openapi.json").await.expect(200);
    let committed: Value = serde_json::from_str(COMMITTED).unwrap();
    assert!(served == committed, "openapi.json is stale: run `cargo xtask gen`");
    assert_eq!(served["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let gateway = start(Options::default().on(Database::Sqlite)).await;
    let client = gateway.client();
    let mut wanted = vec!["/docs".to_owned()];
    let mut seen = 0;
    while let Some(path) = wanted.pop() {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        for outside in ["http://", "https://", "//cdn", "<style", " style=", " onclick="] {
            assert!(!answer.text.contains(outside), "{path} has {outside}");
        }
        for part in answer.text.split(['"', '\'']).filter(|it| it.starts_with("/docs/")) {
            wanted.push(part.to_owned());
        }
        seen += 1;
    }
    assert_eq!(seen, 3, "the page, its script and its style");
}

/// Sends and remembers.
struct Recorder(BTreeMap<String, Value>);

impl Recorder {
    async fn send(
        &mut self,
        operation: &str,
        client: &Client,
        line: &str,
        body: impl Into<Option<Value>>,
    ) -> Value {
        let (method, path) = line.split_once(' ').unwrap();
        let body = body.into();
        let request = client.request(method.parse::<Method>().unwrap(), path);
        let answer = client.send(if let Some(body) = &body { request.json(body) } else { request }).await;
        assert!(
            answer.status != 500 && answer.status != 422,
            "{operation}: {} {}",
            answer.status,
            answer.text
        );
        let entry = json!({
            "request": { "method": method, "path": path, "body": body.map(|it| short(&it)) },
            "response": { "status": answer.status, "body": shown(operation, &answer) },
        });
        assert!(self.0.insert(operation.to_owned(), entry).is_none(), "{operation} twice");
        answer.json
    }
}

/// What is worth keeping of an answer: no page, and not the document within itself.
fn shown(operation: &str, answer: &Answer) -> Value {
    if operation == "getOpenApi" { Value::Null } else { short(&answer.json) }
}

/// With the first entries of lists only, and without secrets.
fn short(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().take(MOST).map(short).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, it)| {
                let value = match (name.as_str(), it.as_str()) {
                    // Which kind it is stands in front.
                    ("token", Some(token)) => json!(TOKEN.replace("gty_", &token[..4])),
                    ("path", Some(path)) if path.contains("#gtl_") => {
                        json!(format!("/ui/welcome#{}", TOKEN.replace("gty_", "gtl_")))
                    }
                    _ => short(it),
                };
                (name.clone(), value)
            })
            .collect(),
        other => other.clone(),
    }
}

/// Has the form of a token, and is none: its checksum is wrong.
const TOKEN: &str = "gty_0000000000000000000000000000000000000000000000";

/// Keys and types, without the values that differ from run to run.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!(null),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::Object(map) => map.iter().map(|(name, it)| (name.clone(), shape(it))).collect(),
    }
}

#[tokio::test]
async fn every_operation_has_an_example_that_was_really_sent() {
    let surroundings = Surroundings::new();
    let gateway = start(surroundings.options()).await;
    let mut record = Recorder(BTreeMap::new());
    story::tell(&mut record, &gateway).await;

    let document: Value = serde_json::from_str(COMMITTED).unwrap();
    let operations = document["paths"].as_object().unwrap().values();
    let mut wanted: Vec<&str> = operations
        .flat_map(|it| it.as_object().unwrap().values())
        .map(|it| it["operationId"].as_str().unwrap())
        .filter(|it| !STREAMS.contains(it))
        .collect();
    wanted.sort_unstable();
    assert_eq!(record.0.keys().collect::<Vec<_>>(), wanted, "each operation is sent once in the story");
    for (operation, example) in &record.0 {
        let status = example["response"]["status"].as_u64().unwrap();
        assert!(status < 300, "{operation} has no success: {example}");
    }

    let measured: Value = serde_json::from_str(MEASURED).unwrap();
    for (operation, body) in measured.as_object().unwrap() {
        let response = &mut record.0.get_mut(operation).unwrap()["response"];
        let line = format!("GET {}", record_path(&document, operation));
        documented(&line, 200, body);
        response["body"] = body.clone();
    }
    let places = [
        (surroundings.programs().display().to_string(), "/usr/bin"),
        (surroundings.models().display().to_string(), "/srv/models"),
        (gateway.data_dir().parent().unwrap().display().to_string(), "/srv/gantry"),
        (GANTRY.to_owned(), "/usr/bin/gantry"),
    ];
    let found = normal(&json!(record.0), &places);
    if std::env::var_os("GANTRY_RECORD_EXAMPLES").is_some() {
        std::fs::write(Path::new(EXAMPLES), serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
        return;
    }
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(EXAMPLES).unwrap()).unwrap();
    for (operation, example) in found.as_object().unwrap() {
        let kept = &committed[operation];
        assert_eq!(kept["response"]["status"], example["response"]["status"], "{operation}");
        assert_eq!(shape(kept), shape(example), "{operation}: record again, if that is meant");
    }
}

fn record_path(document: &Value, operation: &str) -> String {
    let paths = document["paths"].as_object().unwrap();
    let found = paths.iter().find(|(_, it)| it["get"]["operationId"] == operation);
    found.expect("it is an operation").0.clone()
}
