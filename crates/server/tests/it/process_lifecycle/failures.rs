//! Starts that fail, and engines that die.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    time::{Duration, Instant},
};

use gantry_testkit::{Managed, Options, eventually, kill_process, lives, simulated};
use serde_json::json;

use super::{gateway, nothing_left, process, program, supervisor};
use crate::support::start;

const CHAT: &str = "/v1/chat/completions";
const SOON: Duration = gantry_testkit::PATIENCE;

#[tokio::test]
async fn a_start_that_fails_says_its_exit_code_and_keeps_the_log() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let crash = ("CRASH_AT_START", "1");
    let cases = [
        ("vllm", "crash", vec![crash], "container_exited: exit code 1", "not a real engine"),
        (
            "llamacpp",
            "arch",
            vec![crash, ("CRASH_LOG", "unsupported-arch")],
            "container_exited: exit code 1",
            "unknown model architecture",
        ),
        (
            "vllm",
            "signal",
            vec![("CRASH_AT_START", "137")],
            "container_exited: killed (exit code 137)",
            "Traceback",
        ),
    ];
    for (engine, name, faults, reason, logged) in cases {
        let model = Managed::create(&owner, &simulated(engine, name, &faults)).await;
        model.start(&owner).await;
        assert_eq!(model.fails(&owner).await, reason);
        let log = owner.get(&model.path("logs")).await.expect(200);
        assert!(log["logs"].as_str().unwrap().contains(logged), "{log}");
        model.command(&owner, "stop").await.expect(202);
        model.reaches(&owner, "stopped").await;
        assert!(!gateway.engine_dir(&model.container).exists());
    }
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn an_engine_that_loads_for_too_long_is_given_up_and_ends() {
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    let mut body = simulated("vllm", "m", &[("LOAD_SECONDS", "600")]);
    body["startup_timeout_sec"] = json!(5);
    let model = Managed::create(&owner, &body).await;
    model.start(&owner).await;
    assert_eq!(model.fails(&owner).await, "startup_timeout_after_5s");
    nothing_left(&gateway).await;
    assert_ne!(owner.get(&model.path("logs")).await.expect(200)["lines"], 0, "its log stays");
}

