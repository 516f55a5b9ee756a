//! What somebody meets who has just begun: a simulator that must not be taken for a model, reasons that must be said, names
//! that are numbers, and verbs for one's own affairs.

use std::os::unix::fs::PermissionsExt;

use gantry_testkit::{Database, Options};
use serde_json::json;

use super::Shell;
use crate::support::{GANTRY, gateway, start};

/// No engine is installed, wherever this runs.
fn bare() -> Options {
    Options::processes().env("PATH", "/nonexistent")
}

#[tokio::test]
async fn a_simulator_is_not_taken_for_a_model() {
    let gateway = start(bare()).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    let args =
        ["models", "create", "--served-name", "qwen", "--engine", "vllm", "--path", "m", "-s", "device=cpu"];
    let made = shell.run(&[&args[..], &["--start", "--wait", "--timeout", "300"]].concat()).ends(0);
    assert!(made.out.starts_with("qwen is running"), "{}", made.out);
    assert!(made.err.contains("qwen is a simulator"), "{}", made.err);
    let listed = shell.run(&["models", "list"]).ends(0).out;
    assert!(listed.contains("a simulator, not a real engine"), "{listed}");
    let record = shell.run(&["models", "show", "qwen", "--json"]).ends(0);
    assert_eq!(record.json()["simulator"], true);
    // What is shown can be made again.
    let again = ["models", "create", "--file", "-", "--served-name", "again"];
    shell.run_with(&again, &record.out).ends(0);
}

#[tokio::test]
async fn a_start_that_makes_no_engine_shows_no_log_of_one_before() {
    let home = tempfile::TempDir::new().unwrap();
    let program = home.path().join("llama-server");
    std::fs::write(&program, format!("#!/bin/sh\nexec {GANTRY} engine-sim --flavour llamacpp \"$@\"\n"))
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = Options::processes().env("SECONDARY_ENGINE_COMMAND", program.to_str().unwrap());
    let gateway = start(options).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::write(gateway.models_dir().join("m.gguf"), "").unwrap();
    let args = [
        "models",
        "create",
        "--served-name",
        "m",
        "--engine",
        "llamacpp",
        "--path",
        "m.gguf",
        "-s",
        "device=cpu",
    ];
    shell.run(&[&args[..], &["--start", "--wait", "--timeout", "300"]].concat()).ends(0);
    shell.run(&["models", "stop", "m", "--wait", "--timeout", "300"]).ends(0);
    let log = shell.run(&["models", "logs", "m", "--json"]).ends(0).json();
    assert_eq!(log["earlier"], false, "{log}");
    let since = |time: &str| shell.run(&["models", "logs", "m", "--since", time]);
    assert_eq!(since("1h").ends(0).out.trim_end(), log["logs"].as_str().unwrap());
    assert_eq!(since("2099-01-01T00:00:00Z").ends(0).out, "");
    let refused = since("noon").ends(6).err;
    assert!(refused.contains("`since`"), "{refused}");
    std::fs::remove_file(&program).unwrap();
    let failed = shell.run(&["models", "start", "m", "--wait", "--timeout", "300"]);
    assert_ne!(failed.code, Some(0), "{}", failed.out);
    assert!(failed.err.contains("llama-server"), "{}", failed.err);
    assert!(!failed.err.contains("last lines of the log"), "{}", failed.err);
}

#[tokio::test]
async fn a_number_that_is_an_id_and_a_name_changes_neither_model() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    std::fs::create_dir_all(gateway.models_dir().join("m")).unwrap();
    let make = |name: &str| {
        let args = ["models", "create", "--served-name", name, "--engine", "vllm", "--path", "m", "--json"];
        shell.run(&args).ends(0).json()["id"].to_string()
    };
    let one = make("one");
    let other = make(&one);
    for args in
        [&["models", "delete", &one, "--yes"][..], &["models", "start", &one], &["models", "show", &one]]
    {
        let refused = shell.run(args).ends(2).err;
        assert!(
            refused.contains(&format!("`id:{one}`")) && refused.contains(&format!("id {other}")),
            "{refused}"
        );
    }
    let served =
        |given: &str| shell.run(&["models", "show", given, "--json"]).ends(0).json()["id"].to_string();
    assert_eq!(served(&format!("id:{one}")), one);
    assert_eq!(served(&format!("name:{one}")), other);
    assert_eq!((served("one"), served(&other)), (one, other));
    shell.run(&["models", "show", "id:x"]).ends(2);
    shell.run(&["models", "show", "name:none"]).ends(5);

    // Put away, a name is free again.
    shell.run(&["models", "archive", "one"]).ends(0);
    let left = shell.run(&["models", "list"]).ends(0).out;
    assert!(!left.contains("one"), "{left}");
    shell.run(&["models", "unarchive", "one"]).ends(0);
    assert!(shell.run(&["models", "list"]).ends(0).out.contains("one"));
}

