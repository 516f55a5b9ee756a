//! Model records: what they take and what they show. Nothing is started here.

use futures_util::future::join_all;
use gantry_testkit::{Answer, Client, Database};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_forbidden_fields, assert_invalid, column},
    team::{Team, id, make_model, make_token},
};

/// What every record begins with.
const IDENTITY: &str = "id name served_name task engine_type state state_reason diagnosis restart needs_apply \
                        needs_apply_reason rolled_back archived simulator hub_token_set defaulted created_at updated_at \
                        revision";
const BOTH: &str = "mode repo_id local_path tokenizer hub_config_path engine_image startup_timeout_sec \
    restart_policy restart_limit autostart request_timeout_sec stream_idle_timeout_sec device selected_gpus \
    memory_limit_gib read_only_root chat_template chat_template_file lora_adapters \
    seed extra_args extra_env request_defaults";
const VLLM: &str = "dtype quantization tensor_parallel_size pipeline_parallel_size gpu_memory_utilization \
    max_model_len max_num_seqs max_num_batched_tokens kv_cache_dtype kv_cache_memory_bytes block_size enforce_eager \
    cuda_graph_sizes cpu_offload_gb swap_space_gb enable_prefix_caching prefix_caching_hash_algo \
    enable_chunked_prefill attention_backend trust_remote_code gguf_weight_format reasoning_parser tool_call_parser \
    enable_auto_tool_choice";
const LLAMACPP: &str = "context_size ngl batch_size ubatch_size threads parallel_slots tensor_split split_mode \
    main_gpu flash_attn mlock no_mmap load_mode numa rope_freq_base rope_freq_scale cache_type_k cache_type_v \
    n_cpu_moe override_tensor fit_memory draft_model_path draft_n draft_p_min mmproj pooling jinja";

fn words(texts: &[&str]) -> Vec<String> {
    let mut words: Vec<_> = texts.iter().flat_map(|it| it.split_whitespace()).map(str::to_owned).collect();
    words.sort_unstable();
    words
}

pub(crate) fn vllm(served_name: &str) -> Value {
    json!({ "served_name": served_name, "engine_type": "vllm", "local_path": "m" })
}

pub(crate) fn llamacpp(served_name: &str) -> Value {
    json!({ "served_name": served_name, "engine_type": "llamacpp", "local_path": "m.gguf", "force": true })
}

pub(crate) fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

pub(crate) async fn create(client: &Client, body: &Value) -> Answer {
    client.post("/admin/models", body).await
}

