//! Lets an engine's good answer through to the client.

use std::sync::atomic::Ordering::Relaxed;

use gantry_domain::model::EngineKind;
use http::{HeaderMap, HeaderValue, Response, header, response::Parts};

use crate::{
    catalog::Route,
    record::departed::Departed,
    request::deadline::Deadline,
    response::{
        answer::Answer,
        headers,
        tap::{Framing, Tap},
        tokens::UsageOf,
    },
    upstream::{fallback::reply::Chunks, forward::Reply},
};

/// Lets a good answer through. `strip`: the usage event is taken out of it. `chunks` change its events on the way.
pub(crate) fn pass(
    departed: Departed,
    deadline: Deadline,
    reply: Reply,
    strip: bool,
    chunks: Option<Box<Chunks>>,
) -> Response<Answer> {
    let (mut parts, body) = reply.answer.into_parts();
    // The flag is stored only if it changes: otherwise its cache line would move between the threads' caches.
    if departed.upstream.key_mismatch.load(Relaxed) {
        departed.upstream.key_mismatch.store(false, Relaxed);
    }
    let framing = framing(&parts, &departed.route, strip);
    replace_headers(&mut parts.headers, framing.events);
    headers::common(&mut parts.headers, &departed.meter.origin.request_id);
    if departed.route.simulator {
        headers::simulated(&mut parts.headers);
    }
    let mut tap = Tap::new(departed, reply.link, body, deadline, framing);
    if let Some(chunks) = chunks {
        tap.reshape(chunks);
    }
    let mut answer = Response::new(Answer::Tap(tap));
    *answer.status_mut() = parts.status;
    *answer.headers_mut() = parts.headers;
    answer
}

fn framing(parts: &Parts, route: &Route, strip: bool) -> Framing {
    let came = &parts.headers;
    // An upstream of the registry may be llama-server, too.
    let is_llama = match route.engine {
        Some(engine) => engine == EngineKind::Llamacpp,
        None => came.get(header::SERVER).is_some_and(|it| it.as_bytes().starts_with(b"llama.cpp")),
    };
    Framing {
        status: parts.status.as_u16(),
        events: came.get(header::CONTENT_TYPE).is_some_and(headers::is_event_stream),
        delimited: came.contains_key(header::CONTENT_LENGTH) || came.contains_key(header::TRANSFER_ENCODING),
        strip,
        usage_of: if is_llama { UsageOf::Choice } else { UsageOf::Answer },
        idle: route.stream_idle_timeout,
    }
}

/// Leaves the few headers of an engine that are for clients; its name and CORS are not. The map is reused for its
/// memory.
fn replace_headers(headers: &mut HeaderMap, events: bool) {
    let kind = headers.remove(header::CONTENT_TYPE);
    let cache = headers.remove(header::CACHE_CONTROL);
    headers.clear();
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    match cache {
        _ if events => {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            headers::unbuffered(headers);
        }
        Some(cache) => drop(headers.insert(header::CACHE_CONTROL, cache)),
        None => {}
    }
}
