//! Random model records, drawn from the field table itself: every type, bound and allowed value of a row; offline and
//! online, with extra arguments and variables. The same in each run, unless `GANTRY_TEST_SEED` is a number.

use gantry_domain::{
    ModelId, Role, Timestamp,
    engine::{EngineVersion, Host, LaunchContext, Place, launch},
    model::{
        EngineKind, Model, ModelDraft,
        fields::{self, Field, Kind},
    },
};
use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};

/// Relative to the models base directory; [`TEMPLATE`] must exist where an engine's parser opens it.
pub(super) const TEMPLATE: &str = "dir/template.jinja";
const FILES: &[&str] = &["m.gguf", "dir/with blank/ü.gguf", "a..b/%2e.GGUF"];
/// Whence the weights come is one choice.
const PLACES: &[&str] = &["mode", "repo_id", "local_path"];
/// Arguments that the table has no field for, in groups.
const VLLM_EXTRAS: &[&[&str]] = &[
    &["--disable-log-stats"],
    &["--uvicorn-log-level", "warning"],
    &["--max-log-len=64"],
    &["--max_log_len", "64"],
    &["--disable-fastapi-docs"],
];
const LLAMACPP_EXTRAS: &[&[&str]] =
    &[&["--no-warmup"], &["--keep", "3"], &["--log-prefix"], &["--slots"], &["--log-timestamps"]];
/// Where values of two fields can be refused together.
const CROSS_FIELD: &[&str] =
    &["max_num_batched_tokens", "tool_call_parser", "jinja", "cache_type_v", "chat_template", "pooling"];

/// Arguments of `count` random valid records on the newest version of `engine` that the table describes.
pub(super) fn command_lines(engine: EngineKind, count: usize) -> Vec<Vec<String>> {
    let rng = seed().map_or_else(
        || TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        |seed| {
            println!("GANTRY_TEST_SEED={seed}");
            let bytes: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
            TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
        },
    );
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = record(engine);
    let mut lines = Vec::new();
    let mut refused = 0;
    while lines.len() < count {
        let (body, gpus) = strategy.new_tree(&mut runner).unwrap().current();
        match ModelDraft::create(&body, Role::Owner) {
            Ok(draft) => lines.push(arguments(draft, if gpus { &[0, 1] } else { &[] })),
            Err(problems) => {
                let known = |param: &String| CROSS_FIELD.contains(&param.as_str());
                assert!(problems.iter().all(|it| known(&it.param)), "{body:?}: {problems:?}");
                refused += 1;
            }
        }
    }
    println!("{count} valid records, {refused} refused for fields that contradict each other");
    lines
}

/// For other records than those of every run.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the gateway")]
fn seed() -> Option<u64> {
    let text = std::env::var("GANTRY_TEST_SEED").ok()?;
    Some(text.parse().expect("GANTRY_TEST_SEED is a whole number"))
}

/// Arguments of this record.
pub(super) fn arguments(draft: ModelDraft, gpus: &[u32]) -> Vec<String> {
    let version = EngineVersion::Unknown(draft.engine);
    let model = Model::new(ModelId(1), draft, Timestamp(0));
    let context = LaunchContext {
        image: "image",
        version,
        host: &Host { cpus: 4, gpus: gpus.to_vec() },
        key: &"key".into(),
        offline: false,
        fetches_media: false,
        hub_endpoint: None,
        place: &Place::container(),
        program: None,
    };
    launch(&model, &context).args
}

fn record(engine: EngineKind) -> BoxedStrategy<(Map<String, Value>, bool)> {
    let rows: Vec<_> = fields::all()
        .filter(|it| it.applies_to(engine) && !PLACES.contains(&it.name))
        .map(|row| (Just(row.name), proptest::option::of(value(row, engine))))
        .collect();
    let name = "[a-zA-Z0-9ü/@:._=][a-zA-Z0-9ü/@:. _=-]{0,40}[a-z0-9]";
    (rows, name, select(&["generate", "embed"][..]), any::<bool>(), place(engine))
        .prop_map(move |(rows, name, task, gpus, place)| {
            let mut body: Map<String, Value> =
                rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
            body.insert("served_name".to_owned(), json!(name));
            body.insert("engine_type".to_owned(), json!(engine));
            body.insert("task".to_owned(), json!(task));
            body.extend(place);
            (body, gpus)
        })
        .boxed()
}

