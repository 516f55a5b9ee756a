//! Reports the gateway's state to the service manager (`sd_notify(3)`), as datagrams to the socket that
//! `NOTIFY_SOCKET` names. Does nothing without that variable.

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::warn;

#[derive(Debug, Default)]
pub(crate) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// The service manager kills the gateway if it hears nothing for this long.
    watchdog: Option<Duration>,
}

impl Notify {
    #[expect(clippy::disallowed_methods, reason = "the service manager says it, not the operator")]
    pub(crate) fn from_env() -> Self {
        let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        let path = path.into_encoded_bytes();
        // A leading `@` stands for the zero byte of an abstract name (sd_notify(3)).
        let address = match path.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(String::from_utf8_lossy(&path).as_ref()),
        };
        let to = address.and_then(|address| Ok((UnixDatagram::unbound()?, address)));
        let to = to.inspect_err(|error| warn!(%error, "NOTIFY_SOCKET can't be used")).ok();
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let for_us = number("WATCHDOG_PID").is_none_or(|it| it == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|it| for_us && *it > 0).map(Duration::from_micros);
        Self { to, watchdog }
    }

    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Reports that the control runtime is alive, twice as often as the service manager requires.
    pub(crate) async fn feed_watchdog(&self, stop: CancellationToken) {
        let Some(period) = self.watchdog else { return stop.cancelled().await };
        let mut ticks = tokio::time::interval(period / 2);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.send("WATCHDOG=1"),
                () = stop.cancelled() => return,
            }
        }
    }

    fn send(&self, state: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(state.as_bytes(), address)
        {
            warn!(%error, state, "the service manager could not be told");
        }
    }
}
