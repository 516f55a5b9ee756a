//! Small HTTP requests to an engine, on a connection of their own: probes and test requests. A hung engine delays nobody
//! else.

use std::{io, net::Ipv4Addr, pin::Pin, time::Duration};

use bytes::Bytes;
use gantry_dataplane::is_own_lack;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpStream;

/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 8 << 20;

/// Why there was no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Refused, reset, or closed before an answer: nobody listens (yet). Docker's proxy accepts and closes while the
    /// engine does not listen.
    Closed(String),
    TimedOut,
    /// The gateway itself lacks what it takes to ask, such as a free file descriptor. It says nothing of the engine.
    NotAsked(io::Error),
}

/// `GET path`, or `POST` when there is a body.
///
/// # Errors
/// See [`NoAnswer`]. Any status is an answer.
pub async fn call(
    port: u16,
    path: &str,
    key: &SecretString,
    body: Option<Vec<u8>>,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    let authority = format!("{}:{port}", Ipv4Addr::LOCALHOST);
    let auth = HeaderValue::try_from(format!("Bearer {}", key.expose_secret())).ok();
    once(&authority, path, auth.as_ref(), body, timeout).await
}

/// `GET path` at `host:port`.
///
/// # Errors
/// See [`NoAnswer`]. Any status is an answer.
pub async fn get(
    authority: &str,
    path: &str,
    auth: Option<&HeaderValue>,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    once(authority, path, auth, None, timeout).await
}

async fn once(
    authority: &str,
    path: &str,
    auth: Option<&HeaderValue>,
    body: Option<Vec<u8>>,
    timeout: Duration,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    let exchange = async { Connection::open(authority).await?.send(path, auth, body).await };
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::TimedOut))
}

type Io = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// A connection to an engine, for requests one after the other. Dropping it closes it.
pub struct Connection {
    authority: String,
    sender: http1::SendRequest<Full<Bytes>>,
    /// Driven by each request; gone when the engine has closed it.
    io: Option<Pin<Box<Io>>>,
}

impl Connection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// [`NoAnswer::Closed`]: nobody listens there.
    pub async fn open(authority: &str) -> Result<Self, NoAnswer> {
        let stream = TcpStream::connect(authority).await.map_err(no_connection)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, io) = handshake.map_err(|_| NoAnswer::Closed("connection reset".to_owned()))?;
        Ok(Self { authority: authority.to_owned(), sender, io: Some(Box::pin(io)) })
    }

    /// Whether the engine keeps it open for one more request.
    pub fn is_open(&self) -> bool {
        self.io.is_some() && !self.sender.is_closed()
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
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(|_| NoAnswer::Closed("the request can't be written".to_owned()))?;
        if let Some(auth) = auth {
            request.headers_mut().insert(header::AUTHORIZATION, auth.clone());
        }
        let lost = |_| NoAnswer::Closed("the engine closed the connection without an answer".to_owned());
        let sender = &mut self.sender;
        let sent = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        let (status, body) = drive(&mut self.io, sent).await.map_err(lost)?.into_parts();
        let read = Limited::new(body, MAX_ANSWER).collect();
        let body = drive(&mut self.io, read).await;
        let body = body.map_err(|_| NoAnswer::Closed("the engine's answer broke off".to_owned()))?;
        Ok((status.status, body.to_bytes()))
    }
}

/// Does `work` while the connection is driven, on no task of its own: dropping this future stops both.
async fn drive<T>(io: &mut Option<Pin<Box<Io>>>, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    if let Some(driver) = io {
        tokio::select! {
            done = &mut work => return done,
            _ = driver => *io = None,
        }
    }
    work.await
}

fn no_connection(error: io::Error) -> NoAnswer {
    if is_own_lack(&error) {
        return NoAnswer::NotAsked(error);
    }
    NoAnswer::Closed(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        kind => kind.to_string(),
    })
}
