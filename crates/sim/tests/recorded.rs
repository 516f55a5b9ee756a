//! Replays the recorded requests and compares the simulator's answers with the real engines':
//! status, content type, headers, and the set of JSON paths and their types; errors word by word.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{KEY, Sim};
use serde_json::{Value, json};

struct Recording {
    name: String,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    request: String,
    status: u16,
    answer_headers: Vec<(String, String)>,
    answer: String,
}

fn recordings(folder: &str) -> Vec<Recording> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(folder);
    let mut found: Vec<Recording> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "http"))
        .map(|path| read(&path))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn read(path: &Path) -> Recording {
    let name = path.file_stem().unwrap().display().to_string();
    let text = fs::read_to_string(path).unwrap().replace("\r\n", "\n");
    // Recordings of the loading phase have no command line.
    let (command, answer) = match text.strip_prefix("# curl ") {
        Some(rest) => rest.split_once('\n').unwrap(),
        None => ("BASE/v1/models", text.as_str()),
    };
    let (options, rest) = command.split_once("BASE").unwrap();
    let (target, request) = match rest.split_once(" -d ") {
        Some((target, body)) => (target, body.to_owned()),
        None => (rest, String::new()),
    };
    let headers = options
        .split("-H ")
        .filter_map(|option| option.trim().split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.replace("KEY", KEY)))
        .collect();
    let model = if path.display().to_string().contains("vllm-notemplate") { "tiny-base" } else { "tiny" };
    let request = match request.as_str() {
        "@transcripts/.long.json" => long(model, false),
        "@transcripts/.long2.json" => long(model, true),
        _ => request,
    };
    let (head, body) = answer.split_once("\n\n").unwrap_or((answer, ""));
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    let answer_headers = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    Recording {
        method: if command.contains(" -d ") { "POST" } else { "GET" },
        name,
        path: target.trim().to_owned(),
        headers,
        request,
        status,
        answer_headers,
        answer: body.to_owned(),
    }
}

