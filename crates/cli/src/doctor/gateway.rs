//! Checks whether a gateway runs at the address, and its state.

use std::net::{IpAddr, SocketAddr, TcpListener};

use gantry_connect::sockets;

use super::{Check, Service, user_name, words};
use crate::{
    exit::Failure,
    http::{Client, GatewayUrl, Login},
    times::{ago, now},
};

/// Checks the gateway at `url`. If none runs there, checks whether the ports of `listen` and `metrics` are free.
///
/// The second value says whether a gateway runs at `url`. `elsewhere` are ports of gateways that run on this machine;
/// `service` is its service.
pub async fn gateway(
    url: &str,
    listen: SocketAddr,
    metrics: SocketAddr,
    elsewhere: &[u16],
    service: Option<&Service>,
) -> (Vec<Check>, bool) {
    // The service is that of this machine.
    let here = local_port(url);
    let service = service.filter(|_| here.is_some());
    let client = match GatewayUrl::parse(url) {
        Ok(gateway) => Client::new(gateway, Login::Nobody),
        Err(failure) => {
            let check = Check::fail(
                "gateway",
                words(&failure),
                "The client verbs have no valid address of a gateway.",
                "export GANTRY_URL=http://127.0.0.1:8084",
            );
            return (vec![check], false);
        }
    };
    let version = match client.health().await {
        Ok(answer) => answer.json["version"].as_str().map(str::to_owned),
        Err(Failure::Unreachable(why)) => {
            let mut checks = vec![none_answers(url, &why, elsewhere, service.is_some())];
            checks.extend(service.zip(here).map(|(service, port)| service.check(port)));
            checks.extend(ports(listen, metrics).iter().map(|it| it.check(service)));
            return (checks, false);
        }
        Err(_) => None,
    };
    let Some(version) = version else {
        let check = Check::fail(
            "gateway",
            format!("something other than Gantry answers at {url}"),
            "Another program uses the address.",
            &format!(
                "{}, or say where the gateway is with --url",
                another_address(service, "GATEWAY_LISTEN")
            ),
        );
        return (vec![check], false);
    };
    let own = env!("CARGO_PKG_VERSION");
    let mut checks = vec![if version == own {
        Check::ok("gateway", format!("version {version} runs at {url}"))
    } else {
        Check::warn(
            "gateway",
            format!("version {version} runs at {url}, this program is {own}"),
            "Some verbs may not work.",
            "restart the gateway with this program",
        )
    }];
    checks.push(readiness(&client).await);
    (checks, true)
}

/// `has_service` means that a check of the service follows, which says how it is started.
fn none_answers(url: &str, why: &str, elsewhere: &[u16], has_service: bool) -> Check {
    let start = if has_service { "start the service, see below" } else { "gantry serve" };
    let fix = match elsewhere {
        [] => start.to_owned(),
        [port, ..] => {
            let all = elsewhere.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!(
                "{start}; or check one that runs on this machine (port {all}): gantry doctor --url \
                 http://127.0.0.1:{port}"
            )
        }
    };
    let means = "The checks below are for a gateway that is yet to be started.";
    let found =
        if why.starts_with("no gateway") { format!("no gateway runs at {url}") } else { why.to_owned() };
    Check::warn("gateway", found, means, &fix)
}

/// Returns how a gateway is given another address: the service has that of its socket.
fn another_address(service: Option<&Service>, setting: &str) -> String {
    if service.is_some() && setting == "GATEWAY_LISTEN" {
        "choose another address with `sudo systemctl edit gantry.socket`".to_owned()
    } else {
        format!("choose another address with {setting}")
    }
}

/// Returns the port of an address on this machine; `None` for other addresses.
pub fn local_port(url: &str) -> Option<u16> {
    let url = GatewayUrl::parse(url).ok()?.0;
    let is_here = url.host() == "localhost" || url.host().parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
    is_here.then_some(url.port())
}

async fn readiness(client: &Client) -> Check {
    const MEANS: &str = "Load balancers take it out of service, or models can't be started.";
    const FIX: &str = "see the checks below, and the gateway's log";
    let (answer, serves) = match client.get("/readyz").await {
        Ok(answer) => (answer.json, true),
        // A gateway that is not ready answers in the same format.
        Err(Failure::Refused(it)) if it.status == 503 && it.body["checks"].is_object() => (it.body, false),
        Err(failure) => return Check::fail("readiness", words(&failure), MEANS, FIX),
    };
    let checks = answer["checks"].as_object().into_iter().flatten();
    let mut parts: Vec<_> =
        checks.clone().map(|(name, it)| format!("{name} {}", crate::text::cell(it))).collect();
    let proven = answer["last_proven_restore"].as_str().and_then(|it| ago(it, now()));
    parts.extend(proven.map(|it| format!("last proven restore {it}")));
    if !serves {
        let found = format!("{}: {}", crate::text::cell(&answer["status"]), parts.join(", "));
        let means = "It is not ready (503): load balancers take it out of service.";
        let fix =
            if answer["status"] == "shutting_down" { "start it again: it is being stopped" } else { FIX };
        Check::fail("readiness", found, means, fix)
    } else if checks.clone().all(|(_, it)| it == "ok") {
        Check::ok("readiness", parts.join(", "))
    } else {
        Check::warn("readiness", parts.join(", "), MEANS, FIX)
    }
}

/// A port that a gateway would take.
struct Port {
    /// Name of the check.
    check: &'static str,
    setting: &'static str,
    addr: SocketAddr,
}

fn ports(listen: SocketAddr, metrics: SocketAddr) -> [Port; 2] {
    [
        Port { check: "port", setting: "GATEWAY_LISTEN", addr: listen },
        Port { check: "metrics_port", setting: "METRICS_LISTEN", addr: metrics },
    ]
}

impl Port {
    /// Checks whether it is free, or held by systemd for the service.
    fn check(&self, service: Option<&Service>) -> Check {
        let Self { check, setting, addr } = self;
        if service.is_some_and(|it| it.holds(addr.port())) {
            return Check::ok(
                check,
                format!("{addr} is held open by systemd for the service (gantry.socket)"),
            );
        }
        match TcpListener::bind(addr) {
            Ok(_) => Check::ok(check, format!("{addr} ({setting}) is free")),
            Err(error) => Check::fail(
                check,
                format!("{addr} ({setting}): {error}{}", self.owner()),
                "The gateway can't listen there and does not start.",
                &format!(
                    "find the program with `sudo ss -ltnp 'sport = :{}'`, or {}",
                    addr.port(),
                    another_address(service, setting)
                ),
            ),
        }
    }

    /// Returns whose program listens there, as the end of a sentence; empty if that is not known.
    fn owner(&self) -> String {
        let uid = sockets::owner(self.addr, None).ok().flatten();
        uid.map(|it| format!(", a program of the user {} listens there", user_name(it))).unwrap_or_default()
    }
}