/// The engine itself, and its supervisor: the reconciler's interval is an hour, so only the event can tell.
#[tokio::test]
async fn an_idle_engine_that_dies_is_noticed_at_once() {
    let options = Options::processes().env("HEALTH_POLL_SEC", "3600").env("MODEL_RECONCILE_SEC", "3600");
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    let other = Managed::run(&owner, &simulated("vllm", "other", &[])).await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    for whole in [false, true] {
        let engine = process(&gateway, &model).0;
        assert_eq!(owner.chat("m").await.status, 200);
        kill_process(if whole { supervisor(&gateway, &model) } else { engine });
        let died = Instant::now();
        assert_eq!(model.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
        println!("noticed after {:?}", died.elapsed());
        assert!(!lives(engine));
        assert_eq!(owner.chat("other").await.status, 200, "the others go on");
        model.start(&owner).await;
        model.reaches(&owner, "running").await;
        assert_eq!(owner.chat("m").await.status, 200);
    }
    other.command(&owner, "stop").await.expect(202);
}

#[tokio::test]
async fn one_that_answers_probes_wrongly_is_dead_after_the_third_only() {
    let gateway = start(Options::processes().env("HEALTH_POLL_SEC", "1")).await;
    let owner = gateway.owner().await;
    let briefly = Managed::run(&owner, &simulated("llamacpp", "briefly", &[("BAD_LISTS", "2")])).await;
    let since = briefly.record(&owner).await["started_at"].clone();
    let passed = eventually("two bad probes", SOON, async || {
        let all = owner.get("/admin/upstreams").await.expect(200);
        let history = all[0]["history"].as_array().unwrap();
        let bad = history.iter().filter(|it| it["error"] == "/v1/models answers 500").count();
        (bad == 2 && history.last().unwrap()["ok"] == true).then_some(())
    });
    passed.await;
    let record = briefly.record(&owner).await;
    assert_eq!((&record["state"], &record["started_at"]), (&json!("running"), &since), "{record}");
    assert_eq!(owner.chat("briefly").await.status, 200);

    let forever = Managed::run(&owner, &simulated("vllm", "forever", &[("BAD_LISTS", "1000")])).await;
    assert_eq!(
        forever.fails(&owner).await,
        "engine_unhealthy: 3 probes in a row got no good answer, the last: /v1/models answers 500"
    );
}

#[tokio::test]
async fn after_a_rotation_of_the_internal_key_an_engine_goes_on_until_it_is_applied() {
    let mut gateway = start(Options::processes().env("HEALTH_POLL_SEC", "1")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let pid = process(&gateway, &model).0;
    assert!(gateway.terminate());
    gateway.set_env("INTERNAL_ENGINE_API_KEY", "another-key-of-the-operator");
    gateway.restart().await;
    let owner = gateway.owner().await;
    // As often as would open the breaker, if a refused key counted.
    for _ in 0..7 {
        let answer = owner.chat("m").await;
        assert_eq!((answer.status, answer.code()), (502, "engine_key_mismatch"), "{answer:?}");
    }
    let shown = eventually("needs apply", SOON, async || {
        let record = model.record(&owner).await;
        (record["needs_apply"] == true).then_some(record)
    });
    let record = shown.await;
    assert_eq!(record["state"], "running", "{record}");
    assert!(record["needs_apply_reason"].as_str().unwrap().contains("key"), "{record}");
    assert!(lives(pid));
    model.command(&owner, "apply").await.expect(202);
    eventually("served again", SOON, async || (owner.chat("m").await.status == 200).then_some(())).await;
    assert_eq!(model.record(&owner).await["needs_apply"], false);
}

#[tokio::test]
async fn an_engine_that_ignores_being_asked_is_killed_after_the_grace() {
    let gateway = start(Options::processes().env("STOP_TIMEOUT_SEC", "1")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let pid = process(&gateway, &model).0;
    // A stopped process can't react to SIGTERM.
    assert!(std::process::Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
    model.command(&owner, "stop").await.expect(202);
    model.reaches_within(&owner, "stopped", gantry_testkit::PATIENCE).await;
    assert!(!lives(pid));
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn what_a_process_cannot_be_given_is_refused_by_name() {
    let gateway =
        start(Options::processes().env("SECONDARY_ENGINE_COMMAND", "/no/such/llama-server -x")).await;
    let owner = gateway.owner().await;
    fs::write(gateway.models_dir().join("m.gguf"), "x").unwrap();
    let body =
        json!({ "served_name": "absent", "engine_type": "llamacpp", "local_path": "m.gguf", "force": true });
    let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
    assert_eq!((&preview["valid"], &preview["image_cached"]), (&json!(false), &json!(false)), "{preview}");
    assert_eq!(preview["warnings"][0]["title"], "The engine is not installed", "{preview}");
    let absent = Managed::create(&owner, &body).await;
    absent.start(&owner).await;
    let reason = absent.fails(&owner).await;
    assert!(reason.starts_with("start_failed: the program `/no/such/llama-server -x` is not on"), "{reason}");

    let mut body = simulated("vllm", "env", &[]);
    body["extra_env"] = json!({ "NCCL_NET_PLUGIN": "/tmp/evil" });
    let model = Managed::create(&owner, &body).await;
    model.start(&owner).await;
    let reason = model.fails(&owner).await;
    assert!(reason.contains("`extra_env` can't set `NCCL_NET_PLUGIN`"), "{reason}");
    nothing_left(&gateway).await;
}

#[tokio::test]
async fn a_file_that_may_not_be_reached_is_told_from_one_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let engine = program(&dir, "llama-server", "echo 'version: 11434 (0123abc)'");
    let mut options = Options::processes().env("SECONDARY_ENGINE_COMMAND", engine.to_str().unwrap());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Without these rights root, too, is kept out of closed folders.
        let without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
        options.wrapper = without.map(str::to_owned).to_vec();
    }
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    let models = gateway.models_dir();
    fs::create_dir(models.join("closed")).unwrap();
    fs::write(models.join("closed/m.gguf"), "GGUF").unwrap();
    let body = |name: &str, path: &str| json!({ "served_name": name, "engine_type": "llamacpp", "local_path": path, "force": true });
    let closed = Managed::create(&owner, &body("closed", "closed/m.gguf")).await;
    let round = Managed::create(&owner, &body("round", "round/m.gguf")).await;
    let absent = Managed::create(&owner, &body("absent", "absent/m.gguf")).await;
    fs::set_permissions(models.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("round", models.join("round")).unwrap();
    for (model, reason, diagnosis) in [
        (
            &closed,
            "`closed/m.gguf` can't be reached: the gateway may not enter a folder on the way to it",
            "model_file_unreachable",
        ),
        (&round, "`round/m.gguf` can't be reached: ", "model_file_unreachable"),
        (&absent, "there is no `absent/m.gguf` below the models base directory", "model_file_not_found"),
    ] {
        let refused = model.command(&owner, "start").await;
        assert_eq!((refused.status, refused.code()), (422, "model_file_missing"), "{refused:?}");
        assert_eq!(refused.json["error"]["param"], "local_path");
        let said = model.fails(&owner).await;
        assert!(said.starts_with(&format!("start_failed: `local_path`: {reason}")), "{said}");
        assert_eq!(refused.json["error"]["message"], said);
        let logs = owner.get(&model.path("logs?diagnose=true")).await.expect(200);
        assert_eq!(logs["diagnosis"]["error_type"], diagnosis, "{logs}");
    }
    let preview = owner.post(&closed.path("dry-run"), &json!({})).await.expect(200);
    let about = |it: &&serde_json::Value| it["field"] == "local_path" && it["category"] == "files";
    let said = preview["warnings"].as_array().unwrap().iter().find(about).unwrap();
    assert_eq!(
        (&said["severity"], &said["title"]),
        (&json!("error"), &json!("File can't be reached")),
        "{said}"
    );
    assert_eq!(preview["valid"], false);
    // So that the test's folder can be deleted.
    fs::set_permissions(models.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn an_engine_that_falls_silent_while_requests_wait_is_told_everywhere() {
    let quiet = Options::processes().env("HEALTH_POLL_SEC", "3600").env("MODEL_RECONCILE_SEC", "3600");
    let gateway = start(quiet.env("STALL_FLOOR_SEC", "1")).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    // The answer is short, because silence would be normal during a long one.
    let mut short = gantry_testkit::chat("m");
    short["max_tokens"] = json!(3);
    let mut longest = Duration::ZERO;
    for _ in 0..25 {
        let asked = Instant::now();
        assert_eq!(owner.post(CHAT, &short).await.status, 200);
        longest = longest.max(asked.elapsed());
    }
    let told = async || owner.get(&model.path("readiness")).await.expect(200);
    assert_eq!(told().await["status"], "ready");
    let pid = process(&gateway, &model).0.to_string();
    let signal = |name: &str| {
        let sent = std::process::Command::new("kill").args([name, &pid]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    // The signal is on its way to threads that run.
    let stands = || {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let stat = |it: fs::DirEntry| fs::read_to_string(it.path().join("stat")).unwrap_or_default();
        threads.all(|it| stat(it.unwrap()).rsplit_once(") ").is_none_or(|it| it.1.starts_with('T')))
    };
    eventually("the engine is stopped", SOON, async || stands().then_some(())).await;
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn({
        let client = owner.clone();
        // The client waits longer than this test does.
        let request = client.request(reqwest::Method::POST, CHAT).json(&short);
        async move { client.send(request.timeout(Duration::from_mins(5))).await.status }
    });
    // However slow it was before, it is allowed to be so again.
    let what = format!("the silence is told, of an engine whose longest answer took {longest:?}");
    let limit = (SOON + longest * 16).min(Duration::from_mins(4));
    let silent = eventually(&what, limit, async || {
        let answered = waiting.try_join_next();
        assert!(answered.is_none(), "the request was answered by an engine that is stopped: {answered:?}");
        let readiness = told().await;
        (readiness["status"] == "error").then_some(readiness)
    });
    let detail = silent.await["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("the engine has sent nothing for "), "{detail}");
    let upstreams = owner.get("/admin/upstreams").await.expect(200);
    assert_eq!(
        (&upstreams[0]["healthy"], &upstreams[0]["breaker"]["state"]),
        (&json!(false), &json!("closed"))
    );
    let error = upstreams[0]["last_error"].as_str().unwrap();
    assert!(error.contains("while requests wait for it"), "{error}");
    let log = gateway.log();
    let line = log.lines().find(|it| it.contains("an engine sends nothing while requests wait")).unwrap();
    assert!(line.contains("model=\"m\"") || line.contains("\"model\":\"m\""), "{line}");
    signal("-CONT");
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), 200);
    let back =
        eventually("it is ready again", SOON, async || (told().await["status"] == "ready").then_some(()));
    back.await;
    assert_eq!(owner.get("/admin/upstreams").await.expect(200)[0]["last_error"], json!(null));
}
