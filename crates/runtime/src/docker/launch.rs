//! Makes and starts a container, and leaves nothing behind if that fails.

use std::time::Duration;

use bollard::query_parameters::{CreateContainerOptionsBuilder, StartContainerOptions};
use gantry_domain::model::lifecycle::InstanceId;
use tokio::time::{Instant, sleep};

use super::{
    Docker, Seen,
    create::{self, Surroundings},
    error::{Private, Retry, message, status},
};
use crate::{ContainerSpec, RuntimeError, RuntimeResult, gate::pass};

/// Deadline for making or starting a container; the engine may have to set up networks and mounts on a busy disk.
const MAKE: Duration = Duration::from_mins(1);
/// Longest wait while a name is taken by a container that is not shown yet.
const NAME_SETTLES: Duration = Duration::from_secs(10);
const PORT_ATTEMPTS: usize = 3;

enum StartError {
    Retry(Retry, RuntimeError),
    Final(RuntimeError),
}

fn private<'a>(spec: &ContainerSpec<'a>) -> Private<'a> {
    Private {
        secrets: &spec.launch.env,
        dirs: [(spec.models_dir, "(the models directory)"), (spec.hub_cache_dir, "(the hub cache)")],
    }
}

impl Docker {
    pub(super) async fn launch_container(&self, spec: &ContainerSpec<'_>) -> RuntimeResult<InstanceId> {
        let (user, image) = (self.user().await?, self.name_of_image(&spec.launch.image).await?);
        let (mut memlock, mut port_attempts, mut beaten) = (spec.launch.locks_memory, 1, None);
        loop {
            self.clear_name(spec.name).await?;
            let launching = self.launches.read().await;
            let network = self.network(spec.launch.confinement.internet).await?;
            let surroundings = Surroundings { user: user.clone(), network, image: image.clone() };
            let id = match self.create(spec, &surroundings, memlock).await {
                // The name is taken, though there was no container of that name: one is being made just now, perhaps
                // still by the engine itself for a launch of ours that was given up. Soon it is shown.
                Err(RuntimeError::NameInUse { .. })
                    if Instant::now() < *beaten.get_or_insert(Instant::now() + NAME_SETTLES) =>
                {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
                created => created?,
            };
            drop(launching);
            let error = match self.start(spec, &id).await {
                Ok(()) => return Ok(id),
                Err(error) => error,
            };
            // A container that could not be started is of no use. If it can't be removed either, the next launch
            // removes it.
            if let Err(error) = self.remove_container(&id.0).await {
                tracing::warn!(%error, container = spec.name, "could not remove a container that did not start");
            }
            match error {
                StartError::Retry(Retry::WithoutMemlock, _) if memlock => memlock = false,
                StartError::Retry(Retry::AnotherPort | Retry::AnotherNetwork, _)
                    if port_attempts < PORT_ATTEMPTS =>
                {
                    port_attempts += 1;
                }
                StartError::Retry(_, error) | StartError::Final(error) => return Err(error),
            }
            tracing::info!(
                container = spec.name,
                memlock,
                port_attempts,
                "trying to start the container once more"
            );
        }
    }

    /// Makes sure that no container of ours has this name.
    async fn clear_name(&self, name: &str) -> RuntimeResult<()> {
        match self.look(name).await? {
            None => Ok(()),
            Some(Seen::Ours(old)) => self.remove_container(&old.instance.id.0).await,
            Some(Seen::Foreign) => Err(RuntimeError::NameInUse { name: name.to_owned() }),
        }
    }

    async fn create(
        &self,
        spec: &ContainerSpec<'_>,
        surroundings: &Surroundings,
        memlock: bool,
    ) -> RuntimeResult<InstanceId> {
        let options = CreateContainerOptionsBuilder::default().name(spec.name).build();
        let body = create::body(spec, &self.owner, surroundings, memlock);
        pass(&*self.gate).await?;
        let call = self.client().await?.create_container(Some(options), body);
        match self.raw("create the container", MAKE, call).await? {
            Ok(answer) => Ok(InstanceId(answer.id)),
            Err(error) if status(&error) == Some(409) => {
                Err(RuntimeError::NameInUse { name: spec.name.to_owned() })
            }
            Err(error) if status(&error) == Some(404) && message(&error).contains("No such image") => {
                Err(RuntimeError::ImageMissing { image: spec.launch.image.clone() })
            }
            Err(error) => Err(self.meaning("create the container", &private(spec).redact(error))),
        }
    }

    async fn start(&self, spec: &ContainerSpec<'_>, id: &InstanceId) -> Result<(), StartError> {
        let action = "start the container";
        let client = self.client().await.map_err(StartError::Final)?;
        pass(&*self.gate).await.map_err(StartError::Final)?;
        let call = client.start_container(&id.0, None::<StartContainerOptions>);
        let error = match self.raw(action, MAKE, call).await.map_err(StartError::Final)? {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let retry = Retry::from_text(message(&error));
        let error = self.meaning(action, &private(spec).redact(error));
        Err(match retry {
            Some(retry) => StartError::Retry(retry, error),
            None => StartError::Final(error),
        })
    }
}
