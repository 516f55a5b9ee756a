//! `apply`: files that say what a gateway has.

use std::fs;

use gantry_testkit::{Database, Gateway};
use serde_json::{Value, json};

use super::Shell;
use crate::support::{column, gateway};

const EXAMPLE: &str = include_str!("../../../../../deploy/apply/team.json");

/// A gateway with a folder for a model, and a shell of its owner with the example.
async fn with_example(database: Database) -> (Gateway, Shell) {
    let gateway = gateway(database).await;
    fs::create_dir(gateway.models_dir().join("qwen3-8b")).unwrap();
    let shell = Shell::of_owner(&gateway);
    fs::write(shell.home.path().join("team.json"), EXAMPLE).unwrap();
    (gateway, shell)
}

fn records(shell: &Shell) -> Vec<Value> {
    let lists = ["orgs", "users", "models", "registry", "keys"];
    lists.iter().map(|it| shell.run(&[*it, "list", "--json"]).ends(0).json()).collect()
}

#[tokio::test]
async fn what_is_missing_is_created_and_a_second_run_changes_nothing() {
    for database in Database::one("cli: what_is_missing_is_created_and_a_second_run_changes_nothing") {
        let (gateway, shell) = with_example(database).await;
        let before = records(&shell);
        let dry = shell.run(&["apply", "-f", "team.json", "--dry-run"]).ends(0).out;
        let lines = [
            "+ organisations/Analysts",
            "+ users/joe",
            "+ models/qwen",
            "+ registry/small",
            "+ keys/ci",
            "~ limits/users/joe: rpm_limit - → 120",
            "= 0 unchanged",
        ];
        assert_eq!(dry.lines().collect::<Vec<_>>(), lines);
        assert_eq!(records(&shell), before, "a dry run changes nothing");

        let done = shell.run(&["apply", "-f", "team.json"]).ends(0);
        let (key, others): (Vec<_>, Vec<_>) = done.out.lines().partition(|it| it.starts_with("+ keys/ci: "));
        assert_eq!(others, lines.into_iter().filter(|it| *it != "+ keys/ci").collect::<Vec<_>>());
        assert!(done.err.contains("gantry users password-link joe"), "{}", done.err);
        let token = key[0].trim_start_matches("+ keys/ci: ");
        assert_eq!(gateway.client().with_key(token).get("/v1/models").await.status, 200);
        let after = records(&shell);
        let joe = after[1].as_array().unwrap().iter().find(|it| it["username"] == "joe").unwrap();
        assert_eq!((&joe["org_name"], &joe["rpm_limit"]), (&json!("Analysts"), &json!(120)));
        assert_eq!(after[2][0]["max_model_len"], 8192);
        assert_eq!(after[4][0]["scopes"], "chat,embeddings");

        assert_eq!(shell.run(&["apply", "-f", "team.json"]).ends(0).out, "= 6 unchanged\n");
        assert_eq!(shell.run(&["apply", "-f", "team.json", "-o", "json"]).ends(0).json(), json!([]));
        let again = records(&shell);
        for (after, again) in after.iter().zip(&again) {
            assert_eq!(column(after, "revision"), column(again, "revision"));
        }
    }
}

#[tokio::test]
async fn what_differs_is_changed_and_the_rest_stays() {
    let (_gateway, shell) = with_example(Database::Sqlite).await;
    shell.run(&["apply", "-f", "team.json"]).ends(0);
    shell.run(&["models", "set", "qwen", "-s", "tensor_parallel_size=2"]).ends(0);
    let changed = json!({
        "models": [{ "served_name": "qwen", "max_model_len": 4096, "engine_type": "vllm" }],
        "users": [{ "username": "joe", "enabled": false }],
        "registry": [{ "served_name": "small", "urls": ["http://127.0.0.1:8000/"], "upstream_model": null }],
        "keys": [{ "name": "ci", "org_name": "Analysts", "ip_allowlist": ["10.0.0.5"] }],
        "limits": [{ "org_name": "Analysts", "budget_tokens_day": null }, { "username": "joe", "rpm_limit": 120 }],
    });
    // From standard input.
    let run =
        |more: &[&str]| shell.run_with(&[&["apply", "-f", "-"][..], more].concat(), &changed.to_string());
    let lines = [
        "~ users/joe: enabled true → false",
        "~ models/qwen: max_model_len 8192 → 4096",
        "~ registry/small: upstream_model vendor/small-2 → -",
        r#"~ keys/ci: ip_allowlist [] → ["10.0.0.5"]"#,
        "~ limits/organisations/Analysts: budget_tokens_day 5000000 → -",
        "= 1 unchanged",
    ];
    assert_eq!(run(&["--dry-run"]).ends(0).out.lines().collect::<Vec<_>>(), lines);
    let done = run(&["-o", "json"]).ends(0).json();
    assert_eq!(column(&done, "section"), ["users", "models", "registry", "keys", "limits"]);
    assert_eq!(
        done[1],
        json!({
            "section": "models", "name": "qwen", "action": "change",
            "fields": { "max_model_len": { "from": 8192, "to": 4096 } },
        })
    );
    assert_eq!(run(&[]).ends(0).out, "= 6 unchanged\n");
    let model = shell.run(&["models", "show", "qwen", "--json"]).ends(0).json();
    assert_eq!((&model["max_model_len"], &model["tensor_parallel_size"]), (&json!(4096), &json!(2)));
}

