//! Asks an image about itself, with a container that lives for a moment, sees nothing and is removed in any case.

use std::{collections::HashMap, time::Duration};

use bollard::{
    Docker as Client,
    models::{ContainerCreateBody, HealthConfig, HostConfig},
    query_parameters::{
        ListContainersOptionsBuilder, RemoveContainerOptions, RemoveContainerOptionsBuilder,
        StartContainerOptions, WaitContainerOptions,
    },
};
use futures_util::StreamExt;
use gantry_domain::LogWindow;
use tokio::time::timeout;

use super::{
    ASK, Docker, create,
    error::{message, status},
    label,
};
use crate::{ImageProbe, RuntimeError, RuntimeResult, gate::pass};

/// Most lines of output that are kept.
const LINES: usize = 5_000;

impl Docker {
    pub(super) async fn probe_image(&self, probe: &ImageProbe<'_>, limit: Duration) -> RuntimeResult<String> {
        let asked = timeout(limit, self.ask_image(probe)).await;
        asked.unwrap_or(Err(RuntimeError::Timeout { action: "ask the image" }))
    }

    async fn ask_image(&self, probe: &ImageProbe<'_>) -> RuntimeResult<String> {
        let action = "ask the image";
        // The gate is not asked because of the container itself: without it, two gateways would remove each other's.
        pass(&*self.gate).await?;
        self.sweep_probes().await?;
        let (client, image) = (self.client().await?, self.name_of_image(probe.image).await?);
        let id = match client.create_container(None, self.probe_body(probe, image)).await {
            Ok(answer) => answer.id,
            Err(error) if status(&error) == Some(404) && message(&error).contains("No such image") => {
                return Err(RuntimeError::ImageMissing { image: probe.image.to_owned() });
            }
            Err(error) => return Err(self.meaning(action, &error)),
        };
        let leftover = Leftover { client: client.clone(), id: Some(id.clone()) };
        let started = client.start_container(&id, None::<StartContainerOptions>).await;
        started.map_err(|error| self.meaning(action, &error))?;
        // bollard returns an error for an exit code other than 0; only what was printed counts.
        let _ended = client.wait_container(&id, None::<WaitContainerOptions>).next().await;
        let text = self.read_logs(&id, LogWindow::last(LINES)).await;
        leftover.remove().await;
        text
    }

    fn probe_body(&self, probe: &ImageProbe<'_>, image: String) -> ContainerCreateBody {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        ContainerCreateBody {
            image: Some(image),
            entrypoint: probe.entrypoint.map(words),
            cmd: Some(words(probe.args)),
            labels: Some(HashMap::from([
                (label::INSTANCE.to_owned(), self.owner.instance.clone()),
                (label::PROBE.to_owned(), "true".to_owned()),
            ])),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(HostConfig {
                init: Some(true),
                network_mode: Some("none".to_owned()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                pids_limit: Some(create::MAX_PIDS),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    /// Removes the containers that a gateway left behind if it was killed in the middle of a probe.
    async fn sweep_probes(&self) -> RuntimeResult<()> {
        let mut filters = self.ours();
        filters.entry("label".to_owned()).or_default().push(format!("{}=true", label::PROBE));
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let call = self.client().await?.list_containers(Some(options));
        for id in self.within("list", ASK, call).await?.into_iter().filter_map(|it| it.id) {
            self.remove_container(&id).await?;
        }
        Ok(())
    }
}

/// A container that is removed when this is dropped, even if the future that waits for it is dropped.
struct Leftover {
    client: Client,
    id: Option<String>,
}

fn forced() -> RemoveContainerOptions {
    RemoveContainerOptionsBuilder::default().force(true).v(true).build()
}

impl Leftover {
    async fn remove(mut self) {
        if let Some(id) = self.id.clone() {
            let removed = self.client.remove_container(&id, Some(forced())).await;
            // Otherwise the drop tries once more.
            if removed.is_ok() {
                self.id = None;
            }
        }
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let client = self.client.clone();
        runtime.spawn(async move {
            // If this fails too, the next probe sweeps it away.
            let _ = client.remove_container(&id, Some(forced())).await;
        });
    }
}
