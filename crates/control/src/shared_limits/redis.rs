//! Exchanges the state of limits with the server: one script call for any number of accounts, never longer than
//! `REDIS_TIMEOUT_MS`. The connection is TCP, with or without TLS, or a socket of the machine.

use std::{path::PathBuf, pin::pin, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Fuse},
};
use gantry_connect::{ConnectError, Connector};
use gantry_dataplane::limits::{Report, View};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, Script, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixStream,
    time::timeout,
};

/// Longest time for making a connection, unless an exchange may take longer. Only the task itself waits for it.
const CONNECT: Duration = Duration::from_secs(1);
/// A gateway that gives no sign of life for this long counts as gone.
const FORGET: Duration = Duration::from_secs(10);

/// [`gantry_domain::limit::gcra::charge`] in Lua.
pub(super) const CHARGE: &str = include_str!("charge.lua");

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error("there is no connection")]
    Connect(#[from] ConnectError),
    #[error("its socket can't be opened")]
    Socket(#[from] std::io::Error),
    #[error("it did not answer in time")]
    Silent,
    #[error("its answer made no sense")]
    Nonsense,
}

/// Where the server is.
#[derive(Debug)]
enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// Parses `REDIS_URL`. TLS is taken off the address before the library sees it: trust is the same for all of the
/// gateway's connections, so [`gantry_connect`] makes this one, too.
///
/// # Errors
/// It is malformed; the error does not repeat it.
fn parse(url: &str) -> RedisResult<(Address, RedisConnectionInfo)> {
    let (tls, plain) = match url.split_once("://") {
        Some(("rediss", rest)) => (true, format!("redis://{rest}")),
        Some(("valkeys", rest)) => (true, format!("valkey://{rest}")),
        _ => (false, url.to_owned()),
    };
    let info: ConnectionInfo = plain.into_connection_info()?;
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Address::Tcp { host: host.clone(), port: *port, tls },
        ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
        _ => {
            return Err(
                (redis::ErrorKind::InvalidClientConfig, "this kind of address is not supported").into()
            );
        }
    };
    Ok((address, info.redis_settings().clone()))
}

/// Returns the host and the port, or the path of the socket.
///
/// # Errors
/// Those of [`parse`].
pub(super) fn address(url: &str) -> RedisResult<(String, Option<u16>)> {
    Ok(match parse(url)?.0 {
        Address::Tcp { host, port, .. } => (host, Some(port)),
        Address::Unix(path) => (path.display().to_string(), None),
    })
}

/// A connection, and the future that moves its bytes while a caller waits for an answer.
struct Live {
    connection: MultiplexedConnection,
    driver: Fuse<BoxFuture<'static, ()>>,
    patience: Duration,
}