#[tokio::test]
async fn a_record_shows_every_field_of_its_engine_and_no_secret() {
    for database in Database::one("a_record_shows_every_field") {
        let team = Team::on(database).await;
        let body = json!({
            "served_model_name": "org/tiny:8b", "engine_type": "primary", "repo_id": "org/tiny",
            "hub_token": "hf_very_secret", "gpu_memory_utilization": 0.5, "selected_gpus": [0, 1],
            "request_defaults": { "temperature": 0.2 },
        });
        let made = create(&team.admin, &body).await;
        assert!(
            !made.text.contains("hf_very_secret") && !made.text.contains("\"hub_token\""),
            "{}",
            made.text
        );
        let made = made.expect(201);
        let mut fields: Vec<_> = made.as_object().unwrap().keys().cloned().collect();
        fields.sort_unstable();
        assert_eq!(fields, words(&[IDENTITY, BOTH, VLLM]));
        for (field, value) in [
            ("name", json!("org/tiny:8b")),
            ("served_name", json!("org/tiny:8b")),
            ("task", json!("generate")),
            ("engine_type", json!("vllm")),
            ("state", json!("stopped")),
            ("state_reason", json!(null)),
            ("diagnosis", json!(null)),
            ("archived", json!(false)),
            ("hub_token_set", json!(true)),
            ("mode", json!("online")),
            ("gpu_memory_utilization", json!(0.5)),
            ("selected_gpus", json!([0, 1])),
            ("request_defaults", json!({ "temperature": 0.2 })),
            ("max_model_len", json!(null)),
            ("block_size", json!(16)),
            ("max_num_seqs", json!(256)),
        ] {
            assert_eq!(made[field], value, "{field}");
        }
        let defaulted = made["defaulted"].as_array().unwrap();
        for (field, by_default) in [
            ("block_size", true),
            ("max_num_seqs", true),
            ("gpu_memory_utilization", false),
            ("max_model_len", false),
        ] {
            assert_eq!(defaulted.contains(&json!(field)), by_default, "{field}");
        }
        let path = format!("/admin/models/{}", id(&made));
        assert_eq!(team.admin.get(&path).await.expect(200), made);

        let body = with(with(llamacpp("gguf"), "engine_type", json!("secondary")), "task", json!("embed"));
        let second = create(&team.admin, &with(body, "name", json!("A GGUF"))).await.expect(201);
        let mut fields: Vec<_> = second.as_object().unwrap().keys().cloned().collect();
        fields.sort_unstable();
        assert_eq!(fields, words(&[IDENTITY, BOTH, LLAMACPP]));
        for (field, value) in [
            ("name", json!("A GGUF")),
            ("task", json!("embed")),
            ("engine_type", json!("llamacpp")),
            ("mode", json!("offline")),
            ("rope_freq_scale", json!(1.0)),
            ("fit_memory", json!("on")),
            ("ngl", json!(999)),
            // The default is for models that generate.
            ("batch_size", json!(null)),
        ] {
            assert_eq!(second[field], value, "{field}");
        }
        assert_eq!(second["hub_token_set"], false);

        let list = team.admin.get("/admin/models").await;
        assert_eq!(list.json, json!([made, second]));
        assert!(!list.text.contains("hf_very_secret"));
        for (query, wanted) in [("limit=1", made), ("limit=1&offset=1", second)] {
            let page = team.admin.get(&format!("/admin/models?{query}")).await;
            assert_eq!((&page.json, page.header("x-total-count")), (&json!([wanted]), Some("2")));
        }
    }
}

#[tokio::test]
async fn a_record_that_is_sent_back_sets_nothing() {
    for database in Database::one("a_record_that_is_sent_back") {
        let team = Team::on(database).await;
        let made = create(&team.admin, &llamacpp("m")).await.expect(201);
        let mut whole = made.clone();
        let read_only = "id state state_reason diagnosis restart needs_apply needs_apply_reason rolled_back \
                         simulator hub_token_set defaulted created_at updated_at revision";
        for field in read_only.split_whitespace() {
            whole.as_object_mut().unwrap().shift_remove(field);
        }
        let path = format!("/admin/models/{}", id(&made));
        assert_eq!(team.admin.patch(&path, &whole).await.expect(200), made);
    }
}

