//! What people expect who know other command lines: verbs that may be repeated, several names, short names for verbs, keys
//! by name, numbers for programs, and words that are nearly right.

use gantry_testkit::Database;
use serde_json::json;

use super::{Shell, with_engine};
use crate::support::{column, gateway};

#[tokio::test]
async fn scripts_say_what_they_want_as_often_as_they_like() {
    let (gateway, _engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    shell.make(&["one", "two"]);
    shell.run(&["models", "start", "one", "two", "--wait", "--timeout", "300"]).ends(0);
    assert_eq!(shell.run(&["models", "start", "one"]).ends(0).out, "one is already running\n");
    assert_eq!(shell.run(&["models", "start", "one", "--wait"]).ends(0).out, "one is already running\n");
    let status = shell.run(&["status", "--json"]).ends(0).json();
    assert_eq!((&status["status"], &status["models"]), (&json!("ready"), &json!({ "running": 2 })));

    // Each is done, whatever becomes of the others.
    let ran = shell.run(&["models", "test", "one", "none", "two"]).ends(5);
    assert!(ran.out.contains("one answers") && ran.out.contains("two answers"), "{}", ran.out);
    assert!(ran.err.contains("there is no model `none`"), "{}", ran.err);
    let ran = shell.run(&["models", "stop", "one", "two", "--wait", "--json"]).ends(0);
    assert_eq!(column(&ran.json(), "state"), ["stopped", "stopped"]);
    assert_eq!(shell.run(&["models", "stop", "one"]).ends(0).out, "one is already stopped\n");

    let listed = shell.run(&["model", "ls", "--json"]).ends(0).json();
    assert_eq!(column(&listed, "served_name"), ["one", "two"]);
    let gone = shell.run(&["model", "rm", "one", "two", "--yes", "--json"]).ends(0).json();
    assert_eq!(gone.as_array().unwrap().len(), 2, "{gone}");
    assert_eq!(shell.run(&["models", "list", "--json"]).ends(0).json(), json!([]));
    for line in ["key ls", "org ls", "user ls", "image ls", "images"] {
        shell.run(&line.split(' ').collect::<Vec<_>>()).ends(0);
    }
}

#[tokio::test]
async fn the_status_is_short_and_its_exit_code_says_how_it_is() {
    let (gateway, engine) = with_engine().await;
    let shell = Shell::at(&gateway.url);
    let seen = shell.run(&["status"]).ends(0);
    assert!(seen.out.starts_with(&gateway.url) && seen.out.contains("ready"), "{}", seen.out);
    assert!(seen.err.contains("gantry login"), "{}", seen.err);
    let shell = Shell::of_owner(&gateway);
    shell.make(&["one"]);
    std::fs::remove_file(engine.path().join("llama-server")).unwrap();
    shell.run(&["models", "start", "one", "--wait", "--timeout", "300"]).ends(1);
    let seen = shell.run(&["status"]).ends(1);
    assert!(seen.out.contains("models: 1 failed") && seen.out.contains("  one: "), "{}", seen.out);
    assert!(seen.err.is_empty(), "{}", seen.err);
    Shell::at("http://127.0.0.1:1").run(&["status"]).ends(3);

    let version = shell.run(&["version", "--json"]).ends(0).json();
    assert_eq!(version["gateway"]["version"], version["version"], "{version}");
    let alone = Shell::at("http://127.0.0.1:1").run(&["version"]).ends(0);
    assert!(alone.out.starts_with("gantry ") && alone.err.contains("no gateway answers"), "{}", alone.err);
}

#[tokio::test]
async fn keys_are_named_as_people_name_them() {
    for database in Database::one("cli: keys by name") {
        let gateway = gateway(database).await;
        let shell = Shell::of_owner(&gateway);
        // A key belongs to the user who makes it, unless they say otherwise: usage by user needs that.
        shell.run(&["keys", "create", "laptop"]).ends(0);
        let key = shell.run(&["keys", "show", "laptop", "--json"]).ends(0).json();
        assert_eq!(key["username"], "owner", "{key}");
        shell.run(&["keys", "create", "ci", "--org", "Default"]).ends(0);
        assert_eq!(shell.run(&["keys", "show", "ci", "--json"]).ends(0).json()["username"], json!(null));

        shell.run(&["keys", "create", "laptop", "--org", "Default"]).ends(0);
        let refused = shell.run(&["keys", "revoke", "laptop"]).ends(2).err;
        let id = key["id"].to_string();
        assert!(
            refused.contains(&format!("id {id}, prefix {}", key["prefix"].as_str().unwrap())),
            "{refused}"
        );
        assert_eq!(refused.lines().count(), 3, "{refused}");
        shell.run(&["keys", "revoke", &id, "ci"]).ends(0);
        // If several keys have the name, the active one is meant.
        let gone = shell.run(&["key", "rm", "laptop"]).ends(0).out;
        assert!(gone.contains("(laptop) is revoked"), "{gone}");
        let none = shell.run(&["keys", "revoke", "lim", "nor-this"]).ends(5).err;
        assert!(none.contains("no key `lim`") && none.contains("no key `nor-this`"), "{none}");
        let states = shell.run(&["keys", "list", "--json"]).ends(0).json();
        assert_eq!(column(&states, "status"), ["revoked", "revoked", "revoked"]);
    }
}

#[tokio::test]
async fn a_key_for_a_model_that_there_is_not_is_made_with_a_warning() {
    let (gateway, _engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    shell.make(&["qwen"]);
    let made = shell.run(&["keys", "create", "k", "--model", "qwne", "--model", "qwen"]).ends(0);
    assert!(made.out.starts_with("gty_") && made.out.lines().count() == 1, "{}", made.out);
    assert!(made.err.contains("there is no model `qwne` yet, did you mean `qwen`?"), "{}", made.err);
    assert_eq!(made.err.matches("there is no model").count(), 1, "{}", made.err);
}

#[tokio::test]
async fn fields_are_found_by_the_engines_names_for_them() {
    let (gateway, _engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    let args = ["models", "create", "--served-name", "m", "--engine", "llamacpp", "--path", "m.gguf"];
    let refused = shell.run(&[&args[..], &["-s", "ctx_size=4096", "-s", "thread=2"]].concat()).ends(6).err;
    for meant in ["did you mean `context_size`?", "did you mean `threads`?"] {
        assert!(refused.contains(meant), "{refused}");
    }
    // They need no gateway.
    let shell = Shell::at("http://127.0.0.1:1");
    let one = shell.run(&["models", "fields", "ctx-size"]).ends(0).out;
    for text in ["context_size", "integer 0–100000000", "8192", "--ctx-size", "tokens"] {
        assert!(one.contains(text), "{text}: {one}");
    }
    let all = shell.run(&["models", "fields", "--json"]).ends(0).json();
    assert!(all.as_array().unwrap().len() > 50, "{all}");
    let vllm = shell.run(&["models", "fields", "--engine", "vllm"]).ends(0).out;
    assert!(vllm.contains("max_model_len") && !vllm.contains("context_size"), "{vllm}");
    shell.run(&["models", "fields", "no-such-thing"]).ends(5);
    let help = shell.run(&["models", "create", "--help"]).ends(0).out;
    assert!(help.contains("gantry models fields") && !help.contains("docs/"), "{help}");
}

#[tokio::test]
async fn options_may_stand_before_the_verb_and_other_programs_verbs_lead_to_ours() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let owner = shell.run(&["--json", "users", "list"]).ends(0).json();
    assert_eq!(column(&owner, "username"), ["owner"]);
    let nobody = "http://127.0.0.1:1";
    for before in [&["--url", nobody][..], &["--utc", "--url=http://127.0.0.1:1"]] {
        let refused = shell.run(&[before, &["models", "list"]].concat()).ends(3).err;
        assert!(refused.contains(nobody), "{refused}");
    }
    shell.run(&["--url", nobody, "audit", "list"]).ends(3);
    shell.run(&["--url", nobody, "chat", "m", "--", "hello"]).ends(3);
    shell.run(&["--url", nobody]).ends(2);
    for (verb, ours) in [("ls", "models list"), ("ps", "models list"), ("pull", "--repo"), ("run", "--start")]
    {
        let refused = shell.run(&[verb]).ends(2).err;
        assert!(refused.contains("models ") && refused.contains(ours), "{refused}");
    }
    let help = shell.run(&["--help"]).ends(0).out;
    for part in ["People and access:\n", "\n  models ", "\n  doctor ", "Others: completions"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[tokio::test]
async fn a_time_that_is_none_is_named_by_its_flag() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    for (line, flag, field) in [
        ("usage list --since yesterday", "--since", "from"),
        ("audit list --until tomorrow", "--until", "to"),
        ("keys create k --expires soon", "--expires", "expires_at"),
        ("tokens create t --scopes models:read --expires soon", "--expires", "expires_at"),
    ] {
        let refused = shell.run(&line.split(' ').collect::<Vec<_>>()).ends(6).err;
        assert!(refused.contains(flag), "{line}: {refused}");
        assert!(
            !refused.contains(&format!("`{field}`")) && !refused.contains("expires_at"),
            "{line}: {refused}"
        );
    }
}

#[tokio::test]
async fn the_log_of_the_run_before_and_the_models_folder_have_verbs() {
    let (gateway, _engine) = with_engine().await;
    let shell = Shell::of_owner(&gateway);
    shell.make(&["one"]);
    shell.run(&["models", "start", "one", "--wait", "--timeout", "300"]).ends(0);
    shell.run(&["models", "stop", "one", "--wait", "--timeout", "300"]).ends(0);
    let before = async || {
        let log = shell.run(&["models", "logs", "one", "--previous"]).ends(0).out;
        (!log.trim().is_empty()).then_some(())
    };
    gantry_testkit::eventually("the log of the run before is kept", gantry_testkit::PATIENCE, before).await;
    shell.run(&["models", "logs", "one", "--previous", "--follow"]).ends(2);

    let folder = gateway.models_dir().join("org/big");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("big.gguf"), "GGUF").unwrap();
    let files = shell.run(&["models", "files"]).ends(0).out;
    assert!(files.lines().any(|it| it.starts_with("org/big ") && it.contains("GGUF")), "{files}");
}
