//! Sockets that the service manager opened and keeps open (socket activation, `sd_listen_fds(3)`). A gateway that
//! restarts refuses no connection, because new connections wait in a socket that outlives the process.
//!
//! The socket that `LISTEN_FDNAMES` calls `metrics` is for Prometheus; every other socket is for the API. Without
//! names, the first socket is for the API and the second for Prometheus.

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
    /// Takes the sockets that were handed over. Must be called once, while the process has one thread: it removes the
    /// environment variables that describe the sockets, so that no child process takes the sockets for its own.
    ///
    /// # Errors
    /// One of the file descriptors is not a listening TCP socket.
    #[expect(clippy::disallowed_methods, reason = "the service manager says it, not the operator")]
    pub(crate) fn take() -> anyhow::Result<Self> {
        // Read now, because `ListenFd` below removes the variables.
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
            settings.listening.metrics_listen = metrics.local_addr().context(NO_ADDRESS)?;
        }
        // The settings must be allowed for every socket's address. The first address is the one that stays in the
        // settings.
        for socket in self.gateway.iter().rev() {
            let addr = socket.local_addr().context(NO_ADDRESS)?;
            settings.listening.gateway_listen = addr;
            settings.check().with_context(|| format!("can't serve on {addr}, a socket of LISTEN_FDS"))?;
        }
        Ok(settings.check()?)
    }
}
