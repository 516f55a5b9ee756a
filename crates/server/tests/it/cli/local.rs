//! What needs no session: completions, the manual, exit codes, the API's description; and readers that go away.

use std::process::{Command, Stdio};

use gantry_testkit::Database;

use super::{Ran, Shell};
use crate::support::{GANTRY, gateway};

#[test]
fn completions_and_the_manual_know_every_verb() {
    let shell = Shell::at("http://127.0.0.1:1");
    let verbs = [
        "login", "models", "keys", "orgs", "users", "usage", "images", "top", "doctor", "openapi", "settings",
    ];
    for kind in ["bash", "zsh", "fish"] {
        let script = shell.run(&["completions", kind]).ends(0).out;
        assert!(script.contains("GANTRY_COMPLETE"), "{kind}: {script}");
    }
    // What the shell gets when it asks for the word behind `gantry`.
    let mut command = shell.command(&["--", "gantry", ""]);
    command.env("GANTRY_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "1").env("_CLAP_IFS", "\n");
    let words = Ran::of(command.output().unwrap()).ends(0).out;
    assert!(verbs.iter().all(|it| words.lines().any(|word| word == *it)), "{words}");
    assert!(!words.contains("--drain-timeout-sec"), "{words}");
    let page = shell.run(&["man"]).ends(0).out;
    assert!(page.contains(".TH gantry 1") && page.contains("doctor"), "{page}");
    shell.run(&["man", "--dir", "pages"]).ends(0);
    let start = std::fs::read_to_string(shell.home.path().join("pages/gantry-models-start.1")).unwrap();
    assert!(start.contains("[OPTIONS] <MODEL>..."), "{start}");
    let order = [
        ".SH ARGUMENTS",
        ".SH OPTIONS",
        "\\-\\-wait",
        "\\-\\-timeout",
        "\\-\\-force",
        ".SH \"GATEWAY AND OUTPUT\"",
    ];
    let places: Vec<_> =
        order.iter().map(|it| start.find(it).unwrap_or_else(|| panic!("{it}: {start}"))).collect();
    assert!(places.is_sorted(), "{places:?} {start}");
    // Each example has a line of its own.
    let top = std::fs::read_to_string(shell.home.path().join("pages/gantry-usage-top.1")).unwrap();
    let example = ".nf\ngantry usage top \\-\\-by user \\-\\-org Acme \\-\\-week \\-\\-limit 5\n.fi\n";
    assert!(top.contains(".SH EXAMPLES\n") && top.contains(example), "{top}");
    let codes = shell.run(&["help", "exit-codes"]).ends(0).out;
    assert!(codes.contains("\n    3  No gateway answers"), "{codes}");
    shell.run(&["completions", "tcsh"]).ends(2);
}

#[tokio::test]
async fn the_description_is_valid_or_said_to_be_missing() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    if gateway.client().get("/openapi.json").await.status == 200 {
        let description = shell.run(&["openapi"]).ends(0).json();
        assert!(description["openapi"].as_str().is_some_and(|it| it.starts_with("3.")), "{description}");
    } else {
        let ran = shell.run(&["openapi"]).ends(5);
        assert!(ran.err.contains("does not serve /openapi.json") && ran.out.is_empty(), "{}", ran.err);
    }
}

/// More is written than a pipe holds, so that the writer must notice.
#[tokio::test]
async fn a_reader_that_goes_away_is_no_error() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::of_owner(&gateway);
    let owner = gateway.owner().await;
    for i in 0..4 {
        let name = format!("{i}{}", "n".repeat(90));
        owner.post("/admin/orgs", &serde_json::json!({ "name": name })).await.expect(201);
    }
    for verb in [
        "completions zsh",
        "completions bash",
        "man",
        "settings",
        "settings --json",
        "--help",
        "orgs list",
        "doctor",
    ] {
        let script =
            format!("set -o pipefail; \"$0\" {verb} 2>err | true; echo \"${{PIPESTATUS[0]}}\"; cat err");
        let output = Command::new("bash")
            .args(["-c", &script, GANTRY])
            .current_dir(shell.home.path())
            .env("HOME", shell.home.path())
            .env("GANTRY_URL", &gateway.url)
            .stdin(Stdio::null())
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text, "0\n", "{verb}");
    }
}
