//! Admission: what a request takes of its accounts, and how that is settled.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use gantry_domain::{
    ApiError, ErrorCode, Timestamp,
    limit::{gcra, period::Period},
};

use super::{
    account::{ACCOUNTS, Account, Charges, LimitKind, Rate},
    clock::{Moment, nanos},
    limiter::Limiter,
    spending::WARN_PCT,
    state::signed,
    subject::Subject,
};

/// Retry time if too many requests run; it is unknown when one of them ends.
const BUSY: Duration = Duration::from_secs(1);

/// What a request is going to use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Tokens, by a bounded estimate; `None` if the endpoint computes none, which costs no tokens.
    pub tokens: Option<u64>,
    pub stream: bool,
}

/// A limit that does not let a request through.
struct LimitReached {
    kind: LimitKind,
    period: Option<Period>,
    wait: Duration,
}

/// What a request took of one account.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    running: bool,
    stream: bool,
    request: bool,
    /// Reserved tokens.
    tokens: Option<u64>,
}

/// What a request took of its accounts. Dropping it frees its places among the running requests.
#[derive(Debug)]
pub struct Ticket {
    charges: Arc<Charges>,
    /// What it took of each account, in the order of the charges.
    taken: [Taken; ACCOUNTS],
    /// Whether each account would have refused the request if it were not in shadow mode; no more is taken of it then.
    refused: [bool; ACCOUNTS],
    /// It is counted in tokens.
    metered: bool,
}

/// Takes a place among the running requests. A request takes it before anything else, while its body is still on its
/// way, so that a caller who may have few requests at a time can't have many half-sent ones in memory.
///
/// # Errors
/// 429 `rate_limit_exceeded`.
pub(crate) fn enter(limiter: &Limiter, charges: &Arc<Charges>, now: Instant) -> Result<Ticket, ApiError> {
    let taken = [Taken::default(); ACCOUNTS];
    let mut ticket =
        Ticket { charges: Arc::clone(charges), taken, refused: [false; ACCOUNTS], metered: false };
    let now = nanos(now);
    ticket.each(limiter, now, |account, taken| {
        // Accounts may share their state: what one has no limit for is not charged to the other.
        if account.limits.max_concurrency.is_none() {
            return Ok(());
        }
        let shares = limiter.shares_to_decide(account, now);
        let others = if shares == 1 { account.state.others_running() } else { 0 };
        taken.running = place(&account.state.running, account.limits.max_concurrency, others, shares);
        if !taken.running {
            return Err(busy(LimitKind::Concurrency));
        }
        limiter.allowed(LimitKind::Concurrency);
        Ok(())
    })?;
    Ok(ticket)
}

impl Ticket {
    /// Takes everything else, or returns the limit that refuses the request; then nothing is held any more. The request's
    /// row will be counted by the time at which it `began`.
    ///
    /// # Errors
    /// 429 `rate_limit_exceeded` or `budget_exceeded`.
    pub(crate) fn admit(&mut self, limiter: &Limiter, demand: Demand, began: Moment) -> Result<(), ApiError> {
        let now = began.nanos;
        self.metered = demand.tokens.is_some();
        self.each(limiter, now, |account, taken| {
            // Each request is counted once: if the account limits concurrency, `enter` has counted it already.
            let counted = account.limits.max_concurrency.is_some();
            let shares = if counted {
                limiter.shares(&account.state, now)
            } else {
                limiter.shares_to_decide(account, now)
            };
            take(limiter, account, Attempt { demand, shares, began }, taken)
        })
    }

