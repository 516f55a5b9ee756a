//! Counts tokens against budgets: what the database says was spent, and what this gateway added since.
//!
//! `spent = base + local`, where `local` is what requests of this process used in the period, and `base` what the
//! database knows of others: `base = (sum of all rows) - shipped`, and `shipped` is how much of `local` had reached the
//! database when it was summed up.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use gantry_domain::{
    Timestamp,
    limit::period::{Period, is_later},
};

/// Per cent of a budget at which warnings begin.
pub(super) const WARN_PCT: u64 = 80;

/// Tokens that were spent of the budgets of a day and of a month.
#[derive(Debug, Default)]
pub struct Spendings {
    day: Spending,
    month: Spending,
    /// Requests that began before this time are in the database's sum or nowhere; 0 while there is no budget.
    since: AtomicI64,
}

/// Tokens that had been shipped before the database was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    at: Timestamp,
    day: u64,
    month: u64,
}

#[derive(Debug, Default)]
struct Spending {
    base: Counter,
    local: Counter,
    shipped: Counter,
}

impl Spending {
    fn counters(&self) -> [&Counter; 3] {
        [&self.base, &self.local, &self.shipped]
    }
}

impl Spendings {
    /// Begins to count when there is a budget, and forgets the counts when there is none. Returns whether counting has
    /// just begun: then the database must be asked.
    pub fn track(&self, has_budget: bool, now: Timestamp) -> bool {
        if !has_budget {
            self.since.store(0, Relaxed);
            return false;
        }
        if self.since.load(Relaxed) != 0 {
            return false;
        }
        self.begin(now);
        true
    }

    fn begin(&self, now: Timestamp) {
        for counter in Period::ALL.into_iter().flat_map(|it| self.of(it).counters()) {
            counter.0.store(0, Relaxed);
        }
        self.since.store(now.0.max(1), Relaxed);
    }

    /// Returns whether the clock was ahead and was set back: then old counts hide new ones.
    fn is_ahead(&self, now: Timestamp) -> bool {
        let ahead = |period: Period| {
            let tag = period.tag(now);
            self.of(period).counters().into_iter().any(|it| it.is_later(tag))
        };
        self.since.load(Relaxed) > now.0 || Period::ALL.into_iter().any(ahead)
    }

    /// Begins to count anew, with what is known as the basis, after it is no longer known which rows have reached the
    /// database.
    pub fn rebase(&self, now: Timestamp) {
        if self.since.load(Relaxed) == 0 {
            return;
        }
        for period in Period::ALL {
            let (spending, tag) = (self.of(period), period.tag(now));
            spending.base.add(tag, spending.local.take(tag));
            spending.shipped.take(tag);
        }
        self.since.store(now.0.max(1), Relaxed);
    }

    fn of(&self, period: Period) -> &Spending {
        match period {
            Period::Day => &self.day,
            Period::Month => &self.month,
        }
    }

    fn counts(&self, begun: Timestamp) -> bool {
        let since = self.since.load(Relaxed);
        since != 0 && begun.0 >= since
    }

    /// Returns what was spent in the period of `now`.
    pub fn spent(&self, period: Period, now: Timestamp) -> u64 {
        let tag = period.tag(now);
        let spending = self.of(period);
        spending.base.get(tag) + spending.local.get(tag)
    }

    /// Counts `tokens` of a request that began at `begun`.
    pub(super) fn charge(&self, begun: Timestamp, tokens: u64) {
        if self.counts(begun) {
            for period in Period::ALL {
                self.of(period).local.add(period.tag(begun), tokens);
            }
        }
    }

    /// Counts a row of this gateway that has reached the database.
    pub fn shipped(&self, begun: Timestamp, tokens: u64) {
        if self.counts(begun) {
            for period in Period::ALL {
                self.of(period).shipped.add(period.tag(begun), tokens);
            }
        }
    }

    /// Returns the marks, which must be taken before the database is asked for the periods of `now`.
    pub fn marks(&self, now: Timestamp) -> Marks {
        let shipped = |period: Period| self.of(period).shipped.get(period.tag(now));
        Marks { at: now, day: shipped(Period::Day), month: shipped(Period::Month) }
    }

    /// Takes over the database's sums; `now` is the time after it has answered. What was shipped between the marks and its
    /// answer counts twice until the next time, which errs on the safe side. If the clock was ahead, what is known begins
    /// anew with the sums.
    pub fn correct(&self, marks: &Marks, day: u64, month: u64, now: Timestamp) {
        let mut marks = *marks;
        if self.since.load(Relaxed) != 0 && self.is_ahead(now) {
            self.begin(now);
            (marks.day, marks.month) = (0, 0);
        }
        for (period, sum, shipped) in [(Period::Day, day, marks.day), (Period::Month, month, marks.month)] {
            self.of(period).base.set(period.tag(marks.at), sum.saturating_sub(shipped));
        }
    }
}

/// A number that belongs to one period and begins anew with the next: 16 bits are the period, 48 the amount.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

const AMOUNT_BITS: u32 = 48;
const MAX_AMOUNT: u64 = (1 << AMOUNT_BITS) - 1;

fn pack(tag: u16, amount: u64) -> u64 {
    u64::from(tag) << AMOUNT_BITS | amount.min(MAX_AMOUNT)
}

fn unpack(packed: u64) -> (u16, u64) {
    ((packed >> AMOUNT_BITS) as u16, packed & MAX_AMOUNT)
}

impl Counter {
    fn get(&self, tag: u16) -> u64 {
        let (own, amount) = unpack(self.0.load(Relaxed));
        if own == tag { amount } else { 0 }
    }