#[tokio::test]
async fn an_error_names_file_entry_and_field_and_what_was_done_before_stays() {
    let (_gateway, shell) = with_example(Database::Sqlite).await;
    let models = shell.home.path().join("models");
    fs::create_dir(&models).unwrap();
    let model = |name: &str, path: &str| {
        json!({ "models": [{ "served_name": name, "engine_type": "vllm", "local_path": path }] }).to_string()
    };
    fs::write(models.join("1.json"), model("one", "qwen3-8b")).unwrap();
    fs::write(models.join("2.json"), model("two", "gone")).unwrap();
    fs::write(models.join("3.json"), model("three", "qwen3-8b")).unwrap();
    fs::write(models.join("README"), "not for the gateway").unwrap();
    let failed = shell.run(&["apply", "-f", "models"]).ends(1);
    assert!(failed.out.starts_with("+ models/one\n"), "{}", failed.out);
    for text in ["models/2.json: models/two: ", "local_path: "] {
        assert!(failed.err.contains(text), "{text}: {}", failed.err);
    }
    let listed = shell.run(&["models", "list", "-o", "name"]).ends(0).out;
    assert_eq!(listed, "one\n", "the third was not reached");

    fs::write(models.join("2.json"), model("two", "qwen3-8b")).unwrap();
    let done = shell.run(&["apply", "-f", "models"]).ends(0).out;
    assert_eq!(done, "+ models/two\n+ models/three\n= 1 unchanged\n");
    let unknown = json!({ "keys": [{ "name": "ci", "username": "nobody" }] }).to_string();
    let refused = shell.run_with(&["apply", "-f", "-", "--dry-run"], &unknown).ends(1).err;
    assert!(refused.contains("keys/ci: there is no user `nobody`"), "{refused}");
}

#[tokio::test]
async fn a_file_that_is_wrong_is_refused_before_anything_is_done() {
    let (_gateway, shell) = with_example(Database::Sqlite).await;
    let cases: [(&str, &[&str]); 9] = [
        (r#"{"models":[{"served_name":"q","max_modle_len":1}]}"#, &["models/q", "`max_model_len`?"]),
        (r#"{"model":[]}"#, &["`model`", "`models`?"]),
        (r#"{"users":[{"username":"joe","password":"x"}]}"#, &["users/joe", "`password`", "org_name"]),
        (r#"{"models":{"served_name":"q"}}"#, &["`models`", "list"]),
        (r#"{"models":[{"name":"q"}]}"#, &["models, entry 1", "`served_name`"]),
        (r#"{"keys":[{"name":"ci"}]}"#, &["keys/ci", "`org_name`", "`username`"]),
        (r#"{"limits":[{"rpm_limit":1}]}"#, &["limits, entry 1", "`org_name`"]),
        ("[]", &["standard input", "object"]),
        ("{", &["standard input", "JSON"]),
    ];
    for (wrong, texts) in cases {
        let args = ["apply", "-f", "team.json", "-f", "-"];
        let refused = shell.run_with(&args, wrong).ends(2);
        assert!(refused.out.is_empty(), "{wrong}: {}", refused.out);
        for text in texts {
            assert!(refused.err.contains(text), "{wrong}: {text}: {}", refused.err);
        }
    }
    let twice = shell.run(&["apply", "-f", "team.json", "-f", "team.json"]).ends(2).err;
    assert!(twice.contains("organisations/Analysts again"), "{twice}");
    shell.run(&["apply", "-f", "no-such-file.json"]).ends(2);
    shell.run(&["apply"]).ends(2);
    assert_eq!(shell.run(&["models", "list", "--json"]).ends(0).json(), json!([]));
    assert_eq!(shell.run(&["registry", "list", "--json"]).ends(0).json(), json!([]));
}
