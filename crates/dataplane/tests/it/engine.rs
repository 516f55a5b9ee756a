//! A scripted engine: it does what the test says, byte by byte.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};

use crate::client::Client;

/// Longest wait for something that takes milliseconds on an idle machine, as in `gantry_testkit`.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Engine {
    pub(crate) addr: SocketAddr,
    calls: mpsc::UnboundedReceiver<Call>,
}

/// A request that arrived; the test answers it.
pub(crate) struct Call {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    acts: mpsc::UnboundedSender<Act>,
    gone: watch::Receiver<bool>,
}

enum Act {
    Send(Vec<u8>),
    Close,
}

impl Engine {
    /// Has the next call, which is this request of `client`'s, answered with 200.
    pub(crate) async fn serves(&mut self, client: &mut Client, request: &str) {
        client.send(request).await;
        self.call().await.send(&json("{}"));
        let got = client.answer().await;
        assert_eq!(got.status, 200, "{}", got.body);
    }

    /// Has requests of `client`'s answered with 200 until the gateway has learned that the engine keeps its connections.
    /// Returns how many there were, and the number of the connection that is used again.
    pub(crate) async fn keeps(&mut self, client: &mut Client, request: &str) -> (usize, usize) {
        let mut last = None;
        for n in 1.. {
            client.send(request).await;
            let call = self.call().await;
            call.send(&json("{}"));
            assert_eq!(client.answer().await.status, 200);
            if last == Some(call.connection) {
                return (n, call.connection);
            }
            last = Some(call.connection);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        unreachable!("the loop has no end")
    }

    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (tell, calls) = mpsc::unbounded_channel();
        spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                stream.set_nodelay(true).unwrap();
                spawn(serve(stream, connection, tell.clone()));
            }
        });
        Self { addr, calls }
    }

    /// Answers every request at once with `answer`.
    pub(crate) fn always(mut self, answer: &str) {
        let answer = answer.to_owned();
        spawn(async move {
            while let Some(call) = self.calls.recv().await {
                call.send(&answer);
            }
        });
    }

    pub(crate) async fn call(&mut self) -> Call {
        tokio::time::timeout(PATIENCE, self.calls.recv()).await.expect("a request").unwrap()
    }

    pub(crate) fn was_not_called(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }
}

#[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

pub(crate) fn json(body: &str) -> String {
    with_status("200 OK", body)
}

pub(crate) fn with_status(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nserver: uvicorn\r\naccess-control-allow-origin: *\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const SSE_HEAD: &str = "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn send(&self, bytes: &str) {
        self.acts.send(Act::Send(bytes.as_bytes().to_vec())).ok();
    }

    pub(crate) fn close(&self) {
        self.acts.send(Act::Close).ok();
    }

    /// Waits until the engine has closed the connection.
    pub(crate) async fn closed(&self) {
        tokio::time::timeout(PATIENCE, self.acts.closed()).await.expect("it to be closed");
    }

    /// Waits until the gateway has closed the connection.
    pub(crate) async fn gone(&mut self) {
        tokio::time::timeout(PATIENCE, self.gone.wait_for(|it| *it)).await.expect("it to be closed").unwrap();
    }
}

async fn serve(stream: TcpStream, connection: usize, tell: mpsc::UnboundedSender<Call>) {
    let (gone_tx, gone) = watch::channel(false);
    let mut acts: Option<mpsc::UnboundedReceiver<Act>> = None;
    // Dropped before `acts`, so that it is closed when their end is seen.
    let mut stream = stream;
    let mut buffer = Vec::new();
    loop {
        let act = async {
            match &mut acts {
                Some(acts) => acts.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = stream.read_buf(&mut buffer) => {
                if !matches!(read, Ok(n) if n > 0) {
                    gone_tx.send_replace(true);
                    return;
                }
            }
            act = act => match act {
                Some(Act::Send(bytes)) => {
                    if stream.write_all(&bytes).await.is_err() { gone_tx.send_replace(true); return; }
                }
                Some(Act::Close) => return,
                None => acts = None,
            }
        }
        if let Some((head, body)) = request(&mut buffer) {
            let (tx, rx) = mpsc::unbounded_channel();
            acts = Some(rx);
            if tell.send(Call { head, body, connection, acts: tx, gone: gone.clone() }).is_err() {
                return;
            }
        }
    }
}

fn request(buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = buffer.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|it| it.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let total = end + length.unwrap_or(0);
    if buffer.len() < total {
        return None;
    }
    let body = buffer[end..total].to_vec();
    buffer.drain(..total);
    Some((head, body))
}
