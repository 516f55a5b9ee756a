//! Makes connections to a host, with TLS or without: to engines, to the model hub, to Redis, and those of the command
//! line; with a small HTTP client for those that send little, and a reader of the kernel's table of sockets.
//!
//! Certificates are trusted by two sets of roots: those that are compiled in (Mozilla's, by webpki-roots), so that an
//! image without any system files works, and those of the system, so that a mirror with a company's own certificate
//! works (`SSL_CERT_FILE` names others).

mod http1;
pub mod sockets;
mod url;

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, lookup_host},
    sync::OnceCell,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{self, CertificateError, ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

pub use self::{
    http1::{Answer, HttpConnection, HttpError},
    url::HttpUrl,
};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("its name can't be resolved")]
    Unresolved,
    #[error("{}", words(.0))]
    Io(io::Error),
    #[error("its name is no host name")]
    Name,
    #[error("TLS can't be set up")]
    Setup,
    /// The source says which check of the certificate failed.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
}

impl ConnectError {
    /// Says what is wrong with the other side's certificate and what helps, if that is known.
    pub fn advice(&self) -> Option<&'static str> {
        let Self::Tls(source) = self else { return None };
        let source = source.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match source {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                "nobody who is trusted here signed its certificate; name the authority's file in SSL_CERT_FILE (PEM)"
            }
            // Only the text of the error names this case. `openssl req -x509` makes such certificates.
            rustls::Error::InvalidCertificate(CertificateError::Other(other))
                if other.to_string().contains("CaUsedAsEndEntity") =>
            {
                "its certificate is that of an authority, not of a server: make one with basicConstraints=CA:FALSE"
            }
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => "its certificate is for another name; use the name that is in it",
            rustls::Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => "its certificate has expired, or the clock of this machine is wrong",
            rustls::Error::InvalidMessage(_) => "it speaks no TLS; is it meant to be http://?",
            _ => return None,
        })
    }
}

/// Makes connections. Reads the system's certificates once, when the first connection needs them.
#[derive(Default)]
pub struct Connector(OnceCell<TlsConnector>);

impl Connector {
    /// Connects to `host` (a name or an address without brackets).
    ///
    /// # Errors
    /// It can't be reached, or its certificate is not good for this name.
    pub async fn connect(&self, tls: bool, host: &str, port: u16) -> Result<TokioIo<Stream>, ConnectError> {
        let found = lookup_host((host, port)).await.map_err(|_| ConnectError::Unresolved)?;
        let addresses: Vec<SocketAddr> = found.collect();
        let plain = TcpStream::connect(&addresses[..]).await.map_err(ConnectError::Io)?;
        // Requests are small, and their callers wait for the answers.
        plain.set_nodelay(true).map_err(ConnectError::Io)?;
        if !tls {
            return Ok(TokioIo::new(Stream::Plain(plain)));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| ConnectError::Name)?;
        let tls = self.0.get_or_try_init(connector).await?;
        let stream = tls.connect(name, plain).await.map_err(ConnectError::Tls)?;
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

async fn connector() -> Result<TlsConnector, ConnectError> {
    let native = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let native = native.map_err(|_| ConnectError::Setup)?;
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for error in native.errors {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "a certificate of the system can't be read"
        );
    }
    // One malformed certificate must not exclude the others.
    roots.add_parsable_certificates(native.certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| ConnectError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

/// A connection with or without TLS.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The connection below the TLS.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(it) => it,
            Self::Tls(it) => it.get_ref().0,
        }
    }
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(it) => Pin::new(it).poll_write_vectored(cx, bufs),
            Self::Tls(it) => Pin::new(it).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(it) => it.is_write_vectored(),
            Self::Tls(it) => it.is_write_vectored(),
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
