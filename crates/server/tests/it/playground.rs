//! What the chat page asks before it chats: which models run, and what they take. Containers run the simulator.

use std::path::Path;

use gantry_testkit::{Database, Managed, Options, eventually, simulated, simulator};
use serde_json::{Value, json};

use crate::{
    support::{GANTRY, assert_error, assert_invalid, start},
    team::{PASSWORD, Team, make_user},
};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

#[tokio::test]
async fn healthy_models_are_listed_with_the_limits_that_their_engines_report() {
    if !simulator(GANTRY, "playground: running") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let owner = gateway.owner().await;
    let home = owner.get("/auth/me").await.expect(200)["user"]["org_id"].as_i64().unwrap();
    make_user(&owner, home, "uwe", "user").await;
    let user = gateway.sign_in("uwe", PASSWORD).await;
    assert_eq!(user.get("/v1/models/running").await.expect(200), json!([]));

    let mut body = simulated("vllm", "org/big", &[]);
    body["max_model_len"] = 600.into();
    body["request_defaults"] = json!({ "temperature": 0.2, "max_tokens": 77 });
    Managed::run(&owner, &body).await;
    let mut body = simulated("llamacpp", "small", &[]);
    body["context_size"] = 4096.into();
    let llama = Managed::run(&owner, &body).await;
    Managed::create(&owner, &simulated("vllm", "stopped", &[])).await;

    let entry = |name: &str, engine: &str| json!({ "served_model_name": name, "task": "generate", "engine_type": engine, "state": "running" });
    let both = json!([entry("org/big", "vllm"), entry("small", "llamacpp")]);
    assert_eq!(user.get("/v1/models/running").await.expect(200), both);
    // A key gets the list that is made for keys, and nothing here.
    let key = owner.new_key(&json!({})).await.1;
    assert_error(&key.get("/v1/models/running").await, 401, "unauthenticated");
    for path in ["/v1/models/org/big/constraints", "/v1/models/org%2Fbig/constraints"] {
        assert_error(&key.get(path).await, 401, "unauthenticated");
        assert_eq!(
            user.get(path).await.expect(200),
            json!({
                "served_model_name": "org/big", "engine_type": "vllm", "task": "generate", "context_size": null,
                "max_model_len": 600, "max_tokens_default": 77,
                "request_defaults": { "temperature": 0.2, "max_tokens": 77 },
                "supports_streaming": true, "supports_system_prompt": true, "supports_vision": null,
            }),
        );
    }
    let small = user.get("/v1/models/small/constraints").await.expect(200);
    assert_eq!((&small["context_size"], &small["max_model_len"]), (&json!(4096), &json!(4096)), "{small}");
    assert_eq!((&small["max_tokens_default"], &small["request_defaults"]), (&json!(512), &json!(null)));

    llama.command(&owner, "stop").await;
    eventually("the stopped model leaves the list", gantry_testkit::PATIENCE, async || {
        let list = user.get("/v1/models/running").await.expect(200);
        (list == json!([entry("org/big", "vllm")])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_record_that_is_edited_changes_nothing_of_what_runs() {
    if !simulator(GANTRY, "playground: edited") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["max_model_len"] = 600.into();
    let model = Managed::run(&owner, &body).await;
    let path = format!("/admin/models/{}", model.id);
    let before = owner.get("/v1/models/m/constraints").await.expect(200);
    let edit = json!({ "task": "embed", "max_model_len": 500, "request_defaults": { "temperature": 0.5 } });
    assert_eq!(owner.patch(&path, &edit).await.expect(200)["needs_apply"], true);

    assert_eq!(owner.chat("m").await.status, 200);
    let tested = owner.post(&format!("{path}/test"), &json!({})).await.expect(200);
    assert_eq!((&tested["success"], &tested["test_type"]), (&json!(true), &json!("chat")), "{tested}");
    // The defaults are the gateway's own, and in force at once.
    let mut expected = before;
    expected["request_defaults"] = edit["request_defaults"].clone();
    assert_eq!(owner.get("/v1/models/m/constraints").await.expect(200), expected);
}

#[tokio::test]
async fn adapters_are_called_by_their_own_names() {
    if !simulator(GANTRY, "playground: adapters") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let owner = gateway.owner().await;
    std::fs::create_dir_all(gateway.models_dir().join("adapters/sql")).unwrap();
    let mut body = simulated("vllm", "m", &[]);
    for wrong in [json!(["sql=adapters/sql", "sql=adapters/sql"]), json!(["m=adapters/sql"])] {
        body["lora_adapters"] = wrong;
        assert_invalid(&owner.post("/admin/models", &body).await, &["lora_adapters"]);
    }
    body["lora_adapters"] = json!(["sql=adapters/sql"]);
    let model = Managed::run(&owner, &body).await;

    let answer = owner.chat("sql").await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    answer.expect(200);
    assert_eq!(owner.usage_of(&id).await["model_name"], "sql");
    let listed = owner.get("/v1/models").await.expect(200);
    let names: Vec<_> = listed["data"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(names, ["m", "sql"]);
    let constraints = owner.get("/v1/models/sql/constraints").await.expect(200);
    assert_eq!(constraints["served_model_name"], "sql", "{constraints}");
    // Its engine is looked after once, under the model's name.
    assert_eq!(owner.get("/admin/upstreams").await.expect(200).as_array().unwrap().len(), 1);
    let (_, base_only) = owner.new_key(&json!({ "models": ["m"] })).await;
    assert_error(&base_only.chat("sql").await, 403, "model_not_allowed");

    // The name is taken, and it takes no other's.
    let taken = owner.post("/admin/models", &simulated("vllm", "sql", &[])).await;
    assert_error(&taken, 409, "served_name_conflict");
    let entry = json!({ "served_name": "sql", "url": "http://127.0.0.1:9" });
    assert_error(&owner.post("/admin/models/registry", &entry).await, 409, "served_name_conflict");
    let mut other = simulated("vllm", "other", &[]);
    other["lora_adapters"] = json!(["m=adapters/sql"]);
    let taken = owner.post("/admin/models", &other).await;
    assert_error(&taken, 409, "served_name_conflict");
    assert_eq!(taken.json["error"]["param"], "lora_adapters");
    let dry = owner.post("/admin/models/dry-run", &other).await.expect(200);
    let told = dry["warnings"].as_array().unwrap().iter().find(|it| it["category"] == "name");
    assert_eq!((&dry["valid"], &told.unwrap()["field"]), (&json!(false), &json!("lora_adapters")), "{dry}");

    model.command(&owner, "stop").await;
    model.reaches(&owner, "stopped").await;
    assert_error(&owner.chat("sql").await, 503, "model_not_running");
}

#[tokio::test]
async fn a_model_whose_engine_keeps_failing_is_not_offered() {
    if !simulator(GANTRY, "playground: breaker") {
        return;
    }
    // After the cooldown a probe, which finds this engine healthy, would close the breaker.
    let gateway = start(Options::containers().env("BREAKER_COOLDOWN_SEC", "600")).await;
    let owner = gateway.owner().await;
    Managed::run(&owner, &simulated("vllm", "m", &[("ERROR_STATUS", "500")])).await;
    assert_eq!(owner.get("/v1/models/running").await.expect(200)[0]["served_model_name"], "m");
    eventually("the breaker opens", gantry_testkit::PATIENCE, async || {
        (owner.chat("m").await.code() == "model_unavailable").then_some(())
    })
    .await;
    assert_eq!(owner.get("/v1/models/running").await.expect(200), json!([]));
    let model = &owner.get("/admin/models").await.expect(200)[0];
    let ready = owner.get(&format!("/admin/models/{}/readiness", model["id"])).await.expect(200);
    assert_eq!((&ready["status"], &ready["state"]), (&json!("error"), &json!("running")), "{ready}");
    assert!(ready["detail"].as_str().unwrap().contains("failed repeatedly"), "{ready}");
    let upstream = &owner.get("/admin/upstreams").await.expect(200)[0];
    assert_eq!(upstream["consecutive_failures"], 5, "{upstream}");
    let told = "5 requests to it failed in a row, all of one or two callers; the others are served";
    assert_eq!((&upstream["last_error"], &upstream["breaker"]["state"]), (&json!(told), &json!("open")));
    // What it takes is known all the same.
    owner.get("/v1/models/m/constraints").await.expect(200);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[tokio::test]
async fn a_model_that_does_not_run_has_the_limits_of_its_record_and_its_files() {
    for database in Database::one("playground: limits of files") {
        let options = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let team = Team::with(options).await;
        let models = team.gateway.models_dir();
        copy_folder(&Path::new(FIXTURES).join("hf/tiny-llama-chat"), &models.join("chat"));
        copy_folder(&Path::new(FIXTURES).join("hf/tiny-llama-chat"), &models.join("gemma"));
        let refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}\
            {% endif %}";
        std::fs::write(models.join("gemma/chat_template.jinja"), refusing).unwrap();
        std::fs::copy(format!("{FIXTURES}/gguf/tiny-llama-F16.gguf"), models.join("tiny.gguf")).unwrap();
        let config: Value =
            serde_json::from_slice(&std::fs::read(models.join("chat/config.json")).unwrap()).unwrap();
        let trained = &config["max_position_embeddings"];

        let make = async |body: Value| team.owner.post("/admin/models", &body).await.expect(201);
        let vllm = |name: &str, path: &str| json!({ "served_name": name, "engine_type": "vllm", "local_path": path, "force": true });
        make(vllm("chat", "chat")).await;
        make(vllm("gemma", "gemma")).await;
        make(vllm("lost", "not/there")).await;
        make(json!({
            "served_name": "gemma-fixed", "engine_type": "vllm", "local_path": "gemma", "max_model_len": 256,
            "chat_template": "{{ messages[0]['role'] }}{{ messages[0]['content'] }}",
        }))
        .await;
        make(json!({ "served_name": "a/tiny", "engine_type": "llamacpp", "local_path": "tiny.gguf" })).await;
        make(json!({ "served_name": "e", "engine_type": "vllm", "local_path": "chat", "task": "embed" }))
            .await;

        let of = async |name: &str| {
            let all = team.user.get(&format!("/v1/models/{name}/constraints")).await.expect(200);
            (all["context_size"].clone(), all["max_model_len"].clone(), all["supports_system_prompt"].clone())
        };
        assert_eq!(of("chat").await, (json!(null), trained.clone(), json!(true)));
        assert_eq!(of("gemma").await, (json!(null), trained.clone(), json!(false)));
        assert_eq!(of("gemma-fixed").await, (json!(null), json!(256), json!(true)));
        assert_eq!(of("lost").await, (json!(null), json!(4096), json!(true)));
        assert_eq!(of("a/tiny").await, (json!(8192), json!(8192), json!(true)));
        let embeds = team.user.get("/v1/models/e/constraints").await.expect(200);
        assert_eq!((&embeds["task"], &embeds["supports_streaming"]), (&json!("embed"), &json!(false)));

        for nobody in ["none", "a%2Fnone", "a", "running", "%ff", "constraints"] {
            let answer = team.user.get(&format!("/v1/models/{nobody}/constraints")).await;
            assert!(matches!(answer.status, 400 | 404), "{nobody}: {}", answer.text);
            if answer.status == 404 {
                assert_error(&answer, 404, "model_not_found");
            }
        }
        assert_eq!(team.user.get("/v1/models/running").await.expect(200), json!([]));
        assert_eq!(team.user.get("/v1/models/running?x=1").await.status, 422);
    }
}

/// A GGUF file that has no tensors, and these facts of type bool.
fn gguf_of(facts: &[(&str, bool)]) -> Vec<u8> {
    const BOOL: u32 = 7;
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend((facts.len() as u64).to_le_bytes());
    for (key, value) in facts {
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(BOOL.to_le_bytes());
        bytes.push((*value).into());
    }
    bytes
}

#[tokio::test]
async fn whether_a_model_sees_pictures_is_said_by_its_files_or_left_open() {
    let team = Team::with(Options::processes()).await;
    let models = team.gateway.models_dir();
    for folder in ["blind", "seeing", "odd"] {
        copy_folder(&Path::new(FIXTURES).join("hf/tiny-llama-chat"), &models.join(folder));
    }
    let mut config: Value =
        serde_json::from_slice(&std::fs::read(models.join("seeing/config.json")).unwrap()).unwrap();
    config["vision_config"] = json!({ "hidden_size": 32 });
    std::fs::write(models.join("seeing/config.json"), config.to_string()).unwrap();
    std::fs::write(models.join("odd/preprocessor_config.json"), "{}").unwrap();
    std::fs::copy(format!("{FIXTURES}/gguf/tiny-llama-F16.gguf"), models.join("tiny.gguf")).unwrap();
    std::fs::write(models.join("eyes.gguf"), gguf_of(&[("clip.has_vision_encoder", true)])).unwrap();
    std::fs::write(models.join("ears.gguf"), gguf_of(&[("clip.has_audio_encoder", true)])).unwrap();
    std::fs::write(models.join("broken.gguf"), "no").unwrap();

    let vllm = |path: &str, more: Value| (json!({ "engine_type": "vllm", "local_path": path }), more);
    let llama = |more: Value| (json!({ "engine_type": "llamacpp", "local_path": "tiny.gguf" }), more);
    for ((mut body, more), sees) in [
        (vllm("blind", json!({})), json!(false)),
        (vllm("seeing", json!({})), json!(true)),
        (vllm("odd", json!({})), json!(null)),
        (vllm("not/there", json!({})), json!(null)),
        (vllm("seeing", json!({ "extra_args": ["--limit-mm-per-prompt={\"image\":0}"] })), json!(null)),
        (llama(json!({})), json!(false)),
        (llama(json!({ "mmproj": "eyes.gguf" })), json!(true)),
        (llama(json!({ "mmproj": "ears.gguf" })), json!(false)),
        (llama(json!({ "mmproj": "broken.gguf" })), json!(null)),
        (llama(json!({ "extra_args": ["--mmproj", "/models/eyes.gguf"] })), json!(null)),
        (
            (json!({ "engine_type": "llamacpp", "repo_id": "me/model" }), json!({ "mode": "online" })),
            json!(null),
        ),
    ] {
        body["served_name"] = "m".into();
        body["force"] = true.into();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let model = team.owner.post("/admin/models", &body).await.expect(201);
        let all = team.user.get("/v1/models/m/constraints").await.expect(200);
        assert_eq!(all["supports_vision"], sees, "{body}");
        team.owner.delete(&format!("/admin/models/{}", model["id"])).await.expect(200);
    }
}
