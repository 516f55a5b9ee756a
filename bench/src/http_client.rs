//! Single HTTP calls to set up a benchmark: health, login, keys. Not for load.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{
    HeaderMap, Method, Request, StatusCode,
    header::{CONTENT_TYPE, COOKIE, HOST},
};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::TcpStream,
    select,
    time::{Instant, sleep, timeout},
};

use crate::child::Running;

const CALL_WITHIN: Duration = Duration::from_secs(10);

/// One call to make.
pub(crate) struct Call<'a> {
    pub(crate) addr: SocketAddr,
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) cookie: Option<&'a str>,
    pub(crate) bearer: Option<&'a str>,
    pub(crate) body: Option<Value>,
}

/// The answer, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl<'a> Call<'a> {
    pub(crate) fn get(addr: SocketAddr, path: &'a str) -> Self {
        Self { addr, method: Method::GET, path, cookie: None, bearer: None, body: None }
    }

    pub(crate) fn post(addr: SocketAddr, path: &'a str, body: Value) -> Self {
        Self { addr, method: Method::POST, path, cookie: None, bearer: None, body: Some(body) }
    }

    /// Makes the call on a connection of its own.
    pub(crate) async fn send(&self) -> Result<Answer> {
        let what = format!("{} {}", self.method, self.path);
        timeout(CALL_WITHIN, self.exchange())
            .await
            .with_context(|| format!("{what} took too long"))?
            .context(what)
    }

    /// Makes the call and expects a 2xx; any other status is an error that quotes the answer.
    pub(crate) async fn expect_success(&self) -> Result<Answer> {
        let answer = self.send().await?;
        if !answer.status.is_success() {
            bail!("{} {} answered {}: {}", self.method, self.path, answer.status, answer.quote());
        }
        Ok(answer)
    }

    /// Repeats the call until the answer is 200 or `within` has passed or `child` has ended.
    pub(crate) async fn wait_for_200(
        &self,
        child: &mut Running,
        within: Duration,
        every: Duration,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let last = match self.send().await {
                Ok(answer) if answer.status == StatusCode::OK => return Ok(()),
                Ok(answer) => format!("{}: {}", answer.status, answer.quote()),
                Err(error) => format!("{error:#}"),
            };
            child.check()?;
            if Instant::now() > deadline {
                let (method, path, log) = (&self.method, self.path, child.log_end());
                bail!("{method} {path} is not 200 after {within:?}; last: {last}; the log ends with:\n{log}");
            }
            sleep(every).await;
        }
    }

    /// Makes the call, expects a 2xx, and passes the body on piece by piece as it comes; for answers of any size and
    /// duration.
    pub(crate) async fn read(&self, mut show: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let stream = TcpStream::connect(self.addr).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = self.request()?;
        let exchange = async {
            let (parts, mut body) = sender.send_request(request).await?.into_parts();
            if !parts.status.is_success() {
                bail!("{} {} answered {}", self.method, self.path, parts.status);
            }
            while let Some(frame) = body.frame().await {
                show(frame?.data_ref().map_or(&[], |it| it))?;
            }
            Ok(())
        };
        drive(connection, exchange).await
    }

    fn request(&self) -> Result<Request<Full<Bytes>>> {
        let mut request =
            Request::builder().method(&self.method).uri(self.path).header(HOST, self.addr.to_string());
        if let Some(cookie) = self.cookie {
            request = request.header(COOKIE, cookie);
        }
        if let Some(bearer) = self.bearer {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = self.body.as_ref().map_or_else(Bytes::new, |it| Bytes::from(it.to_string()));
        Ok(request.body(Full::new(body))?)
    }

    async fn exchange(&self) -> Result<Answer> {
        let stream = TcpStream::connect(self.addr).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = self.request()?;
        let exchange = async {
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        drive(connection, exchange).await
    }
}

/// Runs an exchange and drives its connection meanwhile. Nothing would wait for a separate task.
async fn drive<T>(
    connection: impl Future<Output = hyper::Result<()>>,
    exchange: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (mut connection, mut exchange) = (std::pin::pin!(connection), std::pin::pin!(exchange));
    select! {
        biased;
        answer = &mut exchange => answer,
        ended = &mut connection => {
            ended?;
            // The answer may be complete in the sender already.
            exchange.await
        }
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.quote()))
    }

    pub(crate) fn quote(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(300).collect()
    }
}
