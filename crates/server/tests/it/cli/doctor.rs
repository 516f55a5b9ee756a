//! `doctor`, with and without a gateway.

use std::{os::unix::fs::PermissionsExt, path::Path};

use gantry_testkit::{Database, Options, docker, docker_at_its_place, root_with};
use serde_json::Value;

use super::{Ran, Shell};
use crate::support::{gateway, start};

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
        assert!(
            report["checks"].as_array().unwrap().iter().all(|it| it["name"] != "same_gateway"),
            "{report}"
        );
        if database == Database::Sqlite {
            assert_eq!(check(&report, "database_files")["status"], "ok", "{report}");
            let found = check(&report, "database")["found"].as_str().unwrap();
            assert!(found.starts_with("sqlite: schema version "), "{found}");
        }
        for check in report["checks"].as_array().unwrap() {
            let bad = check["status"] != "ok";
            assert_eq!(check["fix"].is_string(), bad, "what is wrong can be fixed: {check}");
            assert_eq!(check["means"].as_str().is_some_and(|it| !it.is_empty()), bad, "{check}");
        }
    }
}

#[tokio::test]
async fn beside_a_gateway_that_runs_it_needs_no_settings() {
    for database in Database::one("cli: doctor without settings") {
        let home = tempfile::TempDir::new().unwrap();
        program(home.path(), "llama-server", "exit 0");
        let command = home.path().join("llama-server").display().to_string();
        let options = Options::processes().on(database).env("SECONDARY_ENGINE_COMMAND", &command);
        let mut gateway = start(options).await;
        let shell = Shell::at(&gateway.url);
        let ran = shell.run(&["doctor", "--json"]).ends(0);
        let report = ran.json();
        let found = |name: &str| check(&report, name)["found"].as_str().unwrap().to_owned();
        let settings = found("settings");
        assert!(settings.contains(&format!("process {}", gateway.pid())), "{settings}");
        assert!(found("data_dir").starts_with(gateway.data_dir().to_str().unwrap()), "{report}");
        assert!(found("models_dir").starts_with(gateway.models_dir().to_str().unwrap()), "{report}");
        assert_eq!(found("secondary_program"), format!("{command} for llamacpp"));
        assert_eq!(check(&report, "database")["status"], "ok", "{report}");
        let names: Vec<_> = report["checks"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        for absent in ["containers", "same_gateway", "settings_here", "file_system"] {
            assert!(!names.iter().any(|it| *it == absent), "{absent}: {report}");
        }
        assert!(!ran.out.contains("owner-password"), "secrets stay with the gateway");

        // What this shell has is not what counts.
        let mut command = shell.command(&["doctor", "--json"]);
        let report =
            Ran::of(command.env("SECONDARY_ENGINE_COMMAND", "/nowhere").output().unwrap()).ends(0).json();
        let here = check(&report, "settings_here");
        assert!(here["found"].as_str().unwrap().starts_with("SECONDARY_ENGINE_COMMAND"), "{here}");
        assert_eq!(check(&report, "secondary_program")["status"], "ok", "{report}");

        // A gateway that was restarted answers the local socket too.
        gateway.kill_and_restart().await;
        let report = Shell::at(&gateway.url).run(&["doctor", "--json"]).ends(0).json();
        let settings = check(&report, "settings")["found"].as_str().unwrap().to_owned();
        assert!(settings.contains(&format!("process {}", gateway.pid())), "{settings}");
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
fn a_service_that_does_not_start_is_told_with_its_last_error() {
    // As systemd does: it accepts for the service, and nobody answers.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = held.local_addr().unwrap();
    let shell = Shell::at(&format!("http://{addr}"));
    let home = shell.home.path();
    let socket = format!("echo ActiveState=active; echo 'Listen={addr} (Stream)'");
    let service = "echo LoadState=loaded; echo ActiveState=activating; echo Result=exit-code";
    program(home, "systemctl", &format!("case \"$*\" in *gantry.socket*) {socket} ;; *) {service} ;; esac"));
    let log = "echo 'gantry: the models folder can not be made'; echo '  because: Permission denied'";
    program(home, "journalctl", log);
    let path = std::env::join_paths(
        std::iter::once(home.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    let run = |args: &[&str]| Ran::of(shell.command(args).env("PATH", &path).output().unwrap());
    let port = addr.to_string();
    let report = run(&["doctor", "--json", "--gateway-listen", &port]).ends(1).json();
    let gateway = check(&report, "gateway");
    assert!(gateway["found"].as_str().unwrap().contains("did not answer"), "{gateway}");
    assert!(!gateway["fix"].as_str().unwrap().contains("gantry serve"), "{gateway}");
    let service = check(&report, "service");
    assert_eq!(service["status"], "fail", "{service}");
    let found = service["found"].as_str().unwrap();
    assert!(found.contains("models folder can not be made, because: Permission denied"), "{service}");
    assert!(service["fix"].as_str().unwrap().contains("sudo systemctl start gantry"), "{service}");
    let port = check(&report, "port");
    assert_eq!(port["status"], "ok", "systemd may hold it: {port}");

    let status = run(&["status"]).ends(3).err;
    assert!(
        status.contains("did not answer") && status.contains("models folder can not be made"),
        "{status}"
    );
    assert!(status.contains("sudo systemctl start gantry"), "{status}");
}

#[tokio::test]
async fn a_gateway_that_is_named_is_not_mixed_with_the_service() {
    let gateway = gateway(Database::Sqlite).await;
    let shell = Shell::at(&gateway.url);
    let file = shell.home.path().join("gantry.env");
    std::fs::write(&file, "DATA_DIR=of-the-service\nHEALTH_POLL_SEC=11\n").unwrap();
    let mut command = shell.command(&["doctor", "--json"]);
    let report = Ran::of(command.env("GANTRY_SETTINGS_FILE", &file).output().unwrap()).json();
    let settings = check(&report, "settings")["found"].as_str().unwrap().to_owned();
    assert!(settings.contains(&format!("process {}", gateway.pid())), "{settings}");
    assert!(!report.to_string().contains("of-the-service"), "{report}");
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|it| it["name"] != "settings_here"), "{report}");

    let report = shell.run(&["doctor", "--json", "--url", "http://gantry.invalid:8084"]).json();
    let found = check(&report, "same_gateway");
    assert!(found["found"].as_str().unwrap().contains("not an address of this machine"), "{found}");
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

/// A program that does nothing, with this name.
fn program(dir: &Path, name: &str, text: &str) {
    let file = dir.join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn where_engines_are_processes_docker_is_not_missed() {
    let shell = Shell::at("http://127.0.0.1:1");
    let bin = shell.home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    // Where the machine has a Docker at the usual place, it is hidden.
    let mut hidden = Vec::new();
    if Path::new("/var/run/docker.sock").exists() {
        if !root_with("cli: doctor without Docker", &["unshare"]) {
            return;
        }
        hidden = docker_at_its_place(None, &bin);
    }
    let path = format!("PATH={}", bin.display());
    let report = |args: &[&str]| {
        let mut words: Vec<&str> = hidden.iter().map(String::as_str).collect();
        words.extend(["env", &path, crate::support::GANTRY, "doctor", "--json"]);
        // Ports that somebody else has are not the subject.
        words.extend(["--gateway-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
        Ran::of(shell.program(words[0], &[&words[1..], args].concat()).output().unwrap())
    };
    // Neither Docker nor an engine: nothing can be started.
    let nothing = report(&[]).ends(1).json();
    for name in ["containers", "primary_program", "secondary_program"] {
        assert_eq!(check(&nothing, name)["status"], "fail", "{name}: {nothing}");
    }
    program(&bin, "llama-server", "exit 0");
    let some = report(&[]).ends(0).json();
    assert_eq!(check(&some, "containers")["status"], "warn", "{some}");
    assert_eq!(check(&some, "primary_program")["status"], "warn", "{some}");
    let found = check(&some, "secondary_program");
    assert_eq!(found["status"], "ok", "{some}");
    assert!(found["found"].as_str().unwrap().starts_with(bin.to_str().unwrap()), "{found}");
    // If the settings require Docker, a missing Docker is a failure.
    assert_eq!(
        check(&report(&["--container-runtime", "docker"]).ends(1).json(), "containers")["status"],
        "fail"
    );
    let process = report(&["--container-runtime", "process"]).ends(0).json();
    assert!(process["checks"].as_array().unwrap().iter().all(|it| it["name"] != "containers"), "{process}");
    let named = report(&["--primary-engine-command", "/nowhere/vllm serve"]).ends(1).json();
    assert!(check(&named, "primary_program")["found"].as_str().unwrap().contains("/nowhere/vllm"), "{named}");
}

#[test]
fn each_prerequisite_of_the_machine_fails_by_itself() {
    let shell = Shell::at("http://127.0.0.1:1");
    let home = shell.home.path();
    program(home, "timedatectl", "echo no");
    std::fs::write(home.join("a-file"), "").unwrap();
    let script = "ulimit -n 512; ulimit -l 64; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    let path = std::env::join_paths(
        std::iter::once(home.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    command.args(["-c", script, crate::support::GANTRY, "doctor", "--json", "--models-dir", "a-file"]);
    command.env_clear().env("PATH", path.unwrap()).env("HOME", home).current_dir(home);
    let report = Ran::of(command.output().unwrap()).ends(1).json();
    for (name, status, fix) in [
        ("models_dir", "fail", "MODELS_DIR"),
        ("open_files", "warn", "LimitNOFILE"),
        ("locked_memory", "warn", "LimitMEMLOCK"),
        ("clock", "warn", "set-ntp"),
        ("gateway", "warn", "gantry serve"),
    ] {
        let check = check(&report, name);
        assert_eq!(check["status"], status, "{report}");
        assert!(check["fix"].as_str().unwrap().contains(fix), "{check}");
    }
}

#[test]
fn a_disk_that_is_nearly_full_is_told() {
    if !root_with("cli: doctor on a small disk", &["mount", "umount"]) {
        return;
    }
    let shell = Shell::at("http://127.0.0.1:1");
    for (size, status, free) in [("512m", "warn", "0.5 GiB free"), ("16m", "fail", "0.0 GiB free")] {
        let disk = gantry_testkit::SmallDisk::mount(&shell.home.path().join(size), size);
        let report = shell.run(&["doctor", "--json", "--data-dir", disk.path().to_str().unwrap()]).json();
        let found = check(&report, "data_dir");
        assert_eq!(found["status"], status, "{found}");
        assert!(found["found"].as_str().unwrap().contains(free), "{found}");
    }
}

#[tokio::test]
async fn databases_and_redis_that_are_away_or_too_new_are_told() {
    let shell = Shell::at("http://127.0.0.1:1");
    let report = |args: &[&str]| shell.run(&[&["doctor", "--json"], args].concat()).json();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = closed.local_addr().unwrap();
    drop(closed);
    let postgres = format!("postgres://someone:secret-word@{away}/gantry");
    let found = report(&["--database-url", &postgres, "--redis-url", &format!("redis://{away}")]);
    assert_eq!(check(&found, "database")["status"], "fail", "{found}");
    assert_eq!(check(&found, "redis")["status"], "warn", "{found}");
    assert!(!found.to_string().contains("secret-word"), "{found}");
    assert_eq!(check(&report(&["--redis-url", "http://x"]), "settings")["status"], "fail");
    if let Some(url) = std::env::var_os("TEST_REDIS_URL") {
        assert_eq!(check(&report(&["--redis-url", url.to_str().unwrap()]), "redis")["status"], "ok");
    }

    let file = shell.home.path().join("newer.db");
    let url = format!("sqlite://{}", file.display());
    gantry_store::Store::open(&url).await.unwrap().close().await;
    let known = check(&report(&["--database-url", &url]), "database").clone();
    assert_eq!(known["status"], "ok", "{known}");
    let mut conn = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
        VALUES (999, 'from the future', TRUE, X'00', 0)";
    sqlx::query(newer).execute(&mut conn).await.unwrap();
    let found = check(&report(&["--database-url", &url]), "database").clone();
    assert_eq!(found["status"], "fail", "{found}");
    assert!(found["found"].as_str().unwrap().contains("999"), "{found}");
}
