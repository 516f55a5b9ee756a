//! One small HTTP request to an engine on loopback, on a connection of its own: probes and test requests. A hung
//! engine delays nobody else.

use std::{io, net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
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
    let exchange = exchange(&authority, path, auth.as_ref(), body);
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::TimedOut))
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
    let exchange = exchange(authority, path, auth, None);
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::TimedOut))
}

async fn exchange(
    authority: &str,
    path: &str,
    auth: Option<&HeaderValue>,
    body: Option<Vec<u8>>,
) -> Result<(StatusCode, Bytes), NoAnswer> {
    let stream = TcpStream::connect(authority).await.map_err(|error| closed(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| NoAnswer::Closed("connection reset".to_owned()))?;
    let mut request = Request::builder()
        .method(if body.is_some() { "POST" } else { "GET" })
        .uri(path)
        .header(header::HOST, authority)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|_| NoAnswer::Closed("the request can't be written".to_owned()))?;
    if let Some(auth) = auth {
        request.headers_mut().insert(header::AUTHORIZATION, auth.clone());
    }
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok::<_, hyper::Error>((status, response.into_body()))
    };
    // The connection is driven here, so that dropping this future closes it.
    tokio::pin!(connection);
    tokio::pin!(answer);
    let lost = |_| NoAnswer::Closed("the engine closed the connection without an answer".to_owned());
    let (status, body) = tokio::select! {
        answer = &mut answer => answer.map_err(lost)?,
        _ = &mut connection => answer.await.map_err(lost)?,
    };
    let read = Limited::new(body, MAX_ANSWER).collect();
    tokio::pin!(read);
    let body = tokio::select! {
        body = &mut read => body,
        _ = &mut connection => read.await,
    };
    let body = body.map_err(|_| NoAnswer::Closed("the engine's answer broke off".to_owned()))?;
    Ok((status, body.to_bytes()))
}

fn closed(error: &io::Error) -> NoAnswer {
    NoAnswer::Closed(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        kind => kind.to_string(),
    })
}
