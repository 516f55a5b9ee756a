//! The settings of HTTP towards clients.

use hyper::server::conn::http1::Builder;

/// Most bytes of a request head, and most bytes that a connection buffers.
const MAX_BUFFER: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

/// Time-outs are those of [`super::patience`].
pub(crate) fn builder() -> Builder {
    let mut http = Builder::new();
    http.half_close(false)
        .keep_alive(true)
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .header_read_timeout(None);
    http
}