    /// Returns whether it belongs to a period after this one.
    fn is_later(&self, tag: u16) -> bool {
        let (own, _) = unpack(self.0.load(Relaxed));
        own != 0 && is_later(own, tag)
    }

    /// Returns the amount and leaves zero.
    fn take(&self, tag: u16) -> u64 {
        let (own, amount) = unpack(self.0.swap(0, Relaxed));
        if own == tag { amount } else { 0 }
    }

    /// Adds `more`, unless a later period has begun.
    fn add(&self, tag: u16, more: u64) {
        self.update(tag, |amount| amount.saturating_add(more));
    }

    fn set(&self, tag: u16, amount: u64) {
        self.update(tag, |_| amount);
    }

    fn update(&self, tag: u16, change: impl Fn(u64) -> u64) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |packed| {
            let (own, amount) = unpack(packed);
            let amount = if own == tag { amount } else { 0 };
            (!is_later(own, tag)).then(|| pack(tag, change(amount)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    fn spent(it: &Spendings, now: Timestamp) -> (u64, u64) {
        (it.spent(Period::Day, now), it.spent(Period::Month, now))
    }

    #[test]
    fn days_and_months_begin_anew() {
        let it = Spendings::default();
        let evening = at("2026-11-29T23:00:00Z");
        assert!(it.track(true, evening) && !it.track(true, evening));
        it.charge(evening, 10);
        let night = Timestamp(evening.0 + 2 * HOUR);
        assert_eq!((spent(&it, evening), spent(&it, night)), ((10, 10), (0, 10)));
        it.charge(night, 5);
        // The request began the day before and ended only now: that day is over.
        it.charge(evening, 7);
        assert_eq!(spent(&it, night), (5, 22));
        assert_eq!(spent(&it, at("2026-12-01T00:00:00Z")), (0, 0));
    }

    #[test]
    fn the_database_corrects_what_others_did_and_nothing_counts_twice() {
        let it = Spendings::default();
        let now = at("2026-11-21T12:00:00Z");
        it.track(true, now);
        it.charge(now, 100);
        it.charge(now, 20);
        it.shipped(now, 100);
        // This is a row from before counting began; it is no part of what was charged here.
        it.shipped(Timestamp(now.0 - HOUR), 1_000);
        let marks = it.marks(now);
        it.correct(&marks, 100 + 1_000 + 7, 100 + 1_000 + 7 + 50, now);
        assert_eq!(spent(&it, now), (1_127, 1_177));
        it.shipped(now, 20);
        assert_eq!(spent(&it, now), (1_127, 1_177));
        it.correct(&it.marks(now), 1_127, 1_177, now);
        assert_eq!(spent(&it, now), (1_127, 1_177));
        // Rows may be deleted after a time; those that are left count.
        it.correct(&it.marks(now), 120, 120, now);
        assert_eq!(spent(&it, now), (120, 120));
    }

    #[test]
    fn after_a_batch_that_may_have_come_twice_the_database_alone_counts() {
        let it = Spendings::default();
        let now = at("2026-11-21T12:00:00Z");
        it.track(true, now);
        it.charge(now, 100);
        it.shipped(now, 100);
        it.rebase(Timestamp(now.0 + 1));
        assert_eq!(spent(&it, now), (100, 100));
        it.shipped(now, 100);
        it.charge(now, 7);
        it.correct(&it.marks(now), 100, 100, now);
        assert_eq!(spent(&it, now), (100, 100));
    }

    #[test]
    fn a_clock_that_was_ahead_hides_nothing_for_longer_than_one_look() {
        let (now, ahead) = (at("2026-11-21T12:00:00Z"), at("2027-03-02T09:00:00Z"));
        // The clock was right at first; it was ahead when the budget began.
        for begun in [now, ahead] {
            let it = Spendings::default();
            it.track(true, begun);
            it.charge(begun, 30);
            it.charge(ahead, 100);
            it.correct(&it.marks(ahead), 5, 9, ahead);
            // The clock is right again, and this request is in no row yet.
            let later = Timestamp(now.0 + HOUR);
            it.charge(later, 40);
            it.correct(&it.marks(later), 30, 300, Timestamp(later.0 + 10));
            assert_eq!(spent(&it, later), (30, 300));
            // Its row comes, as do requests that begin now; each counts once.
            it.shipped(later, 40);
            let next = Timestamp(later.0 + 20);
            it.charge(next, 7);
            it.shipped(next, 7);
            it.charge(next, 1);
            it.correct(&it.marks(next), 77, 347, next);
            assert_eq!(spent(&it, next), (78, 348));
        }
    }

    #[test]
    fn a_period_that_begins_while_the_database_is_asked_is_not_ahead() {
        let it = Spendings::default();
        let (evening, night) = (at("2026-11-30T23:59:59Z"), at("2026-12-01T00:00:01Z"));
        it.track(true, evening);
        let marks = it.marks(evening);
        it.charge(night, 8);
        it.correct(&marks, 500, 900, night);
        assert_eq!(spent(&it, night), (8, 8));
    }

    #[test]
    fn without_a_budget_nothing_is_kept() {
        let it = Spendings::default();
        let now = at("2026-11-21T12:00:00Z");
        it.charge(now, 5);
        assert!(it.track(true, now));
        it.charge(now, 5);
        it.track(false, now);
        it.charge(now, 5);
        assert!(it.track(true, now));
        assert_eq!(spent(&it, now), (0, 0));
    }
}
