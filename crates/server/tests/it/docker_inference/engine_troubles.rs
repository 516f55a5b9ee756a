//! Engines that answer badly, late or not at all.

use gantry_testkit::{
    Foreign, Gateway, Managed, Options, docker_cli, eventually, free_port, sim_vllm, simulated, simulator,
};
use serde_json::{Value, json};

use super::{CHAT, GANTRY, SOON, gateway, streamed, text};

#[tokio::test]
async fn errors_of_an_engine_are_reshaped_and_five_in_a_row_open_the_breaker() {
    if !simulator(GANTRY, "docker_inference: engine errors") {
        return;
    }
    // After the cooldown a probe, which finds this engine healthy, would close the breaker.
    let options = Options::containers().env("BREAKER_COOLDOWN_SEC", "600");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        Managed::run(&owner, &simulated(engine, engine, &[("ERROR_STATUS", "500")])).await;
        let mut n_failed = 0;
        let open = loop {
            let answer = owner.chat(engine).await;
            if answer.status != 500 {
                break answer;
            }
            n_failed += 1;
            assert!(n_failed < 50, "the breaker does not open");
            let error = &answer.json["error"];
            assert_eq!(error["type"], "server_error", "{error}");
            assert!(error["code"].is_string() && error["message"].is_string(), "{error}");
            assert!(answer.json["request_id"].is_string(), "{}", answer.text);
        };
        // More if a probe came between, which begins the count anew.
        assert!(n_failed >= 5, "{n_failed}");
        assert_eq!((open.status, open.code()), (502, "model_unavailable"));
        let seconds: u64 = open.header("retry-after").unwrap().parse().unwrap();
        assert!((590..=600).contains(&seconds), "{seconds}");
        let row = owner.usage_of(open.header("x-request-id").unwrap()).await;
        assert_eq!((&row["outcome"], &row["total_tokens"]), (&json!("upstream_error"), &json!(0)));
    }
    let registry = owner.get("/admin/models/registry").await.expect(200);
    for entry in registry.as_array().unwrap() {
        assert_eq!((&entry["healthy"], &entry["breaker"]), (&json!(false), &json!("open")), "{entry}");
    }
}

#[tokio::test]
async fn errors_that_are_the_clients_or_the_loads_leave_the_breaker_closed() {
    if !simulator(GANTRY, "docker_inference: errors that are no failures") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for (status, outcome) in [("400", "client_error"), ("429", "rejected"), ("503", "rejected")] {
        Managed::run(&owner, &simulated("vllm", status, &[("ERROR_STATUS", status)])).await;
        for _ in 0..8 {
            let answer = owner.chat(status).await;
            assert_eq!(answer.status.to_string(), status, "{}", answer.text);
        }
        let answer = owner.chat(status).await;
        let row = owner.usage_of(answer.header("x-request-id").unwrap()).await;
        assert_eq!(row["outcome"], outcome);
    }
}

#[tokio::test]
async fn an_open_breaker_closes_when_a_trial_succeeds() {
    if !simulator(GANTRY, "docker_inference: breaker") {
        return;
    }
    let options = Options::containers().env("BREAKER_COOLDOWN_SEC", "20");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    // The gateway does not manage this engine and learns of its state only from requests. Its port stays its own while
    // it is down.
    let port = free_port();
    let publish = format!("127.0.0.1:{port}:8000");
    let name = format!("gantry-test-{}", gateway.instance());
    let args = ["sim:m", "--served-model-name", "m", "--port", "8000"];
    let engine = Foreign::run(&name, &["--init", "-p", &publish], sim_vllm(), &args);
    let entry = json!({ "served_name": "m", "url": format!("http://127.0.0.1:{port}") });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let up = async || {
        eventually("the engine answers", SOON, async || (owner.chat("m").await.status == 200).then_some(()))
            .await;
    };
    let breaker = async || {
        let registry = owner.get("/admin/models/registry").await.expect(200);
        let entry = registry.as_array().unwrap().iter().find(|it| it["served_name"] == "m").unwrap();
        assert_eq!(entry["source"], "manual");
        entry["breaker"].as_str().unwrap().to_owned()
    };
    up().await;
    assert_eq!(breaker().await, "closed");

    docker_cli(&["kill", &engine.0]);
    let opened = eventually("the breaker opens", SOON, async || {
        let answer = owner.chat("m").await;
        assert_eq!((answer.status, answer.code()), (502, "model_unavailable"));
        assert!(answer.header("retry-after").is_some());
        answer.text.contains("failed repeatedly").then_some(())
    });
    opened.await;
    assert_eq!(breaker().await, "open");
    docker_cli(&["start", &engine.0]);
    up().await;
    assert_eq!(breaker().await, "closed");
    for _ in 0..3 {
        assert_eq!(owner.chat("m").await.status, 200);
    }
}