#[tokio::test]
async fn an_inspection_says_why_nothing_can_be_loaded() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let dir = gateway.models_dir().join("broken");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("model-q4_k_m.gguf"), "this is no model, whatever its name says").unwrap();
    let found = shell.run(&["models", "inspect", "broken", "--json"]).ends(0).json();
    let why = found["gguf_groups"][0]["errors"][0].as_str().unwrap().to_owned();
    let shown = shell.run(&["models", "inspect", "broken"]).ends(0).out;
    let line = shown.lines().find(|it| it.starts_with("error: "));
    assert!(line.is_some_and(|it| it.contains("model-q4_k_m.gguf") && it.contains(&why)), "{why}: {shown}");
}

#[tokio::test]
async fn the_folder_for_archives_is_there_and_is_named() {
    let gateway = start(bare()).await;
    let shell = Shell::of_owner(&gateway);
    let exports = gateway.data_dir().join("exports");
    assert!(exports.is_dir(), "it is made at the start");
    let refused = shell.run(&["images", "load", "image.tar"]).ends(5).err;
    assert!(refused.contains("EXPORT_DIRS") && refused.contains("gantry settings"), "{refused}");
}

#[tokio::test]
async fn the_own_password_the_log_and_the_engines_have_verbs() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let elsewhere = gateway.owner().await;
    shell.run_with(&["passwd"], "wrong-password\nanother-password\n").ends(4);
    shell.run_with(&["passwd"], "owner-password\n").ends(2);
    let done = shell.run_with(&["passwd"], "owner-password\nanother-password\n").ends(0).out;
    assert!(done.contains("the password of owner is changed"), "{done}");
    assert_eq!(elsewhere.get("/auth/me").await.status, 401, "other sessions are ended");

    // This one goes on.
    let rows = shell.run(&["audit", "list", "--action", "user.password", "--json"]).ends(0).json();
    assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
    let table = shell.run(&["audit", "list", "--actor", "owner", "--limit", "1"]).ends(0);
    assert!(table.out.contains("user.password") && table.out.contains("127.0.0.1"), "{}", table.out);
    assert!(table.err.contains("a larger --limit shows more"), "{}", table.err);
    shell.run(&["audit", "list", "--action", "nonsense"]).ends(6);

    let body = json!({ "served_name": "far", "url": "http://127.0.0.1:1", "task": "generate" });
    let owner = gateway.sign_in("owner", "another-password").await;
    owner.post("/admin/reg", &body).await;
    let engines = shell.run(&["upstreams"]).ends(0).out;
    assert!(engines.starts_with("SERVED NAME"), "{engines}");

    // Without a verb it is the sums; a key may be named as its list shows it.
    let (key, _) = owner.new_key(&json!({ "name": "me" })).await;
    let prefix = key["prefix"].as_str().unwrap();
    let sums = shell.run(&["usage", "--json"]).ends(0).json();
    assert_eq!(sums, shell.run(&["usage", "top", "--json"]).ends(0).json());
    shell.run(&["usage", "list", "--key", prefix]).ends(0);
    shell.run(&["usage", "list", "--key", "gty_nothing"]).ends(5);
}

#[tokio::test]
async fn help_says_what_a_setting_means_and_links_lead_somewhere() {
    let gateway =
        start(Options { owner: false, ..Options::default() }.env("GATEWAY_LISTEN", "0.0.0.0:0")).await;
    // No browser can go to 0.0.0.0.
    assert!(gateway.url.starts_with("http://127.0.0.1:"), "{}", gateway.url);
    let shell = Shell::at(&gateway.url);
    let help = shell.run(&["serve", "--help"]).ends(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Address of the API and the web UI [default: 127.0.0.1:8084]"), "{help}");
    let sim = shell.run(&["engine-sim", "--help"]);
    assert!(sim.out.contains("--flavour NAME"), "{}", sim.out);
    let mut command = shell.command(&["settings", "--json"]);
    let rows = super::Ran::of(command.env_remove("HOME").output().unwrap()).ends(0).json();
    let row = rows.as_array().unwrap().iter().find(|it| it["name"] == "DATA_DIR").unwrap().clone();
    assert_eq!(row["value"], "/.local/share/gantry");
}

#[tokio::test]
async fn a_models_folder_that_is_not_there_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let models = dir.path().join("not-there");
    for told in [true, false] {
        let options = Options::default().env("MODELS_DIR", models.to_str().unwrap());
        let log = start(options).await.log();
        let says = log.contains("MODELS_DIR names a folder that is not there") && log.contains("not-there");
        assert_eq!(says, told, "{log}");
    }
}
