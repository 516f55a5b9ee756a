//! Bytes of a record: `u32 length | u32 CRC-32 of the payload | payload`, all little-endian. A payload is a kind byte
//! and a row in a fixed order, absent fields included, strings with a 16-bit length in front; the number of requests
//! follows, unless it is 1. A new layout needs a new [`MAGIC`].
//!
//! A segment begins with [`MAGIC`] and the number of bytes that are written, its head included, as a `u64`; 0: as many as the file
//! has. A file that was allocated before it was written is longer, and has zeros behind them. [`OLD_MAGIC`] stands alone.

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow},
};
use uuid::Uuid;

/// First bytes of each segment; the digit is the version of the layout.
pub(super) const MAGIC: &[u8; 8] = b"GTYSPL2\n";
/// Those of segments that have no number of bytes.
pub(super) const OLD_MAGIC: &[u8; 8] = b"GTYSPL1\n";
/// Bytes before the first record: [`MAGIC`] and the number of bytes.
pub(super) const SEGMENT_HEAD: usize = 16;
/// Bytes of the length and the checksum.
const HEAD: usize = 8;
/// Longest payload: strings are cut to [`MAX_TEXT`] bytes each.
const MAX_PAYLOAD: usize = 4096;
/// Longest record.
pub(super) const MAX_RECORD: usize = HEAD + MAX_PAYLOAD;
const MAX_TEXT: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    Intent,
    Final,
}

/// A [`UsageRow`] that owns nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRef<'a> {
    pub id: Uuid,
    pub req_id: &'a str,
    pub created_at: Timestamp,
    pub key_id: Option<KeyId>,
    pub key_prefix: Option<&'a str>,
    pub user_id: Option<UserId>,
    pub org_id: Option<OrgId>,
    pub model_name: &'a str,
    pub task: Task,
    pub endpoint: Endpoint,
    pub stream: bool,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    pub cached_tokens: Option<i64>,
    pub estimated: bool,
    pub latency_ms: i64,
    pub ttft_ms: Option<i64>,
    pub status_code: u16,
    pub outcome: Outcome,
    pub requests: i64,
}

/// Appends a whole record to `out`.
pub(super) fn encode(kind: RecordKind, row: &RowRef<'_>, out: &mut Vec<u8>) {
    let head = out.len();
    out.extend_from_slice(&[0; HEAD]);
    out.push(match kind {
        RecordKind::Intent => 1,
        RecordKind::Final => 2,
    });
    out.extend_from_slice(row.id.as_bytes());
    int(out, row.created_at.0);
    out.extend_from_slice(&[task_code(row.task), row.endpoint.facts().spool_code, outcome_code(row.outcome)]);
    out.push(u8::from(row.stream) | u8::from(row.estimated) << 1);
    out.extend_from_slice(&row.status_code.to_le_bytes());
    int(out, row.prompt_tokens);
    int(out, row.completion_tokens);
    int(out, row.latency_ms);
    let optional = [
        row.key_id.map(|it| it.0),
        row.user_id.map(|it| it.0),
        row.org_id.map(|it| it.0),
        row.cached_tokens,
        row.ttft_ms,
    ];
    for value in optional {
        out.push(u8::from(value.is_some()));
        int(out, value.unwrap_or(0));
    }
    text(out, row.req_id);
    text(out, row.model_name);
    out.push(u8::from(row.key_prefix.is_some()));
    text(out, row.key_prefix.unwrap_or_default());
    // It stands last, so that rows of an older program can still be read and most rows are not longer for it.
    if row.requests != 1 {
        int(out, row.requests);
    }

    let payload = &out[head + HEAD..];
    let (length, crc) = (payload.len() as u32, crc32fast::hash(payload));
    out[head..head + 4].copy_from_slice(&length.to_le_bytes());
    out[head + 4..head + HEAD].copy_from_slice(&crc.to_le_bytes());
}

