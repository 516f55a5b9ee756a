//! The exchange itself: one script call for any number of accounts, never longer than [`PATIENCE`].

use std::time::Duration;

use gantry_dataplane::limits::{Report, View};
use redis::{AsyncConnectionConfig, Client, RedisError, Script, aio::MultiplexedConnection};
use tokio::time::timeout;

/// Longest time of a connection, and of an exchange. Nobody waits for either but the task itself.
const CONNECT: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(250);
/// After so long without a sign a gateway is gone.
const FORGET: Duration = Duration::from_secs(10);

/// [`gantry_domain::limit::gcra::charge`] in Lua.
pub(super) const CHARGE: &str = include_str!("charge.lua");

/// Why there was no exchange.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Redis(#[from] RedisError),
    #[error("it did not answer in time")]
    Silent,
    #[error("its answer made no sense")]
    Nonsense,
}

/// One gateway's access to the state that all of them share.
pub(super) struct Shared {
    client: Client,
    connection: Option<MultiplexedConnection>,
    script: Script,
    /// This gateway's life: another one after a restart.
    gateway: String,
    /// Of all keys. In braces, so that a cluster keeps them together.
    prefix: String,
}

impl Shared {
    /// `instance` is the id of the database: gateways on the same one share their limits.
    ///
    /// # Errors
    /// The address is malformed. Nothing is connected yet.
    pub(super) fn new(url: &str, instance: &str) -> Result<Self, RedisError> {
        Ok(Self {
            client: Client::open(url)?,
            connection: None,
            script: Script::new(&format!("{CHARGE}\n{}", include_str!("exchange.lua"))),
            gateway: uuid::Uuid::now_v7().simple().to_string(),
            prefix: format!("gantry:{{{instance}}}:"),
        })
    }

    /// Tells what happened to `accounts` (their names and reports); gives the number of gateways and, in the same order,
    /// what is known now.
    pub(super) async fn exchange(
        &mut self,
        accounts: &[(String, Report)],
    ) -> Result<(u32, Vec<View>), Problem> {
        let mut connection = self.connect().await?;
        let mut call = self.script.prepare_invoke();
        call.key(format!("{}gateways", self.prefix));
        call.arg(&self.gateway).arg(u64::try_from(FORGET.as_micros()).unwrap_or(u64::MAX));
        for (name, report) in accounts {
            call.key(format!("{}{name}", self.prefix));
            call.arg(report.requests).arg(report.tokens).arg(report.running).arg(report.streams);
        }
        let answer: Vec<u64> = match timeout(PATIENCE, call.invoke_async(&mut connection)).await {
            Ok(answer) => answer?,
            Err(_) => return Err(Problem::Silent),
        };
        let (gateways, rest) = answer.split_first().ok_or(Problem::Nonsense)?;
        let (views, odd) = rest.as_chunks::<4>();
        if views.len() != accounts.len() || !odd.is_empty() {
            return Err(Problem::Nonsense);
        }
        // Kept only if all went well: after an answer that did not come, the next one could be taken for it.
        self.connection = Some(connection);
        let small = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
        let view = |[requests, tokens, running, streams]: &[u64; 4]| View {
            requests: requests.saturating_mul(1000),
            tokens: tokens.saturating_mul(1000),
            running: small(*running),
            streams: small(*streams),
        };
        Ok((small(*gateways), views.iter().map(view).collect()))
    }

    /// Says good-bye, so that the others need not wait for the silence.
    pub(super) async fn leave(&mut self) {
        let Ok(mut connection) = self.connect().await else { return };
        let mut command = redis::cmd("ZREM");
        command.arg(format!("{}gateways", self.prefix)).arg(&self.gateway);
        let _ = timeout(PATIENCE, command.query_async::<u64>(&mut connection)).await;
    }

    /// Whether the server answers and knows scripts.
    pub(super) async fn look(&mut self) -> Result<(), Problem> {
        let mut connection = self.connect().await?;
        let loaded = self.script.prepare_invoke().load_async(&mut connection).await;
        loaded.map(|_: String| ()).map_err(Problem::Redis)
    }

    async fn connect(&mut self) -> Result<MultiplexedConnection, Problem> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(PATIENCE));
        let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
        // The library's limits are for parts of it.
        timeout(CONNECT, connecting).await.map_err(|_| Problem::Silent)?.map_err(Problem::Redis)
    }
}