    fn each(
        &mut self,
        limiter: &Limiter,
        now: u64,
        mut take: impl FnMut(&Account, &mut Taken) -> Result<(), LimitReached>,
    ) -> Result<(), ApiError> {
        let accounts = &self.charges.0;
        for (at, account) in accounts.iter().enumerate() {
            if self.refused[at] {
                continue;
            }
            let Err(refused) = take(account, &mut self.taken[at]) else { continue };
            let counted =
                if account.enforces() { &limiter.counters.refused } else { &limiter.counters.shadow };
            counted[refused.kind as usize].fetch_add(1, Relaxed);
            limiter.doubted(account, now);
            // This gives back what the request had taken before it was refused.
            give_back(limiter, account, &mut self.taken[at], now);
            if account.enforces() {
                for (account, taken) in accounts.iter().zip(&mut self.taken) {
                    give_back(limiter, account, taken, now);
                }
                return Err(refused.error(account.subject));
            }
            self.refused[at] = true;
            tracing::debug!(target: "gantry::limits", subject = %account.subject, kind = refused.kind.as_str(),
                "a limit in shadow mode would have refused a request");
        }
        for account in accounts {
            limiter.changed(account);
        }
        Ok(())
    }
}

fn busy(kind: LimitKind) -> LimitReached {
    LimitReached { kind, period: None, wait: BUSY }
}

/// What a request asks of one account.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    demand: Demand,
    /// Into how many shares the limits are divided now.
    shares: u64,
    began: Moment,
}

fn take(
    limiter: &Limiter,
    account: &Account,
    attempt: Attempt,
    taken: &mut Taken,
) -> Result<(), LimitReached> {
    let Attempt { demand, shares, began: Moment { nanos: now, at: begun } } = attempt;
    let (state, limits, linked) = (&account.state, &account.limits, limiter.is_linked());
    if demand.tokens.is_some() {
        let mut has_budget = false;
        for (period, limit) in account.budgets() {
            has_budget = true;
            if state.spendings.spent(period, begun) >= limit {
                let wait = period.end(begun).since(begun);
                return Err(LimitReached { kind: LimitKind::Budget, period: Some(period), wait });
            }
        }
        if has_budget {
            limiter.allowed(LimitKind::Budget);
        }
    }
    if demand.stream && limits.max_streams.is_some() {
        let others = if shares == 1 { state.others_streams() } else { 0 };
        taken.stream = place(&state.streams, limits.max_streams, others, shares);
        if !taken.stream {
            return Err(busy(LimitKind::Streams));
        }
        limiter.allowed(LimitKind::Streams);
    }
    let late = |kind, wait| LimitReached { kind, period: None, wait: Duration::from_nanos(wait) };
    if let (Some(tpm), Some(tokens)) = (&account.tpm, demand.tokens) {
        // A request larger than the limit waits until the whole limit is free, and settles what it really used.
        let reserved = tokens.clamp(1, (tpm.per_minute / shares).max(1));
        let spent = state.tokens.take(now, tpm.cost(reserved), shares, linked);
        spent.map_err(|wait| late(LimitKind::Tokens, wait))?;
        taken.tokens = Some(reserved);
        limiter.allowed(LimitKind::Tokens);
    }
    if let Some(rpm) = &account.rpm {
        let spent = state.requests.take(now, rpm.cost(1), shares, linked);
        spent.map_err(|wait| late(LimitKind::Requests, wait))?;
        taken.request = true;
        limiter.allowed(LimitKind::Requests);
    }
    Ok(())
}

/// Takes a place, if there is one among those of all gateways.
fn place(own: &AtomicU32, max: Option<i64>, others: u32, shares: u64) -> bool {
    let before = own.fetch_add(1, Relaxed);
    let Some(max) = max else { return true };
    let max = (max.unsigned_abs() / shares).max(1);
    let free = u64::from(before) + u64::from(others) < max;
    if !free {
        own.fetch_sub(1, Relaxed);
    }
    free
}

/// Gives back what a request holds, as if it had never been there.
fn give_back(limiter: &Limiter, account: &Account, taken: &mut Taken, now: u64) {
    let linked = limiter.is_linked();
    let shares = limiter.shares(&account.state, now);
    let Taken { running, stream, request, tokens } = std::mem::take(taken);
    leave(account, running, stream);
    if let (true, Some(rpm)) = (request, &account.rpm) {
        account.state.requests.charge(now, -signed(rpm.cost(1)), shares, linked);
    }
    if let (Some(reserved), Some(tpm)) = (tokens, &account.tpm) {
        account.state.tokens.charge(now, -signed(tpm.cost(reserved)), shares, linked);
    }
}