/// A file, or a repository of the hub, with and without the word for it.
fn place(engine: EngineKind) -> BoxedStrategy<Map<String, Value>> {
    let repos: &[&str] = match engine {
        EngineKind::Vllm => &["gpt2", "owner/Na.me_8B-it"],
        EngineKind::Llamacpp => &["owner/Na.me_8B-it-GGUF", "owner/name:Q4_K_M"],
    };
    (select(FILES), select(repos), 0..5_u8)
        .prop_map(|(file, repo, which)| {
            let place = match which {
                0 => json!({ "local_path": file }),
                1 => json!({ "mode": "offline", "local_path": file }),
                2 => json!({ "mode": "offline", "local_path": file, "repo_id": repo }),
                3 => json!({ "repo_id": repo }),
                _ => json!({ "mode": "online", "repo_id": repo, "local_path": file }),
            };
            place.as_object().unwrap().clone()
        })
        .boxed()
}

fn value(field: &'static Field, engine: EngineKind) -> BoxedStrategy<Value> {
    let number = 1e-6..1e6_f64;
    match (field.name, field.kind) {
        ("tensor_split", _) => {
            proptest::collection::vec(number, 1..15).prop_map(|it| json!(joined(&it))).boxed()
        }
        ("cuda_graph_sizes", _) => {
            proptest::collection::vec(1..9999_u32, 1..9).prop_map(|it| json!(joined(&it))).boxed()
        }
        ("chat_template_file", _) => Just(json!(TEMPLATE)).boxed(),
        ("engine_image", _) => Just(json!("mirror.example:5000/engine:v0.32.0")).boxed(),
        ("extra_args", _) => {
            let extras = if engine == EngineKind::Vllm { VLLM_EXTRAS } else { LLAMACPP_EXTRAS };
            proptest::sample::subsequence(extras, 0..extras.len()).prop_map(|it| json!(it.concat())).boxed()
        }
        ("extra_env", _) => Just(json!({ "OMP_NUM_THREADS": "2" })).boxed(),
        (_, Kind::Bool) => any::<bool>().prop_map(|it| json!(it)).boxed(),
        (_, Kind::Int { min, max }) => {
            prop_oneof![Just(min), Just(max), min..=max].prop_map(|it| json!(it)).boxed()
        }
        (_, Kind::IntOneOf(allowed)) => select(allowed).prop_map(|it| json!(it)).boxed(),
        (_, Kind::Float { min, max }) => {
            let tiny = min.max(f64::MIN_POSITIVE);
            prop_oneof![Just(min), Just(max), Just(tiny), min..=max].prop_map(|it| json!(it)).boxed()
        }
        (_, Kind::OneOf(allowed)) => select(allowed).prop_map(|it| json!(it)).boxed(),
        (_, Kind::Lines { .. }) => {
            let words = "[a-zA-Zü \n\t'\"]{0,60}";
            words.prop_map(|it| json!(format!("{{{{ bos_token }}}}{it}{{# - #}}"))).boxed()
        }
        (_, Kind::Text { .. } | Kind::Repo | Kind::RepoOrPath) => {
            assert!(!field.examples.is_empty(), "`{}` needs examples", field.name);
            select(field.examples).prop_map(|it| json!(it)).boxed()
        }
        (_, Kind::Path | Kind::ModelPath) => select(FILES).prop_map(|it| json!(it)).boxed(),
        (_, Kind::NamedPaths { .. }) => {
            let entry =
                ("[a-z][a-z0-9/ -]{0,9}", select(FILES)).prop_map(|(name, path)| format!("{name}={path}"));
            proptest::collection::vec(entry, 0..4).prop_map(|it| json!(it)).boxed()
        }
        (_, Kind::IntList { min, max }) => {
            proptest::collection::btree_set(min..=max, 0..4).prop_map(|it| json!(it)).boxed()
        }
        (_, Kind::Object) => Just(json!({ "temperature": 0 })).boxed(),
        (name, Kind::TextList { .. } | Kind::TextMap) => panic!("`{name}` of {engine} needs a strategy"),
    }
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
