//! Connections to the hub, and what their failures mean to a caller of the API.

use gantry_connect::{ConnectError, Stream};
use gantry_domain::{ApiError, ErrorCode};
use hyper_util::rt::TokioIo;

use super::Endpoint;

/// Makes connections to the hub.
#[derive(Default)]
pub struct Connector(gantry_connect::Connector);

impl Connector {
    /// # Errors
    /// 503: it can't be reached.
    pub(super) async fn connect(&self, endpoint: &Endpoint) -> Result<TokioIo<Stream>, ApiError> {
        let stream = self.0.connect(endpoint.tls, &endpoint.host, endpoint.port).await;
        stream.map_err(|error| {
            let mut what = error.to_string();
            if let ConnectError::Tls(source) = &error {
                // Says which check of the certificate failed.
                tracing::warn!(error = source as &dyn std::error::Error, "TLS with the model hub failed");
                what.push_str(
                    "; see the gateway's log (a mirror's own certificate belongs into the system's store)",
                );
            }
            let message = format!("the model hub can't be reached: {what}");
            ApiError::new(ErrorCode::HubUnavailable, message)
        })
    }
}
