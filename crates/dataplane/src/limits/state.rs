//! What an account has used: the two rates, the running requests and the budgets.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicI64, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
    time::Duration,
};

use gantry_domain::limit::gcra::{self, MINUTE};

use super::{refusals::RefusalQuota, spending::Spendings, subject::Subject};

/// How long the other gateways' reports are used. They are asked again each second while there are requests.
pub const FRESH: Duration = Duration::from_millis(2_500);

/// What an account has used; carried over from catalog to catalog for the same key or organisation.
#[derive(Debug)]
pub struct AccountState {
    subject: Subject,
    pub(super) requests: Bucket,
    pub(super) tokens: Bucket,
    pub(super) running: AtomicU32,
    pub(super) streams: AtomicU32,
    /// Running requests of the other gateways at the last exchange.
    others_running: AtomicU32,
    others_streams: AtomicU32,
    /// Until when the other gateways' reports are used, in [`super::clock::nanos`].
    fresh_until: AtomicU64,
    /// It is on the list of those to be exchanged.
    changed: AtomicBool,
    /// Tokens against budgets.
    pub spendings: Spendings,
    /// What the refusals of a key or a user cost the gateway.
    pub refusals: Arc<RefusalQuota>,
}

/// What this gateway reports to the others about an account. Costs are nanoseconds of its limits and may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub requests: i64,
    pub tokens: i64,
    pub running: u32,
    pub streams: u32,
}

/// What is known of an account after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    /// How far its limits are spent by all gateways, this one's report included, in nanoseconds.
    pub requests: u64,
    pub tokens: u64,
    /// Running requests of the other gateways.
    pub running: u32,
    pub streams: u32,
}

impl AccountState {
    /// Makes the state of a holder that has used nothing.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            requests: Bucket::default(),
            tokens: Bucket::default(),
            running: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            others_running: AtomicU32::new(0),
            others_streams: AtomicU32::new(0),
            fresh_until: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            spendings: Spendings::default(),
            refusals: Arc::default(),
        }
    }

    /// Returns whose limits these are.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Returns how many requests run now and are limited in number, on this gateway.
    pub fn running(&self) -> u32 {
        self.running.load(Relaxed)
    }

    pub(super) fn streams(&self) -> u32 {
        self.streams.load(Relaxed)
    }

    /// Returns whether it is as good as new at `now`, in [`super::clock::nanos`]: nothing runs, and both rates are whole
    /// again. Budgets do not count; they are read from the database.
    pub fn is_at_rest(&self, now: u64) -> bool {
        let idle = self.running.load(Relaxed) == 0 && self.streams.load(Relaxed) == 0;
        idle && self.requests.tat() <= now && self.tokens.tat() <= now
    }

    /// Returns how many requests ran on the other gateways at the last exchange.
    pub(super) fn others_running(&self) -> u32 {
        self.others_running.load(Relaxed)
    }

    /// Returns how many of them had streams.
    pub(super) fn others_streams(&self) -> u32 {
        self.others_streams.load(Relaxed)
    }

    pub(super) fn is_fresh(&self, now: u64) -> bool {
        self.fresh_until.load(Relaxed) > now
    }

    /// Returns whether the last exchange was longer ago than `age`, which must be below [`FRESH`].
    pub(super) fn is_older(&self, now: u64, age: Duration) -> bool {
        !self.is_fresh(now.saturating_add(nanos_of(FRESH.saturating_sub(age))))
    }

    /// Marks the account as changed; returns whether it was not marked yet.
    pub(super) fn mark_changed(&self) -> bool {
        // It is read first: under load it is mostly marked already, and a write would move the cache line between the
        // threads' caches.
        !self.changed.load(Relaxed) && !self.changed.swap(true, AcqRel)
    }

    pub(super) fn unmark_changed(&self) {
        self.changed.store(false, Relaxed);
    }

    /// Returns what happened since the last report. If that is long ago because exchanges failed, it reports no more
    /// than what is still spent: the rest has been earned back since.
    pub fn report(&self, now: u64) -> Report {
        let late = !self.is_fresh(now);
        // From now on changes go into the next report, so they mark it again.
        self.changed.swap(false, AcqRel);
        Report {
            requests: self.requests.report(now, late),
            tokens: self.tokens.report(now, late),
            running: self.running.load(Relaxed),
            streams: self.streams.load(Relaxed),
        }
    }

    /// Takes back a report that did not arrive; the next one includes it.
    pub fn take_back(&self, report: &Report) {
        self.requests.pending.fetch_add(report.requests, Relaxed);
        self.tokens.pending.fetch_add(report.tokens, Relaxed);
    }

    /// Makes the view of all gateways together the basis of the next decisions.
    pub fn apply(&self, view: &View, now: u64) {
        self.requests.apply(view.requests, now);
        self.tokens.apply(view.tokens, now);
        self.others_running.store(view.running, Relaxed);
        self.others_streams.store(view.streams, Relaxed);
        self.fresh_until.store(now.saturating_add(nanos_of(FRESH)), Relaxed);
    }
}

