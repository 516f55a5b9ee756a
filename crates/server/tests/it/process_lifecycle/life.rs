//! From start to stop.

use gantry_testkit::{
    EventStream, Managed, Options, PATIENCE, engine_processes, eventually, lives, simulated,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{gateway, nothing_left, process, program, word};
use crate::{
    support::start,
    team::{PASSWORD, Team},
};

#[tokio::test]
async fn a_model_starts_answers_and_stops() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::create(&owner, &simulated(engine, engine, &[])).await;
        model.start(&owner).await;
        model.reaches(&owner, "running").await;
        let state = gateway.engine_state(&model.container).unwrap();
        let answer = owner.chat(engine).await.expect(200);
        let said = word(&answer["choices"][0]["message"]["content"]);
        assert!(said.starts_with("This is simulated text"), "{said}");

        // On loopback only, with the gateway's key only.
        let (port, pid) = (state["port"].as_u64().unwrap(), state["engine_pid"].as_i64().unwrap());
        let direct = gantry_testkit::Client::of_engine(&format!("http://127.0.0.1:{port}"));
        assert_eq!(direct.get("/v1/models").await.status, 401);
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        let words: Vec<&str> = line.split('\0').collect();
        assert!(words.windows(2).any(|it| it == ["--host", "127.0.0.1"]), "{words:?}");
        let key = std::fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap();
        assert!(!line.contains(&key), "{line}");

        model.command(&owner, "stop").await.expect(202);
        let stopped = model.reaches(&owner, "stopped").await;
        assert_eq!(stopped["state_reason"], Value::Null);
        assert!(!lives(pid) && !gateway.engine_dir(&model.container).exists());
        let refused = owner.chat(engine).await;
        assert_eq!((refused.status, refused.code()), (503, "model_not_running"));
        assert_eq!(
            model.timeline(&owner).await,
            [
                "stopped>starting",
                "starting>loading",
                "loading>running",
                "running>stopping",
                "stopping>stopped"
            ]
        );
    }
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn applying_makes_a_new_process_with_the_new_settings() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let before = process(&gateway, &model);
    owner.patch(&format!("/admin/models/{}", model.id), &json!({ "max_model_len": 777 })).await.expect(200);
    assert_eq!(process(&gateway, &model), before, "a change alone does nothing to what runs");
    model.command(&owner, "apply").await.expect(202);
    model.reaches(&owner, "running").await;
    let after = process(&gateway, &model);
    assert!(after != before && !lives(before.0));
    assert_eq!(owner.get("/v1/models/m").await.expect(200)["max_model_len"], 777);
    // One supervisor and one engine.
    assert_eq!(engine_processes(&gateway.instance()).len(), 2);
}

#[tokio::test]
async fn a_dry_run_shows_the_command_of_this_machine() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["engine_image"] = json!("localhost/gantry-engine-sim-vllm:0.32.0");
    let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
    assert_eq!((&preview["simulator"], &preview["image_cached"]), (&json!(true), &json!(true)), "{preview}");
    assert_eq!(preview["engine_version"], "0.32.0");
    let models = gateway.models_dir().canonicalize().unwrap();
    let command: Vec<&str> = preview["command"].as_array().unwrap().iter().map(word).collect();
    assert!(command.contains(&models.join("simulated").to_str().unwrap()), "{command:?}");
    assert!(command.windows(2).any(|it| it == ["--port", "$PORT"]), "{command:?}");
    assert!(command[0].ends_with("/gantry"), "{command:?}");
    let warnings = preview["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{preview}");
    assert_eq!(warnings[0]["title"], "Memory need unknown", "a simulator loads no model");

    // Images mean nothing here, and a record names no program.
    body["engine_image"] = json!("vllm/vllm-openai:v0.11.0");
    body["extra_env"] = json!({ "NCCL_NET_PLUGIN": "/tmp" });
    let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
    let fields: Vec<&str> =
        preview["warnings"].as_array().unwrap().iter().map(|it| word(&it["field"])).collect();
    assert_eq!(fields[..2], ["engine_image", "extra_env"], "{preview}");
    assert!(word(&preview["image"]).ends_with("engine-sim --flavour vllm"), "{preview}");
}

