//! Readiness, logs and test requests.

use gantry_testkit::{Client, EventStream, Managed, PATIENCE, eventually, simulated, simulator};
use reqwest::Method;
use serde_json::{Value, json};

use super::{GANTRY, gateway};

#[tokio::test]
async fn readiness_follows_a_model_from_stopped_to_ready() {
    if !simulator(GANTRY, "docker_lifecycle: readiness") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    tokio::join!(is_watched(&owner, "vllm"), is_watched(&owner, "llamacpp"));
}

/// Follows a model of this engine until it answers.
async fn is_watched(owner: &Client, engine: &str) {
    let mut body = simulated(engine, engine, &[("LOAD_SECONDS", "12")]);
    body["startup_timeout_sec"] = json!(240);
    let model = Managed::create(owner, &body).await;
    let ready = async || owner.get(&model.path("readiness")).await.expect(200);
    assert_eq!(ready().await["status"], "stopped");

    model.start(owner).await;
    let mut seen: Vec<Value> = Vec::new();
    let done = eventually("it is ready", PATIENCE, async || {
        let now = ready().await;
        let over = now["status"] == "ready";
        if now["status"] == "loading" {
            let refused = owner.chat(engine).await;
            if refused.status != 200 {
                assert_eq!((refused.status, refused.code()), (503, "model_not_running"));
                assert_eq!(refused.header("x-should-retry"), Some("true"));
                assert!(refused.header("retry-after").is_some());
            }
        }
        seen.push(now);
        over.then_some(())
    });
    done.await;
    assert!(seen.iter().all(|it| it["timeout_sec"] == 240), "{seen:?}");
    assert!(seen.iter().all(|it| it["status"] == "loading" || it["status"] == "ready"), "{seen:?}");
    // Loading takes 12 s, in which even a busy machine answers more than once.
    let loading = seen.iter().filter(|it| it["state"] == "loading");
    let elapsed: Vec<_> = loading.filter_map(|it| it["elapsed_sec"].as_u64()).collect();
    assert!(elapsed.is_sorted() && elapsed.last().is_some_and(|it| *it > 0), "{seen:?}");
    assert_eq!(owner.chat(engine).await.status, 200);
}

#[tokio::test]
async fn logs_can_be_read_and_followed() {
    if !simulator(GANTRY, "docker_lifecycle: logs") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[("LOAD_SECONDS", "15")])).await;
    assert_eq!(
        owner.get(&model.path("logs")).await.expect(200),
        json!({ "logs": "", "lines": 0, "truncated": false, "earlier": false })
    );
    assert_eq!(owner.get(&model.path("logs?follow=true")).await.code(), "invalid_state");

    model.start(&owner).await;
    model.reaches(&owner, "loading").await;
    let request = owner.request(Method::GET, &model.path("logs?follow=true&tail=100"));
    let mut followed = EventStream::new(request.send().await.unwrap());
    let mut lines: Vec<String> = Vec::new();
    // The line that says so is written after the request began.
    while !lines.iter().any(|it| it.contains("Application startup complete")) {
        let event = tokio::time::timeout(PATIENCE, followed.next()).await.unwrap().unwrap();
        let event: Value = serde_json::from_str(&event.expect("it goes on")).unwrap();
        lines.push(event["line"].as_str().unwrap().to_owned());
    }
    assert!(lines[0].contains("not a real engine"), "{lines:?}");

    model.reaches(&owner, "running").await;
    let whole = owner.get(&model.path("logs")).await.expect(200);
    assert_eq!(whole["logs"], lines.join("\n"));
    assert_eq!(whole["truncated"], false);
    let last = owner.get(&model.path("logs?tail=2")).await.expect(200);
    assert_eq!((&last["lines"], &last["truncated"]), (&json!(2), &json!(true)));
    assert_eq!(last["logs"], lines[lines.len() - 2..].join("\n"));
    // When the container goes, so does the stream.
    model.command(&owner, "stop").await.expect(202);
    let end = tokio::time::timeout(PATIENCE, followed.rest()).await;
    end.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_test_request_fits_the_task_and_is_not_metered() {
    if !simulator(GANTRY, "docker_lifecycle: test requests") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let with = |mut body: Value, extra: Value| {
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    let cases = [
        (simulated("vllm", "chat", &[]), "chat"),
        (with(simulated("vllm", "embed", &[]), json!({ "task": "embed" })), "embedding"),
        (with(simulated("llamacpp", "rank", &[]), json!({ "task": "embed", "pooling": "rank" })), "rerank"),
    ];
    let mut models = Vec::new();
    for (body, kind) in cases {
        let model = Managed::create(&owner, &body).await;
        let refused = model.command(&owner, "test").await;
        assert_eq!((refused.status, refused.code()), (409, "invalid_state"));
        model.start(&owner).await;
        models.push((model, kind));
    }
    for (model, kind) in models {
        model.reaches(&owner, "running").await;
        let tested = model.command(&owner, "test").await.expect(200);
        assert_eq!((&tested["success"], &tested["error"]), (&json!(true), &Value::Null), "{tested}");
        assert_eq!(tested["test_type"], kind);
        assert_eq!(tested["request"]["model"], model.served_name);
        let proof = match kind {
            "chat" => &tested["response"]["choices"][0]["message"]["content"],
            "embedding" => &tested["response"]["data"][0]["embedding"][0],
            _ => &tested["response"]["results"][0]["relevance_score"],
        };
        assert!(!proof.is_null(), "{tested}");
    }
    assert_eq!(owner.get("/admin/usage").await.expect(200), json!([]));
}
