//! One request, written in advance, and one keep-alive connection that sends it and reads the answer.
//!
//! Uses raw sockets: a general HTTP client costs as much as the proxies measured here.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::reply::Reply;

/// Size of a connection's read buffer: a whole unary answer, or a hundred SSE chunks.
const READ_BYTES: usize = 16 * 1024;

/// The kind of answer to request from the proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask {
    /// One answer to a body of about this many bytes.
    Unary { body_bytes: usize },
    /// A stream of `n_chunks` content chunks, one per interval.
    Stream { n_chunks: u64, interval: Duration },
}

/// A request ready to be sent, with its target address.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    addr: SocketAddr,
    bytes: Bytes,
    is_sse: bool,
    /// Smallest number of events of a complete stream: role, content, finish, `[DONE]`.
    min_events: u64,
}

impl Shot {
    pub(crate) fn new(addr: SocketAddr, key: &str, ask: Ask) -> Self {
        let (body, is_sse, min_events) = match ask {
            Ask::Unary { body_bytes } => (unary_body(body_bytes), false, 0),
            Ask::Stream { n_chunks, interval } => (stream_body(n_chunks, interval), true, n_chunks + 3),
        };
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {addr}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nAccept: */*\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Self { addr, bytes: Bytes::from(head + &body), is_sse, min_events }
    }

    pub(crate) fn is_sse(&self) -> bool {
        self.is_sse
    }
}

/// Returns a chat of about `bytes` bytes with the punctuation and escapes of real text.
fn unary_body(bytes: usize) -> String {
    const TEXT: &str = "The \"gateway\" reads this line, finds the model and forwards the rest unread.\n";
    let frame = json!({"model": "m", "messages": [{"role": "user", "content": ""}], "max_tokens": 16, "temperature": 0.2});
    // Each quote and line end takes two bytes once escaped.
    let n_lines = bytes.saturating_sub(frame.to_string().len()) / (TEXT.len() + 3);
    json!({"model": "m", "messages": [{"role": "user", "content": TEXT.repeat(n_lines.max(1))}], "max_tokens": 16, "temperature": 0.2})
        .to_string()
}

fn stream_body(n_chunks: u64, interval: Duration) -> String {
    let interval_ms = interval.as_millis() as u64;
    json!({
        "model": "m",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "mock": {"chunks": n_chunks, "interval_ms": interval_ms},
    })
    .to_string()
}

/// A keep-alive connection to the proxy under test.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
    reply: Reply,
}

impl Connection {
    pub(crate) async fn open(shot: &Shot) -> Result<Self> {
        let stream = TcpStream::connect(shot.addr).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; READ_BYTES].into(), reply: Reply::default() })
    }

    /// Sends the shot and reads its whole answer. Calls `on_events` with the number of SSE events of each read.
    ///
    /// Returns the time at which the first byte of the answer came.
    pub(crate) async fn exchange(&mut self, shot: &Shot, mut on_events: impl FnMut(u64)) -> Result<Instant> {
        self.send(shot).await?;
        self.read(&mut on_events).await?;
        let first_byte = Instant::now();
        while !self.reply.is_done() {
            self.read(&mut on_events).await?;
        }
        self.reply.verify(shot.is_sse)?;
        let n_events = self.reply.n_events();
        if n_events < shot.min_events {
            bail!("{n_events} events of at least {}", shot.min_events);
        }
        Ok(first_byte)
    }

    /// Sends the shot and reads until its first SSE event. Then the stream is open from end to end.
    pub(crate) async fn open_stream(&mut self, shot: &Shot) -> Result<()> {
        self.send(shot).await?;
        while self.reply.n_events() == 0 {
            if self.reply.is_done() {
                self.reply.verify(true)?;
                bail!("the stream ended before its first event");
            }
            self.read(&mut |_| ()).await?;
        }
        Ok(())
    }

    /// Whether the next exchange may use this connection.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reply.is_done() && !self.reply.closes()
    }

    async fn send(&mut self, shot: &Shot) -> Result<()> {
        self.reply.reset();
        self.stream.write_all(&shot.bytes).await.context("cannot send")
    }

    async fn read(&mut self, on_events: &mut impl FnMut(u64)) -> Result<()> {
        let n_bytes = self.stream.read(&mut self.buffer).await.context("cannot read")?;
        if n_bytes == 0 {
            bail!("the connection was closed before the answer's end");
        }
        let before = self.reply.n_events();
        self.reply.feed(&self.buffer[..n_bytes])?;
        on_events(self.reply.n_events() - before);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_about_the_size_asked_for() {
        for wanted in [200, 4096, 65536] {
            let len = unary_body(wanted).len();
            assert!(len.abs_diff(wanted) < 120, "{len} for {wanted}");
        }
    }
}