fn int(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn text(out: &mut Vec<u8>, value: &str) {
    let value = &value[..value.floor_char_boundary(MAX_TEXT)];
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value.as_bytes());
}

/// What stands at the beginning of some bytes of a segment.
#[derive(Debug)]
pub(super) enum Parsed {
    Record {
        kind: RecordKind,
        row: Box<UsageRow>,
        len: usize,
    },
    /// The record may continue beyond the end of the bytes.
    Short,
    Damaged,
}

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else { return Parsed::Short };
    let mut head = Cursor(head);
    let (Some(length), Some(crc)) = (head.u32(), head.u32()) else { return Parsed::Short };
    let length = length as usize;
    if length == 0 || length > MAX_PAYLOAD {
        return Parsed::Damaged;
    }
    let Some(payload) = rest.get(..length) else { return Parsed::Short };
    if crc32fast::hash(payload) != crc {
        return Parsed::Damaged;
    }
    match decode(payload) {
        Some((kind, row)) => Parsed::Record { kind, row: Box::new(row), len: HEAD + length },
        None => Parsed::Damaged,
    }
}

fn decode(payload: &[u8]) -> Option<(RecordKind, UsageRow)> {
    let mut at = Cursor(payload);
    let kind = match at.u8()? {
        1 => RecordKind::Intent,
        2 => RecordKind::Final,
        _ => return None,
    };
    let id = Uuid::from_bytes(at.array()?);
    let created_at = Timestamp(at.i64()?);
    let task = [Task::Generate, Task::Embed].into_iter().find(by(at.u8()?, task_code))?;
    let endpoint = Endpoint::ALL.into_iter().find(by(at.u8()?, |it: Endpoint| it.facts().spool_code))?;
    let outcome = Outcome::ALL.into_iter().find(by(at.u8()?, outcome_code))?;
    let flags = at.u8()?;
    let status_code = u16::from_le_bytes(at.array()?);
    let (prompt_tokens, completion_tokens, latency_ms) = (at.i64()?, at.i64()?, at.i64()?);
    let key_id = at.optional()?.0.map(KeyId);
    let user_id = at.optional()?.0.map(UserId);
    let org_id = at.optional()?.0.map(OrgId);
    let (cached_tokens, ttft_ms) = (at.optional()?.0, at.optional()?.0);
    let (req_id, model_name) = (at.text()?, at.text()?);
    let has_prefix = at.u8()? == 1;
    let key_prefix = Some(at.text()?).filter(|_| has_prefix);
    let requests = if at.0.is_empty() { 1 } else { at.i64()? };
    let row = UsageRow {
        id,
        req_id,
        created_at,
        key_id,
        key_prefix,
        user_id,
        org_id,
        model_name,
        task,
        endpoint,
        stream: flags & 1 != 0,
        prompt_tokens,
        completion_tokens,
        cached_tokens,
        estimated: flags & 2 != 0,
        latency_ms,
        ttft_ms,
        status_code,
        outcome,
        requests,
    };
    Some((kind, row))
}

fn by<T: Copy>(code: u8, encode: fn(T) -> u8) -> impl Fn(&T) -> bool {
    move |it| encode(*it) == code
}

// These codes are on disk: they are never reused, even if the order of the variants changes.

fn task_code(task: Task) -> u8 {
    match task {
        Task::Generate => 1,
        Task::Embed => 2,
    }
}

fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Ok => 1,
        Outcome::ClientError => 2,
        Outcome::UpstreamError => 3,
        Outcome::ClientClosed => 4,
        Outcome::Timeout => 5,
        Outcome::Rejected => 6,
    }
}

/// A field that may be absent, once it was read.
struct Maybe(Option<i64>);

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn optional(&mut self) -> Option<Maybe> {
        let present = self.u8()? == 1;
        Some(Maybe(Some(self.i64()?).filter(|_| present)))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.array().map(u16::from_le_bytes)?);
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(head.to_vec()).ok()
    }
}
