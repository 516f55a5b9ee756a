//! Gives errors about requests that are not HTTP the shape of all errors.
//!
//! hyper answers such a request itself, without a body and before our code sees it: with 400, or with 431 (also for a
//! long address, because the limit of the whole head is lower than hyper's own for it), and closes the connection. It
//! has no hook for that, so its answer is replaced on its way to the socket. The gateway's own answers are recognized
//! by `x-request-id`, which all of them have.

use std::{
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use gantry_domain::{ApiError, ErrorCode};
use memchr::memmem;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{
    connection::{linger::Linger, patience::Turn, slow_client::ReadRate, state::ConnectionState},
    response::headers,
    thread_state::{ShutdownPhase, ThreadState},
};

/// How hyper writes a head without a body.
const EMPTY: &str = "content-length: 0\r\n";

/// Returns the answer to send instead of hyper's own one in `bytes`; `None` if `bytes` is not one of those.
fn instead(bytes: &[u8], request_id: impl FnOnce() -> String) -> Option<Vec<u8>> {
    let code = match bytes.get(..12)? {
        b"HTTP/1.1 400" => ErrorCode::InvalidRequest,
        b"HTTP/1.1 431" => ErrorCode::HeadTooLarge,
        _ => return None,
    };
    let head = bytes.strip_suffix(b"\r\n\r\n")?;
    if memmem::find(head, b"\r\n\r\n").is_some() || memmem::find(head, b"x-request-id").is_some() {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok().filter(|it| it.contains(EMPTY))?;
    let message = match code {
        ErrorCode::HeadTooLarge => "the request's head is too large: at most 64 KiB and 100 headers",
        _ => "the request is not well-formed HTTP",
    };
    let id = request_id();
    let body = ApiError::new(code, message).body(&id).to_string();
    let length = body.len();
    let headers = format!(
        "content-type: application/json\r\nx-request-id: {id}\r\nrequest-id: {id}\r\nx-content-type-options: nosniff\r\n\
         x-frame-options: DENY\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
         content-length: {length}\r\n"
    );
    Some((head.replacen(EMPTY, &headers, 1) + &body).into_bytes())
}

/// A client's connection that gives hyper's own errors their shape.
pub(crate) struct HyperErrors {
    stream: TcpStream,
    thread: Rc<ThreadState>,
    replaced: Option<Replacement>,
    pace: ReadRate,
    turn: Rc<Turn>,
    state: Arc<ConnectionState>,
    linger: Option<Linger>,
}

/// An answer that is written in place of one of hyper's.
struct Replacement {
    bytes: Vec<u8>,
    written: usize,
    /// The number of hyper's bytes that it stands for.
    in_place_of: usize,
}

impl HyperErrors {
    pub(crate) fn new(
        stream: TcpStream,
        thread: Rc<ThreadState>,
        turn: Rc<Turn>,
        state: Arc<ConnectionState>,
    ) -> Self {
        let pace = ReadRate::new(thread.config.write_timeout);
        Self { stream, thread, replaced: None, pace, turn, state, linger: None }
    }

    /// Writes the replacement of `head`, if it needs one; `None` if it does not.
    fn poll_replaced(&mut self, cx: &mut Context<'_>, head: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.replaced.is_none() {
            let id = || {
                let id = headers::new_request_id(self.thread.random.id(self.thread.shared.clock.now()));
                headers::text(&id).to_owned()
            };
            let bytes = instead(head, id)?;
            self.replaced = Some(Replacement { bytes, written: 0, in_place_of: head.len() });
        }
        Some(self.poll_rest(cx))
    }

    /// Notes what became of a write.
    fn judge(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.turn.wrote();
        }
        self.pace.judge(cx, written)
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(it) = &mut self.replaced {
            if it.written == it.bytes.len() {
                let in_place_of = it.in_place_of;
                self.replaced = None;
                return Poll::Ready(Ok(in_place_of));
            }
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &it.bytes[it.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => it.written += n,
            }
        }
        Poll::Ready(Ok(0))
    }
}

impl AsyncRead for HyperErrors {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.turn.read();
        }
        read
    }
}

impl AsyncWrite for HyperErrors {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(polled) = self.poll_replaced(cx, buf) {
            return polled;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter().find(|it| !it.is_empty());
        if let Some(polled) = first.and_then(|it| self.poll_replaced(cx, it)) {
            return polled;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes when everything that it had has been written.
        self.pace.caught_up();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.state.may_be_sending() {
                return Poll::Ready(Ok(()));
            }
        }
        if this.thread.phase() >= ShutdownPhase::Drain {
            return Poll::Ready(Ok(()));
        }
        this.linger.get_or_insert_with(Linger::begin).poll(&mut this.stream, cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_hyper_s_own_is_replaced() {
        let id = || "an-id".to_owned();
        let own = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let shaped = String::from_utf8(instead(own.as_bytes(), id).unwrap()).unwrap();
        let (head, body) = shaped.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 ") && head.contains("connection: close\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())) && head.ends_with("date: now"));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&body["error"]["code"], &body["request_id"]),
            (&"request_head_too_large".into(), &"an-id".into())
        );
        let others = [
            own.replace("431", "404"),
            own.replace("431", "200"),
            own.replace("date", "x-request-id: 7\r\ndate"),
            own.replace("content-length: 0", "content-length: 5") + "hello",
            own.repeat(2),
            own[..30].to_owned(),
            String::new(),
        ];
        for other in others {
            assert_eq!(instead(other.as_bytes(), id), None, "{other}");
        }
    }
}
