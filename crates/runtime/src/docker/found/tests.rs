//! Tests how the engine's answers (shortened from those of Docker 20.10) are translated.

use serde_json::{Value, json};

use super::*;

fn answer(state: &Value) -> Value {
    json!({
        "Id": "4c5e",
        "Name": "/primary-model-7",
        "State": state,
        "Config": {"Labels": {
            "gantry.instance": "db-1", "gantry.model_id": "7", "gantry.generation": "3",
            "gantry.spec_hash": "aa", "gantry.key_fingerprint": "bb", "org.other": "x",
        }},
        "NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "32768"}], "9000/tcp": null}},
    })
}

fn read(answer: Value) -> Option<Found> {
    let owner = Owner { instance: "db-1".to_owned() };
    found(serde_json::from_value(answer).unwrap(), &owner)
}

fn status_of(state: &Value) -> InstanceStatus {
    read(answer(state)).unwrap().instance.status
}

#[test]
fn a_running_container_is_read_with_its_port() {
    let state = json!({"Status": "running", "Running": true, "ExitCode": 0, "StartedAt": "2026-11-21T02:30:00.123456789Z"});
    let expected = Found {
        model_id: ModelId(7),
        number: InstanceNumber::FIRST,
        name: "primary-model-7".to_owned(),
        instance: Instance {
            id: InstanceId("4c5e".to_owned()),
            generation: 3,
            status: InstanceStatus::Running { address: Some(EngineAddress::loopback(32768)) },
        },
        spec_hash: "aa".to_owned(),
        key_fingerprint: "bb".to_owned(),
        started_at: Timestamp::parse_rfc3339("2026-11-21T02:30:00.123Z"),
    };
    assert_eq!(read(answer(&state)), Some(expected));
}

#[test]
fn every_state_of_docker_has_a_meaning() {
    use InstanceStatus::{Created, Exited, Running};
    let exited = |code, out_of_memory| Exited { code, out_of_memory };
    let cases = [
        (json!({"Status": "created", "ExitCode": 0}), Created),
        // A start that was refused.
        (json!({"Status": "created", "ExitCode": 128, "Error": "port is already allocated"}), Created),
        (
            json!({"Status": "paused", "Running": true, "Paused": true}),
            Running { address: Some(EngineAddress::loopback(32768)) },
        ),
        (json!({"Status": "restarting", "Running": true, "ExitCode": 1}), Running { address: None }),
        (json!({"Status": "exited", "ExitCode": 137, "OOMKilled": true}), exited(137, true)),
        (json!({"Status": "exited", "ExitCode": 2, "OOMKilled": false}), exited(2, false)),
        (json!({"Status": "dead", "ExitCode": 137}), exited(137, false)),
        (json!({"Status": "removing", "ExitCode": 0}), exited(0, false)),
        (json!({"Running": true}), Running { address: Some(EngineAddress::loopback(32768)) }),
    ];
    for (state, expected) in cases {
        assert_eq!(status_of(&state), expected, "{state}");
    }
}

#[test]
fn a_container_that_never_started_has_no_start_time() {
    let found = read(answer(&json!({"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}))).unwrap();
    assert_eq!(found.started_at, None);
}

#[test]
fn only_a_port_on_loopback_counts() {
    let mut answer = answer(&json!({"Status": "running"}));
    for ports in [
        json!({"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "32768"}]}),
        json!({"8000/tcp": null}),
        json!({"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}),
        json!({}),
    ] {
        answer["NetworkSettings"]["Ports"] = ports.clone();
        let status = read(answer.clone()).unwrap().instance.status;
        assert_eq!(status, InstanceStatus::Running { address: None }, "{ports}");
    }
}

#[test]
fn a_container_without_our_label_or_with_unreadable_ones_is_not_ours() {
    let state = json!({"Status": "running"});
    for (label, value) in [
        ("gantry.instance", json!("db-2")),
        ("gantry.model_id", json!("seven")),
        ("gantry.generation", json!("")),
    ] {
        let mut answer = answer(&state);
        answer["Config"]["Labels"][label] = value;
        assert_eq!(read(answer), None, "{label}");
    }
    let mut bare = answer(&state);
    bare["Config"]["Labels"] = Value::Null;
    assert_eq!(read(bare), None);
}
