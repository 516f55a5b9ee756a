//! Limits the cost of refusals. A refused request (over a limit, from a wrong address, or malformed) uses up no limit.
//! Without the bounds below, a caller could send refused requests as fast as it likes. For each caller:
//!
//! - the first refusals have a row of their own; further ones of the same kind share a row, which says how many they are
//! - there are at most [`BURST`] rows at once and [`ROWS_PER_SECOND`] of them in the long run, of both kinds together
//! - beyond [`ANSWERS_PER_SECOND`], an answer comes [`DELAY`] later and ends its connection
//!
//! Lines of the access log go with the rows. The bounds are those of the process; the shared rows are counted by each
//! thread and written at its next tick, so that a gateway that is killed loses the counts of the last moments. Requests
//! that were sent to an engine are never counted here.

use std::{
    cell::RefCell,
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_domain::{Timestamp, endpoint::Endpoint, limit::gcra, model::Task, usage::Outcome};
use uuid::Uuid;

use crate::{caller_id::CallerId, limits::nanos, record::spool::RowRef};

/// Most rows a second of one caller's refusals, in the long run.
const ROWS_PER_SECOND: u64 = 5;
/// Most rows at once.
const BURST: u64 = 45;
/// Part of [`BURST`] that is kept for rows that stand for several requests.
const FOR_SHARED: u64 = 5;
/// Most answers a second that are not delayed.
const ANSWERS_PER_SECOND: u64 = 50;
/// Delay of the other answers.
pub(crate) const DELAY: Duration = Duration::from_secs(1);
/// Number of waiting shared rows of one thread, from which on further ones have no model name.
const NAMED: usize = 1024;

const SECOND: u64 = 1_000_000_000;
const ROW: u64 = SECOND / ROWS_PER_SECOND;

/// What one caller's refusals used up of their bounds, on all threads. Outlives catalogs with the state of its key or user.
#[derive(Debug, Default)]
pub struct RefusalQuota {
    rows: AtomicU64,
    answers: AtomicU64,
}

impl RefusalQuota {
    /// Returns whether a refusal may have a row of its own.
    fn own_row(&self, now: u64) -> bool {
        take(&self.rows, now, ROW, (BURST - FOR_SHARED) * ROW)
    }

    /// Returns whether a row that stands for several requests may be written.
    fn shared_row(&self, now: u64) -> bool {
        take(&self.rows, now, ROW, BURST * ROW)
    }

    /// Returns whether the answer may go at once.
    pub(crate) fn answers_now(&self, now: Instant) -> bool {
        take(&self.answers, nanos(now), SECOND / ANSWERS_PER_SECOND, SECOND)
    }
}

fn take(tat: &AtomicU64, now: u64, cost: u64, span: u64) -> bool {
    tat.fetch_update(Relaxed, Relaxed, |tat| gcra::take(tat, now, cost, span).ok()).is_ok()
}

/// Refusals share a row if they agree in all of this.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RefusalKey {
    caller: CallerId,
    endpoint: Endpoint,
    task: Task,
    status: u16,
    outcome: Outcome,
    /// Empty unless there is such a model: clients make up as many names as they like.
    model: Box<str>,
}

/// The number of refusals that share a row, and what is known of the first of them.
#[derive(Debug)]
struct SharedRow {
    n: i64,
    /// Latency of all of them together, in milliseconds.
    latency: i64,
    id: Uuid,
    request_id: Box<str>,
    created_at: Timestamp,
    key_prefix: Option<Box<str>>,
    stream: bool,
    client: IpAddr,
    bounds: Arc<RefusalQuota>,
}

/// The refusals of one thread that wait for a shared row.
#[derive(Debug, Default)]
pub(crate) struct RefusedRows(RefCell<HashMap<RefusalKey, SharedRow>>);

impl RefusedRows {
    /// Returns whether the row is to be written as it is; otherwise it has been counted and comes with
    /// [`RefusedRows::write`]. `known` says that its model exists.
    pub(crate) fn passes(
        &self,
        bounds: &Arc<RefusalQuota>,
        row: &RowRef<'_>,
        known: bool,
        client: IpAddr,
        now: Instant,
    ) -> bool {
        if bounds.own_row(nanos(now)) {
            return true;
        }
        let mut waiting = self.0.borrow_mut();
        let named = known && waiting.len() < NAMED;
        let kind = RefusalKey {
            caller: CallerId { key: row.key_id, user: row.user_id, org: row.org_id },
            endpoint: row.endpoint,
            task: row.task,
            status: row.status_code,
            outcome: row.outcome,
            model: if named { row.model_name.into() } else { Box::default() },
        };
        let shared = waiting.entry(kind).or_insert_with(|| SharedRow {
            n: 0,
            latency: 0,
            id: row.id,
            request_id: row.req_id.into(),
            created_at: row.created_at,
            key_prefix: row.key_prefix.map(Box::from),
            stream: row.stream,
            client,
            bounds: Arc::clone(bounds),
        });
        shared.n += 1;
        shared.latency = shared.latency.saturating_add(row.latency_ms);
        false
    }

    /// Writes the shared rows that may be written now, or all of them at the `end`.
    pub(crate) fn write(&self, now: Instant, end: bool, mut write: impl FnMut(&RowRef<'_>, IpAddr)) {
        let now = nanos(now);
        self.0.borrow_mut().retain(|kind, shared| {
            if !end && !shared.bounds.shared_row(now) {
                return true;
            }
            let row = RowRef {
                id: shared.id,
                req_id: &shared.request_id,
                created_at: shared.created_at,
                key_id: kind.caller.key,
                key_prefix: shared.key_prefix.as_deref(),
                user_id: kind.caller.user,
                org_id: kind.caller.org,
                model_name: &kind.model,
                task: kind.task,
                endpoint: kind.endpoint,
                stream: shared.stream,
                prompt_tokens: 0,
                completion_tokens: 0,
                cached_tokens: None,
                estimated: false,
                latency_ms: shared.latency / shared.n,
                ttft_ms: None,
                status_code: kind.status,
                outcome: kind.outcome,
                requests: shared.n,
            };
            write(&row, shared.client);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_at_once_a_caller_has_few_rows() {
        let bounds = RefusalQuota::default();
        let second = |from: u64| {
            let mut n = 0;
            for ms in 0..1000 {
                let now = from + ms * 1_000_000;
                n += (0..10).filter(|_| bounds.own_row(now)).count();
                n += usize::from(bounds.shared_row(now));
            }
            n
        };
        let first = second(0);
        assert!((45..=50).contains(&first), "{first}");
        assert!((5..=6).contains(&second(SECOND)));
        let rested = second(100 * SECOND);
        assert!((45..=50).contains(&rested), "{rested}");
    }
}
