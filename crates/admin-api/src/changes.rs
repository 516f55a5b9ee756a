//! Bounds the changes that the administrators of an organisation make. Each leaves a row in the audit log, which is kept for as
//! long as the installation likes, so a loop that makes and revokes keys would fill the disk of everybody.

use std::collections::HashMap;

use gantry_domain::{ApiError, ErrorCode, OrgId, Timestamp, limit::gcra};
use parking_lot::Mutex;

use crate::error::{Outcome, Problem};

/// Most changes at once: more than anybody makes by hand, and enough to set up an organisation with a script.
const BURST: u64 = 1000;
/// Milliseconds of one change in the long run.
const EACH: u64 = 1000;

/// The changes of each organisation, in memory. Those of administrators of the whole gateway are not counted.
#[derive(Debug, Default)]
pub struct Changes(Mutex<HashMap<OrgId, u64>>);

impl Changes {
    /// Counts a change. `now` is the time of a clock that is never set.
    ///
    /// # Errors
    /// 429 `rate_limit_exceeded`; that change is not counted.
    pub(crate) fn begin(&self, org: OrgId, now: Timestamp) -> Outcome<()> {
        let now = u64::try_from(now.0).unwrap_or_default();
        let mut spent = self.0.lock();
        let tat = spent.entry(org).or_default();
        match gcra::take(*tat, now, EACH, BURST * EACH) {
            Ok(next) => {
                *tat = next;
                Ok(())
            }
            Err(wait) => {
                let message =
                    "your organisation has made too many changes: one a second is possible in the long run";
                let error = ApiError::new(ErrorCode::RateLimitExceeded, message);
                Err(Problem(error.retry_after(wait.div_ceil(1000))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organisation_makes_many_changes_at_once_and_then_one_a_second() {
        let changes = Changes::default();
        let made = |org, seconds: i64| {
            let now = Timestamp(1_000_000_000 + seconds * 1000);
            (0..2000).filter(|_| changes.begin(OrgId(org), now).is_ok()).count()
        };
        assert_eq!((made(1, 0), made(1, 0), made(1, 5)), (1000, 0, 5));
        assert_eq!(made(2, 5), 1000, "another organisation has its own");
        assert_eq!(made(1, 10_000), 1000);
    }
}
