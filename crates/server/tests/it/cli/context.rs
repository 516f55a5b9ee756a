//! `context`: several gateways by name, each with a session of its own.

use std::os::unix::fs::PermissionsExt;

use gantry_testkit::Database;
use serde_json::json;

use super::{Ran, Shell};
use crate::support::{column, gateway};

/// Runs without `GANTRY_URL`, which would win over the context in use.
fn run(shell: &Shell, args: &[&str]) -> Ran {
    Ran::of(shell.command(args).env_remove("GANTRY_URL").output().unwrap())
}

#[tokio::test]
async fn gateways_have_names_and_sessions_of_their_own() {
    let (first, second) = (gateway(Database::Sqlite).await, gateway(Database::Sqlite).await);
    let shell = Shell::at("http://127.0.0.1:1");
    let login = |args: &[&str]| {
        let mut command = shell.command(&[&["login", "owner"], args].concat());
        Ran::of(command.env_remove("GANTRY_URL").env("GANTRY_PASSWORD", "owner-password").output().unwrap())
    };
    run(&shell, &["context", "add", "first", &first.url, "--use"]).ends(0);
    run(&shell, &["context", "add", "second", &second.url]).ends(0);
    let file = shell.home.path().join(".config/gantry/contexts.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    login(&[]).ends(0);
    run(&shell, &["orgs", "create", "Here"]).ends(0);
    run(&shell, &["orgs", "list", "--context", "second"]).ends(4);
    let unknown = run(&shell, &["doctor", "--context", "nowhere"]).ends(5).err;
    assert!(unknown.contains("no context `nowhere`"), "{unknown}");
    login(&["--context", "second"]).ends(0);
    let there = run(&shell, &["orgs", "list", "--context", "second", "--json"]).ends(0).json();
    assert_eq!(column(&there, "name"), ["Default"]);

    // The second is used, by the file and by the environment; an address wins over it.
    run(&shell, &["context", "use", "second"]).ends(0);
    let listed = run(&shell, &["context", "ls", "--json"]).ends(0).json();
    assert_eq!(column(&listed, "name"), ["first", "second"]);
    assert_eq!(listed[1]["in_use"], true, "{listed}");
    assert_eq!(run(&shell, &["orgs", "list", "--json"]).ends(0).json(), there);
    let mut command = shell.command(&["orgs", "list", "--json"]);
    let here = Ran::of(command.env("GANTRY_CONTEXT", "first").output().unwrap()).ends(0).json();
    assert_eq!(column(&here, "name"), ["Default", "Here"]);
    run(&shell, &["orgs", "list", "--url", &first.url]).ends(4);
    run(&shell, &["orgs", "list", "--url", &first.url, "--context", "first"]).ends(2);

    // A name that leads elsewhere now does not take the session along.
    run(&shell, &["context", "add", "first", &second.url]).ends(0);
    run(&shell, &["orgs", "list", "--context", "first"]).ends(4);
    run(&shell, &["context", "rm", "first", "second", "third"]).ends(5);
    assert_eq!(run(&shell, &["context", "list", "--json"]).ends(0).json(), json!([]));
    let unknown = run(&shell, &["orgs", "list", "--context", "second"]).ends(5).err;
    assert!(unknown.contains("gantry context add second"), "{unknown}");
    run(&shell, &["context", "add", "a b", &first.url]).ends(2);
    run(&shell, &["context", "add", "a", "localhost:1"]).ends(2);
}

#[tokio::test]
async fn beside_the_settings_of_a_gateway_its_address_is_the_default() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at("http://127.0.0.1:1");
    let port = gateway.url.rsplit(':').next().unwrap();
    for listen in [format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}")] {
        let mut command = shell.command(&["status"]);
        let ran = Ran::of(command.env_remove("GANTRY_URL").env("GATEWAY_LISTEN", listen).output().unwrap());
        let out = ran.ends(0).out;
        assert!(out.starts_with(&gateway.url), "{out}");
    }
}
