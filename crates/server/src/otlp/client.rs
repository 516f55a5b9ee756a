//! Posts to the collector: OTLP over HTTP with protobuf, on one connection that is kept.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use gantry_connect::{ConnectError, Connector, HttpConnection, HttpUrl};
use gantry_settings::SecretPairs;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
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
    endpoint: HttpUrl,
    uri: Uri,
    headers: HeaderMap,
    connector: Connector,
    /// Connection of the last batch, if the collector keeps it open.
    connection: Option<HttpConnection>,
}

impl Client {
    /// # Errors
    /// A given name or value can't be an HTTP header.
    pub(super) fn new(endpoint: HttpUrl, given: &SecretPairs) -> anyhow::Result<Self> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_HEADERS";
        let uri = format!("{}/v1/traces", endpoint.base());
        let uri = Uri::try_from(uri).context("OTEL_EXPORTER_OTLP_ENDPOINT has a path that can't be used")?;
        let mut headers = HeaderMap::new();
        for (name, value) in &given.0 {
            let name: HeaderName = name.parse().with_context(|| format!("{NAME}: `{name}` is no header"))?;
            let mut value = HeaderValue::from_str(value.expose_secret())
                .with_context(|| format!("{NAME}: `{name}` has a value that can't be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let host = HeaderValue::from_str(endpoint.authority())
            .context("OTEL_EXPORTER_OTLP_ENDPOINT has a host that can't be used")?;
        headers.insert(header::HOST, host);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let agent = HeaderValue::from_static(concat!("gantry/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        Ok(Self { endpoint, uri, headers, connector: Connector::default(), connection: None })
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
        if let Some(connection) = self.connection.take()
            && let Some(done) = self.on(connection, &body).await
        {
            return done;
        }
        let connection = self.connector.http(&self.endpoint).await.map_err(|error| match &error {
            ConnectError::Tls(source) => later(&format!("{error}: {source}")),
            _ => later(&error.to_string()),
        })?;
        self.on(connection, &body).await.unwrap_or_else(|| Err(later("the connection broke")))
    }

    /// Posts on this connection. `None` if the connection ended without an answer.
    async fn on(&mut self, mut connection: HttpConnection, body: &Bytes) -> Option<Result<u64, Failure>> {
        let mut request = Request::new(body.clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let answer = connection.send(request).await.ok()?;
        let (status, headers) = (answer.head.status, answer.head.headers.clone());
        let body = answer.read(MAX_ANSWER).await.ok().map(Response::into_body);
        if body.is_some() && connection.is_open() {
            self.connection = Some(connection);
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
