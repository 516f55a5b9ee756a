//! Makes the networks of this gateway's engines, and removes them. In none of them can one engine reach another.
//!
//! There are two, named after the database. Both publish ports on loopback, which Docker's `internal` networks don't
//! (20.10, measured). In the one without internet the kernel does not translate the engines' addresses, so that no
//! answer from outside finds its way back. They are made when they are missing, and removed with the last container.
//!
//! Docker's own pools of addresses hold 31 networks (20.10 to 28, measured), and then nobody on the machine gets one.
//! So these networks take small subnets of a range of their own.
//!
//! Docker lets several networks have one name, and then refuses to start a container in any of them, also if it was made
//! with the network's id (20.10, measured). A gateway that is killed while Docker makes its network leaves one that
//! appears only later, perhaps beside the one that the next gateway made. So all but one are removed, by their ids.

use std::{collections::HashMap, net::Ipv4Addr};

use bollard::{
    models::{Ipam, IpamConfig, NetworkCreateRequest},
    query_parameters::ListNetworksOptionsBuilder,
};
use ipnet::Ipv4Net;

use super::{ASK, Docker, REMOVE, label};
use crate::{RuntimeError, RuntimeResult, gate::pass};

/// The machine's routes, where Linux shows them.
const ROUTES: &str = "/proc/net/route";
const MAKE: &str = "make the engines' network";

impl Docker {
    /// Returns the name of the network for an engine, and makes the network if it does not exist.
    pub(super) async fn network(&self, internet: bool) -> RuntimeResult<String> {
        let name = self.network_name(internet);
        // Docker makes several networks of one name if it is asked twice at once.
        let _one = self.networks.lock().await;
        let found = self.networks_named(&name).await?;
        if !found.is_empty() {
            self.remove_doubles(&name, found).await?;
            return Ok(name);
        }
        pass(&*self.gate).await?;
        let Some(range) = self.range else {
            self.make_network(&name, internet, None).await?;
            return Ok(name);
        };
        let taken = routes(&tokio::fs::read_to_string(ROUTES).await.unwrap_or_default());
        // Gateways begin at different subnets, so that they seldom ask for one that another has.
        let first = name.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        for subnet in range.subnets(first) {
            if taken.iter().any(|it| overlap(*it, subnet)) {
                continue;
            }
            match self.make_network(&name, internet, Some(subnet)).await {
                // Another network has it that shows no route.
                Err(RuntimeError::Refused { detail, .. }) if detail.contains("overlaps") => {}
                made => return made.map(|()| name),
            }
        }
        let detail = format!(
            "all addresses of ENGINE_NETWORKS ({range}) are in use: set a larger range, or another one"
        );
        Err(RuntimeError::Refused { action: MAKE, detail })
    }

    /// Returns the ids of the networks that have this name, the oldest one first.
    async fn networks_named(&self, name: &str) -> RuntimeResult<Vec<String>> {
        let filters = HashMap::from([("name", vec![name])]);
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let ask = self.client().await?.list_networks(Some(options));
        let mut found = self.within("look for the engines' networks", ASK, ask).await?;
        // Docker's filter takes names that only contain this one, too.
        found.retain(|it| it.name.as_deref() == Some(name));
        found.sort_by(|one, other| (&one.created, &one.id).cmp(&(&other.created, &other.id)));
        Ok(found.into_iter().filter_map(|it| it.id).collect())
    }

    /// Removes all networks of this name but one. Those that an engine is in can't be removed.
    async fn remove_doubles(&self, name: &str, mut found: Vec<String>) -> RuntimeResult<()> {
        if found.len() < 2 {
            return Ok(());
        }
        pass(&*self.gate).await?;
        let client = self.client().await?;
        let mut tried = 0;
        while found.len() > 1 && tried < found.len() {
            let id = &found[tried];
            match self.within("remove the engines' second network", REMOVE, client.remove_network(id)).await {
                Ok(()) => {
                    tracing::info!(network = name, "removed a second network of the same name");
                    found.remove(tried);
                }
                Err(error) => {
                    tracing::debug!(network = name, %error, "a network of this name is in use");
                    tried += 1;
                }
            }
        }
        Ok(())
    }

    async fn make_network(&self, name: &str, internet: bool, subnet: Option<Ipv4Net>) -> RuntimeResult<()> {
        let options = [
            ("com.docker.network.bridge.enable_icc", "false"),
            ("com.docker.network.bridge.enable_ip_masquerade", if internet { "true" } else { "false" }),
        ];
        let ipam = subnet.map(|it| IpamConfig { subnet: Some(it.to_string()), ..IpamConfig::default() });
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".to_owned()),
            options: Some(HashMap::from(options.map(|(name, value)| (name.to_owned(), value.to_owned())))),
            labels: Some(HashMap::from([(label::INSTANCE.to_owned(), self.owner.instance.clone())])),
            ipam: ipam.map(|it| Ipam { config: Some(vec![it]), ..Ipam::default() }),
            ..NetworkCreateRequest::default()
        };
        let call = self.client().await?.create_network(request);
        self.within(MAKE, REMOVE, call).await?;
        let subnet = subnet.map(tracing::field::display);
        tracing::info!(network = name, subnet, "made the engines' network");
        Ok(())
    }

    /// Removes the networks if this gateway has no container any more and makes none. A network that can't be removed
    /// now is removed after the next container.
    pub(super) async fn remove_idle_networks(&self) {
        // A launch under way needs them.
        let Ok(_none) = self.launches.try_write() else { return };
        let _one = self.networks.lock().await;
        if !self.list_ours().await.is_ok_and(|it| it.is_empty()) || pass(&*self.gate).await.is_err() {
            return;
        }
        let Ok(client) = self.client().await else { return };
        for name in [true, false].map(|internet| self.network_name(internet)) {
            for id in self.networks_named(&name).await.unwrap_or_default() {
                match self.within("remove the engines' network", REMOVE, client.remove_network(&id)).await {
                    Ok(()) => tracing::info!(network = name, "removed the engines' network"),
                    Err(error) => {
                        tracing::warn!(network = name, %error, "could not remove the engines' network");
                    }
                }
            }
        }
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

/// Reads the table of routes in the format of `/proc/net/route` (Linux, `net/ipv4/fib_trie.c`): after a head line, columns in
/// which the second is the destination and the eighth the mask, as hexadecimal numbers of the machine's byte order. Leaves
/// out the default route.
fn routes(text: &str) -> Vec<Ipv4Net> {
    let address = |hex: &str| u32::from_str_radix(hex, 16).ok().map(|it| Ipv4Addr::from(it.to_ne_bytes()));
    let route = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (to, mask) = (address(columns.get(1)?)?, address(columns.get(7)?)?);
        Ipv4Net::with_netmask(to, mask).ok()
    };
    text.lines().skip(1).filter_map(route).filter(|it| it.prefix_len() > 0).collect()
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn routes_are_read_and_the_default_one_is_left_out() {
        let text = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                    eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                    eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                    broken\n";
        let read = routes(text);
        assert_eq!(read.iter().map(Ipv4Net::to_string).collect::<Vec<_>>(), ["192.0.2.0/24"]);
        let subnet: Ipv4Net = "192.0.2.64/26".parse().unwrap();
        assert!(overlap(read[0], subnet) && overlap(subnet, read[0]));
        assert!(!overlap(read[0], "192.0.3.0/26".parse().unwrap()));
    }
}
