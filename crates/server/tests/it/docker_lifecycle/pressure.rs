//! Too little of a machine: of its memory, of its CPUs, of an engine's time. What is slow is not dead.

use std::time::{Duration, Instant};

use gantry_testkit::{Gateway, Managed, Options, SlowCpu, chat, docker_cli, simulated, simulator};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{GANTRY, gateway};

/// Nothing happened to it since it began to run.
async fn never_left_running(owner: &gantry_testkit::Client, model: &Managed) {
    let record = model.record(owner).await;
    assert_eq!((&record["state"], &record["state_reason"]), (&json!("running"), &Value::Null));
    assert_eq!(model.timeline(owner).await.len(), 3, "{}", model.served_name);
    let registry = owner.get("/admin/models/registry").await.expect(200);
    let entry = registry.as_array().unwrap().iter().find(|it| it["served_name"] == *model.served_name);
    assert_eq!(entry.unwrap()["breaker"], "closed");
}

#[tokio::test]
async fn an_engine_that_is_slow_keeps_running() {
    if !simulator(GANTRY, "docker_lifecycle: slow engine") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    // Two seconds of each three it does nothing: most probes are answered late, and each request.
    for _ in 0..6 {
        docker_cli(&["pause", &model.container]);
        let (answer, ()) = tokio::join!(owner.chat("m"), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            docker_cli(&["unpause", &model.container]);
        });
        assert_eq!(answer.status, 200, "{}", answer.text);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    never_left_running(&owner, &model).await;
}

#[tokio::test]
async fn a_machine_without_time_takes_no_model_for_dead() {
    const TEST: &str = "docker_lifecycle: starved of CPU";
    if !simulator(GANTRY, TEST) {
        return;
    }
    let Some(cpu) = SlowCpu::new(TEST) else { return };
    let options = Options { wrapper: cpu.wrapper(), ..Options::containers() };
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let models = [
        Managed::run(&owner, &simulated("vllm", "a", &[])).await,
        Managed::run(&owner, &simulated("llamacpp", "b", &[])).await,
    ];
    let (_, key) = owner.new_key(&json!({})).await;
    cpu.percent(5);
    for model in &models {
        docker_cli(&["update", "--cpus", "0.03", &model.container]);
    }
    let begun = Instant::now();
    let (mut answers, mut longest) = (0, Duration::ZERO);
    // Long enough for several probes and looks at all models.
    while begun.elapsed() < Duration::from_secs(25) {
        for model in &models {
            let asked = Instant::now();
            let answer = key.chat(&model.served_name).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            longest = longest.max(asked.elapsed());
            answers += 1;
        }
    }
    println!("with a twentieth of a CPU: {answers} answers, the longest after {longest:?}");
    cpu.release();
    for model in &models {
        docker_cli(&["update", "--cpus", "1", &model.container]);
        never_left_running(&owner, model).await;
    }
}

#[tokio::test]
async fn an_engine_that_runs_out_of_memory_is_told_from_one_that_was_killed() {
    if !simulator(GANTRY, "docker_lifecycle: out of memory") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    let mut body = chat("m");
    body["messages"][0]["content"] = json!("word ".repeat(5 << 20));
    for _ in 0..8 {
        model.start(&owner).await;
        model.reaches(&owner, "running").await;
        docker_cli(&["update", "--memory", "48m", "--memory-swap", "48m", &model.container]);
        let begun = Instant::now();
        let mut requests = JoinSet::new();
        for _ in 0..4 {
            let (owner, body) = (owner.clone(), body.clone());
            requests.spawn(async move { owner.post("/v1/chat/completions", &body).await.status });
        }
        let statuses = requests.join_all().await;
        let reason = model.fails(&owner).await;
        println!("{statuses:?}, {reason:?} {:?} after the requests", begun.elapsed());
        assert!(statuses.contains(&502), "{statuses:?}");
        super::halted(&model).await;
        if reason == "engine_unhealthy: container out of memory (exit code 137)" {
            return;
        }
        // Under load Docker itself may miss why the kernel killed it, and then nobody can say: once more.
        assert_eq!(reason, "engine_unhealthy: container killed (exit code 137)");
    }
    panic!("Docker never notices that memory runs out");
}
