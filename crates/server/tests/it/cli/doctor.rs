//! `doctor`, with and without a gateway.

use gantry_testkit::{Database, docker};
use serde_json::Value;

use super::{Ran, Shell};
use crate::support::gateway;

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    checks.find(|it| it["name"] == name).unwrap_or_else(|| panic!("no check `{name}`: {report}"))
}

#[tokio::test]
async fn a_running_gateway_and_its_database_are_found() {
    for database in Database::all("cli: doctor") {
        let gateway = gateway(database).await;
        let shell = Shell::at(&gateway.url);
        let data = gateway.data_dir();
        let ran = shell.run(&["doctor", "--json", "--data-dir", data.to_str().unwrap()]);
        let report = ran.json();
        assert_eq!(check(&report, "gateway")["status"], "ok", "{report}");
        assert_eq!(check(&report, "data_dir")["status"], "ok", "{report}");
        if database == Database::Sqlite {
            let found = check(&report, "database")["found"].as_str().unwrap();
            assert!(found.starts_with("sqlite: schema version "), "{found}");
        }
        for check in report["checks"].as_array().unwrap() {
            let bad = check["status"] != "ok";
            assert_eq!(check["fix"].is_string(), bad, "what is wrong can be mended: {check}");
            assert_eq!(check["means"].as_str().is_some_and(|it| !it.is_empty()), bad, "{check}");
        }
    }
}

#[test]
fn without_a_gateway_it_says_what_stands_in_the_way() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|it| (taken, it.to_string())).unwrap();
    let shell = Shell::at("http://127.0.0.1:1");
    std::fs::write(shell.home.path().join("broken.db"), "this is no database, whatever its name says")
        .unwrap();
    let database = format!("sqlite://{}", shell.home.path().join("broken.db").display());
    let below_a_file = shell.home.path().join("broken.db/data").display().to_string();
    let args = [
        "doctor",
        "--json",
        "--gateway-listen",
        &taken.1,
        "--container-host",
        "unix:///nowhere/docker.sock",
        "--data-dir",
        &below_a_file,
        "--database-url",
        &database,
    ];
    let report = shell.run(&args).ends(1).json();
    assert_eq!(report["status"], "fail");
    for name in ["port", "containers", "data_dir", "database"] {
        assert_eq!(check(&report, name)["status"], "fail", "{name}: {report}");
    }
    assert!(check(&report, "port")["found"].as_str().unwrap().contains(&taken.1), "{report}");
    assert!(check(&report, "containers")["fix"].as_str().unwrap().contains("docker"), "{report}");
    assert_eq!(std::fs::read_dir(shell.home.path()).unwrap().count(), 1, "it makes nothing");

    let mut command = shell.command(&["doctor"]);
    let ran = Ran::of(command.env("GATEWAY_LISTEN", "nonsense").output().unwrap()).ends(1);
    assert!(ran.out.contains("FAIL  settings  GATEWAY_LISTEN"), "{}", ran.out);
}

#[test]
fn docker_and_its_images_are_looked_at() {
    if !docker("cli: doctor with Docker") {
        return;
    }
    let shell = Shell::at("http://127.0.0.1:1");
    let mut command = shell.command(&["doctor", "--json", "--offline-mode", "true"]);
    command.env("PRIMARY_ENGINE_IMAGE", "gantry.invalid/no/such:1");
    if let Some(host) = std::env::var_os("DOCKER_HOST") {
        command.env("DOCKER_HOST", host);
    }
    let report = Ran::of(command.output().unwrap()).json();
    assert_eq!(check(&report, "containers")["status"], "ok", "{report}");
    let image = check(&report, "primary_image");
    assert_eq!(image["status"], "warn", "{report}");
    assert!(image["fix"].as_str().unwrap().contains("docker save"), "{report}");
}
