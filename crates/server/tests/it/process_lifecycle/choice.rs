//! Which runtime a gateway takes, and how it says so.

use std::{
    io::{BufRead, BufReader},
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use gantry_testkit::{
    Client, Managed, Options, docker, docker_at_its_place, engine_processes, root_with, simulated,
};
use serde_json::Value;

use super::{gateway, process};
use crate::support::{GANTRY, start};

async fn runtime(gateway: &gantry_testkit::Gateway) -> Value {
    gateway.client().get("/readyz").await.expect(200)["runtime"].clone()
}

#[tokio::test]
async fn processes_are_named_by_readyz_and_by_the_log() {
    let gateway = gateway().await;
    let ready = gateway.client().get("/readyz").await.expect(200);
    assert_eq!((&ready["status"], &ready["runtime"]), (&"ready".into(), &"process".into()), "{ready}");
    let log = gateway.log();
    assert!(log.contains("engines run as processes: CONTAINER_RUNTIME says so"), "{log}");
    assert!(log.contains("PRIMARY_ENGINE_COMMAND names the simulator"), "{log}");
}

#[tokio::test]
async fn a_named_docker_engine_is_wanted_also_while_it_is_away() {
    let gateway = start(Options::default().env("CONTAINER_HOST", "unix:///nonexistent.sock")).await;
    let ready = gateway.client().get("/readyz").await.expect(200);
    assert_eq!((&ready["status"], &ready["runtime"]), (&"degraded".into(), &"docker".into()), "{ready}");
}

/// The socket of the Docker engine of the tests. `None`, and noted as skipped, if there is none.
fn socket(test: &str) -> Option<PathBuf> {
    if !docker(test) {
        return None;
    }
    let host = std::env::var_os("DOCKER_HOST").filter(|it| !it.is_empty());
    let host = host.map_or("unix:///var/run/docker.sock".to_owned(), |it| it.into_string().unwrap());
    let socket = host.strip_prefix("unix://").map(PathBuf::from);
    if socket.is_none() {
        gantry_testkit::skip(test, "the Docker engine has no socket");
    }
    socket
}

#[tokio::test]
async fn without_a_word_docker_is_taken_if_it_answers() {
    let test = "process_lifecycle: Docker at its usual place";
    if !root_with(test, &["unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let chosen = async |socket: Option<&Path>| {
        let wrapper = docker_at_its_place(socket, &dir.path().join("docker.sock"));
        // Without DOCKER_HOST only the default socket counts.
        let options = Options { wrapper, ..Options::default() }.env("DOCKER_HOST", "");
        runtime(&start(options.env("CONTAINER_RUNTIME", "auto")).await).await
    };
    assert_eq!(chosen(None).await, "process");
    // A Docker engine that ended left its socket.
    let left = dir.path().join("left.sock");
    drop(UnixListener::bind(&left).unwrap());
    assert_eq!(chosen(Some(&left)).await, "process");
    if let Some(socket) = socket(test) {
        assert_eq!(chosen(Some(&socket)).await, "docker");
    }
}

#[tokio::test]
async fn running_models_are_never_left_behind_for_docker() {
    // A Docker engine that comes later does not make the gateway forget its processes.
    let mut gateway = gateway().await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let before = process(&gateway, &model);
    assert!(gateway.terminate());
    gateway.set_env("CONTAINER_RUNTIME", "auto");
    gateway.set_env("DOCKER_HOST", "");
    gateway.restart().await;
    assert_eq!(runtime(&gateway).await, "process");
    let log = gateway.log();
    assert!(log.contains("models were started with it"), "{log}");
    model.reaches(&gateway.owner().await, "running").await;
    assert_eq!(process(&gateway, &model), before);
}

/// What `make run` does on a machine without Docker.
#[tokio::test]
async fn the_demo_needs_no_docker_and_comes_back_after_it_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    for life in ["first", "second"] {
        let mut child = demo(dir.path(), &[]);
        let stdout = child.stdout.take().unwrap();
        let seen = tokio::task::spawn_blocking(move || {
            let mut words = Vec::new();
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                words.extend(line.split([' ', '\'']).map(str::to_owned));
                if line.contains("Key  ") || line.contains("not running") {
                    break;
                }
            }
            words
        });
        let words = seen.await.unwrap();
        let find = |start: &str| words.iter().find(|it| it.starts_with(start)).cloned();
        let (url, key) = (find("http://").expect("an address"), find("gty_").expect("a key"));
        let client = Client::new(url.trim_end_matches('/')).with_key(&key);
        assert_eq!(client.chat("demo").await.status, 200, "{life}: {words:?}");
        assert!(words.iter().any(|it| it == "simulator,"), "{words:?}");
        let instance = std::fs::read_to_string(dir.path().join("data/instance")).unwrap();
        assert_eq!(engine_processes(instance.trim()).len(), 2, "{life}");
        let asked = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(asked.success() && child.wait().unwrap().success());
        assert_eq!(engine_processes(instance.trim()), Vec::<i64>::new(), "{life}: nothing is left");
    }
}