#[tokio::test]
async fn an_engine_that_is_too_slow_is_given_up() {
    if !simulator(GANTRY, "docker_inference: timeouts") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let with = |mut body: Value, field: &str| {
        body[field] = json!(5);
        body
    };
    let silent = with(simulated("vllm", "silent", &[("HANG", "1")]), "request_timeout_sec");
    let stalls =
        with(simulated("llamacpp", "stalls", &[("HANG_AFTER_TOKENS", "3")]), "stream_idle_timeout_sec");
    let (silent, stalls) = (Managed::run(&owner, &silent).await, Managed::run(&owner, &stalls).await);

    let answer = owner.chat("silent").await;
    assert_eq!((answer.status, answer.code()), (504, "upstream_timeout"));
    let row = owner.usage_of(answer.header("x-request-id").unwrap()).await;
    assert_eq!((&row["outcome"], &row["status_code"]), (&json!("timeout"), &json!(504)));
    let waited = row["latency_ms"].as_i64().unwrap();
    assert!(waited >= 5000, "{row}");
    println!("with a timeout of 5 s: given up after {waited} ms");

    let events = owner.stream(CHAT, &streamed("stalls", 50)).await.rest().await.unwrap();
    let (last, before) = events.split_last().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["code"], "upstream_timeout", "{last}");
    assert_eq!(text(before), "This is simulated");
    let row = owner.usage_of(last["request_id"].as_str().unwrap()).await;
    assert_eq!((&row["outcome"], &row["completion_tokens"]), (&json!("timeout"), &json!(3)));
    for model in [silent, stalls] {
        let idle = eventually("the engine is let go", SOON, async || {
            (model.stat("in_flight").await == 0).then_some(())
        });
        idle.await;
    }
}

#[tokio::test]
async fn an_error_of_the_engine_in_mid_stream_reaches_the_client() {
    if !simulator(GANTRY, "docker_inference: errors in streams") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        Managed::run(&owner, &simulated(engine, engine, &[("ERROR_AFTER", "4")])).await;
        let request = owner.request(reqwest::Method::POST, CHAT).header("x-request-id", engine);
        let answer = owner.send(request.json(&streamed(engine, 50))).await;
        let events = gantry_testkit::events(&answer.text);
        assert_eq!(text(&events), "This is simulated text");
        assert!(events.iter().any(|it| it.contains("\"error\"")), "{events:?}");
        let row = owner.usage_of(engine).await;
        assert_eq!(row["outcome"], "upstream_error", "{row}");
    }
}

#[tokio::test]
async fn after_a_rotation_of_the_internal_key_a_model_has_to_be_applied() {
    if !simulator(GANTRY, "docker_inference: key rotation") {
        return;
    }
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    assert!(gateway.terminate());
    gateway.set_env("INTERNAL_ENGINE_API_KEY", "another-key-of-the-operator");
    gateway.restart().await;
    let owner = gateway.owner().await;
    let answer = owner.chat("m").await;
    assert_eq!((answer.status, answer.code()), (502, "engine_key_mismatch"), "{answer:?}");
    assert_eq!(model.record(&owner).await["state"], "running");
    eventually("the model says that it has to be applied", SOON, async || {
        let ready = owner.get(&format!("/admin/models/{}/readiness", model.id)).await.expect(200);
        let told = ready["detail"].as_str().is_some_and(|it| it.contains("apply the model"));
        (ready["status"] == "error" && told && model.record(&owner).await["needs_apply"] == true)
            .then_some(())
    })
    .await;
    model.command(&owner, "apply").await.expect(202);
    let served = async || (owner.chat("m").await.status == 200).then_some(());
    eventually("served again", SOON, served).await;
}