impl Live {
    /// Authenticates a new connection.
    async fn begin<S>(stream: S, settings: &RedisConnectionInfo, patience: Duration) -> RedisResult<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(patience));
        let (connection, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
        Ok(Self { connection, driver: driver.boxed().fuse(), patience })
    }

    /// Sends `ask` and returns the answer, within the patience.
    async fn ask<T: FromRedisValue>(
        &mut self,
        ask: impl AsyncFnOnce(MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Problem> {
        let mut asked = pin!(ask(self.connection.clone()));
        let answered = async {
            tokio::select! {
                biased;
                answer = &mut asked => answer,
                // The connection has ended, perhaps right after it delivered the answer.
                () = &mut self.driver => asked.await,
            }
        };
        Ok(timeout(self.patience, answered).await.map_err(|_| Problem::Silent)??)
    }
}

/// One gateway's access to the state that all of them share.
pub(super) struct Shared {
    address: Address,
    settings: RedisConnectionInfo,
    connector: Connector,
    live: Option<Live>,
    /// Longest time of an exchange.
    patience: Duration,
    script: Script,
    /// Id of this gateway's process: a restart makes a new one.
    gateway: String,
    /// Prefix of all keys. The id in it is in braces, so that a cluster keeps the keys together.
    prefix: String,
}

impl Shared {
    /// Makes the access. `instance` is the id of the database: gateways on the same one share their limits. An answer
    /// that takes longer than `patience` has failed.
    ///
    /// # Errors
    /// The address is malformed. Nothing is connected yet.
    pub(super) fn new(url: &str, instance: &str, patience: Duration) -> Result<Self, RedisError> {
        let (address, settings) = parse(url)?;
        Ok(Self {
            address,
            settings,
            connector: Connector::default(),
            live: None,
            patience,
            script: Script::new(&format!("{CHARGE}\n{}", include_str!("exchange.lua"))),
            gateway: uuid::Uuid::now_v7().simple().to_string(),
            prefix: format!("gantry:{{{instance}}}:"),
        })
    }

    /// Sends what happened to `accounts` (their names and reports). Returns the number of gateways and, in the order of
    /// `accounts`, what is known now.
    pub(super) async fn exchange(
        &mut self,
        accounts: &[(String, Report)],
    ) -> Result<(u32, Vec<View>), Problem> {
        let mut live = self.connect().await?;
        let mut call = self.script.prepare_invoke();
        call.key(format!("{}gateways", self.prefix));
        call.arg(&self.gateway).arg(u64::try_from(FORGET.as_micros()).unwrap_or(u64::MAX));
        for (name, report) in accounts {
            call.key(format!("{}{name}", self.prefix));
            call.arg(report.requests).arg(report.tokens).arg(report.running).arg(report.streams);
        }
        let answer: Vec<u64> =
            live.ask(async |mut connection| call.invoke_async(&mut connection).await).await?;
        let (gateways, rest) = answer.split_first().ok_or(Problem::Nonsense)?;
        let (views, odd) = rest.as_chunks::<4>();
        if views.len() != accounts.len() || !odd.is_empty() {
            return Err(Problem::Nonsense);
        }
        // The connection is kept only if all went well: on a connection with an unread answer, the next request could
        // take that answer for its own.
        self.live = Some(live);
        let small = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
        let view = |[requests, tokens, running, streams]: &[u64; 4]| View {
            requests: requests.saturating_mul(1000),
            tokens: tokens.saturating_mul(1000),
            running: small(*running),
            streams: small(*streams),
        };
        Ok((small(*gateways), views.iter().map(view).collect()))
    }

    /// Removes this gateway from the list of gateways, so that the others need not wait until it counts as gone.
    pub(super) async fn leave(&mut self) {
        let Ok(mut live) = self.connect().await else { return };
        let mut command = redis::cmd("ZREM");
        command.arg(format!("{}gateways", self.prefix)).arg(&self.gateway);
        let _ = live.ask(async |mut connection| command.query_async::<u64>(&mut connection).await).await;
    }

    /// Whether the server answers and knows scripts.
    pub(super) async fn check(&mut self) -> Result<(), Problem> {
        let mut live = self.connect().await?;
        let script = &self.script;
        let load = async |mut connection| script.prepare_invoke().load_async(&mut connection).await;
        live.ask(load).await.map(|_: String| ())
    }

    async fn connect(&mut self) -> Result<Live, Problem> {
        if let Some(live) = self.live.take() {
            return Ok(live);
        }
        let connecting = async {
            Ok(match &self.address {
                Address::Tcp { host, port, tls } => {
                    let stream = self.connector.connect(*tls, host, *port).await?;
                    Live::begin(stream.into_inner(), &self.settings, self.patience).await?
                }
                Address::Unix(path) => {
                    Live::begin(UnixStream::connect(path).await?, &self.settings, self.patience).await?
                }
            })
        };
        timeout(CONNECT.max(self.patience), connecting).await.map_err(|_| Problem::Silent)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_and_as_whom() {
        let (address, settings) = parse("rediss://ada:p%40ss@cache.example:7000/3").unwrap();
        assert!(matches!(&address, Address::Tcp { host, port: 7000, tls: true } if host == "cache.example"));
        let said = (settings.username(), settings.password(), settings.db());
        assert_eq!(said, (Some("ada"), Some("p@ss"), 3));
        let (address, settings) = parse("valkeys://:only@[::1]").unwrap();
        assert!(matches!(&address, Address::Tcp { host, port: 6379, tls: true } if host == "::1"));
        assert_eq!((settings.username(), settings.password(), settings.db()), (None, Some("only"), 0));
        assert!(matches!(parse("redis://h").unwrap().0, Address::Tcp { tls: false, .. }));
        let (address, settings) = parse("unix:///run/redis.sock?db=2&pass=word").unwrap();
        assert!(matches!(address, Address::Unix(path) if path.ends_with("redis.sock")));
        assert_eq!((settings.password(), settings.db()), (Some("word"), 2));
        for bad in ["rediss://:hunter2@", "redis://:hunter2@h/one", "rediss://:hunter2@h:99999"] {
            let said = parse(bad).map(drop).unwrap_err();
            assert!(!format!("{said} {said:?}").contains("hunter2"), "{said:?}");
        }
    }
}
