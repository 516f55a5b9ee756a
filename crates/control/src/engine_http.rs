//! Sends small HTTP requests to an engine, on a connection of their own: probes and test requests. A hung engine delays
//! nothing else.

use std::{io, time::Duration};

use bytes::Bytes;
use gantry_connect::{ConnectError, Connector, HttpConnection, HttpError, Stream};
use gantry_dataplane::{Upstream, is_local_exhaustion, port_owner};
use gantry_domain::{
    engine::{EngineAddress, Scheme},
    listeners::Listeners,
};
use http::{HeaderValue, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 8 << 20;

/// Why there was no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Refused, reset, or closed before an answer: nothing listens (yet). Docker's proxy accepts and closes while the
    /// engine does not listen.
    Closed(String),
    TimedOut,
    /// The gateway itself lacks a resource for the request, such as a free file descriptor. This says nothing about the
    /// engine.
    NotAsked(io::Error),
}

/// Where an engine of ours listens.
#[derive(Debug, Clone, Copy)]
pub struct Local<'a> {
    pub address: &'a EngineAddress,
    /// Accounts whose programs may listen on loopback, where any account of the machine could have taken the engine's port
    /// before it; `None` allows all.
    pub allowed: Option<&'a Listeners>,
}

impl Local<'_> {
    /// # Errors
    /// [`NoAnswer::Closed`]: nothing listens there, or a program other than the engine does. Nothing is sent then.
    pub async fn open(self) -> Result<Connection, NoAnswer> {
        let Self { address, allowed } = self;
        let EngineAddress { scheme, host, port } = address;
        let stream = Connector::default().connect(*scheme == Scheme::Https, host, *port).await;
        let stream = stream.map_err(unconnected)?;
        if let Some(allowed) = allowed.filter(|_| address.is_loopback()) {
            let own = stream.inner().tcp().local_addr().map_err(no_connection)?;
            port_owner::check(*port, own, allowed).map_err(|error| NoAnswer::Closed(error.to_string()))?;
        }
        let host = HeaderValue::try_from(address.authority());
        let host = host.unwrap_or(HeaderValue::from_static("localhost"));
        Connection::over(stream, host).await
    }
}

/// `GET path`, or `POST` when there is a body.
///
/// # Errors
/// See [`NoAnswer`]. Any status is an answer.
pub async fn call(
    engine: Local<'_>,
    path: &str,
    key: &SecretString,
    body: Option<Vec<u8>>,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    let auth = HeaderValue::try_from(format!("Bearer {}", key.expose_secret())).ok();
    let exchange = async { engine.open().await?.send(path, auth.as_ref(), body).await };
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::TimedOut))
}

/// Returns what the engine at `upstream` lists at `/v1/models`.
///
/// # Errors
/// See [`NoAnswer`]. Any status is an answer.
pub async fn models(upstream: &Upstream, timeout: Duration) -> Result<(StatusCode, Bytes), NoAnswer> {
    let exchange = async {
        let stream = upstream.connect().await.map_err(unconnected)?;
        let mut connection = Connection::over(stream, upstream.host().clone()).await?;
        connection.send(upstream.models_uri().path(), upstream.auth(), None).await
    };
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::TimedOut))
}

/// A connection to an engine that sends requests one after the other. Dropping it closes it.
pub struct Connection {
    host: HeaderValue,
    http: HttpConnection,
}

impl Connection {
    async fn over(stream: TokioIo<Stream>, host: HeaderValue) -> Result<Self, NoAnswer> {
        Ok(Self { host, http: HttpConnection::over(stream).await.map_err(no_connection)? })
    }

    /// Whether the engine keeps the connection open for one more request.
    pub fn is_open(&self) -> bool {
        self.http.is_open()
    }

    /// `GET path`, or `POST` when there is a body. It has no time limit of its own.
    ///
    /// # Errors
    /// See [`NoAnswer`]. Any status is an answer.
    pub async fn send(
        &mut self,
        path: &str,
        auth: Option<&HeaderValue>,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Bytes), NoAnswer> {
        let mut request = Request::builder()
            .method(if body.is_some() { "POST" } else { "GET" })
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(body.unwrap_or_default()))
            .map_err(|_| NoAnswer::Closed("the request can't be written".to_owned()))?;
        if let Some(auth) = auth {
            request.headers_mut().insert(header::AUTHORIZATION, auth.clone());
        }
        let lost = |error| {
            NoAnswer::Closed(match error {
                HttpError::NoAnswer => "the engine closed the connection without an answer".to_owned(),
                HttpError::BrokenOff | HttpError::TooLarge => "the engine's answer broke off".to_owned(),
            })
        };
        let answer = self.http.send(request).await.map_err(lost)?;
        let (head, body) = answer.read(MAX_ANSWER).await.map_err(lost)?.into_parts();
        Ok((head.status, body))
    }
}

fn unconnected(error: ConnectError) -> NoAnswer {
    match error {
        ConnectError::Io(error) => no_connection(error),
        error => NoAnswer::Closed(match error.advice() {
            Some(advice) => format!("{error}: {advice}"),
            None => error.to_string(),
        }),
    }
}

fn no_connection(error: io::Error) -> NoAnswer {
    if is_local_exhaustion(&error) {
        return NoAnswer::NotAsked(error);
    }
    NoAnswer::Closed(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        kind => kind.to_string(),
    })
}
