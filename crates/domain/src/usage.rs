//! The usage record: one for each inference request that passed authentication; refusals beyond the first few of a caller
//! share one, with their number.

pub mod histogram;
pub mod varint;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{KeyId, OrgId, Timestamp, UserId, endpoint::Endpoint, model::Task};

/// How a request ended, as the operator wants to count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    /// The request was at fault (4xx of the gateway or the engine).
    ClientError,
    /// The engine failed, could not be reached, or the gateway died while the request ran.
    UpstreamError,
    /// The client left before the answer was complete.
    ClientClosed,
    Timeout,
    /// Refused by a limit, or because the model is not running.
    Rejected,
}

impl Outcome {
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::ClientError, Self::UpstreamError, Self::ClientClosed, Self::Timeout, Self::Rejected];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client_error",
            Self::UpstreamError => "upstream_error",
            Self::ClientClosed => "client_closed",
            Self::Timeout => "timeout",
            Self::Rejected => "rejected",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}

/// A request counts as an error in all sums from this status on: refused and abandoned requests too, whatever their
/// [`Outcome`]. (A stream that ends with an error event of the engine itself keeps the status that was sent, and tells by
/// its outcome.)
pub const FIRST_ERROR_STATUS: u16 = 400;

/// Status that a row carries when the client left before the answer was complete (never sent; nginx's convention).
pub const STATUS_CLIENT_CLOSED: u16 = 499;

/// One row of the usage ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// `UUIDv7` made when the request was accepted; its first 48 bits are `created_at`, so that rows sort, page
    /// and filter by time on the primary key alone. It makes replays of the spool idempotent.
    pub id: Uuid,
    /// The `x-request-id` that the client saw (its own, if it sent one); not unique.
    pub req_id: String,
    pub created_at: Timestamp,
    /// Absent for requests that a signed-in user made with the session cookie.
    pub key_id: Option<KeyId>,
    pub key_prefix: Option<String>,
    pub user_id: Option<UserId>,
    pub org_id: Option<OrgId>,
    /// Served name as requested, cut to 200 characters.
    pub model_name: String,
    pub task: Task,
    pub endpoint: Endpoint,
    pub stream: bool,
    pub prompt_tokens: i64,
    pub completion_tokens: i64,
    /// Prompt tokens that came from the engine's prefix cache, where the engine says so.
    pub cached_tokens: Option<i64>,
    /// The counts were made by the gateway, because the engine gave none.
    pub estimated: bool,
    pub latency_ms: i64,
    /// Time to the first byte of a streamed answer.
    pub ttft_ms: Option<i64>,
    pub status_code: u16,
    pub outcome: Outcome,
    /// Requests that the row stands for: 1, or more for requests of one caller that were refused alike. `id`, `req_id` and
    /// `created_at` are those of the first of them, `latency_ms` is their mean.
    pub requests: i64,
}

/// The smallest `UUIDv7` of the given millisecond: lower bound of a range over [`UsageRow::id`].
pub fn first_id_at(at: Timestamp) -> Uuid {
    let ms = u64::try_from(at.0).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(u128::from(ms) << 80)
}

/// The time in the first 48 bits of a `UUIDv7`.
pub fn time_of(id: Uuid) -> Timestamp {
    Timestamp((id.as_u128() >> 80) as i64)
}

/// A `UUIDv7` (RFC 9562 §5.7) of the given millisecond; `random` fills its 74 free bits.
pub fn id_at(at: Timestamp, random: u128) -> Uuid {
    const FREE: u128 = 0x0000_0000_0000_0fff_3fff_ffff_ffff_ffff;
    const VERSION_AND_VARIANT: u128 = 0x0000_0000_0000_7000_8000_0000_0000_0000;
    Uuid::from_u128(first_id_at(at).as_u128() | (random & FREE) | VERSION_AND_VARIANT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_are_version_7() {
        let early = id_at(Timestamp(1_795_219_804_123), u128::MAX);
        let late = id_at(Timestamp(1_795_219_804_124), 0);
        assert!(early < late && first_id_at(Timestamp(1_795_219_804_124)) <= late);
        assert_eq!((early.get_version_num(), early.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(time_of(early), Timestamp(1_795_219_804_123));
        assert_eq!(early.get_timestamp().unwrap().to_unix(), (1_795_219_804, 123_000_000));
    }
}