#[tokio::test]
async fn a_change_touches_what_it_names_and_null_unsets() {
    for database in Database::one("models_a_change_touches_what_it_names") {
        let team = Team::on(database).await;
        let body = with(with(vllm("m"), "hub_token", json!("hf_secret")), "max_model_len", json!(4096));
        let made = create(&team.admin, &body).await.expect(201);
        let path = format!("/admin/models/{}", id(&made));
        let change = async |body: Value| team.admin.patch(&path, &body).await;
        let mut record = made.clone();
        let same = async |record: &Value, answer: Answer| {
            let mut found = answer.expect(200);
            for changes in ["updated_at", "revision"] {
                found[changes] = record[changes].clone();
            }
            assert_eq!(&found, record);
        };
        same(&record, change(json!({})).await).await;
        for (field, value, shown) in [
            ("max_model_len", json!(8192), json!(8192)),
            ("max_model_len", json!(null), json!(null)),
            ("max_model_len", json!(null), json!(null)),
            ("name", json!("Renamed"), json!("Renamed")),
            ("served_name", json!("other"), json!("other")),
            ("task", json!("embed"), json!("embed")),
            ("engine_type", json!("primary"), json!("vllm")),
            ("archived", json!(true), json!(true)),
            ("archived", json!(false), json!(false)),
        ] {
            record[field] = shown;
            same(&record, change(json!({ field: value })).await).await;
        }
        // The token: an empty one is what forms send for "unchanged", null takes it away.
        for (value, set) in
            [(json!(""), true), (json!(null), false), (json!(""), false), (json!("hf_2"), true)]
        {
            record["hub_token_set"] = json!(set);
            same(&record, change(json!({ "hub_token": value })).await).await;
        }
        for (body, params) in [
            (json!({ "engine_type": "llamacpp" }), &["engine_type"][..]),
            (json!({ "local_path": null }), &["local_path"]),
            (json!({ "state": "running", "id": 7 }), &["state", "id"]),
            (json!({ "name": null }), &["name"]),
            (json!({ "served_name": null }), &["served_name"]),
            (json!({ "archived": null }), &["archived"]),
            (json!({ "hub_token": 7 }), &["hub_token"]),
        ] {
            assert_invalid(&change(body).await, params);
        }
        same(&record, team.admin.get(&path).await).await;
        // Many at once wait for each other, and none is lost.
        let fields = ["max_num_seqs", "seed", "max_model_len", "request_timeout_sec", "tensor_parallel_size"];
        for n in 1..=4 {
            let bodies: Vec<_> = (0..30).map(|i| json!({ fields[i % 5]: n })).collect();
            for answer in join_all(bodies.iter().map(|it| team.admin.patch(&path, it))).await {
                assert_eq!(answer.status, 200, "{}", answer.text);
            }
            let record = team.admin.get(&path).await.expect(200);
            assert!(fields.iter().all(|it| record[it] == n), "{record}");
        }
    }
}

#[tokio::test]
async fn every_problem_of_a_record_is_told_at_once() {
    for database in Database::one("every_problem_of_a_record_is_told_at_once") {
        let team = Team::on(database).await;
        let many = json!({
            "served_name": "", "engine_type": "vllm", "repo_id": 7, "gpu_memory_utilization": 0.99, "ngl": 1,
            "block_size": 3, "colour": "red", "dtype": "int3", "archived": "no", "task": "sing",
        });
        let answer = create(&team.owner, &many).await;
        let all = [
            "task",
            "served_name",
            "archived",
            "repo_id",
            "gpu_memory_utilization",
            "ngl",
            "block_size",
            "colour",
            "dtype",
            "local_path",
        ];
        assert_invalid(&answer, &all);
        for (body, params) in [
            (json!({}), &["engine_type", "served_name"][..]),
            (json!({ "engine_type": "tgi", "served_name": "m" }), &["engine_type"]),
            (json!({ "engine_type": "vllm", "served_name": "m" }), &["local_path"]),
            (json!({ "engine_type": "vllm", "served_name": "m", "local_path": 7 }), &["local_path"]),
            (with(vllm("running"), "name", json!("n")), &["served_name"]),
            (with(vllm("a/constraints"), "name", json!("n")), &["served_name"]),
            (with(vllm("m"), "served_model_name", json!("m")), &["served_model_name"]),
            (with(vllm("m"), "mode", json!("online")), &["repo_id"]),
            (with(vllm("m"), "enable_auto_tool_choice", json!(true)), &["tool_call_parser"]),
            (with(llamacpp("m"), "local_path", json!("folder")), &["local_path"]),
            (with(llamacpp("m"), "tensor_split", json!("a,b")), &["tensor_split"]),
            (with(llamacpp("m"), "tensor_split", json!("0,0")), &["tensor_split"]),
            (with(llamacpp("m"), "max_model_len", json!(1)), &["max_model_len"]),
            (with(vllm("m"), "cuda_graph_sizes", json!("1;2")), &["cuda_graph_sizes"]),
            (vllm(&"x".repeat(201)), &["served_name"]),
            (vllm(" m"), &["served_name"]),
            (vllm("m\u{7}"), &["served_name"]),
        ] {
            assert_invalid(&create(&team.owner, &body).await, params);
        }
        assert_eq!(team.owner.get("/admin/models").await.text, "[]");
    }
}

