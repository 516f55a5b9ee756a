//! Bytes on a socket, for requests that no client library would send.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::PATIENCE;

/// Sends `request` to the gateway at `url` and returns the answer up to the end of the connection, which the gateway
/// must close.
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
