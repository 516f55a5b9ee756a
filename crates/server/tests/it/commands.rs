//! Starting, stopping and watching models where no container runtime answers, and where an image can't be had. What
//! needs containers is in `docker_lifecycle`.

use gantry_testkit::{Client, Database, Options, docker, eventually};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, column},
    team::{Team, id, make_model},
};

async fn reaches(client: &Client, path: &str, state: &str) -> Value {
    eventually(state, gantry_testkit::PATIENCE, async || {
        Some(client.get(path).await.expect(200)).filter(|it| it["state"] == state)
    })
    .await
}

#[tokio::test]
async fn without_a_container_runtime_a_start_fails_with_its_reason_and_may_be_repeated() {
    for database in Database::one("without_a_container_runtime_a_start_fails") {
        let dead = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let team = Team::with(dead).await;
        let admin = &team.admin;
        let ready = team.gateway.client().get("/readyz").await;
        let checks = ready.clone().expect(200)["checks"].clone();
        assert_eq!((&ready.json["status"], &checks["database"]), (&json!("degraded"), &json!("ok")));
        assert!(checks["container_runtime"] != "ok" && checks["usage_spool"] == "ok", "{}", ready.text);

        let path = format!("/admin/models/{}", make_model(admin, "m").await);
        let record = admin.get(&path).await.expect(200);
        let ready = admin.get(&format!("{path}/readiness")).await.expect(200);
        let stopped = json!({
            "status": "stopped", "detail": "the model is not started", "state": "stopped", "state_reason": null,
            "elapsed_sec": null, "timeout_sec": 600,
        });
        assert_eq!(ready, stopped);
        // Stopping what is stopped changes nothing; testing it is not possible.
        assert_eq!(admin.command(&format!("{path}/stop")).await.expect(200), record);
        assert_error(&admin.command(&format!("{path}/test")).await, 409, "invalid_state");
        assert_error(&admin.get(&format!("{path}/logs")).await, 503, "runtime_unavailable");
        assert_error(&admin.get(&format!("{path}/logs?follow=true")).await, 503, "runtime_unavailable");
        let events = admin.get(&format!("{path}/events")).await;
        assert_eq!((events.text.as_str(), events.header("x-total-count")), ("[]", Some("0")));

        for command in ["start", "start", "apply"] {
            let accepted = admin.command(&format!("{path}/{command}")).await.expect(202);
            assert_eq!(accepted["id"], record["id"]);
            let failed = reaches(admin, &path, "failed").await;
            let reason = failed["state_reason"].as_str().unwrap();
            assert!(reason.starts_with("start_failed: "), "{reason}");
            let ready = admin.get(&format!("{path}/readiness")).await.expect(200);
            assert_eq!((&ready["status"], &ready["state"]), (&json!("error"), &json!("failed")));
            assert_eq!(ready["state_reason"], json!(reason));
            // What needs no log is known with the failure.
            let found = &failed["diagnosis"];
            assert_eq!(found["error_type"], "docker_unreachable", "{failed}");
            let line =
                format!("{}: {}", found["title"].as_str().unwrap(), found["message"].as_str().unwrap());
            assert_eq!(ready["detail"], json!(line));
        }
        let events = admin.get(&format!("{path}/events")).await;
        assert_eq!(events.header("x-total-count"), Some("6"));
        let newest = &events.json[0];
        assert_eq!((&newest["from"], &newest["to"]), (&json!("starting"), &json!("failed")));
        assert!(newest["reason"].as_str().unwrap().starts_with("start_failed: "), "{newest}");
        let first = &events.json[5];
        assert!(first["at"].as_str().unwrap().ends_with('Z'), "{first}");
        let wanted = json!({
            "at": first["at"], "from": "stopped", "to": "starting", "reason": null, "detail": "start by ada",
            "duration_ms": null,
        });
        assert_eq!(first, &wanted);
        let page = admin.get(&format!("{path}/events?limit=1&offset=5")).await;
        assert_eq!((&page.json, page.header("x-total-count")), (&json!([wanted]), Some("6")));

        admin.patch(&path, &json!({ "archived": true })).await.expect(200);
        for command in ["start", "apply"] {
            assert_error(&admin.command(&format!("{path}/{command}")).await, 409, "invalid_state");
        }
        let done = admin.delete(&path).await.expect(200);
        assert_eq!(done, json!({ "id": record["id"], "status": "deleted" }));
        for command in ["start", "stop", "apply", "test"] {
            assert_error(&admin.command(&format!("{path}/{command}")).await, 404, "not_found");
        }
        assert_error(&admin.get(&path).await, 404, "not_found");
        assert_error(&admin.delete(&path).await, 404, "not_found");
        assert_eq!(admin.get("/admin/models?archived=true").await.text, "[]");
    }
}

