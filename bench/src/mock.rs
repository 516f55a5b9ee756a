//! A model engine without a model: answers `OpenAI` requests at once, or streams at a pace given in the request.
//!
//! The pace is read from the JSON body (`"mock":{"chunks":N,"interval_ms":M}`), because gateways forward only the
//! headers they know. The mock must cost as little as possible: it shares a core with the load generator.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, Sleep, sleep, sleep_until},
};

const COMPLETION: &[u8] = br#"{"id":"chatcmpl-mock","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Eight tokens are in this short answer."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20}}"#;
const MODELS: &[u8] =
    br#"{"object":"list","data":[{"id":"m","object":"model","created":1767225600,"owned_by":"mock"}]}"#;
const ROLE: &[u8] = b"data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const CONTENT: &[u8] = b"data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";
const FINISH: &[u8] = b"data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &[u8] = b"data: {\"id\":\"chatcmpl-mock\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":8,\"total_tokens\":20}}\n\n";
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Number of content chunks of a stream whose request does not set it.
const DEFAULT_CHUNKS: u64 = 8;

/// Accepts connections until the future is dropped; the connections end with it.
pub(crate) async fn serve(listener: TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(connection(stream)); }
                // Out of file descriptors, most likely: let some connections end.
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream) {
    // A client that leaves is normal here; the load generator counts what it misses.
    stream.set_nodelay(true).ok();
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
    serving.await.ok();
}

async fn answer(request: Request<Incoming>) -> Result<Response<MockBody>, hyper::Error> {
    let (status, body) = match (request.method(), request.uri().path()) {
        (&Method::POST, "/v1/chat/completions") => {
            let wanted = Wanted::parse(&request.into_body().collect().await?.to_bytes());
            match wanted {
                Wanted::Completion => (StatusCode::OK, MockBody::whole(COMPLETION)),
                Wanted::Stream(plan) => return Ok(event_stream(plan)),
            }
        }
        (&Method::GET, "/v1/models") => (StatusCode::OK, MockBody::whole(MODELS)),
        (&Method::GET, "/health") => (StatusCode::OK, MockBody::whole(b"{}")),
        _ => (StatusCode::NOT_FOUND, MockBody::whole(br#"{"error":{"message":"no such route"}}"#)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn event_stream(plan: Plan) -> Response<MockBody> {
    let mut response = Response::new(MockBody::Stream(Box::new(Events::new(plan))));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
    response
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Completion,
    Stream(Plan),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    n_chunks: u64,
    interval: Duration,
    with_usage: bool,
}

impl Wanted {
    /// Searches for the few words that matter instead of parsing: parsing a 64 KiB body would cost more than the proxy
    /// under test.
    fn parse(body: &[u8]) -> Self {
        if value_after(body, b"\"stream\"").is_none_or(|it| !it.starts_with(b"true")) {
            return Self::Completion;
        }
        let mock = memmem::find(body, b"\"mock\"").map_or(&[][..], |at| &body[at..]);
        Self::Stream(Plan {
            n_chunks: number_after(mock, b"\"chunks\"").unwrap_or(DEFAULT_CHUNKS),
            interval: Duration::from_millis(number_after(mock, b"\"interval_ms\"").unwrap_or(0)),
            with_usage: value_after(body, b"\"include_usage\"").is_some_and(|it| it.starts_with(b"true")),
        })
    }
}

fn value_after<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = &body[memmem::find(body, name)? + name.len()..];
    let start = rest.iter().position(|it| !matches!(it, b' ' | b':'))?;
    Some(&rest[start..])
}

fn number_after(body: &[u8], name: &[u8]) -> Option<u64> {
    let value = value_after(body, name)?;
    let end = value.iter().position(|it| !it.is_ascii_digit()).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()?.parse().ok()
}

enum MockBody {
    Whole(Option<&'static [u8]>),
    Stream(Box<Events>),
}

impl MockBody {
    const fn whole(bytes: &'static [u8]) -> Self {
        Self::Whole(Some(bytes))
    }
}

impl Body for MockBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
            Self::Stream(events) => ready!(events.poll_next(cx)),
        };
        Poll::Ready(bytes.map(|it| Ok(Frame::data(Bytes::from_static(it)))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.map_or(0, |it| it.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// The events of one stream: role, content at its pace, finish, usage if wanted, `[DONE]`.
struct Events {
    plan: Plan,
    next: u64,
    started: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Events {
    fn new(plan: Plan) -> Self {
        let started = Instant::now();
        Self { plan, next: 0, started, timer: Box::pin(sleep_until(started)) }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<&'static [u8]>> {
        let Plan { n_chunks, interval, with_usage } = self.plan;
        if (1..=n_chunks).contains(&self.next) && !interval.is_zero() {
            // Due times count from the start, so that a late chunk does not delay all that follow.
            let due = self.started + interval.saturating_mul(u32::try_from(self.next).unwrap_or(u32::MAX));
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(cx));
        }
        let bytes = match self.next.checked_sub(n_chunks) {
            _ if self.next == 0 => ROLE,
            None | Some(0) => CONTENT,
            Some(1) => FINISH,
            Some(2) if with_usage => USAGE,
            Some(2) => DONE,
            Some(3) if with_usage => DONE,
            Some(_) => return Poll::Ready(None),
        };
        self.next += 1;
        Poll::Ready(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_found_in_the_body() {
        let body = br#"{"model":"m","stream": true,"stream_options":{"include_usage":true},"mock":{"chunks":20,"interval_ms":50}}"#;
        let plan = Plan { n_chunks: 20, interval: Duration::from_millis(50), with_usage: true };
        assert_eq!(Wanted::parse(body), Wanted::Stream(plan));
        assert_eq!(Wanted::parse(br#"{"model":"m","stream":false}"#), Wanted::Completion);
        assert_eq!(Wanted::parse(br#"{"model":"m"}"#), Wanted::Completion);
        let plan = Plan { n_chunks: DEFAULT_CHUNKS, interval: Duration::ZERO, with_usage: false };
        assert_eq!(Wanted::parse(br#"{"stream":true}"#), Wanted::Stream(plan));
    }
}
