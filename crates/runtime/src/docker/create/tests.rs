//! Compares the whole request that makes a container.

use gantry_domain::{
    ModelId,
    engine::{Confinement, Launch, PORT},
    model::InstanceNumber,
};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::*;

fn launch() -> Launch {
    Launch {
        image: "engine:1".to_owned(),
        entrypoint: Some(vec!["serve".to_owned()]),
        args: vec!["--port".to_owned(), "8000".to_owned()],
        env: vec![("KEY".to_owned(), SecretString::from("s3cret"))],
        gpus: vec![0, 2],
        shm_bytes: Some(1 << 30),
        mounts_hub_cache: true,
        locks_memory: true,
        confinement: Confinement {
            memory_bytes: Some(32 << 30),
            read_only_root: true,
            ..Confinement::default()
        },
        warnings: Vec::new(),
    }
}

fn request(launch: &Launch, memlock: bool) -> Value {
    let spec = ContainerSpec {
        name: "primary-model-7",
        model_id: ModelId(7),
        number: InstanceNumber(2),
        generation: 3,
        launch,
        models_dir: Path::new("/big/models"),
        hub_cache_dir: Path::new("/big/hub"),
        key_fingerprint: "bb",
    };
    let owner = Owner { instance: "db-1".to_owned() };
    let surroundings = Surroundings {
        user: "1000:1001".to_owned(),
        network: "gantry-db-1".to_owned(),
        image: launch.image.clone(),
    };
    serde_json::to_value(body(&spec, &owner, &surroundings, memlock)).unwrap()
}

#[test]
fn the_whole_request() {
    let launch = launch();
    let expected = json!({
        "Image": "engine:1",
        "Entrypoint": ["serve"],
        "Cmd": ["--port", "8000"],
        "User": "1000:1001",
        "Env": [
            "HOME=/tmp", "USER=gantry", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "HF_HUB_DISABLE_TELEMETRY=1",
            "CUDA_DEVICE_ORDER=PCI_BUS_ID", "KEY=s3cret",
        ],
        "ExposedPorts": ["8000/tcp"],
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": {
            "gantry.instance": "db-1", "gantry.model_id": "7", "gantry.instance_number": "2", "gantry.generation": "3",
            "gantry.spec_hash": launch.spec_hash(), "gantry.key_fingerprint": "bb",
        },
        "HostConfig": {
            "Init": true,
            "RestartPolicy": {"Name": "no"},
            "PortBindings": {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]},
            "Mounts": [
                {"Type": "bind", "Source": "/big/models", "Target": "/models", "ReadOnly": true},
                {"Type": "bind", "Source": "/big/hub", "Target": "/hub-cache", "ReadOnly": false},
            ],
            "CapDrop": ["ALL"],
            "NetworkMode": "gantry-db-1",
            "Dns": ["127.0.0.1"],
            "Memory": 34_359_738_368_i64,
            "MemorySwap": 34_359_738_368_i64,
            "ReadonlyRootfs": true,
            "Tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": 8192,
            "ShmSize": 1_073_741_824,
            "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            "DeviceRequests": [{"Driver": "nvidia", "DeviceIDs": ["0", "2"], "Capabilities": [["gpu"]]}],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}},
        },
    });
    let mut request = request(&launch, true);
    // bollard writes the exposed ports as the API's map.
    if request["ExposedPorts"].is_object() {
        request["ExposedPorts"] = request["ExposedPorts"].as_object().unwrap().keys().cloned().collect();
    }
    assert_eq!(request, expected);
}

#[test]
fn what_a_launch_does_not_ask_for_is_not_in_the_request() {
    let bare = Launch {
        gpus: Vec::new(),
        shm_bytes: None,
        mounts_hub_cache: false,
        entrypoint: None,
        confinement: Confinement::default(),
        ..launch()
    };
    let request = request(&bare, false);
    let host = &request["HostConfig"];
    for absent in
        ["DeviceRequests", "ShmSize", "Ulimits", "Memory", "MemorySwap", "ReadonlyRootfs", "Tmpfs", "CapAdd"]
    {
        assert!(host.get(absent).is_none_or(Value::is_null), "{absent}: {}", host[absent]);
    }
    assert!(request.get("Entrypoint").is_none_or(Value::is_null));
    assert_eq!(host["Mounts"].as_array().unwrap().len(), 1);
}

#[test]
fn the_published_port_is_the_one_that_engines_listen_on() {
    assert_eq!(ENGINE_PORT, format!("{PORT}/tcp"));
}