fn long(model: &str, stream: bool) -> String {
    let content = "hello world ".repeat(6000);
    let mut body =
        json!({"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 4});
    if stream {
        body["stream"] = json!(true);
    }
    body.to_string()
}

/// Every path in a JSON value with the type found there.
fn shape(value: &Value) -> BTreeSet<String> {
    fn walk(at: &str, value: &Value, found: &mut BTreeSet<String>) {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        found.insert(format!("{at} {kind}"));
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(&format!("{at}[]"), item, found)),
            Value::Object(object) => {
                object.iter().for_each(|(name, item)| walk(&format!("{at}.{name}"), item, found));
            }
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    walk("", value, &mut found);
    found
}

/// The events of a stream: name and shape of each, where equal neighbours count once.
fn events(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for event in text.split("\n\n").map(str::trim).filter(|event| !event.is_empty()) {
        let name = event.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or("");
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or("");
        let shown = match serde_json::from_str::<Value>(data) {
            Ok(value) => format!("{name} {:#?}", shape(&value)),
            Err(_) => format!("{name} {data}"),
        };
        if found.last() != Some(&shown) {
            found.push(shown);
        }
    }
    found
}

fn without_digits(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        let character = if character.is_ascii_digit() { '#' } else { character };
        if character != '#' || !plain.ends_with('#') {
            plain.push(character);
        }
    }
    plain
}

async fn compare(folder: &str, line: &str) {
    let sim = Sim::start(line).await;
    let mut differences = Vec::new();
    let found = recordings(folder);
    assert!(!found.is_empty());
    for recorded in found {
        let headers: Vec<(&str, &str)> =
            recorded.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = sim.ask(recorded.method, &recorded.path, &headers, &recorded.request).await;
        let mut differ = |what: &str, want: &str, got: &str| {
            if want != got {
                differences
                    .push(format!("{}: {what}\n  recorded:  {want}\n  simulated: {got}", recorded.name));
            }
        };
        differ("status", &recorded.status.to_string(), &answer.status.to_string());
        for (name, value) in &recorded.answer_headers {
            let own = answer.headers.get(name).map(|value| value.to_str().unwrap());
            match name.as_str() {
                "date" | "content-length" => differ(name, "true", &own.is_some().to_string()),
                _ => differ(name, value, own.unwrap_or("(none)")),
            }
        }
        let names = |headers: Vec<String>| headers.into_iter().collect::<BTreeSet<String>>();
        let own = names(answer.headers.keys().map(ToString::to_string).collect());
        let theirs = names(recorded.answer_headers.iter().map(|(name, _)| name.clone()).collect());
        differ("headers", &format!("{theirs:?}"), &format!("{own:?}"));
        if answer.content_type().starts_with("text/event-stream") {
            differ("events", &events(&recorded.answer).join("\n"), &events(&answer.body).join("\n"));
        } else if recorded.status >= 400 {
            differ("error", &without_digits(recorded.answer.trim()), &without_digits(&answer.body));
        } else if recorded.answer.trim().is_empty() {
            differ("body", "", &answer.body);
        } else {
            let theirs: Value = serde_json::from_str(recorded.answer.trim()).unwrap();
            differ("shape", &format!("{:#?}", shape(&theirs)), &format!("{:#?}", shape(&answer.json())));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[tokio::test]
async fn vllm() {
    compare(
        "vllm",
        "--flavour vllm serve sim:tiny --served-model-name tiny --max-model-len 512 --api-key sk-test",
    )
    .await;
}

#[tokio::test]
async fn vllm_with_tools() {
    let line = "serve sim:tiny --served-model-name tiny --max-model-len 512 --api-key sk-test \
                --enable-auto-tool-choice --tool-call-parser hermes --enable-prompt-tokens-details";
    compare("vllm-tools", line).await;
}

#[tokio::test]
async fn vllm_without_chat_template() {
    let line =
        "sim:b --served-model-name tiny-base --max-model-len 512 --api-key sk-test --sim-no-chat-template";
    compare("vllm-notemplate", line).await;
}

#[tokio::test]
async fn vllm_embedding() {
    let line = "sim:e --served-model-name tiny-embed --max-model-len 128 --api-key sk-test --runner pooling";
    compare("vllm-embed", line).await;
}

#[tokio::test]
async fn llama() {
    compare("llama", "--flavour llamacpp -m sim:t -a tiny -c 2048 --metrics --api-key sk-test").await;
}

#[tokio::test]
async fn llama_embedding() {
    compare(
        "llama-embed",
        "--flavour llamacpp -m sim:e -a tiny-embed -c 512 --embedding --metrics --api-key sk-test",
    )
    .await;
}

#[tokio::test]
async fn llama_reranking() {
    compare(
        "llama-rerank",
        "--flavour llamacpp -m sim:r -a tiny-rerank -c 512 --reranking --metrics --api-key sk-test",
    )
    .await;
}

#[tokio::test]
async fn llama_loading() {
    let sim = Sim::start("--flavour llamacpp -m sim:t --api-key sk-test --sim-load-seconds 3600").await;
    for recorded in recordings("llama-loading") {
        let path = match recorded.name.as_str() {
            "root" => "/",
            "health-503" => "/health",
            "metrics-503" => "/metrics",
            _ => "/v1/models",
        };
        let answer = sim.ask("GET", path, &[], "").await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (recorded.status, recorded.answer.trim()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn metrics_have_the_engines_names() {
    for (folder, prefix, line) in
        [("vllm", "vllm:", "sim:t"), ("llama", "llamacpp:", "--flavour llamacpp -m sim:t --metrics")]
    {
        let sim = Sim::start(line).await;
        let asked = sim
            .post(
                "/v1/chat/completions",
                &json!({"messages": [{"role": "user", "content": "a b"}], "max_tokens": 7}),
            )
            .await;
        assert_eq!(asked.status, 200, "{}", asked.body);
        let answer = sim.get("/metrics").await;
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/transcripts")
            .join(folder)
            .join("metric-names.txt");
        let text = fs::read_to_string(file).unwrap();
        let recorded: BTreeSet<&str> = text.lines().collect();
        let own: BTreeSet<&str> =
            answer.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let made_up: Vec<_> = own.difference(&recorded).collect();
        assert!(made_up.is_empty(), "not in the recording: {made_up:?}");
        assert!(own.len() >= 15);
        let generated = match folder {
            "vllm" => "vllm:generation_tokens_total{engine=\"0\",model_name=\"sim:t\"} 7.0",
            _ => "llamacpp:tokens_predicted_total 7",
        };
        assert!(answer.body.lines().any(|line| line == generated), "{}", answer.body);
        assert!(answer.body.lines().all(|line| line.starts_with('#') || line.starts_with(prefix)));
    }
}
