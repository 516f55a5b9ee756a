//! Makes the request for a launch's container: what Gantry fixes for every engine's container.

use std::{collections::HashMap, path::Path};

use bollard::models::{
    ContainerCreateBody, DeviceRequest, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    PortBinding, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};
use gantry_domain::engine::{HUB_CACHE_MOUNT, LOOPBACK, MODELS_MOUNT};
use secrecy::ExposeSecret;

use super::{ENGINE_PORT, label};
use crate::{ContainerSpec, Owner, no_statistics::NO_STATISTICS};

/// Most threads and processes in a container: engines use hundreds, and a runaway must not use up the host's.
pub(super) const MAX_PIDS: i64 = 8192;

/// A folder that every user can write to in every image.
const TEMPORARY: &str = "/tmp";

/// What a container of the engine is made into.
pub(super) struct Surroundings {
    /// The user that it runs as, `uid:gid`.
    pub(super) user: String,
    /// The name of its network.
    pub(super) network: String,
    /// The name by which the engine knows the launch's image.
    pub(super) image: String,
}

/// Returns the request that makes the container. Only here are secrets taken out of their wrappers.
///
/// `memlock`: the engine may lock memory without limit.
pub(super) fn body(
    spec: &ContainerSpec<'_>,
    owner: &Owner,
    surroundings: &Surroundings,
    memlock: bool,
) -> ContainerCreateBody {
    let (launch, Surroundings { user, network, image }) = (spec.launch, surroundings);
    // The user need not be known in the image: it gets a home that it can write to, and a name that programs look up.
    let home = [("HOME", TEMPORARY), ("USER", "gantry")].into_iter().chain(NO_STATISTICS);
    let home = home.map(|(name, value)| format!("{name}={value}"));
    // With it, numbers inside mean the GPUs in the order in which they are given: CUDA's own order is by speed. It is
    // not part of what containers are compared by, so that those that run already stay as they are.
    let order = (!launch.gpus.is_empty()).then(|| "CUDA_DEVICE_ORDER=PCI_BUS_ID".to_owned());
    let given = launch.env.iter().map(|(name, value)| format!("{name}={}", value.expose_secret()));
    // If a name occurs twice, the later one counts: an operator's.
    let env = home.chain(order).chain(given).collect();
    ContainerCreateBody {
        image: Some(image.clone()),
        entrypoint: launch.entrypoint.clone(),
        cmd: Some(launch.args.clone()),
        env: Some(env),
        labels: Some(labels(spec, owner)),
        exposed_ports: Some(vec![ENGINE_PORT.to_owned()]),
        // Images bring health checks of their own, for ports that are not ours.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        user: Some(user.to_owned()),
        host_config: Some(host_config(spec, network, memlock)),
        ..ContainerCreateBody::default()
    }
}

fn labels(spec: &ContainerSpec<'_>, owner: &Owner) -> HashMap<String, String> {
    let labels = [
        (label::INSTANCE, owner.instance.clone()),
        (label::MODEL_ID, spec.model_id.to_string()),
        (label::NUMBER, spec.number.0.to_string()),
        (label::GENERATION, spec.generation.to_string()),
        (label::SPEC_HASH, spec.launch.spec_hash()),
        (label::KEY_FINGERPRINT, spec.key_fingerprint.to_owned()),
    ];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn host_config(spec: &ContainerSpec<'_>, network: &str, memlock: bool) -> HostConfig {
    let launch = spec.launch;
    // The container engine chooses the port, on loopback only: the engines' own endpoints are not meant for the
    // network.
    let port = PortBinding { host_ip: Some(LOOPBACK.to_owned()), host_port: Some("0".to_owned()) };
    let mut mounts = vec![bind(spec.models_dir, MODELS_MOUNT, true)];
    if launch.mounts_hub_cache {
        mounts.push(bind(spec.hub_cache_dir, HUB_CACHE_MOUNT, false));
    }
    HostConfig {
        // PID 1 gets no default signal handlers: without an init an engine that still loads ignores SIGTERM.
        init: Some(true),
        // The reconciler decides what runs; Docker's restarts would go behind its back.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        port_bindings: Some(HashMap::from([(ENGINE_PORT.to_owned(), Some(vec![port]))])),
        mounts: Some(mounts),
        // The engine runs as the gateway's user, which owns models and hub cache.
        cap_drop: Some(vec!["ALL".to_owned()]),
        network_mode: Some(network.to_owned()),
        // Otherwise Docker's resolver would pass the names that an engine asks for on to the machine's name servers. On the
        // container's own loopback nobody answers.
        dns: (!launch.confinement.internet).then(|| vec![LOOPBACK.to_owned()]),
        memory: launch.confinement.memory_bytes,
        // This limit includes swap, so there is no swap on top.
        memory_swap: launch.confinement.memory_bytes,
        readonly_rootfs: launch.confinement.read_only_root.then_some(true),
        // `exec`, because compilers at run time load what they wrote there.
        tmpfs: launch
            .confinement
            .read_only_root
            .then(|| HashMap::from([(TEMPORARY.to_owned(), "rw,exec,nosuid,nodev,mode=1777".to_owned())])),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        pids_limit: Some(MAX_PIDS),
        shm_size: launch.shm_bytes,
        ulimits: memlock.then(|| vec![unlimited("memlock")]),
        device_requests: (!launch.gpus.is_empty()).then(|| vec![gpus(&launch.gpus)]),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from(
                [("max-size", "10m"), ("max-file", "3")].map(|(k, v)| (k.to_owned(), v.to_owned())),
            )),
        }),
        ..HostConfig::default()
    }
}

/// Returns an entry of `mounts`. `binds` are not used because they make a missing source as an empty directory, owned
/// by root.
fn bind(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        ..Mount::default()
    }
}

fn unlimited(name: &str) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(-1), hard: Some(-1) }
}

fn gpus(indexes: &[u32]) -> DeviceRequest {
    DeviceRequest {
        driver: Some("nvidia".to_owned()),
        device_ids: Some(indexes.iter().map(u32::to_string).collect()),
        capabilities: Some(vec![vec!["gpu".to_owned()]]),
        ..DeviceRequest::default()
    }
}

#[cfg(test)]
mod tests;
