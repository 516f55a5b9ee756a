//! Limits and budgets in the bodies and records of keys and organisations.

use gantry_domain::{
    limit::Limits,
    schema::{Components, Member, Members, whole},
    view,
};

use crate::{
    operation::{Fields, Form, read},
    ports::Spent,
};

/// Percentage from which on a budget counts as nearly used up.
const WARN_PCT: u64 = 80;

/// What a body says about limits: a field that is absent stays, `null` takes the limit away.
pub(crate) struct LimitChange(Vec<(&'static str, Option<i64>)>);

impl Form for LimitChange {
    fn read(fields: &mut Fields) -> Option<Self> {
        let mut given = Vec::new();
        for (name, max, _) in Limits::default().fields_mut() {
            let allowed = format!("null, or a whole number from 1 to {max}");
            if let Some(value) = fields.change(name, &allowed, read::positive(max)) {
                given.push((name, value));
            }
        }
        Some(Self(given))
    }

    fn members(all: &mut Components, out: &mut Vec<Member>) {
        let mut limits = Vec::new();
        Limits::members(all, &mut limits);
        out.extend(limits.into_iter().map(|it| Member { optional: true, ..it }));
    }
}

impl LimitChange {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn apply(&self, mut limits: Limits) -> Limits {
        for (name, _, limit) in limits.fields_mut() {
            if let Some((_, value)) = self.0.iter().find(|(given, _)| *given == name) {
                *limit = *value;
            }
        }
        limits
    }
}

view! {
    /// What was spent of one budget.
    #[derive(Debug)]
    pub(crate) struct Budget {
        limit: i64 as whole(1, i64::MAX),
        /// Tokens that were used. `null` if they are not counted, as for a key that can't be used.
        used: Option<u64>,
        /// Whole percent of the limit; `null` like `used`. It is above 100 by what the requests used that were in flight
        /// when the budget ran out.
        pct: Option<u64>,
        /// It is nearly used up.
        warning: bool,
    }
}

view! {
    /// Both budgets; `null` for one that is not set.
    #[derive(Debug)]
    pub(crate) struct Budgets: "Budgets" {
        day: Option<Budget>,
        month: Option<Budget>,
    }
}

impl Budgets {
    /// `None` if none is set; `spent` is `None` if it is not known.
    pub(crate) fn new(limits: &Limits, spent: Option<Spent>) -> Option<Self> {
        let budget = |limit: Option<i64>, used: Option<u64>| {
            let limit = limit?;
            let pct = used.map(|used| {
                let pct = u128::from(used) * 100 / u128::from(limit.unsigned_abs().max(1));
                u64::try_from(pct).unwrap_or(u64::MAX)
            });
            Some(Budget { limit, used, pct, warning: pct.is_some_and(|it| it >= WARN_PCT) })
        };
        let budgets = Self {
            day: budget(limits.budget_tokens_day, spent.map(|it| it.day)),
            month: budget(limits.budget_tokens_month, spent.map(|it| it.month)),
        };
        (budgets.day.is_some() || budgets.month.is_some()).then_some(budgets)
    }
}
