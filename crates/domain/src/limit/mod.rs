//! Limits of keys and organisations: which ones can be set, how one caps the other, and the arithmetic of rates
//! ([`gcra`]) and of budgets ([`period`]).

pub mod gcra;
pub mod period;
mod standing;

use serde::{Serialize, ser::SerializeMap};
use serde_json::Value;

pub use standing::{Standing, Used};

use crate::{
    schema::{self, Components, Member, Members, Shape},
    words,
};

/// Largest rate or number of concurrent requests that can be set.
pub const MAX_RATE: i64 = 1_000_000_000;
/// Largest budget that can be set, in tokens. Spent tokens are counted in 48 bits.
pub const MAX_BUDGET: i64 = 100_000_000_000_000;

/// The limits of a key or an organisation; `None` means no limit. The names are those of the API and of the database
/// columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests a minute; all of them may come at once.
    pub rpm_limit: Option<i64>,
    /// Tokens (prompt and completion) a minute.
    pub tpm_limit: Option<i64>,
    /// Requests at the same time.
    pub max_concurrency: Option<i64>,
    /// Streamed answers at the same time; each of them is a request, too.
    pub max_streams: Option<i64>,
    /// Tokens in a calendar day of UTC.
    pub budget_tokens_day: Option<i64>,
    /// Tokens in a calendar month of UTC.
    pub budget_tokens_month: Option<i64>,
}

/// As one of the fields of another object: each limit with the largest value that can be set.
impl Members for Limits {
    fn put<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let mut limits = *self;
        limits.fields_mut().into_iter().try_for_each(|(name, _, limit)| map.serialize_entry(name, limit))
    }

    fn members(_: &mut Components, out: &mut Vec<Member>) {
        let mut limits = Self::default();
        let fields = limits.fields_mut().map(|(name, max, _)| (name, schema::whole(1, max)));
        out.extend(fields.map(|(name, limit)| Member {
            name,
            schema: schema::nullable(limit),
            optional: false,
        }));
    }
}

/// As an object of its own: limits in force, which other limits may have made any number.
impl Shape for Limits {
    fn schema(all: &mut Components) -> Value {
        schema::component(all, "Limits", |_| {
            let mut limits = Self::default();
            let any = || schema::nullable(schema::whole(1, i64::MAX));
            let fields =
                limits.fields_mut().map(|(name, ..)| Member { name, schema: any(), optional: false });
            schema::closed(fields.into())
        })
    }
}

impl Limits {
    /// Returns every limit with its name and the largest value that can be set; the smallest is 1.
    pub fn fields_mut(&mut self) -> [(&'static str, i64, &mut Option<i64>); 6] {
        [
            ("rpm_limit", MAX_RATE, &mut self.rpm_limit),
            ("tpm_limit", MAX_RATE, &mut self.tpm_limit),
            ("max_concurrency", MAX_RATE, &mut self.max_concurrency),
            ("max_streams", MAX_RATE, &mut self.max_streams),
            ("budget_tokens_day", MAX_BUDGET, &mut self.budget_tokens_day),
            ("budget_tokens_month", MAX_BUDGET, &mut self.budget_tokens_month),
        ]
    }

    /// Whether no limit is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits, with those of `defaults` where these are not set.
    #[must_use]
    pub fn or(self, defaults: Self) -> Self {
        self.with(defaults, Option::or)
    }

    /// Returns the smaller of each two limits: what remains of a key's limits under those of its organisation.
    #[must_use]
    pub fn capped_by(self, cap: Self) -> Self {
        self.with(cap, |own, cap| match (own, cap) {
            (Some(own), Some(cap)) => Some(own.min(cap)),
            (own, cap) => own.or(cap),
        })
    }

    fn with(self, other: Self, pick: impl Fn(Option<i64>, Option<i64>) -> Option<i64>) -> Self {
        Self {
            rpm_limit: pick(self.rpm_limit, other.rpm_limit),
            tpm_limit: pick(self.tpm_limit, other.tpm_limit),
            max_concurrency: pick(self.max_concurrency, other.max_concurrency),
            max_streams: pick(self.max_streams, other.max_streams),
            budget_tokens_day: pick(self.budget_tokens_day, other.budget_tokens_day),
            budget_tokens_month: pick(self.budget_tokens_month, other.budget_tokens_month),
        }
    }
}

words! {
    /// Whether a limit that is reached refuses requests.
    #[derive(Default)]
    pub enum LimitMode {
        /// Requests beyond a limit are refused.
        #[default]
        Enforce = "enforce",
        /// Requests that would be refused are counted and served.
        Shadow = "shadow",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organisation_caps_its_keys_and_defaults_fill_gaps() {
        let limits = |rpm_limit, tpm_limit, max_streams| Limits {
            rpm_limit,
            tpm_limit,
            max_streams,
            ..Limits::default()
        };
        let own = limits(Some(10), None, None);
        assert_eq!(own.or(limits(Some(99), Some(5), None)), limits(Some(10), Some(5), None));
        assert_eq!(own.capped_by(limits(Some(4), None, Some(2))), limits(Some(4), None, Some(2)));
        assert_eq!(own.capped_by(limits(Some(40), Some(7), None)), limits(Some(10), Some(7), None));
        assert!(Limits::default().is_none() && !own.is_none());
    }
}
