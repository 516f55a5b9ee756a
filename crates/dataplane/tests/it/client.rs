//! A client that sees every byte.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::engine::PATIENCE;

pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// All of the body that was announced came.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }

    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn post(path: &str, key: &str, extra: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n{extra}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn get(path: &str, extra: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: gateway\r\n{extra}\r\n")
}

impl Client {
    pub(crate) async fn connect(addr: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(addr).await.unwrap(), buffer: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: &str) {
        self.send_bytes(bytes.as_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, request: &str) -> Answer {
        self.send(request).await;
        self.answer().await
    }

    /// Ends sending, but could still read (FIN).
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Breaks the connection off (RST).
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Waits until something has come that [`Client::head`] has not taken yet.
    pub(crate) async fn arrived(&mut self) {
        assert!(!self.buffer.is_empty() || self.more().await, "closed");
    }

    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.buffer);
        matches!(tokio::time::timeout(PATIENCE, read).await.expect("more bytes"), Ok(n) if n > 0)
    }

    /// Waits until the gateway closes the connection.
    pub(crate) async fn until_closed(&mut self) {
        while self.more().await {}
    }

    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|it| it == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return String::from_utf8(head).unwrap();
            }
            assert!(self.more().await, "closed before the head: {:?}", String::from_utf8_lossy(&self.buffer));
        }
    }

    /// Returns the data of the next chunk; `None` behind the last one, or if the connection ends.
    pub(crate) async fn chunk(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|it| it == b"\r\n") {
                let size = std::str::from_utf8(&self.buffer[..end]).unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                let total = end + 2 + size + 2;
                if self.buffer.len() >= total {
                    let data = self.buffer[end + 2..end + 2 + size].to_vec();
                    self.buffer.drain(..total);
                    return (size > 0).then(|| String::from_utf8(data).unwrap());
                }
            }
            if !self.more().await {
                return None;
            }
        }
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new(), complete: true };
        if let Some(length) = answer.header("content-length") {
            let length: usize = length.parse().unwrap();
            while self.buffer.len() < length && answer.complete {
                answer.complete = self.more().await;
            }
            let take = length.min(self.buffer.len());
            answer.body = String::from_utf8(self.buffer.drain(..take).collect()).unwrap();
        } else {
            assert_eq!(answer.header("transfer-encoding"), Some("chunked"), "{}", answer.head);
            while let Some(data) = self.chunk().await {
                answer.body.push_str(&data);
            }
        }
        answer
    }
}
