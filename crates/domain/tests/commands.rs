//! Checks what every field becomes on three versions of each engine, against committed tables (`commands/*.txt`).
//!
//! A change of the field table changes these files. Generate them again with
//! `GANTRY_UPDATE_COMMANDS=1 cargo nextest run -p gantry-domain --test commands`, and read the difference.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

use std::{fmt::Write, path::Path};

use gantry_domain::{
    ModelId, Role, Timestamp,
    engine::{EngineVersion, Host, Launch, LaunchContext, Place, launch},
    model::{
        EngineKind, Model, ModelDraft,
        fields::{self, Field, Kind},
    },
};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

/// Returns versions before and after the changes that `fields/` knows.
fn versions(engine: EngineKind) -> [&'static str; 3] {
    match engine {
        EngineKind::Vllm => ["0.8.5", "0.11.0", "0.32.0"],
        EngineKind::Llamacpp => ["b4900", "b8000", "b11434"],
    }
}

/// Returns a record with as few fields as possible.
fn base(engine: EngineKind) -> Value {
    match engine {
        EngineKind::Vllm => json!({"served_name": "m", "engine_type": "vllm", "local_path": "m"}),
        EngineKind::Llamacpp => {
            json!({"served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf"})
        }
    }
}

/// Returns settings without which the field has no effect or is refused.
fn companions(field: &str) -> Value {
    match field {
        "cuda_graph_sizes" => json!({"enforce_eager": false}),
        "enable_auto_tool_choice" => json!({"tool_call_parser": "hermes"}),
        "draft_n" | "draft_p_min" => json!({"draft_model_path": "d.gguf"}),
        "mode" => json!({"repo_id": "a/b"}),
        "repo_id" => json!({"mode": "online"}),
        "enable_chunked_prefill" => json!({"max_model_len": 2048}),
        // As large as the largest `max_num_seqs`, and the other way round.
        "max_num_seqs" => json!({"max_num_batched_tokens": 10_000_000}),
        "max_num_batched_tokens" => json!({"max_num_seqs": 1}),
        "no_mmap" => json!({"mlock": false}),
        "load_mode" => json!({"mlock": true}),
        "pooling" => json!({"task": "embed"}),
        _ => json!({}),
    }
}

/// Returns values that show everything that the field can become.
fn samples(field: &Field) -> Vec<Value> {
    match field.kind {
        Kind::Bool => vec![json!(true), json!(false)],
        Kind::Int { min, max } => vec![json!(min), json!(max)],
        Kind::IntOneOf(allowed) => allowed.iter().map(|it| json!(it)).collect(),
        Kind::Float { min, max } => vec![json!(min), json!(max)],
        Kind::OneOf(allowed) => allowed.iter().map(|it| json!(it)).collect(),
        Kind::Text { .. } | Kind::Lines { .. } | Kind::Repo | Kind::RepoOrPath => {
            let mut examples: Vec<Value> = field.examples.iter().map(|it| json!(it)).collect();
            if field.name == "quantization" {
                examples.extend([json!("gguf"), json!("bitsandbytes")]);
            }
            assert!(!examples.is_empty(), "`{}` needs examples", field.name);
            examples
        }
        Kind::Path if field.name == "local_path" && field.engine.is_none() => vec![json!("dir/x.gguf")],
        Kind::Path => vec![json!("dir/file")],
        Kind::ModelPath => vec![json!("dir/x.gguf"), json!("/models/dir/x.gguf")],
        Kind::NamedPaths { .. } => vec![json!(["a=dir/one", "b=dir/two"])],
        Kind::IntList { .. } => vec![json!([1]), json!([7])],
        Kind::TextList { .. } => vec![json!(["--verbose", "--x=y"])],
        Kind::TextMap => vec![json!({"NAME": "value"})],
        Kind::Object => vec![json!({"temperature": 0})],
    }
}

fn with(body: &Value, more: &Value) -> Map<String, Value> {
    let mut body = body.as_object().unwrap().clone();
    body.extend(more.as_object().unwrap().clone());
    body
}

fn launch_of(body: &Map<String, Value>, version: &str, gpus: &[u32]) -> Launch {
    let draft = ModelDraft::create(body, Role::Owner).unwrap_or_else(|it| panic!("{body:?}: {it:?}"));
    let model = Model::new(ModelId(1), draft, Timestamp(0));
    let version = EngineVersion::parse(model.engine, version);
    assert!(matches!(version, EngineVersion::Known(..)));
    let host = Host { cpus: 64, gpus: gpus.to_vec() };
    launch(
        &model,
        &LaunchContext {
            image: "image",
            version,
            host: &host,
            key: &"key".into(),
            offline: false,
            fetches_media: false,
            hub_endpoint: None,
            place: &Place::container(),
            program: None,
        },
    )
}

