//! Connections to the hub, with TLS.
//!
//! Whom to trust: the roots that are compiled in (Mozilla's, by webpki-roots), so that an image without any files of a
//! system works, and those of the system, so that a mirror with a company's own certificate does (`SSL_CERT_FILE` names
//! others).

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use gantry_domain::{ApiError, ErrorCode};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    sync::OnceCell,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use super::Endpoint;

/// Makes connections; reads the system's certificates once, when the first one needs them.
#[derive(Default)]
pub struct Connector(OnceCell<TlsConnector>);

impl Connector {
    /// # Errors
    /// 503: it can't be reached.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<TokioIo<Stream>, ApiError> {
        let failed = |what: &str| {
            let message = format!("the model hub can't be reached: {what}");
            ApiError::new(ErrorCode::HubUnavailable, message)
        };
        let place = (endpoint.host.as_str(), endpoint.port);
        let found = lookup_host(place).await.map_err(|_| failed("its name can't be resolved"))?;
        let addresses: Vec<SocketAddr> = found.collect();
        let plain = TcpStream::connect(&addresses[..]).await.map_err(|error| failed(&words(&error)))?;
        if !endpoint.tls {
            return Ok(TokioIo::new(Stream::Plain(plain)));
        }
        let name =
            ServerName::try_from(endpoint.host.clone()).map_err(|_| failed("its name is no host name"))?;
        let tls = self.0.get_or_try_init(tls).await.map_err(|()| failed("TLS can't be set up"))?;
        let stream = tls.connect(name, plain).await.map_err(|error| {
            // Says which check of the certificate failed.
            tracing::warn!(error = &error as &dyn std::error::Error, "TLS with the model hub failed");
            failed("TLS failed; see the gateway's log (a mirror's own certificate belongs into the system's store)")
        })?;
        Ok(TokioIo::new(Stream::Tls(Box::new(stream))))
    }
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        kind => kind.to_string(),
    }
}

async fn tls() -> Result<TlsConnector, ()> {
    let native = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.map_err(drop)?;
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for error in native.errors {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "a certificate of the system can't be read"
        );
    }
    // One that is odd must not take the others away.
    roots.add_parsable_certificates(native.certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(drop)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// With TLS or without.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_read(cx, buf),
            Self::Tls(it) => Pin::new(it).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_write(cx, buf),
            Self::Tls(it) => Pin::new(it).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_flush(cx),
            Self::Tls(it) => Pin::new(it).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_shutdown(cx),
            Self::Tls(it) => Pin::new(it).poll_shutdown(cx),
        }
    }
}