#[tokio::test]
async fn stopping_ends_the_whole_tree_of_processes() {
    let dir = tempfile::tempdir().unwrap();
    // A script in front of the engine, as people write them, with a worker that does not care to be asked.
    let script =
        "sh -c \"trap '' TERM; while :; do sleep 0.1; done\" &\nGANTRY engine-sim --flavour vllm \"$@\"";
    let wrapper = program(&dir, "vllm", script);
    let options = Options::processes().env("PRIMARY_ENGINE_COMMAND", wrapper.to_str().unwrap());
    let gateway = start(options.env("STOP_TIMEOUT_SEC", "2")).await;
    let owner = gateway.owner().await;
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "device": "cpu" });
    let model = Managed::run(&owner, &body).await;
    assert_eq!(owner.chat("m").await.status, 200);
    let tree = engine_processes(&gateway.instance());
    // Supervisor, script, worker and engine, and the worker's own child for a moment.
    assert!(tree.len() >= 4, "{tree:?}");
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    assert!(tree.iter().all(|it| !lives(*it)), "{tree:?}");
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn who_may_not_look_any_more_follows_no_log() {
    let team = Team::with(Options::processes()).await;
    let model = Managed::run(&team.owner, &simulated("vllm", "m", &[])).await;
    let users = team.owner.get("/admin/users?q=ada").await.expect(200);
    let user = format!("/admin/users/{}", users[0]["id"]);
    let ends: [(&str, Value); 2] = [("role", json!("user")), ("enabled", json!(false))];
    for (field, value) in ends {
        let ada = team.gateway.sign_in("ada", PASSWORD).await;
        let request = ada.request(Method::GET, &model.path("logs?follow=true"));
        let mut followed = EventStream::new(request.send().await.unwrap());
        assert!(followed.next().await.unwrap().is_some());
        team.owner.patch(&user, &json!({ field: value })).await.expect(200);
        // The engine runs on: nothing else ends it.
        tokio::time::timeout(PATIENCE, followed.rest()).await.expect(field).unwrap();
        team.owner.patch(&user, &json!({ "role": "admin", "enabled": true })).await.expect(200);
    }
}

#[tokio::test]
async fn a_gateway_that_ends_while_it_stops_an_engine_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let script =
        "sh -c \"trap '' TERM; while :; do sleep 0.1; done\" &\nGANTRY engine-sim --flavour vllm \"$@\"";
    let wrapper = program(&dir, "vllm", script);
    let options = Options::processes().env("PRIMARY_ENGINE_COMMAND", wrapper.to_str().unwrap());
    // More than a gateway once gave its workers.
    let mut gateway = start(options.env("STOP_TIMEOUT_SEC", "14")).await;
    let owner = gateway.owner().await;
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "m", "device": "cpu" });
    let model = Managed::run(&owner, &body).await;
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopping").await;
    assert!(gateway.terminate(), "{}", gateway.log());
    assert_eq!(engine_processes(&gateway.instance()), Vec::<i64>::new());
}

#[tokio::test]
async fn logs_can_be_read_and_followed() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[("LOAD_SECONDS", "15")])).await;
    model.start(&owner).await;
    model.reaches(&owner, "loading").await;
    let request = owner.request(Method::GET, &model.path("logs?follow=true&tail=100"));
    let mut followed = EventStream::new(request.send().await.unwrap());
    let mut lines: Vec<String> = Vec::new();
    while !lines.iter().any(|it| it.contains("Application startup complete")) {
        let event = tokio::time::timeout(PATIENCE, followed.next()).await.unwrap().unwrap();
        let event: Value = serde_json::from_str(&event.expect("it goes on")).unwrap();
        lines.push(word(&event["line"]).to_owned());
    }
    assert!(lines[0].contains("not a real engine"), "{lines:?}");
    model.reaches(&owner, "running").await;
    let whole = owner.get(&model.path("logs")).await.expect(200);
    assert_eq!(whole["logs"], lines.join("\n"));
    let last = owner.get(&model.path("logs?tail=2")).await.expect(200);
    assert_eq!(last["logs"], lines[lines.len() - 2..].join("\n"));
    // When the process goes, so does the stream.
    model.command(&owner, "stop").await.expect(202);
    tokio::time::timeout(PATIENCE, followed.rest()).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_model_without_a_chat_template_passes_its_test_as_it_serves_chats() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[("NO_CHAT_TEMPLATE", "1")])).await;
    assert_eq!(owner.chat("m").await.status, 200);
    let tested = model.command(&owner, "test").await.expect(200);
    assert_eq!((&tested["success"], &tested["test_type"]), (&json!(true), &json!("completion")), "{tested}");
    assert_eq!(tested["request"]["prompt"], "User: Say hello.\n\nAssistant:");
    assert!(tested["response"]["choices"][0]["text"].is_string() && tested["error"].is_null(), "{tested}");
    let other = Managed::run(&owner, &simulated("vllm", "n", &[])).await;
    assert_eq!(other.command(&owner, "test").await.expect(200)["test_type"], "chat");
}

