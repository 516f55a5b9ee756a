//! Sockets that whoever started us opened and keeps open (socket activation, `sd_listen_fds(3)`): a gateway that
//! restarts refuses no connection, because they wait in a socket that outlives it.
//!
//! `LISTEN_FDNAMES` names the one for Prometheus `metrics`; every other one is for the API. Without names the first is
//! for the API and the second for Prometheus.

use std::net::TcpListener;

use anyhow::Context;
use gantry_settings::Settings;
use listenfd::ListenFd;

#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) gateway: Vec<TcpListener>,
    pub(crate) metrics: Option<TcpListener>,
}

impl Sockets {
    /// Takes what was handed over. To be called once, while the process has one thread: the variables that tell of it
    /// go, so that no child believes that they are for it.
    ///
    /// # Errors
    /// Something else than a TCP socket was handed over.
    #[expect(clippy::disallowed_methods, reason = "the service manager says it, not the operator")]
    pub(crate) fn take() -> anyhow::Result<Self> {
        // Before it is gone.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names: Vec<&str> = names.split(':').filter(|it| !it.is_empty()).collect();
        let mut given = ListenFd::from_env();
        let mut sockets = Self::default();
        for index in 0..given.len() {
            let wrong = || format!("socket {index} of LISTEN_FDS is not a TCP socket that listens");
            let Some(listener) = given.take_tcp_listener(index).with_context(wrong)? else { continue };
            let for_metrics = match names.get(index) {
                Some(name) => *name == "metrics",
                None => names.is_empty() && index == 1,
            };
            if for_metrics {
                sockets.metrics = Some(listener);
            } else {
                sockets.gateway.push(listener);
            }
        }
        Ok(sockets)
    }

    /// Puts the real addresses into the settings, so that what is checked there holds for them.
    ///
    /// # Errors
    /// An address can't be read, or may not be listened on with these settings.
    pub(crate) fn apply(&self, settings: &mut Settings) -> anyhow::Result<()> {
        const NO_ADDRESS: &str = "an inherited socket has no address";
        if let Some(metrics) = &self.metrics {
            settings.metrics_listen = metrics.local_addr().context(NO_ADDRESS)?;
        }
        // Each of them lets somebody in. The first is the one that stays in the settings.
        for socket in self.gateway.iter().rev() {
            let addr = socket.local_addr().context(NO_ADDRESS)?;
            settings.gateway_listen = addr;
            settings.check().with_context(|| format!("can't serve on {addr}, a socket of LISTEN_FDS"))?;
        }
        Ok(settings.check()?)
    }
}
