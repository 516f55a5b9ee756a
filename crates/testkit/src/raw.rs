//! Bytes on a socket, for requests that no client library would send.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A server must have closed the connection by then; longer than its own time limits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends `request` to the gateway at `url` and gives what comes back until the gateway closes the connection, which it
/// must do.
pub async fn raw(url: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    // The gateway may hang up in the middle of something that it refuses.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    let shown = String::from_utf8_lossy(&answer).into_owned();
    assert!(read.is_ok(), "the connection stays open after {shown:?}");
    shown
}
