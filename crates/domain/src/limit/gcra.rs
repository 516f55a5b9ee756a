//! The generic cell rate algorithm (ITU-T I.371, virtual scheduling), as pure functions on a *theoretical arrival time*
//! (`tat`): the time at which everything that was spent will have been earned back. It is the whole state of a limit:
//! an unused limit has `tat <= now`, a used-up one `tat = now + span`, and one in debt an even later `tat`.
//!
//! All times have the same unit and origin. A limit of `n` a minute has a span of a minute, and one unit of it costs
//! `minute / n`. So `n` units may be used at once, and `n` a minute from then on. `charge.lua` of the control plane
//! implements [`charge`] again, for the state that gateways share; a property test feeds the same traces to both.

/// A minute in nanoseconds: the span of all limits that count "a minute".
pub const MINUTE: u64 = 60_000_000_000;

/// Returns what `units` of a limit of `per_minute` cost, in nanoseconds.
pub fn cost(units: u64, per_minute: u64) -> u64 {
    if units <= u64::MAX / MINUTE {
        return units * MINUTE / per_minute.max(1);
    }
    let cost = u128::from(units) * u128::from(MINUTE) / u128::from(per_minute.max(1));
    u64::try_from(cost).unwrap_or(u64::MAX)
}

/// Spends `cost` if it fits into `span`, and returns the new `tat`.
///
/// # Errors
/// Returns the time to wait until it fits. A cost above `span` never fits.
pub fn take(tat: u64, now: u64, cost: u64, span: u64) -> Result<u64, u64> {
    let next = tat.max(now).saturating_add(cost);
    let allowed = now.saturating_add(span);
    if next <= allowed { Ok(next) } else { Err(next - allowed) }
}

/// Spends `cost` whether it fits or not: a debt delays later requests. A negative cost is given back.
pub fn charge(tat: u64, now: u64, cost: i64) -> u64 {
    if cost >= 0 {
        tat.max(now).saturating_add(cost.unsigned_abs())
    } else {
        tat.saturating_sub(cost.unsigned_abs())
    }
}

/// Returns how much is spent, as the time until the limit is completely free again.
pub fn ahead(tat: u64, now: u64) -> u64 {
    tat.saturating_sub(now)
}

/// Returns how many units fit now.
pub fn remaining(tat: u64, now: u64, per_minute: u64) -> u64 {
    let left = u128::from(MINUTE.saturating_sub(ahead(tat, now)));
    u64::try_from(left * u128::from(per_minute) / u128::from(MINUTE)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_for_each_period() {
        let unit = cost(1, 3);
        let mut tat = 0;
        for _ in 0..3 {
            tat = take(tat, 0, unit, MINUTE).unwrap();
        }
        assert_eq!(take(tat, 0, unit, MINUTE), Err(unit));
        assert_eq!(remaining(tat, 0, 3), 0);
        assert_eq!(remaining(tat, unit, 3), 1);
        tat = take(tat, unit, unit, MINUTE).unwrap();
        assert_eq!(take(tat, unit + 1, unit, MINUTE), Err(unit - 1));
        // After a long pause the limit is completely free, and not more than that.
        assert_eq!(remaining(tat, 100 * MINUTE, 3), 3);
    }

    #[test]
    fn a_charge_may_leave_a_debt_and_giving_back_is_exact() {
        let tat = charge(0, 1_000, 5 * MINUTE as i64);
        assert_eq!(take(tat, 1_000, 1, MINUTE), Err(4 * MINUTE + 1));
        assert_eq!(remaining(tat, 1_000, 60), 0);
        assert_eq!(charge(tat, 1_000, -5 * (MINUTE as i64)), 1_000);
        // Units that are given back after they were earned back anyway don't count twice.
        assert_eq!(remaining(charge(0, 0, -1), 0, 60), 60);
    }

    #[test]
    fn costs_are_exact_within_a_nanosecond_for_any_limit() {
        assert_eq!(cost(1, 60), 1_000_000_000);
        assert_eq!(cost(700_000_000, 700_000_000), MINUTE);
        assert_eq!(cost(u64::MAX, 1), u64::MAX);
        assert_eq!(cost(10_000_000_000, 10_000_000_000), MINUTE);
    }
}