/// Engine, field, what is just allowed, what is just not.
fn bounds() -> Vec<(&'static str, &'static str, Value, Value)> {
    let rows = [
        ("vllm", "gpu_memory_utilization", json!([0.05, 0.98]), json!([0.049, 0.981, 1, "0.9", true])),
        ("vllm", "block_size", json!([1, 8, 16, 32]), json!([0, 2, 64, "16", 16.5])),
        ("vllm", "tensor_parallel_size", json!([1, 64]), json!([0, 65, -1, 1.5])),
        ("vllm", "max_model_len", json!([1, 100_000_000]), json!([0, 100_000_001, 1e30])),
        ("vllm", "kv_cache_memory_bytes", json!([1, i64::MAX]), json!([0, u64::MAX])),
        ("vllm", "kv_cache_dtype", json!(["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]), json!(["FP8", "", 8])),
        ("vllm", "dtype", json!(["auto", "bfloat16"]), json!(["int8", false])),
        ("vllm", "enforce_eager", json!([true, false]), json!(["true", 1, []])),
        ("vllm", "cpu_offload_gb", json!([0, 0.5]), json!([-0.1, "4"])),
        ("vllm", "cuda_graph_sizes", json!(["1", "1,2, 4"]), json!(["0", "1,", "a", [1, 2]])),
        ("vllm", "quantization", json!(["awq"]), json!(["", "--trust-remote-code", "a\u{0}b"])),
        ("vllm", "gguf_weight_format", json!(["auto", "gguf", "ggml"]), json!(["bin"])),
        ("llamacpp", "context_size", json!([0, 8192]), json!([-1, 100_000_001])),
        ("llamacpp", "ngl", json!([0, 999, 9999]), json!([-1, 10_000])),
        ("llamacpp", "batch_size", json!([1, 2048]), json!([0])),
        ("llamacpp", "threads", json!([1, 1024]), json!([0, 1025])),
        ("llamacpp", "flash_attn", json!(["on", "off", "auto"]), json!([true, "yes"])),
        ("llamacpp", "numa", json!(["isolate", "distribute", "none"]), json!(["numactl"])),
        ("llamacpp", "cache_type_v", json!(["f16", "q8_0", "q4_0"]), json!(["q2_k"])),
        ("llamacpp", "draft_p_min", json!([0, 0.5, 1]), json!([-0.01, 1.01])),
        ("llamacpp", "draft_n", json!([1, 16, 1024]), json!([0, 1025])),
        ("llamacpp", "tensor_split", json!(["0.5,0.5", "3, 1", "1"]), json!(["-1,2", ",", "nan"])),
        ("llamacpp", "load_mode", json!(["mlock"]), json!(["ram"])),
        ("llamacpp", "fit_memory", json!(["on", "off"]), json!([true])),
        ("vllm", "startup_timeout_sec", json!([5, 86_400]), json!([4, 86_401])),
        ("vllm", "selected_gpus", json!([[], [0, 63]]), json!([[64], [-1], ["0"], 0])),
        ("vllm", "device", json!(["auto", "cuda", "cpu"]), json!(["tpu"])),
        ("vllm", "request_defaults", json!([{}, { "top_p": 0.9 }]), json!([[], "{}"])),
        (
            "vllm",
            "extra_args",
            json!([[], ["--foo", "--bar=1"]]),
            json!([["--port", "1"], ["--api-key=x"], "--foo", [1]]),
        ),
        (
            "vllm",
            "extra_env",
            json!([{ "A_1": "x" }]),
            json!([{ "A": 1 }, { "A-B": "x" }, { "LD_PRELOAD": "x" }, []]),
        ),
        ("vllm", "lora_adapters", json!([["a=x/y"]]), json!([["a"], ["=x"], ["a=b=c"], ["a=b,c"], "a=x"])),
    ];
    rows.into()
}

#[tokio::test]
async fn values_are_held_to_their_bounds() {
    let team = Team::on(Database::Sqlite).await;
    let ids = [("vllm", vllm("v")), ("llamacpp", llamacpp("l"))];
    let mut paths = Vec::new();
    for (engine, body) in ids {
        let made = create(&team.owner, &body).await.expect(201);
        paths.push((engine, format!("/admin/models/{}", id(&made))));
    }
    for (engine, field, good, bad) in bounds() {
        let path = &paths.iter().find(|it| it.0 == engine).unwrap().1;
        for value in good.as_array().unwrap() {
            let answer = team.owner.patch(path, &json!({ field: value })).await;
            assert_eq!((answer.status, &answer.json[field]), (200, value), "{field}: {}", answer.text);
        }
        for value in bad.as_array().unwrap() {
            let answer = team.owner.patch(path, &json!({ field: value })).await;
            assert_eq!(answer.status, 422, "{field} = {value}: {}", answer.text);
            assert_invalid(&answer, &[field]);
        }
        team.owner.patch(path, &json!({ field: null })).await.expect(200);
    }
}

#[tokio::test]
async fn a_quantised_v_cache_is_not_saved_without_flash_attention() {
    let team = Team::on(Database::Sqlite).await;
    let off = with(llamacpp("l"), "flash_attn", json!("off"));
    for kind in ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"] {
        let body = with(off.clone(), "cache_type_v", json!(kind));
        assert_invalid(&create(&team.owner, &body).await, &["cache_type_v"]);
        assert_invalid(&team.owner.post("/admin/models/dry-run", &body).await, &["cache_type_v"]);
    }
    // What it may be without.
    let plain = with(with(off, "cache_type_v", json!("bf16")), "cache_type_k", json!("q8_0"));
    let path = format!("/admin/models/{}", id(&create(&team.owner, &plain).await.expect(201)));
    assert_invalid(&team.owner.patch(&path, &json!({ "cache_type_v": "q8_0" })).await, &["cache_type_v"]);
    for flash in [json!("auto"), json!("on"), json!(null)] {
        let both = json!({ "cache_type_v": "q8_0", "flash_attn": flash });
        team.owner.patch(&path, &both).await.expect(200);
    }
    assert_invalid(&team.owner.patch(&path, &json!({ "flash_attn": "off" })).await, &["cache_type_v"]);
}

#[tokio::test]
async fn what_gives_power_over_the_host_is_for_owners() {
    for database in Database::one("what_gives_power_over_the_host_is_for_owners") {
        let team = Team::on(database).await;
        let powerful = json!({
            "engine_image": "vllm/vllm-openai:v0.31.0", "trust_remote_code": true, "extra_args": ["--foo"],
            "extra_env": { "A": "b" },
        });
        let mut body = vllm("m");
        body.as_object_mut().unwrap().extend(powerful.as_object().unwrap().clone());
        let all = ["engine_image", "trust_remote_code", "extra_args", "extra_env"];
        assert_forbidden_fields(&create(&team.admin, &body).await, &all);
        assert_forbidden_fields(&team.admin.post("/admin/models/dry-run", &body).await, &all);
        // What is wrong besides is said as well.
        let wrong = create(&team.admin, &with(body.clone(), "max_model_len", json!(0))).await;
        assert_error(&wrong, 403, "forbidden");
        assert_eq!(wrong.json["error"]["details"].as_array().unwrap().len(), 5, "{}", wrong.text);
        let made = create(&team.owner, &body).await.expect(201);
        let path = format!("/admin/models/{}", id(&made));
        for field in all {
            assert_forbidden_fields(&team.admin.patch(&path, &json!({ field: null })).await, &[field]);
        }
        // Forms send all fields back.
        let mut shown = with(powerful, "max_model_len", json!(1024));
        shown["extra_env"]["A"] = json!("***");
        let kept = team.admin.patch(&path, &shown).await.expect(200);
        assert_eq!(kept["max_model_len"], 1024);
        assert_eq!(kept["extra_args"], json!(["--foo"]));
        // Trust in this model's code is no trust in another's.
        for (field, value) in [
            ("repo_id", "evil/code"),
            ("local_path", "evil"),
            ("tokenizer", "evil/code"),
            ("hub_config_path", "evil"),
        ] {
            // There are no such files.
            let change = json!({ field: value, "force": true });
            assert_forbidden_fields(&team.admin.patch(&path, &change).await, &[field]);
            team.owner.patch(&path, &change).await.expect(200);
        }
    }
}

#[tokio::test]
async fn what_a_command_would_not_read_it_does_not_take() {
    let team = Team::on(Database::Sqlite).await;
    let model = format!("/admin/models/{}", make_model(&team.owner, "m").await);
    for verb in ["start", "stop", "apply"] {
        let answer = team.owner.post(&format!("{model}/{verb}"), &json!({ "rollback": true })).await;
        assert_error(&answer, 422, "validation_error");
        assert!(answer.text.contains("takes no body"), "{}", answer.text);
    }
    assert_eq!(team.owner.get(&model).await.json["state"], "stopped");
    // What some clients send when there is nothing to say.
    team.owner.post(&format!("{model}/stop"), &json!({})).await.expect(200);
}

#[tokio::test]
async fn a_served_name_is_free_again_when_its_model_is_archived_or_gone() {
    for database in Database::one("a_served_name_is_free_again") {
        let team = Team::on(database).await;
        let first = format!("/admin/models/{}", make_model(&team.owner, "same").await);
        let second = format!("/admin/models/{}", make_model(&team.owner, "other").await);
        let conflict = |answer: &Answer| {
            assert_error(answer, 409, "served_name_conflict");
            assert_eq!(answer.json["error"]["param"], "served_name");
        };
        conflict(&create(&team.owner, &llamacpp("same")).await);
        conflict(&team.owner.patch(&second, &json!({ "served_name": "same" })).await);
        make_model(&team.owner, "SAME").await;

        team.owner.patch(&first, &json!({ "archived": true })).await.expect(200);
        team.owner.patch(&second, &json!({ "served_name": "same" })).await.expect(200);
        conflict(&team.owner.patch(&first, &json!({ "archived": false })).await);
        let shown = team.owner.get("/admin/models").await.json;
        assert_eq!(column(&shown, "served_name"), ["same", "SAME"], "archived ones are not listed");
        let all = team.owner.get("/admin/models?archived=true").await;
        assert_eq!((column(&all.json, "archived").len(), all.header("x-total-count")), (3, Some("3")));

        team.owner.delete(&second).await.expect(200);
        team.owner.patch(&first, &json!({ "archived": false })).await.expect(200);
        // If many requests want one name at once, one gets it.
        let bodies = vec![vllm("wanted"); 12];
        let answers = join_all(bodies.iter().map(|it| create(&team.owner, it))).await;
        assert_eq!(answers.iter().filter(|it| it.status == 201).count(), 1);
        answers.iter().filter(|it| it.status != 201).for_each(conflict);
    }
}

#[tokio::test]
async fn forms_are_told_every_field_and_the_base_directory() {
    let team = Team::on(Database::Sqlite).await;
    let spec = team.admin.get("/admin/engines/spec").await.expect(200);
    let of = |engine: Value| {
        let rows = spec.as_array().unwrap().iter().filter(|it| it["engine_type"] == engine);
        let mut names: Vec<_> = rows.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(of(json!(null)), words(&[BOTH]));
    assert_eq!(of(json!("vllm")), words(&[VLLM]));
    assert_eq!(of(json!("llamacpp")), words(&[LLAMACPP]));
    let row = |name: &str| spec.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    let wanted = json!({
        "name": "gpu_memory_utilization", "engine_type": "vllm", "group": "memory",
        "schema": { "type": "number", "minimum": 0.05, "maximum": 0.98 }, "default": 0.9, "unit": null,
        "default_task": null, "engine_default": "0.92 from 0.20.0, 0.9 <0.20.0", "tuned": null,
        "help": "Share of each GPU's memory that the engine may use. Without GPUs it is a share of the RAM, and the default \
                 does not count.",
        "owner_only": false,
        "examples": [],
    });
    assert_eq!(row("gpu_memory_utilization"), &wanted);
    for (name, default) in [
        ("max_num_seqs", json!(256)),
        ("max_num_batched_tokens", json!(2048)),
        ("context_size", json!(8192)),
        ("ngl", json!(999)),
        ("batch_size", json!(512)),
        ("threads", json!(32)),
        ("draft_n", json!(16)),
        ("draft_p_min", json!(0.5)),
        ("enforce_eager", json!(true)),
        ("numa", json!("isolate")),
        ("block_size", json!(16)),
        ("rope_freq_scale", json!(1.0)),
        ("fit_memory", json!("on")),
        ("max_model_len", json!(null)),
    ] {
        assert_eq!(row(name)["default"], default, "{name}");
    }
    let owners: Vec<_> =
        spec.as_array().unwrap().iter().filter(|it| it["owner_only"] == true).map(|it| &it["name"]).collect();
    assert_eq!(owners, ["engine_image", "extra_args", "extra_env", "trust_remote_code"]);

    let dir = team.admin.get("/admin/models/base-dir").await.expect(200);
    assert_eq!(dir["base_dir"], team.gateway.models_dir().canonicalize().unwrap().to_str().unwrap());
    let (free, total) = (dir["free_bytes"].as_u64().unwrap(), dir["total_bytes"].as_u64().unwrap());
    assert!(0 < free && free <= total && dir.as_object().unwrap().len() == 5, "{dir}");
}

#[tokio::test]
async fn values_of_variables_are_shown_to_who_may_set_them() {
    for database in Database::one("values_of_variables_are_shown") {
        let team = Team::on(database).await;
        let env = json!({ "MY_TOKEN": "s3cret-value", "MODE": "fast" });
        let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_env": env });
        let made = team.owner.post("/admin/models", &body).await.expect(201);
        let path = format!("/admin/models/{}", id(&made));
        let hidden = json!({ "MY_TOKEN": "***", "MODE": "***" });
        let shown = team.admin.get(&path).await;
        assert_eq!(shown.json["extra_env"], hidden);
        let list = team.admin.get("/admin/models").await.expect(200);
        assert_eq!(list[0]["extra_env"], hidden);
        assert_eq!(team.owner.get(&path).await.expect(200)["extra_env"], env);
        for (scopes, seen) in [("models:read", &hidden), ("models:write", &env)] {
            let token = make_token(&team.owner, scopes).await;
            let script = team.owner.with_key(token["token"].as_str().unwrap());
            assert_eq!(&script.get(&path).await.expect(200)["extra_env"], seen, "{scopes}");
            assert_eq!(&script.get("/admin/models").await.expect(200)[0]["extra_env"], seen, "{scopes}");
        }
        // A form sends back what it was given.
        let change = json!({ "extra_env": hidden, "max_model_len": 512 });
        let changed = team.admin.patch(&path, &change).await;
        assert_eq!((changed.status, &changed.json["extra_env"]), (200, &hidden), "{}", changed.text);
        assert_eq!(team.owner.get(&path).await.expect(200)["extra_env"], env);
        let mixed = json!({ "extra_env": { "MY_TOKEN": "***", "NEW": "***" } });
        let answer = team.admin.patch(&path, &mixed).await;
        assert_forbidden_fields(&answer, &["extra_env"]);
        let changed = team.owner.patch(&path, &mixed).await.expect(200);
        assert_eq!(changed["extra_env"], json!({ "MY_TOKEN": "s3cret-value", "NEW": "***" }));
    }
}
