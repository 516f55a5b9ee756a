//! The files in `deploy/` say what the program understands.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::support::GANTRY;

/// Names in capitals that are not settings: the service manager's, the shell's and compose's own.
const OTHERS: &[&str] = &["DOCKER_GID", "HTTPS_PROXY", "SSL_CERT_FILE", "PATH"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

/// What `gantry settings` prints with these variables, which must all be legal.
fn settings(env: &BTreeMap<String, String>) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(GANTRY);
    command
        .args(["settings", "--json"])
        .current_dir(dir.path())
        .env_clear()
        .env("HOME", dir.path())
        .envs(env);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{env:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names() -> BTreeSet<String> {
    settings(&BTreeMap::new()).iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

/// Words such as `DATA_DIR`.
fn variables(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let capital = |it: &&str| {
        let legal = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
        it.contains('_') && it.chars().all(legal) && it.starts_with(|it: char| it.is_ascii_uppercase())
    };
    // Address families of the service's sandbox.
    words.filter(capital).filter(|it| !it.starts_with("AF_")).map(str::to_owned).collect()
}

#[test]
fn every_variable_named_in_deploy_is_a_setting() {
    let known = names();
    let mut seen = 0;
    for folder in ["", "systemd", "compose", "debian", "proxy"].map(|it| folder().join(it)) {
        for file in std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).filter(|it| it.is_file())
        {
            for name in variables(&std::fs::read_to_string(&file).unwrap()) {
                seen += 1;
                let plain = name.strip_suffix("_FILE").unwrap_or(&name);
                let other = OTHERS.contains(&name.as_str()) || plain == "NAME";
                let is_known = known.contains(&name) || known.contains(plain);
                assert!(other || is_known, "{}: {name}", file.display());
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The lines of the service's settings file, those that are only proposed among them.
fn of_the_service() -> BTreeMap<String, String> {
    let text = read("systemd/gantry.env");
    let lines = text.lines().map(|it| it.trim_start_matches('#'));
    let lines = lines.filter(|it| !it.starts_with(' ') && it.contains('='));
    lines.map(|it| it.split_once('=').map(|(name, value)| (name.into(), value.into())).unwrap()).collect()
}

/// The mapping below `environment:`.
fn of_compose() -> BTreeMap<String, String> {
    let text = read("compose/compose.yaml");
    let below = text.lines().skip_while(|it| it.trim() != "environment:").skip(1);
    let entries = below.take_while(|it| it.starts_with("      "));
    entries
        .map(|it| {
            let (name, value) = it.trim().split_once(": ").unwrap();
            (name.to_owned(), value.trim_matches('"').to_owned())
        })
        .collect()
}

/// Lines that the documentation asks people to write into the settings file.
#[test]
fn lines_to_paste_are_legal() {
    let page = include_str!("../../../../docs/network.md");
    let lines = page.lines().filter_map(|it| it.split_once('='));
    let is_name = |it: &str| it.len() > 3 && it.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let env: BTreeMap<String, String> =
        lines.filter(|it| is_name(it.0)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert!(env.contains_key("TRUSTED_PROXIES") && env.contains_key("SESSION_COOKIE_SECURE"), "{env:?}");
    let settings = settings(&env);
    for (name, value) in &env {
        let row = settings.iter().find(|it| it["name"] == name.as_str()).unwrap();
        assert_eq!(row["value"], value.as_str(), "{name}");
    }
}

/// Seconds that a setting has with these variables.
fn seconds(settings: &[Value], name: &str) -> u64 {
    let row = settings.iter().find(|it| it["name"] == name).unwrap();
    row["value"].as_str().unwrap().parse().unwrap()
}

#[test]
fn what_they_set_is_legal_and_a_stop_gets_the_time_that_it_may_take() {
    let service = read("systemd/gantry.service");
    let limit = service.lines().find_map(|it| it.strip_prefix("TimeoutStopSec=")).unwrap().parse::<u64>();
    let compose = read("compose/compose.yaml");
    let grace = compose.lines().find_map(|it| it.trim().strip_prefix("stop_grace_period: ")).unwrap();
    let grace = grace.trim_end_matches('s').parse::<u64>();
    for (env, limit) in [(of_the_service(), limit.unwrap()), (of_compose(), grace.unwrap())] {
        assert!(env.len() >= 4, "{env:?}");
        let settings = settings(&env);
        let names = ["SHUTDOWN_DELAY_SEC", "DRAIN_TIMEOUT_SEC", "STOP_TIMEOUT_SEC"];
        let needed = names.iter().map(|it| seconds(&settings, it)).sum::<u64>();
        // Engines are stopped twice at most: by a worker that is at it, and for STOP_MODELS_ON_SHUTDOWN.
        let needed = needed + seconds(&settings, "STOP_TIMEOUT_SEC") + 50;
        assert!(limit > needed, "{limit} s for a stop that may take {needed} s");
    }
}

const UNITS: [&str; 4] = ["gantry.service", "gantry.socket", "gantry-backup.service", "gantry-backup.timer"];

#[test]
fn no_restart_of_the_service_ends_engines_that_are_processes() {
    let service = read("systemd/gantry.service");
    for line in ["KillMode=process", "RemoveIPC=no"] {
        assert!(service.lines().any(|it| it == line), "{line}");
    }
}

#[test]
fn systemd_understands_the_units() {
    let dir = tempfile::tempdir().unwrap();
    for name in UNITS {
        // It looks for the program and the user on this machine.
        let text = read(&format!("systemd/{name}")).replace("/usr/local/bin/gantry", GANTRY);
        let text =
            text.replace("=gantry\n", "=root\n").replace("StateDirectory=root", "StateDirectory=gantry");
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    let units = UNITS.map(|it| dir.path().join(it));
    let Ok(output) = command.args(units).output() else {
        gantry_testkit::skip("deploy: systemd_understands_the_units", "there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("gantry"), "{said}");
}
