//! Translates what Docker says of a container for the reconciler.

use std::collections::HashMap;

use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerSummary,
    ContainerSummaryStateEnum, NetworkSettings,
};
use gantry_domain::{
    ModelId, Timestamp,
    engine::{EngineAddress, LOOPBACK, PORT},
    model::lifecycle::{Instance, InstanceId, InstanceNumber, InstanceStatus},
};

use super::{ENGINE_PORT, label};
use crate::{Found, Owner};

/// Returns a container of ours. `None` if it is another gateway's or another program's, or if its labels can't be read.
pub(super) fn found(answer: ContainerInspectResponse, owner: &Owner) -> Option<Found> {
    let state = answer.state.unwrap_or_default();
    let status = status(&state, answer.network_settings.as_ref());
    let found = from_labels(&answer.config?.labels?, owner, answer.id?, &answer.name?, status)?;
    Some(Found { started_at: started_at(&state), ..found })
}

/// Returns a container that a list shows as running; `None` if it is not running, or not ours. A list has neither exit
/// codes nor the out-of-memory flag, so the others must be inspected.
pub(super) fn running(summary: &ContainerSummary, owner: &Owner) -> Option<Found> {
    if summary.state != Some(ContainerSummaryStateEnum::RUNNING) {
        return None;
    }
    let ports = summary.ports.iter().flatten();
    let mut ours = ports.filter(|it| it.private_port == PORT && it.ip.as_deref() == Some(LOOPBACK));
    let address = ours.find_map(|it| it.public_port).map(EngineAddress::loopback);
    let name = summary.names.as_ref()?.first()?;
    let status = InstanceStatus::Running { address };
    from_labels(summary.labels.as_ref()?, owner, summary.id.clone()?, name, status)
}

fn from_labels(
    labels: &HashMap<String, String>,
    owner: &Owner,
    id: String,
    name: &str,
    status: InstanceStatus,
) -> Option<Found> {
    let text = |name: &str| labels.get(name).map(String::as_str);
    if text(label::INSTANCE) != Some(&owner.instance) {
        return None;
    }
    let number = text(label::NUMBER).map_or(Ok(InstanceNumber::FIRST), |it| it.parse().map(InstanceNumber));
    Some(Found {
        model_id: ModelId(text(label::MODEL_ID)?.parse().ok()?),
        number: number.ok()?,
        name: name.trim_start_matches('/').to_owned(),
        spec_hash: text(label::SPEC_HASH).unwrap_or_default().to_owned(),
        key_fingerprint: text(label::KEY_FINGERPRINT).unwrap_or_default().to_owned(),
        instance: Instance { id: InstanceId(id), generation: text(label::GENERATION)?.parse().ok()?, status },
        started_at: None,
    })
}

/// Returns when the container was started. Docker writes the year 1 for "never".
fn started_at(state: &ContainerState) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(state.started_at.as_deref()?).filter(|it| it.0 > 0)
}

fn status(state: &ContainerState, network: Option<&NetworkSettings>) -> InstanceStatus {
    use ContainerStateStatusEnum as Docker;
    match state.status.unwrap_or(Docker::EMPTY) {
        Docker::CREATED => InstanceStatus::Created,
        // A paused engine answers nothing; the probes find that out. `stopping` still holds its memory.
        Docker::RUNNING | Docker::PAUSED | Docker::STOPPING => {
            InstanceStatus::Running { address: network.and_then(address) }
        }
        // The restart policy was changed by hand: the container is between two runs.
        Docker::RESTARTING => InstanceStatus::Running { address: None },
        Docker::EMPTY if state.running == Some(true) => {
            InstanceStatus::Running { address: network.and_then(address) }
        }
        Docker::EMPTY | Docker::EXITED | Docker::DEAD | Docker::REMOVING => InstanceStatus::Exited {
            code: state.exit_code.unwrap_or_default(),
            out_of_memory: state.oom_killed == Some(true),
        },
    }
}

/// Returns where port 8000 is published on loopback. Docker still shows the old port of a container that ended, so this
/// is called only for running ones.
fn address(network: &NetworkSettings) -> Option<EngineAddress> {
    let bindings = network.ports.as_ref()?.get(ENGINE_PORT)?.as_ref()?;
    let ours = bindings.iter().find(|it| it.host_ip.as_deref() == Some(LOOPBACK))?;
    let port = ours.host_port.as_ref()?.parse().ok().filter(|it| *it != 0);
    port.map(EngineAddress::loopback)
}

#[cfg(test)]
mod tests;