/// What `make run` does where it has got an engine and a model; here the simulator stands for the engine.
#[tokio::test]
async fn a_demo_of_a_file_makes_one_record_and_has_room_for_the_simulated_model() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("models")).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/tiny-llama-F16.gguf");
    gantry_testkit::copy(&fixture, &dir.path().join("models/tiny.F16.gguf"));
    let (file, simulated): (&[&str], &[&str]) = (&["--demo-model", "tiny.F16.gguf"], &[]);
    for (arguments, name) in [(file, "tiny"), (file, "tiny"), (simulated, "demo"), (file, "tiny")] {
        let mut child = demo(dir.path(), arguments);
        let stdout = child.stdout.take().unwrap();
        let (url, key) = tokio::task::spawn_blocking(move || said(stdout)).await.unwrap();
        let client = Client::new(url.trim_end_matches('/')).with_key(&key);
        client.chat(name).await.expect(200);
        let asked = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(asked.success() && child.wait().unwrap().success());
    }
    let mut export = Command::new(GANTRY);
    export.args(["audit", "export", "--data-dir", "data"]).current_dir(dir.path()).env_clear();
    let log = String::from_utf8(export.output().unwrap().stdout).unwrap();
    assert_eq!(log.matches(r#""model.create""#).count(), 2, "{log}");
}

/// Somebody may really be called so.
#[tokio::test]
async fn the_demo_touches_no_key_of_a_user_of_its_name() {
    let mut gateway = start(Options::processes()).await;
    let owner = gateway.owner().await;
    let org = crate::team::make_org(&owner, "Demo").await;
    let user = crate::team::make_user(&owner, org, "demo", "user").await;
    let (_, key) = owner.new_key(&serde_json::json!({ "user_id": user, "name": "demo key" })).await;
    assert!(gateway.terminate());
    let mut old = None;
    for life in ["first", "second"] {
        let mut command = Command::new(GANTRY);
        command.args(["serve", "--demo"]).current_dir(gateway.data_dir()).env_clear();
        let settings = [
            ("PATH", "/usr/bin:/bin"),
            ("DATA_DIR", "."),
            ("GATEWAY_LISTEN", "127.0.0.1:0"),
            ("METRICS_LISTEN", "127.0.0.1:0"),
            ("CONTAINER_RUNTIME", "process"),
            ("STOP_MODELS_ON_SHUTDOWN", "true"),
        ];
        command.envs(settings).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (url, new) = tokio::task::spawn_blocking(move || said(stdout)).await.unwrap();
        let client = Client::new(url.trim_end_matches('/'));
        let works = async |key: &str| client.with_key(key).get("/v1/models").await.status;
        assert_eq!(key.at(&client.url).get("/v1/models").await.status, 200, "{life}");
        assert_eq!(works(&new).await, 200, "{life}");
        if let Some(old) = old.replace(new) {
            assert_eq!(works(&old).await, 401, "the key of the previous gateway process ends");
        }
        let asked = Command::new("kill").arg(child.id().to_string()).status().unwrap();
        assert!(asked.success() && child.wait().unwrap().success());
    }
}

/// The address and the key that a demo prints.
fn said(stdout: std::process::ChildStdout) -> (String, String) {
    let mut words: Vec<String> = Vec::new();
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        words.extend(line.split([' ', '\'']).map(str::to_owned));
        if line.contains("Key  ") || line.contains("not running") {
            break;
        }
    }
    let find = |start: &str| words.iter().find(|it| it.starts_with(start)).cloned();
    (find("http://").expect("an address"), find("gty_").unwrap_or_else(|| panic!("{words:?}")))
}

fn demo(dir: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(GANTRY);
    command.args(["serve", "--demo"]).args(arguments).current_dir(dir).env_clear();
    command.env("SECONDARY_ENGINE_COMMAND", format!("'{GANTRY}' engine-sim --flavour llamacpp"));
    let settings = [
        ("PATH", "/usr/bin:/bin"),
        ("DATA_DIR", "data"),
        ("MODELS_DIR", "models"),
        ("GATEWAY_LISTEN", "127.0.0.1:0"),
        ("METRICS_LISTEN", "127.0.0.1:0"),
        ("CONTAINER_RUNTIME", "process"),
        ("STOP_MODELS_ON_SHUTDOWN", "true"),
    ];
    command.envs(settings).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}
