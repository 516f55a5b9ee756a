//! The usage record. There is one for each inference request that passed authentication; after the first few refusals
//! of a caller, further ones share one record, which counts them.

pub mod histogram;
pub mod varint;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{KeyId, OrgId, Timestamp, UserId, endpoint::Endpoint, model::Task, words};

words! {
    /// How a request ended, in the categories that an operator counts.
    #[derive(PartialOrd, Ord)]
    pub enum Outcome {
        /// The client got the complete answer.
        Ok = "ok",
        /// The request was wrong (4xx of the gateway or the engine).
        ClientError = "client_error",
        /// The engine failed, could not be reached, or the gateway died while the request ran.
        UpstreamError = "upstream_error",
        /// The client disconnected before the answer was complete.
        ClientClosed = "client_closed",
        /// The engine did not answer in time.
        Timeout = "timeout",
        /// A limit refused the request, or the model is not running.
        Rejected = "rejected",
    }
}

impl Outcome {
    /// Whether the request was refused: it was wrong, a limit was reached, or the model was not running.
    pub fn is_refused(self) -> bool {
        matches!(self, Self::ClientError | Self::Rejected)
    }
}

/// Lowest status that counts as an error in all sums; refused and abandoned requests count too, whatever their
/// [`Outcome`]. (A stream that ends with an error event of the engine keeps the status that was sent; its outcome shows
/// the error.)
pub const FIRST_ERROR_STATUS: u16 = 400;

/// Status of a row whose client disconnected before the answer was complete (never sent; nginx's convention).
pub const STATUS_CLIENT_CLOSED: u16 = 499;

/// One row of the usage ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// A `UUIDv7` that is made when the request is accepted. Its first 48 bits are `created_at`, so that rows are
    /// sorted, paged and filtered by time on the primary key alone. It makes replays of the spool idempotent.
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
    /// Prompt tokens that came from the engine's prefix cache, if the engine reports them.
    pub cached_tokens: Option<i64>,
    /// The gateway estimated the counts, because the engine gave none.
    pub estimated: bool,
    pub latency_ms: i64,
    /// Time to the first byte of a streamed answer.
    pub ttft_ms: Option<i64>,
    pub status_code: u16,
    pub outcome: Outcome,
    /// Number of requests that the row stands for: 1, or more if requests of one caller were refused for the same
    /// reason. `id`, `req_id` and `created_at` are those of the first request, `latency_ms` is the mean.
    pub requests: i64,
}

/// Returns the smallest `UUIDv7` of the given millisecond, as the lower bound of a range over [`UsageRow::id`].
pub fn first_id_at(at: Timestamp) -> Uuid {
    let ms = u64::try_from(at.0).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(u128::from(ms) << 80)
}

/// Returns the time in the first 48 bits of a `UUIDv7`.
pub fn time_of(id: Uuid) -> Timestamp {
    Timestamp((id.as_u128() >> 80) as i64)
}

/// Makes a `UUIDv7` (RFC 9562 §5.7) for the given millisecond; `random` fills its 74 free bits.
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
