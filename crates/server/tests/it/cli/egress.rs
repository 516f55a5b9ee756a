//! `gantry egress`: which connections the settings allow.

use gantry_testkit::Options;
use serde_json::{Value, json};

use super::Shell;
use crate::support::start;

fn shell() -> Shell {
    Shell::at("http://127.0.0.1:1")
}

/// What `gantry egress` says with these settings, where no gateway runs.
fn egress(shell: &Shell, settings: &[(&str, &str)]) -> Value {
    let nobody = ("GATEWAY_LISTEN", "127.0.0.1:1");
    let mut command = shell.command(&["egress", "--json"]);
    command.envs([nobody]).envs(settings.iter().copied());
    super::Ran::of(command.output().unwrap()).ends(0).json()
}

/// The row with this name.
fn row<'a>(found: &'a Value, name: &str) -> &'a Value {
    let rows = found["connections"].as_array().unwrap();
    rows.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {found}"))
}

/// Names of the rows with this reach.
fn with_reach(found: &Value, reach: &str) -> Vec<String> {
    let rows = found["connections"].as_array().unwrap().iter().filter(|it| it["reach"] == reach);
    rows.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_row_has_its_facts_and_the_hosts_of_the_settings() {
    let shell = shell();
    let found = egress(
        &shell,
        &[
            ("HUB_ENDPOINT", "https://mirror.example/hub"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://10.0.0.9:4318"),
            ("REDIS_URL", "rediss://ada:hunter2@10.0.0.8"),
            ("DATABASE_URL", "postgres://ada:hunter2@127.0.0.1:1/gantry"),
            ("CONTAINER_HOST", "tcp://10.0.0.7:2375"),
            ("SECONDARY_ENGINE_IMAGE", "registry.example:5000/llama:1"),
            ("MEDIA_URL_HOSTS", "pictures.example"),
        ],
    );
    for it in found["connections"].as_array().unwrap() {
        for fact in ["opened_by", "what", "when", "data", "forbidden_by"] {
            assert!(it[fact].as_str().is_some_and(|it| it.len() > 4), "{fact}: {it}");
        }
        assert_eq!(it["possible"], json!(it["reach"] != "none"), "{it}");
    }
    for (name, reach, to) in [
        ("hub", "remote", json!(["mirror.example:443"])),
        ("engine_hub", "remote", json!(["mirror.example:443"])),
        ("collector", "remote", json!(["10.0.0.9:4318"])),
        ("redis", "remote", json!(["10.0.0.8:6379"])),
        ("database", "local", json!(["127.0.0.1:1"])),
        ("container_runtime", "remote", json!(["tcp://10.0.0.7:2375"])),
        ("image_registry", "remote", json!(["docker.io:443", "registry.example:5000"])),
        ("engine_media", "remote", json!(["pictures.example"])),
        ("engine_statistics", "none", json!(["stats.vllm.ai:443"])),
        ("command_line", "local", json!(["http://127.0.0.1:1"])),
    ] {
        let row = row(&found, name);
        assert_eq!((&row["reach"], &row["to"]), (&json!(reach), &to), "{name}");
    }
    assert!(!found.to_string().contains("hunter2"), "{found}");
    // The database does not answer: what is not known counts as possible.
    let upstreams = row(&found, "upstreams");
    assert!(
        upstreams["reach"] == "remote" && upstreams["note"].as_str().unwrap().contains("not known"),
        "{upstreams}"
    );
    assert_eq!(row(&found, "name_server")["possible"], true);
}

#[test]
fn each_setting_forbids_what_the_statement_says_it_forbids() {
    let shell = shell();
    let open = egress(&shell, &[]);
    let remote = ["hub", "image_registry", "engine_hub", "engine_other", "name_server"];
    assert_eq!(with_reach(&open, "remote"), remote);
    let offline = [("OFFLINE_MODE", "true"), ("CONTAINER_RUNTIME", "docker")];
    let closed = egress(&shell, &offline);
    assert_eq!(with_reach(&closed, "remote"), [""; 0]);
    let local = ["database", "container_runtime", "engines", "local_sockets", "command_line"];
    assert_eq!(with_reach(&closed, "local"), local);

    let cached = egress(&shell, &[("REQUIRE_IMAGE_PRECACHE", "true")]);
    assert_eq!(row(&cached, "image_registry")["possible"], false);
    let media = egress(&shell, &[&offline[..], &[("MEDIA_URL_HOSTS", "*")]].concat());
    assert_eq!(row(&media, "engine_media")["to"], json!(["any host"]));
    assert_eq!(row(&media, "name_server")["reach"], "remote");
    // An engine that is a process has the machine's network, whatever it is told.
    let processes = egress(&shell, &[("OFFLINE_MODE", "true"), ("CONTAINER_RUNTIME", "process")]);
    assert_eq!(row(&processes, "container_runtime")["possible"], false);
    assert_eq!(row(&processes, "engine_other")["reach"], "remote");
}

#[tokio::test]
async fn the_settings_and_the_registry_of_the_running_gateway_count() {
    let options =
        Options::default().env("OFFLINE_MODE", "true").env("CONTAINER_HOST", "unix:///nowhere.sock");
    let gateway = start(options).await;
    let shell = Shell::of_owner(&gateway);
    let listen = gateway.url.strip_prefix("http://").unwrap().to_owned();
    let ask = || shell.run(&["egress", "--json", "--gateway-listen", &listen]).ends(0).json();
    let before = ask();
    assert!(before["settings"].as_str().unwrap().contains("the running gateway"), "{before}");
    assert_eq!(row(&before, "upstreams")["possible"], false);
    assert_eq!(row(&before, "hub")["possible"], false);
    shell.run(&["registry", "add", "far", "https://gpu.example/v1"]).ends(0);
    shell.run(&["registry", "add", "near", "http://127.0.0.1:9"]).ends(0);
    let after = ask();
    let upstreams = row(&after, "upstreams");
    assert_eq!(upstreams["to"], json!(["127.0.0.1:9", "gpu.example:443"]));
    assert_eq!(upstreams["reach"], "remote");
    let shown = shell.run(&["egress", "--gateway-listen", &listen]).ends(0).out;
    assert!(shown.contains("OUT    upstreams  127.0.0.1:9, gpu.example:443\n"), "{shown}");
    assert!(shown.contains("NO     hub  huggingface.co:443\n"), "{shown}");
    assert!(shown.ends_with(" not possible\n"), "{shown}");
}
