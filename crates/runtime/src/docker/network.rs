//! Makes the networks of this gateway's engines. In none of them can one engine reach another.
//!
//! There are two, named after the database. Both publish ports on loopback, which Docker's `internal` networks don't
//! (20.10, measured). In the one without internet the kernel does not translate the engines' addresses, so that no
//! answer from outside finds its way back. They are made when they are missing and never removed: that is left to
//! operators.

use std::collections::HashMap;

use bollard::{models::NetworkCreateRequest, query_parameters::InspectNetworkOptions};

use super::{ASK, Docker, error::status, label};
use crate::{RuntimeResult, gate::pass};

impl Docker {
    /// Returns the name of the network for an engine, and makes the network if it does not exist.
    pub(super) async fn network(&self, internet: bool) -> RuntimeResult<String> {
        let name = self.network_name(internet);
        // Docker makes several networks of one name if it is asked twice at once.
        let _one = self.networks.lock().await;
        let ask = self.client().await?.inspect_network(&name, None::<InspectNetworkOptions>);
        match self.raw("look for the engines' network", ASK, ask).await? {
            Ok(_) => return Ok(name),
            Err(error) if status(&error) == Some(404) => {}
            Err(error) => return Err(self.meaning("look for the engines' network", &error)),
        }
        pass(&*self.gate).await?;
        let options = [
            ("com.docker.network.bridge.enable_icc", "false"),
            ("com.docker.network.bridge.enable_ip_masquerade", if internet { "true" } else { "false" }),
        ];
        let request = NetworkCreateRequest {
            name: name.clone(),
            driver: Some("bridge".to_owned()),
            options: Some(HashMap::from(options.map(|(name, value)| (name.to_owned(), value.to_owned())))),
            labels: Some(HashMap::from([(label::INSTANCE.to_owned(), self.owner.instance.clone())])),
            ..NetworkCreateRequest::default()
        };
        let call = self.client().await?.create_network(request);
        self.within("make the engines' network", super::REMOVE, call).await?;
        tracing::info!(network = name, "made the engines' network");
        Ok(name)
    }

    fn network_name(&self, internet: bool) -> String {
        format!("gantry-{}{}", self.owner.instance, if internet { "" } else { "-local" })
    }

    /// Returns the user that engines run as, `uid:gid`: the gateway's user, unless the operator sets another. For a
    /// container engine of the gateway's user (rootless), this is root inside.
    pub(super) async fn user(&self) -> RuntimeResult<String> {
        if let Some(user) = &self.user {
            return Ok(user.clone());
        }
        let info = self.within("ask for its properties", ASK, self.client().await?.info()).await?;
        if info.security_options.iter().flatten().any(|it| it.contains("rootless")) {
            return Ok("0:0".to_owned());
        }
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        Ok(format!("{}:{}", user.as_raw(), group.as_raw()))
    }
}
