//! What Docker says of a container, as the reconciler wants it.

use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, NetworkSettings};
use gantry_domain::{
    ModelId, Timestamp,
    model::lifecycle::{Instance, InstanceId, InstanceStatus},
};

use super::{ENGINE_PORT, LOOPBACK, label};
use crate::{Found, Owner};

/// `None` if the container is not ours: another gateway's, another program's, or one whose labels nobody can read.
pub(super) fn found(answer: ContainerInspectResponse, owner: &Owner) -> Option<Found> {
    let labels = answer.config?.labels?;
    let text = |name: &str| labels.get(name).map(String::as_str);
    if text(label::INSTANCE) != Some(&owner.instance) {
        return None;
    }
    let state = answer.state.unwrap_or_default();
    Some(Found {
        model_id: ModelId(text(label::MODEL_ID)?.parse().ok()?),
        name: answer.name?.trim_start_matches('/').to_owned(),
        spec_hash: text(label::SPEC_HASH).unwrap_or_default().to_owned(),
        key_fingerprint: text(label::KEY_FINGERPRINT).unwrap_or_default().to_owned(),
        started_at: started_at(&state),
        instance: Instance {
            id: InstanceId(answer.id?),
            generation: text(label::GENERATION)?.parse().ok()?,
            status: status(&state, answer.network_settings.as_ref()),
        },
    })
}

fn status(state: &ContainerState, network: Option<&NetworkSettings>) -> InstanceStatus {
    use ContainerStateStatusEnum as Docker;
    match state.status.unwrap_or(Docker::EMPTY) {
        Docker::CREATED => InstanceStatus::Created,
        // A paused engine answers nothing; the probes find that out. `stopping` still holds its memory.
        Docker::RUNNING | Docker::PAUSED | Docker::STOPPING => {
            InstanceStatus::Running { port: network.and_then(port) }
        }
        // Somebody changed the restart policy by hand: it is between two lives.
        Docker::RESTARTING => InstanceStatus::Running { port: None },
        Docker::EMPTY if state.running == Some(true) => {
            InstanceStatus::Running { port: network.and_then(port) }
        }
        Docker::EMPTY | Docker::EXITED | Docker::DEAD | Docker::REMOVING => InstanceStatus::Exited {
            code: state.exit_code.unwrap_or_default(),
            out_of_memory: state.oom_killed == Some(true),
        },
    }
}

/// Where port 8000 is published on loopback. Docker goes on showing the old port of a container that ended, so this
/// is asked only of running ones.
fn port(network: &NetworkSettings) -> Option<u16> {
    let bindings = network.ports.as_ref()?.get(ENGINE_PORT)?.as_ref()?;
    let ours = bindings.iter().find(|it| it.host_ip.as_deref() == Some(LOOPBACK))?;
    ours.host_port.as_ref()?.parse().ok().filter(|it| *it != 0)
}

/// Docker writes the year 1 for "never".
fn started_at(state: &ContainerState) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(state.started_at.as_deref()?).filter(|it| it.0 > 0)
}

#[cfg(test)]
mod tests;
