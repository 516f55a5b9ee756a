//! Reports what is left of an account's limits.

use gantry_domain::limit::{Standing, Used, gcra, period::Period};

use super::{
    account::{Account, Rate},
    clock::Moment,
    limiter::Limiter,
    state::Bucket,
};

const SECOND: u64 = 1_000_000_000;

impl Account {
    /// Returns how far its limits are used up at `now`, as far as this gateway knows.
    pub fn standing(&self, limiter: &Limiter, now: Moment) -> Standing {
        let Moment { nanos: now, at } = now;
        let rate = |rate: &Option<Rate>, bucket: &Bucket| {
            let rate = rate.as_ref()?;
            let remaining = gcra::remaining(bucket.tat(), now, rate.per_minute);
            let reset = gcra::ahead(bucket.tat(), now).div_ceil(SECOND);
            Some(Used::new(rate.per_minute, rate.per_minute.saturating_sub(remaining), Some(reset)))
        };
        // The other gateways' reports are not used once they are old.
        let known = limiter.shares(&self.state, now) == 1;
        let others_running = if known { self.state.others_running() } else { 0 };
        let others_streams = if known { self.state.others_streams() } else { 0 };
        let running = |limit: Option<i64>, own: u32, others: u32| {
            Some(Used::new(limit?.unsigned_abs(), u64::from(own) + u64::from(others), None))
        };
        let budget = |wanted: Period| {
            let (period, limit) = self.budgets().find(|it| it.0 == wanted)?;
            let reset = period.end(at).since(at).as_millis().div_ceil(1000) as u64;
            Some(Used::new(limit, self.state.spendings.spent(period, at), Some(reset)))
        };
        Standing {
            rpm_limit: rate(&self.rpm, &self.state.requests),
            tpm_limit: rate(&self.tpm, &self.state.tokens),
            max_concurrency: running(self.limits.max_concurrency, self.state.running(), others_running),
            max_streams: running(self.limits.max_streams, self.state.streams(), others_streams),
            budget_tokens_day: budget(Period::Day),
            budget_tokens_month: budget(Period::Month),
        }
    }
}
