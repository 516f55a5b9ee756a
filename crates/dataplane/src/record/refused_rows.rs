//! The shared rows of refusals: those that may have no row of their own (see [`crate::limits::refusals`]) are counted by
//! each thread, and written at its next tick.

use std::{cell::RefCell, collections::HashMap, net::IpAddr, time::Instant};

use gantry_domain::{Timestamp, endpoint::Endpoint, model::Task, usage::Outcome};
use uuid::Uuid;

use crate::{
    caller_id::CallerId,
    limits::{Refusals, clock::nanos},
    record::spool::RowRef,
};

/// Number of waiting shared rows of one thread, from which on further ones have no model name.
const NAMED: usize = 1024;

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
    bounds: Refusals,
}

/// The refusals of one thread that wait for a shared row.
#[derive(Debug, Default)]
pub(crate) struct RefusedRows(RefCell<HashMap<RefusalKey, SharedRow>>);

impl RefusedRows {
    /// Returns whether the row is to be written as it is; otherwise it has been counted and comes with
    /// [`RefusedRows::write`]. `known` says that its model exists.
    pub(crate) fn passes(
        &self,
        bounds: &Refusals,
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
            bounds: bounds.clone(),
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