/// Returns everything that the engine sees of a launch, one word each.
fn words(launch: &Launch) -> Vec<String> {
    let env = launch.env.iter().map(|(name, value)| format!("[env {name}={}]", value.expose_secret()));
    let gpus = launch.gpus.iter().map(|it| format!("[gpu {it}]"));
    launch.args.iter().cloned().chain(env).chain(gpus).collect()
}

/// Returns what was added and removed between two launches, then the new warnings.
fn difference(before: &Launch, after: &Launch) -> String {
    let (old, new) = (words(before), words(after));
    let mut start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    // A value is shown with its option.
    let is_value = |words: &[String]| words.get(start).is_some_and(|it| !it.starts_with(['-', '[']));
    if start > 0 && old[start - 1].starts_with("--") && is_value(&old) && is_value(&new) {
        start -= 1;
    }
    let rest = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = rest.take_while(|(a, b)| a == b).count();
    let (went, came) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut out =
        if came.is_empty() && went.is_empty() { "(no argument)".to_owned() } else { came.join(" ") };
    if !went.is_empty() {
        let _ = write!(out, "  instead of  {}", went.join(" "));
    }
    for warning in after.warnings.iter().filter(|it| !before.warnings.contains(it)) {
        let _ = write!(out, "  warning({}): {}", warning.field, warning.message);
    }
    out.trim().replace('\n', "\\n")
}

/// Writes the text for several versions, on one line where they agree.
fn per_version(out: &mut String, engine: EngineKind, text: impl Fn(&str) -> String) {
    let texts = versions(engine).map(|it| (it, text(it)));
    if texts.iter().all(|it| it.1 == texts[0].1) {
        let _ = writeln!(out, "    all      {}", texts[0].1);
    } else {
        for (version, text) in texts {
            let _ = writeln!(out, "    {version:<8} {text}");
        }
    }
}

fn table(engine: EngineKind) -> String {
    let mut out = format!(
        "Made by crates/domain/tests/commands.rs, which compares it: what each value of each field becomes.\n\
         Make it anew with GANTRY_UPDATE_COMMANDS=1 cargo nextest run -p gantry-domain --test commands\n\
         and read the difference: these are the words that engines get.\n\
         Versions: {}. Machine: 64 CPUs, GPUs 0 and 1. Differences are against the smallest record with the fields in\n\
         parentheses.\n",
        versions(engine).join(", ")
    );
    let gpus = &[0, 1];
    for (title, more, gpus) in [
        ("smallest record", json!({}), &gpus[..]),
        ("smallest record, no GPU", json!({}), &[]),
        ("task embed", json!({"task": "embed"}), &gpus[..]),
        ("online, with a token", json!({"mode": "online", "repo_id": "a/b", "hub_token": "hf_x"}), &gpus[..]),
    ] {
        let _ = writeln!(out, "\n{title}");
        per_version(&mut out, engine, |it| {
            words(&launch_of(&with(&base(engine), &more), it, gpus)).join(" ")
        });
    }
    for field in fields::all().filter(|it| it.applies_to(engine)) {
        let more = companions(field.name);
        let shown = more.as_object().unwrap();
        let shown = if shown.is_empty() { String::new() } else { format!(" ({more})") };
        let _ = writeln!(out, "\n{}{shown}", field.name);
        let before = with(&base(engine), &more);
        for value in samples(field) {
            let mut after = before.clone();
            after.insert(field.name.to_owned(), value.clone());
            let _ = writeln!(out, "  {value}");
            // Without the field, the record may be refused because it lacks it.
            let start =
                if field.name == "repo_id" { with(&base(engine), &json!({})) } else { before.clone() };
            per_version(&mut out, engine, |it| {
                difference(&launch_of(&start, it, gpus), &launch_of(&after, it, gpus))
            });
        }
    }
    out
}

#[expect(clippy::disallowed_methods, reason = "a setting of this test, not of the gateway")]
fn compare(engine: EngineKind) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/commands/{engine}.txt"));
    let (is, should) = (table(engine), std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var("GANTRY_UPDATE_COMMANDS").is_ok_and(|it| it == "1") {
        std::fs::write(&path, is).unwrap();
        return;
    }
    let pairs = is.lines().map(Some).chain(std::iter::repeat(None));
    let differs = pairs.zip(should.lines().map(Some).chain([None])).find(|(is, should)| is != should);
    assert!(
        is == should,
        "{} is not what the field table makes; first difference (is, should): {differs:?}\n\
         If that is meant: GANTRY_UPDATE_COMMANDS=1, and read the difference",
        path.display()
    );
}

#[test]
fn every_field_becomes_what_the_table_of_vllm_says() {
    compare(EngineKind::Vllm);
}

#[test]
fn every_field_becomes_what_the_table_of_llamacpp_says() {
    compare(EngineKind::Llamacpp);
}
