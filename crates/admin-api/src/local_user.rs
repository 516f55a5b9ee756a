//! Finds out which user's program is at the other end of a connection from this machine. A loopback address alone says
//! nothing about the sender, since every account of the machine, and every proxy on it, has one.

use axum::http::{HeaderMap, Uri, uri::Authority};
use gantry_connect::sockets;
use gantry_domain::web;
use tracing::warn;

use crate::Peer;

const ROOT: u32 = 0;

/// Returns whether a request comes from a program of the gateway's own user or of root on this machine, and not through
/// a proxy that says so or that runs as another user.
pub(crate) async fn sends(peer: Peer, uri: &Uri, headers: &HeaderMap) -> bool {
    let forwarded = headers.keys().map(http::HeaderName::as_str).any(|it| {
        it.starts_with("x-forwarded") || matches!(it, "forwarded" | "via" | "x-real-ip" | "x-client-ip")
    });
    let authority = uri.authority().map(Authority::as_str);
    if forwarded || !peer.0.ip().to_canonical().is_loopback() || !web::is_for_loopback(headers, authority) {
        return false;
    }
    let own = rustix::process::geteuid().as_raw();
    let found = tokio::task::spawn_blocking(move || sockets::owners(peer.0)).await;
    match found {
        Ok(Ok(owners)) => !owners.is_empty() && owners.iter().all(|it| *it == own || *it == ROOT),
        Ok(Err(error)) => {
            warn!(%error, "the kernel does not say whose a connection is");
            false
        }
        Err(_) => false,
    }
}
