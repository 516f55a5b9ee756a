//! Posts to the collector: OTLP over HTTP with protobuf, on one connection that is kept.

use std::{pin::Pin, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use gantry_connect::{ConnectError, Connector, Stream};
use gantry_settings::{OtlpEndpoint, SecretPairs};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use secrecy::ExposeSecret;

/// Longest time for the connection, the request and its answer together: the default of OpenTelemetry's
/// `OTEL_EXPORTER_OTLP_TIMEOUT`.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Longest pause that a collector may ask for.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// Why the collector did not take a batch.
#[derive(Debug)]
pub(super) enum Failure {
    /// The collector will not take the batch later either.
    Refused(String),
    /// A retry may help, after the pause that the collector asked for.
    Later(String, Option<Duration>),
}

pub(super) struct Client {
    endpoint: OtlpEndpoint,
    uri: Uri,
    headers: HeaderMap,
    connector: Connector,
    link: Option<Link>,
}

struct Link {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<Stream>, Full<Bytes>>>>,
}

impl Client {
    /// # Errors
    /// A given name or value can't be an HTTP header.
    pub(super) fn new(endpoint: OtlpEndpoint, given: &SecretPairs) -> anyhow::Result<Self> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        let uri = format!("{}/v1/traces", endpoint.path);
        let uri = Uri::try_from(uri).context("OTEL_EXPORTER_OTLP_ENDPOINT has a path that can't be used")?;
        let mut headers = HeaderMap::new();
        for (name, value) in &given.0 {
            let name: HeaderName = name.parse().with_context(|| format!("{NAME}: `{name}` is no header"))?;
            let mut value = HeaderValue::from_str(value.expose_secret())
                .with_context(|| format!("{NAME}: `{name}` has a value that can't be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let host = HeaderValue::from_str(&endpoint.authority())
            .context("OTEL_EXPORTER_OTLP_ENDPOINT has a host that can't be used")?;
        headers.insert(header::HOST, host);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = HeaderValue::from_static(concat!("gantry/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        Ok(Self { endpoint, uri, headers, connector: Connector::default(), link: None })
    }

    /// Posts a batch and returns how many of its spans were rejected.
    ///
    /// # Errors
    /// No span was taken.
    pub(super) async fn post(&mut self, body: Bytes) -> Result<u64, Failure> {
        match tokio::time::timeout(TIMEOUT, self.exchange(body)).await {
            Ok(done) => done,
            Err(_) => Err(Failure::Later("no answer in time".to_owned(), None)),
        }
    }

    async fn exchange(&mut self, body: Bytes) -> Result<u64, Failure> {
        // The collector may have closed the idle connection; then a new one is made below.
        if let Some(link) = self.link.take()
            && let Some(done) = self.on(link, &body).await
        {
            return done;
        }
        let link = self.connect().await?;
        self.on(link, &body).await.unwrap_or_else(|| Err(later("the connection broke")))
    }

    async fn connect(&self) -> Result<Link, Failure> {
        let OtlpEndpoint { tls, host, port, .. } = &self.endpoint;
        let stream = self.connector.connect(*tls, host, *port).await.map_err(|error| match &error {
            ConnectError::Tls(source) => later(&format!("{error}: {source}")),
            _ => later(&error.to_string()),
        })?;
        let (sender, connection) = handshake(stream).await.map_err(|it| later(&it.to_string()))?;
        Ok(Link { sender, connection: Box::pin(connection) })
    }

    /// Posts on this connection. `None` if the connection ended without an answer.
    async fn on(&mut self, link: Link, body: &Bytes) -> Option<Result<u64, Failure>> {
        let Link { mut sender, mut connection } = link;
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let exchange = async {
            sender.ready().await.ok()?;
            let (head, body) = sender.send_request(request).await.ok()?.into_parts();
            let body =
                Limited::new(body, MAX_ANSWER).collect().await.ok().map(http_body_util::Collected::to_bytes);
            Some((head.status, head.headers, body))
        };
        let (answer, alive) = {
            let mut exchange = std::pin::pin!(exchange);
            tokio::select! {
                answer = &mut exchange => (answer, true),
                _ = &mut connection => (exchange.await, false),
            }
        };
        let (status, headers, body) = answer?;
        if alive && body.is_some() {
            self.link = Some(Link { sender, connection });
        }
        Some(verdict(status, &headers, body.as_deref().unwrap_or_default()))
    }
}

/// Decides which answers allow a retry (OTLP 1.x, "OTLP/HTTP Response").
fn verdict(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<u64, Failure> {
    if status.is_success() {
        let partial = ExportTraceServiceResponse::decode(body).unwrap_or_default().partial_success;
        return Ok(partial.map_or(0, |it| u64::try_from(it.rejected_spans).unwrap_or(0)));
    }
    let said = format!("it answers {}", status.as_u16());
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let after = headers.get(header::RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
            Err(Failure::Later(said, after.map(|it| Duration::from_secs(it).min(MAX_PAUSE))))
        }
        _ => Err(Failure::Refused(said)),
    }
}

fn later(why: &str) -> Failure {
    Failure::Later(why.to_owned(), None)
}