#[tokio::test]
async fn what_uses_a_gpu_is_known_by_its_engine() {
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let pid = process(&gateway, &model).0;
    let stranger = std::process::id();
    let gpus = json!([{
        "index": 0, "name": "A GPU", "mem_total_mb": 1000, "mem_used_mb": 500,
        "processes": [{ "pid": pid, "mem_mb": 400 }, { "pid": stranger, "mem_mb": 100 }],
    }]);
    let file = gateway.data_dir().join("gpus.json");
    std::fs::write(&file, gpus.to_string()).unwrap();
    assert!(gateway.terminate());
    gateway.set_env("GPU_INVENTORY_FILE", file.to_str().unwrap());
    gateway.restart().await;
    let seen = gateway.owner().await.get("/admin/system/gpus").await.expect(200);
    let of = |index: usize| seen[0]["processes"][index].clone();
    assert_eq!((&of(0)["model_id"], &of(0)["served_name"]), (&json!(model.id), &json!("m")), "{seen}");
    assert_eq!((&of(1)["model_id"], &of(1)["served_name"]), (&Value::Null, &Value::Null), "{seen}");
}

#[tokio::test]
async fn a_dry_run_says_what_a_start_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gpus.json");
    std::fs::write(&file, r#"[{ "index": 0, "name": "A GPU", "mem_total_mb": 1000, "mem_used_mb": 0 }]"#)
        .unwrap();
    let gateway = start(Options::processes().env("GPU_INVENTORY_FILE", file.to_str().unwrap())).await;
    let owner = gateway.owner().await;
    let dry_run = async |change: Value| {
        let mut body = simulated("vllm", "m", &[]);
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let seen = owner.post("/admin/models/dry-run", &body).await.expect(200);
        let errors = seen["warnings"].as_array().unwrap().iter().filter(|it| it["severity"] == "error");
        (seen["valid"].clone(), errors.map(|it| word(&it["field"]).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(dry_run(json!({})).await, (json!(true), vec![]));
    let refused = json!({ "extra_env": { "NCCL_NET_PLUGIN": "/x.so" } });
    assert_eq!(dry_run(refused.clone()).await, (json!(false), vec!["extra_env".to_owned()]));
    let too_many = json!({ "device": "cuda", "tensor_parallel_size": 2 });
    assert_eq!(dry_run(too_many).await, (json!(false), vec!["tensor_parallel_size".to_owned()]));
    assert_eq!(dry_run(json!({ "device": "cuda", "tensor_parallel_size": 1 })).await.0, true);
    // Workers on processors are no GPUs.
    assert_eq!(dry_run(json!({ "device": "cpu", "tensor_parallel_size": 2 })).await.0, true);

    let mut body = simulated("vllm", "m", &[]);
    body["extra_env"] = refused["extra_env"].clone();
    let model = Managed::create(&owner, &body).await;
    model.command(&owner, "start").await;
    assert!(model.fails(&owner).await.contains("NCCL_NET_PLUGIN"), "as it said");
}

#[tokio::test]
async fn requests_fail_at_once_while_a_model_is_applied_where_the_operator_says_so() {
    let gateway = start(Options::processes().env("APPLY_WAIT_SEC", "0")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let slow = simulated("vllm", "m", &[("LOAD_SECONDS", "60")])["extra_env"].clone();
    owner.patch(&format!("/admin/models/{}", model.id), &json!({ "extra_env": slow })).await.expect(200);
    model.command(&owner, "apply").await.expect(202);
    let refused = eventually("a chat is refused", PATIENCE, async || {
        let answer = owner.chat("m").await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    assert_eq!((refused.status, refused.code()), (503, "model_not_running"), "{}", refused.text);
    assert_ne!(model.record(&owner).await["state"], "running");
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
}

#[tokio::test]
async fn a_stream_that_a_stop_ends_says_so() {
    let options = Options::processes().env("STOP_TIMEOUT_SEC", "1");
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[("HANG_AFTER_TOKENS", "3")])).await;
    let mut body = gantry_testkit::chat("m");
    body["stream"] = json!(true);
    let mut stream = owner.stream("/v1/chat/completions", &body).await;
    let first = stream.next().await.unwrap().expect("it begins");
    assert!(!first.contains("error"), "{first}");
    model.command(&owner, "stop").await.expect(202);
    let mut last = first;
    while let Some(event) = stream.next().await.unwrap() {
        last = event;
    }
    let error: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["message"]),
        (&json!("model_not_running"), &json!("the model was stopped before its answer was complete")),
    );
    model.reaches(&owner, "stopped").await;
}
