//! The settings of HTTP towards clients.

use std::time::Duration;

use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioTimer;

/// Most bytes of a request head, and most bytes that a connection buffers.
const MAX_BUFFER: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

pub(crate) fn builder(header_timeout: Duration) -> Builder {
    let mut http = Builder::new();
    http.half_close(false)
        .keep_alive(true)
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    http
}