#[tokio::test]
async fn readiness_counts_against_the_models_own_time() {
    let team = Team::on(Database::Sqlite).await;
    for (engine, more, seconds) in [
        ("vllm", json!({}), 600),
        ("llamacpp", json!({}), 300),
        ("vllm", json!({ "startup_timeout_sec": 77 }), 77),
    ] {
        let mut body = json!({ "served_name": format!("m{seconds}"), "engine_type": engine, "local_path": "m.gguf", "force": true });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = id(&team.admin.post("/admin/models", &body).await.expect(201));
        let ready = team.admin.get(&format!("/admin/models/{made}/readiness")).await.expect(200);
        assert_eq!(ready["timeout_sec"], seconds);
    }
}

#[tokio::test]
async fn a_log_is_asked_for_within_bounds() {
    let team = Team::on(Database::Sqlite).await;
    let path = format!("/admin/models/{}/logs", make_model(&team.admin, "m").await);
    for (query, param) in [
        ("tail=0", "tail"),
        ("tail=20001", "tail"),
        ("tail=all", "tail"),
        ("tail=-5", "tail"),
        ("tail=1&tail=2", "tail"),
        ("follow=maybe", "follow"),
        ("since=1h", "since"),
    ] {
        assert_invalid(&team.admin.get(&format!("{path}?{query}")).await, &[param]);
    }
    // Colours are for somebody who reads along.
    let refused = team.admin.get(&format!("{path}?colors=true")).await;
    assert_error(&refused, 400, "invalid_request");
    assert_eq!(refused.json["error"]["param"], "colors");
    // The log of the run before is a text that has ended.
    for other in ["follow=true", "diagnose=true", "since=2026-01-01T00:00:00Z"] {
        let refused = team.admin.get(&format!("{path}?previous=true&{other}")).await;
        assert_error(&refused, 400, "invalid_request");
        assert_eq!(refused.json["error"]["param"], "previous", "{other}");
    }
}

#[tokio::test]
async fn offline_a_start_without_its_image_is_refused_at_once() {
    if !docker("offline_a_start_without_its_image_is_refused_at_once") {
        return;
    }
    for database in Database::one("offline_a_start_without_its_image") {
        let image = "gantry-test/not-there:1";
        let offline = Options::containers().on(database);
        let team = Team::with(offline.env("OFFLINE_MODE", "true").env("PRIMARY_ENGINE_IMAGE", image)).await;
        let path = format!("/admin/models/{}", make_model(&team.admin, "m").await);
        let reason =
            format!("start_failed: image {image} is not available locally and the system is in offline mode");
        for command in ["start", "apply"] {
            let answer = team.admin.command(&format!("{path}/{command}")).await;
            assert_error(&answer, 503, "image_not_available");
            assert_eq!(answer.json["error"]["message"], reason);
            let record = team.admin.get(&path).await.expect(200);
            assert_eq!((&record["state"], &record["state_reason"]), (&json!("failed"), &json!(reason)));
        }
        let events = team.admin.get(&format!("{path}/events")).await.json;
        assert_eq!(column(&events, "to"), ["failed", "starting", "failed", "starting"]);
        let logs = team.admin.get(&format!("{path}/logs")).await.expect(200);
        assert_eq!(logs, json!({ "logs": "", "lines": 0, "truncated": false, "earlier": false }));
        assert_error(&team.admin.get(&format!("{path}/logs?follow=true")).await, 409, "invalid_state");
        // Stopping a failed model puts it back.
        team.admin.command(&format!("{path}/stop")).await.expect(202);
        assert_eq!(reaches(&team.admin, &path, "stopped").await["state_reason"], json!(null));
    }
}
