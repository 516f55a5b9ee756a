//! Unpacks request bodies that came compressed. What they become is bounded like a body that came plain. A body is
//! unpacked in small steps, between which the other requests of the thread go on.

use std::{
    fmt::Display,
    io::{self, Write},
};

use bytes::Bytes;
use flate2::write::GzDecoder;
use gantry_domain::{ApiError, ErrorCode, name};
use http::{HeaderMap, header};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::{
    request::{
        body_memory::BodyReservation,
        deadline::{Deadline, Over},
    },
    response::errors::shutting_down,
};

/// Bytes of gzip that are unpacked in one step. They become at most a thousand times as many.
const STEP: usize = 4 << 10;
/// Most bytes that a block of zstd becomes (RFC 8878, 3.1.1.2.4).
const BLOCK: usize = 128 << 10;
/// Window of zstd that every decoder should take (RFC 8878, 3.1.1.1.2).
const WINDOW: usize = 8 << 20;
const BEHIND: &str = "there is more behind its end";

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Zstd,
}

impl Coding {
    /// Reads `Content-Encoding`.
    ///
    /// # Errors
    /// 415 `unsupported_media_type`: another coding, or several.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let all = headers.get_all(header::CONTENT_ENCODING).iter();
        let named: Vec<&[u8]> = all
            .flat_map(|it| it.as_bytes().split(|it| *it == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|it| !it.is_empty() && !it.eq_ignore_ascii_case(b"identity"))
            .collect();
        match named.as_slice() {
            [] => return Ok(Self::Identity),
            [it] if it.eq_ignore_ascii_case(b"gzip") || it.eq_ignore_ascii_case(b"x-gzip") => {
                return Ok(Self::Gzip);
            }
            [it] if it.eq_ignore_ascii_case(b"zstd") => return Ok(Self::Zstd),
            _ => {}
        }
        let all = named.join(&b", "[..]);
        let message = format!(
            "the body's `Content-Encoding` is `{}`: send it with gzip or zstd, or not compressed",
            name::shown(&String::from_utf8_lossy(&all))
        );
        Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
    }
}

/// Unpacks a whole body to up to `max` bytes.
///
/// # Errors
/// 400 `invalid_request`; 413 `request_too_large`; 408 `request_timeout`; 503 `request_memory_full` or `shutting_down`.
pub(super) async fn unpack(
    packed: &[u8],
    coding: Coding,
    max: usize,
    reservation: &mut BodyReservation<'_>,
    deadline: &mut Deadline,
) -> Result<Bytes, ApiError> {
    let unpacked = Unpacked { body: Vec::new(), packed: packed.len(), max, reservation, refused: None };
    let body = match coding {
        Coding::Identity => packed.to_vec(),
        Coding::Gzip => gunzip(packed, unpacked, deadline).await?,
        Coding::Zstd => unzstd(packed, unpacked, deadline).await?,
    };
    Ok(body.into())
}

/// What was unpacked so far.
struct Unpacked<'a, 'b> {
    body: Vec<u8>,
    /// Length of the body as it came.
    packed: usize,
    max: usize,
    reservation: &'a mut BodyReservation<'b>,
    /// Why no more of it is taken.
    refused: Option<ApiError>,
}

impl Unpacked<'_, '_> {
    /// Makes room for `more` bytes of the body, and for `kept` bytes that the decoder keeps.
    fn make_room(&mut self, more: usize, kept: usize) -> Result<(), ApiError> {
        let length = self.body.len() + more;
        if length > self.max {
            return Err(too_large(self.max));
        }
        self.reservation.grow(self.packed + length + kept)
    }
}

impl Write for Unpacked<'_, '_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if let Err(problem) = self.make_room(data.len(), 0) {
            self.refused = Some(problem);
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.body.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn gunzip(
    packed: &[u8],
    unpacked: Unpacked<'_, '_>,
    deadline: &mut Deadline,
) -> Result<Vec<u8>, ApiError> {
    let mut decoder = GzDecoder::new(unpacked);
    let mut steps = packed.chunks(STEP);
    loop {
        let step = steps.next();
        let done = match step {
            Some(step) => decoder.write_all(step),
            None => decoder.try_finish(),
        };
        if let Err(error) = done {
            let refused = decoder.get_mut().refused.take();
            return Err(refused.unwrap_or_else(|| match error.kind() {
                io::ErrorKind::WriteZero => broken("gzip", &BEHIND),
                _ => broken("gzip", &error),
            }));
        }
        if step.is_none() {
            return Ok(std::mem::take(&mut decoder.get_mut().body));
        }
        pause(deadline).await?;
    }
}

/// Unpacks one frame. Its data goes into the body when it leaves the window, which the decoder keeps.
async fn unzstd(
    packed: &[u8],
    mut unpacked: Unpacked<'_, '_>,
    deadline: &mut Deadline,
) -> Result<Vec<u8>, ApiError> {
    let mut rest = packed;
    let mut decoder = FrameDecoder::new();
    decoder.init(&mut rest).map_err(|it| broken("zstd", &it))?;
    let max = unpacked.max as u64;
    if decoder.content_size() > max {
        return Err(too_large(unpacked.max));
    }
    let window = window(packed).unwrap_or_else(|| decoder.content_size());
    if window > max.max(WINDOW as u64) {
        return Err(broken("zstd", &"its window is too large"));
    }
    let mut kept = 0_usize;
    while !decoder.is_finished() {
        kept = (kept + BLOCK).min(window as usize + BLOCK);
        unpacked.make_room(0, kept)?;
        decoder
            .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
            .map_err(|it| broken("zstd", &it))?;
        unpacked.make_room(decoder.can_collect(), 0)?;
        decoder.collect_to_writer(&mut unpacked.body).map_err(|it| broken("zstd", &it))?;
        pause(deadline).await?;
    }
    if !rest.is_empty() {
        return Err(broken("zstd", &BEHIND));
    }
    Ok(unpacked.body)
}

/// Returns how many bytes of a frame its decoder keeps (RFC 8878, 3.1.1.1.2); `None` if that is all of its content.
fn window(frame: &[u8]) -> Option<u64> {
    let [_, _, _, _, descriptor, window, ..] = *frame else { return None };
    if descriptor & 0b10_0000 != 0 {
        return None;
    }
    let base = 1_u64 << (10 + (window >> 3));
    Some(base + base / 8 * u64::from(window & 7))
}

/// Lets the other requests of this thread go on.
async fn pause(deadline: &mut Deadline) -> Result<(), ApiError> {
    deadline.limit(tokio::task::yield_now()).await.map_err(over)
}

/// Returns the error for a body that did not come, or could not be unpacked, in time.
pub(super) fn over(why: Over) -> ApiError {
    match why {
        Over::TimedOut => ApiError::new(ErrorCode::RequestTimeout, "the body did not arrive in time"),
        Over::Cut => shutting_down(),
    }
}

pub(super) fn too_large(max: usize) -> ApiError {
    ApiError::new(ErrorCode::RequestTooLarge, format!("the body may have at most {max} bytes"))
}

fn broken(coding: &str, why: &dyn Display) -> ApiError {
    let message = format!("the body can't be unpacked as {coding}: {why}");
    ApiError::new(ErrorCode::InvalidRequest, message)
}