fn leave(account: &Account, running: bool, stream: bool) {
    for (place, taken) in [(&account.state.running, running), (&account.state.streams, stream)] {
        if taken {
            place.fetch_sub(1, Relaxed);
        }
    }
}

impl Ticket {
    /// Ends the request: what it reserved becomes `used`, and its places are free.
    pub(crate) fn settle(self, limiter: &Limiter, used: u64, now: Instant) {
        let now = nanos(now);
        let charges = Arc::clone(&self.charges);
        for (account, taken) in charges.0.iter().zip(&self.taken) {
            if let (Some(reserved), Some(tpm)) = (taken.tokens, &account.tpm) {
                let difference = signed(tpm.cost(used)).saturating_sub(signed(tpm.cost(reserved)));
                if difference != 0 {
                    let shares = limiter.shares(&account.state, now);
                    account.state.tokens.charge(now, difference, shares, limiter.is_linked());
                }
            }
        }
        // The places are freed before the change is announced.
        drop(self);
        for account in &charges.0 {
            if account.counts_running() || account.tpm.is_some() {
                limiter.changed(account);
            }
        }
    }

    /// Counts `used` tokens of a request that began at `begun` against the budgets.
    pub(crate) fn spend(&self, used: u64, begun: Timestamp) {
        if !self.metered || used == 0 {
            return;
        }
        for account in &self.charges.0 {
            let spendings = &account.state.spendings;
            let before = Period::ALL.map(|period| spendings.spent(period, begun));
            spendings.charge(begun, used);
            for (period, limit) in account.budgets() {
                account.note_crossing(period, limit, before[period as usize], spendings.spent(period, begun));
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        for (account, taken) in self.charges.0.iter().zip(&self.taken) {
            leave(account, taken.running, taken.stream);
        }
    }
}

impl Rate {
    fn cost(&self, units: u64) -> u64 {
        gcra::cost(units, self.per_minute)
    }
}

impl Account {
    /// Its budgets, in tokens.
    pub fn budgets(&self) -> impl Iterator<Item = (Period, u64)> {
        let budgets =
            [(Period::Day, self.limits.budget_tokens_day), (Period::Month, self.limits.budget_tokens_month)];
        budgets.into_iter().filter_map(|(period, limit)| Some((period, limit?.unsigned_abs())))
    }

    /// Logs when a budget reaches its warning level or its end.
    fn note_crossing(&self, period: Period, limit: u64, before: u64, after: u64) {
        let crossed = |pct| !reaches(before, limit, pct) && reaches(after, limit, pct);
        let (subject, period) = (self.subject, period.as_str());
        if crossed(100) {
            tracing::warn!(%subject, period, limit, used = after, "a budget of tokens is used up");
        } else if crossed(WARN_PCT) {
            tracing::warn!(%subject, period, limit, used = after, "a budget of tokens is nearly used up");
        }
    }
}

/// Whether `used` is at least `pct` per cent of `limit`.
pub(super) fn reaches(used: u64, limit: u64, pct: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * u128::from(pct)
}

impl LimitReached {
    fn error(&self, subject: Subject) -> ApiError {
        let what = match (self.kind, self.period) {
            (LimitKind::Requests, _) => "limit of requests a minute",
            (LimitKind::Tokens, _) => "limit of tokens a minute",
            (LimitKind::Concurrency, _) => "limit of requests at the same time",
            (LimitKind::Streams, _) => "limit of streams at the same time",
            (LimitKind::Budget, Some(Period::Month)) => "budget of tokens for this month",
            (LimitKind::Budget, _) => "budget of tokens for today",
        };
        let code = match self.kind {
            LimitKind::Budget => ErrorCode::BudgetExceeded,
            _ => ErrorCode::RateLimitExceeded,
        };
        ApiError::new(code, format!("this {}'s {what} is used up", subject.word())).retry_in(self.wait)
    }
}