/// One limit "a minute"; see [`gcra`].
#[derive(Debug, Default)]
pub(super) struct Bucket {
    tat: AtomicU64,
    /// Cost that the other gateways do not know of yet. Only used with a link.
    pending: AtomicI64,
}

impl Bucket {
    pub(super) fn tat(&self) -> u64 {
        self.tat.load(Relaxed)
    }

    /// Spends `cost`, of this gateway's share of the limit if it is divided into `shares`.
    pub(super) fn take(&self, now: u64, cost: u64, shares: u64, linked: bool) -> Result<(), u64> {
        // A share of a small limit can be less than one request; it is raised to one, or nothing would ever pass.
        let weighed = cost.saturating_mul(shares).min(MINUTE.max(cost));
        let mut tat = self.tat.load(Relaxed);
        loop {
            let next = gcra::take(tat, now, weighed, MINUTE)?;
            match self.tat.compare_exchange_weak(tat, next, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(seen) => tat = seen,
            }
        }
        if linked {
            self.pending.fetch_add(signed(cost), Relaxed);
        }
        Ok(())
    }

    /// Spends `cost` whether it fits or not; gives back what is negative.
    pub(super) fn charge(&self, now: u64, cost: i64, shares: u64, linked: bool) {
        let weighed = cost.saturating_mul(signed(shares));
        // The closure always gives a value, so the update can't fail.
        let _ = self.tat.fetch_update(Relaxed, Relaxed, |tat| Some(gcra::charge(tat, now, weighed)));
        if linked {
            self.pending.fetch_add(cost, Relaxed);
        }
    }

    fn report(&self, now: u64, late: bool) -> i64 {
        let pending = self.pending.swap(0, Relaxed);
        if late { pending.min(signed(gcra::ahead(self.tat(), now))) } else { pending }
    }

    fn apply(&self, ahead: u64, now: u64) {
        let mut tat = self.tat.load(Relaxed);
        loop {
            let next = gcra::charge(now.saturating_add(ahead), now, self.pending.load(Relaxed));
            // If another thread spent something meanwhile, `pending` may or may not include it: try again.
            match self.tat.compare_exchange_weak(tat, next, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(seen) => tat = seen,
            }
        }
    }
}

fn nanos_of(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use gantry_domain::KeyId;

    use super::*;

    fn fill(bucket: &Bucket, cost: u64, shares: u64) -> usize {
        (0..1000).take_while(|_| bucket.take(0, cost, shares, true).is_ok()).count()
    }

    #[test]
    fn a_share_is_a_part_of_the_limit_and_at_least_one() {
        let unit = gcra::cost(1, 10);
        for (shares, n) in [(1, 10), (2, 5), (3, 3), (10, 1), (50, 1)] {
            assert_eq!(fill(&Bucket::default(), unit, shares), n, "{shares} shares");
        }
    }

    #[test]
    fn two_gateways_know_after_an_exchange_what_both_did() {
        let [one, two] =
            [AccountState::new(Subject::Key(KeyId(1))), AccountState::new(Subject::Key(KeyId(1)))];
        let unit = gcra::cost(1, 10);
        let mut shared = 0;
        let mut exchange = |state: &AccountState| {
            shared = gcra::charge(shared, 0, state.report(0).requests);
            state.apply(&View { requests: shared, tokens: 0, running: 0, streams: 0 }, 0);
        };
        for _ in 0..6 {
            one.requests.take(0, unit, 1, true).unwrap();
        }
        two.requests.take(0, unit, 1, true).unwrap();
        exchange(&one);
        exchange(&two);
        assert_eq!(fill(&two.requests, unit, 1), 3);
        // The other gateway does not know it yet, and admits too much. Afterwards, that is a debt of both.
        assert_eq!(fill(&one.requests, unit, 1), 4);
        exchange(&two);
        exchange(&one);
        assert_eq!(one.requests.take(0, unit, 1, true), Err(5 * unit));
        assert!(one.is_fresh(0) && !one.is_fresh(u64::MAX));
    }

    #[test]
    fn what_was_earned_back_during_an_outage_is_not_told() {
        let state = AccountState::new(Subject::Key(KeyId(1)));
        let unit = gcra::cost(1, 10);
        state.apply(&View { requests: 0, tokens: 0, running: 0, streams: 0 }, 0);
        assert_eq!(fill(&state.requests, unit, 1), 10);
        let lost = state.report(1);
        assert_eq!(lost.requests, 10 * unit as i64);
        state.take_back(&lost);
        assert_eq!(state.report(9 * unit).requests, unit as i64);
        assert!(!state.is_older(1, FRESH / 2) && state.is_older(9 * unit, FRESH / 2));
    }
}
