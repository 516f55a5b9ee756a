//! Requests of the gateway to its own inference API. They go through its listener like those of any client, so that limits,
//! budgets, metering and the end of a session hold for them without a second way to do it.

use std::{io, net::SocketAddr};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture};
use gantry_admin_api::ports::{BodyParts, Inference};
use gantry_domain::{ApiError, ErrorCode};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1::handshake};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};
use tracing::warn;

use crate::{adapters::Adapter, commands::doctor::reachable};

impl Inference for Adapter {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<BodyParts>, ApiError>> {
        let addr = self.control.shared.addr.get().copied();
        async move {
            let sent = async { send(addr.ok_or(io::ErrorKind::NotConnected)?, request).await };
            sent.await.map_err(|error: io::Error| {
                warn!(%error, "the gateway does not reach its own listener");
                ApiError::new(ErrorCode::ModelUnavailable, "the gateway does not reach its own listener")
            })
        }
        .boxed()
    }
}

async fn send(addr: SocketAddr, mut request: Request<Bytes>) -> io::Result<Response<BodyParts>> {
    // A listener on every address has none of its own to connect to.
    let stream = TcpStream::connect(reachable(addr)).await?;
    stream.set_nodelay(true)?;
    // A loopback address is a host that the gateway always knows.
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("127.0.0.1"));
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Dropping the set ends the connection.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let answer = sender.send_request(request.map(Full::new)).await.map_err(io::Error::other)?;
    Ok(answer.map(|body| parts(body, driver)))
}

/// The parts of a body. The connection is cut when they are dropped.
fn parts(body: Incoming, driver: JoinSet<hyper::Result<()>>) -> BodyParts {
    let parts = body.into_data_stream().map_err(io::Error::other);
    parts
        .inspect(move |_| {
            let _held = &driver;
        })
        .boxed()
}
