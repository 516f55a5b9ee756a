//! `GET /admin/models/metrics` on simulated engines: their numbers, one that hangs, and those that do not run.

use gantry_testkit::{Client, Managed, Options, PATIENCE, docker_cli, eventually, simulated, simulator};
use serde_json::{Value, json};

use crate::support::{GANTRY, start};

async fn metrics(owner: &Client) -> Vec<Value> {
    owner.get("/admin/models/metrics").await.expect(200).as_array().unwrap().clone()
}

fn of<'a>(all: &'a [Value], name: &str) -> &'a Value {
    all.iter().find(|it| it["served_name"] == name).unwrap()
}

const NUMBERS: [&str; 10] = [
    "requests_running",
    "requests_waiting",
    "kv_cache_usage",
    "prompt_tokens_total",
    "generation_tokens_total",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "latency_p50_ms",
    "latency_p95_ms",
    "prefix_cache_hit_rate",
];

#[tokio::test]
async fn engines_are_asked_for_what_they_count_and_one_that_hangs_hides_nobody() {
    if !simulator(GANTRY, "model_metrics") {
        return;
    }
    // Nothing but these questions asks the engine that hangs.
    let gateway = start(Options::containers().env("HEALTH_POLL_SEC", "3600")).await;
    let owner = gateway.owner().await;
    let (vllm, llama) = (simulated("vllm", "v", &[]), simulated("llamacpp", "l", &[]));
    let vllm = Managed::run(&owner, &vllm).await;
    let llama = Managed::run(&owner, &llama).await;
    let off = Managed::create(&owner, &simulated("vllm", "off", &[])).await;
    let mut tokens = [0, 0];
    for _ in 0..3 {
        for (name, sums) in [("v", 0), ("l", 1)] {
            let usage = owner.chat(name).await.expect(200)["usage"].clone();
            tokens[sums] += usage["completion_tokens"].as_u64().unwrap();
        }
    }
    // The engine notes the end of a request after its client has the answer; a busy machine lets a question time out.
    let all = eventually("both engines answer and rest", PATIENCE, async || {
        let all = metrics(&owner).await;
        (of(&all, "v")["requests_running"] == 0 && of(&all, "l")["error"].is_null()).then_some(all)
    });
    let all = all.await;
    let v = of(&all, "v");
    assert_eq!(
        (&v["model_id"], &v["engine_type"], &v["state"]),
        (&json!(vllm.id), &json!("vllm"), &json!("running"))
    );
    assert_eq!(
        (&v["requests_running"], &v["requests_waiting"], &v["error"]),
        (&json!(0), &json!(0), &json!(null))
    );
    assert_eq!(v["generation_tokens_total"], tokens[0]);
    assert_eq!((&v["kv_cache_usage"], &v["prefix_cache_hit_rate"]), (&json!(0.0), &json!(0.0)));
    let ms = |name: &str| v[name].as_f64().unwrap();
    assert!(0.0 < ms("ttft_p50_ms") && ms("ttft_p50_ms") <= ms("ttft_p95_ms"), "{v}");
    assert!(0.0 < ms("latency_p50_ms") && ms("latency_p50_ms") <= ms("latency_p95_ms"), "{v}");
    let l = of(&all, "l");
    assert_eq!((&l["generation_tokens_total"], &l["error"]), (&json!(tokens[1]), &json!(null)), "{l}");
    // It has no histograms, and there was no stream; the gateway measured the rest itself.
    for none in ["ttft_p50_ms", "ttft_p95_ms", "kv_cache_usage"] {
        assert_eq!(l[none], json!(null), "{none}");
    }
    let measured = |name: &str| l[name].as_f64().unwrap();
    assert!(
        0.0 < measured("latency_p50_ms") && measured("latency_p50_ms") <= measured("latency_p95_ms"),
        "{l}"
    );
    assert_eq!((&v["latency_source"], &l["latency_source"]), (&json!("engine"), &json!("gateway")));
    let idle = of(&all, "off");
    assert_eq!(
        (&idle["model_id"], &idle["state"], &idle["error"]),
        (&json!(off.id), &json!("stopped"), &json!(null))
    );
    assert!(NUMBERS.iter().all(|it| idle.get(*it) == Some(&json!(null))), "{idle}");
    assert_eq!(idle.as_object().unwrap().len(), NUMBERS.len() + 6);

    docker_cli(&["pause", &llama.container]);
    let all = eventually("the other engine answers", PATIENCE, async || {
        let all = metrics(&owner).await;
        of(&all, "v")["error"].is_null().then_some(all)
    });
    let all = all.await;
    docker_cli(&["unpause", &llama.container]);
    let hung = of(&all, "l");
    assert_eq!(hung["error"], "the engine did not answer in time", "{hung}");
    assert!(NUMBERS.iter().all(|it| hung[*it].is_null()), "{hung}");
    assert_eq!(of(&all, "v")["generation_tokens_total"], tokens[0]);
}

#[tokio::test]
async fn an_engine_that_just_died_has_no_numbers() {
    if !simulator(GANTRY, "model_metrics: dead") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    eventually("the engine answers", PATIENCE, async || {
        of(&metrics(&owner).await, "m")["prompt_tokens_total"].is_u64().then_some(())
    })
    .await;
    docker_cli(&["kill", &model.container]);
    let all = metrics(&owner).await;
    // The next probe may have noticed the dead engine already; otherwise the metrics report the error.
    let dead = of(&all, "m");
    assert!(dead["state"] != "running" || dead["error"].is_string(), "{dead}");
    assert!(dead["prompt_tokens_total"].is_null(), "{dead}");
}
