//! The log of the run before: what an engine wrote before it died is there after the next one runs.

use gantry_testkit::{Client, Managed, PATIENCE, eventually, kill_process, simulated};
use serde_json::{Value, json};

use super::{gateway, process};
use crate::support::assert_error;

/// The log of the run before, once an engine of the model was removed.
async fn previous(owner: &Client, model: &Managed) -> Value {
    eventually("there is a run before", PATIENCE, async || {
        let log = owner.get(&model.path("logs?previous=true")).await.expect(200);
        log["until"].is_string().then_some(log)
    })
    .await
}

#[tokio::test]
async fn what_an_engine_wrote_stays_readable_after_the_next_start() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[]);
    body["restart_policy"] = json!("on_failure");
    let model = Managed::run(&owner, &body).await;
    let path = model.path("logs?previous=true");
    let none = json!({ "logs": "", "lines": 0, "truncated": false, "earlier": false });
    assert_eq!(owner.get(&path).await.expect(200), none, "its first run");

    let first = owner.get(&model.path("logs")).await.expect(200)["logs"].clone();
    assert!(first.as_str().unwrap().lines().count() > 2, "{first}");
    kill_process(process(&gateway, &model).0);
    model.has_been(&owner, "running", 2).await;
    let log = previous(&owner, &model).await;
    assert_eq!((&log["logs"], &log["truncated"]), (&first, &json!(false)), "{log}");
    let last = owner.get(&model.path("logs?previous=true&tail=1")).await.expect(200);
    assert_eq!((&last["lines"], &last["truncated"]), (&json!(1), &json!(true)));
    assert!(first.as_str().unwrap().ends_with(last["logs"].as_str().unwrap()), "{last}");

    // What is stopped has no engine and no log of its own; it has this one.
    owner.chat("m").await.expect(200);
    let second = owner.get(&model.path("logs")).await.expect(200)["logs"].clone();
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    let log = owner.get(&path).await.expect(200);
    assert!(log["logs"].as_str().unwrap().starts_with(second.as_str().unwrap()), "{log}");

    let kept = gateway.data_dir().join("previous-logs");
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);
    owner.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    eventually("nothing is kept of it", PATIENCE, async || {
        (std::fs::read_dir(&kept).unwrap().count() == 0).then_some(())
    })
    .await;
    assert_error(&owner.get(&path).await, 404, "not_found");
}
