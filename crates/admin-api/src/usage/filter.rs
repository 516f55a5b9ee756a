//! The filters that everything below `/admin/usage` and `/auth/usage` shares.
//!
//! They mean the same everywhere: the sums of a filter are the sums of the rows that its list shows, as long as raw rows
//! are kept. Older hours live on in sums only, and count whole.

use std::{borrow::Cow, time::Duration};

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    model::Task,
    schema::{self, Components},
    usage::Outcome as Ending,
};
use gantry_store::{StatusFilter, UsageFilter};
use serde_json::Value;

use crate::{
    caller::Caller,
    error::{Outcome, Problem},
    operation::{Number, QueryValue, Switch, query},
};

/// Longest time that `hours` may reach back: a leap year.
const MAX_HOURS: i64 = 8784;
/// No organisation has this id: stands for one that the caller may not know of.
const NOBODY: OrgId = OrgId(0);

query! {
    /// The filters of one's own usage: there is no choice of users and organisations.
    pub(crate) struct OwnFilter {
        /// How many hours the range reaches back from its end, if there is no `from`.
        hours: Number<24, MAX_HOURS>,
        /// The first moment of the range.
        from: Option<Timestamp>,
        /// The moment after the last one of the range; without it, now.
        to: Option<Timestamp>,
        /// Only requests with this model name.
        model: Option<String>,
        /// Only requests without a model name: they were refused before it was read, or they were for models that never
        /// existed and their rows are so old that they were deleted. It can't be combined with `model`.
        no_model: Switch<false>,
        /// Only requests of this task.
        task: Option<Task>,
        /// Only requests with this key.
        key_id: Option<KeyId>,
        /// A status such as `404`, or a class such as `4xx`.
        status: Option<StatusFilter>,
        /// Only requests that ended like this.
        outcome: Option<Ending>,
    }
}

query! {
    /// The filters of administrators.
    pub(crate) struct Filter {
        common: OwnFilter,
        /// Only requests of this user.
        user_id: Option<UserId>,
        /// Only requests of this organisation.
        org_id: Option<OrgId>,
    }
}

/// A filter that lets through only what the caller may see.
#[derive(Debug)]
pub(crate) struct Scoped {
    /// Who asks.
    pub(crate) asks: UserId,
    /// The organisation whose names may be shown; `None` is all.
    pub(crate) org: Option<OrgId>,
    pub(crate) filter: UsageFilter,
}

impl Filter {
    /// Narrows the filter to the usage that an administrator manages.
    ///
    /// # Errors
    /// 422 if parameters contradict each other.
    pub(crate) fn managed_by(self, caller: &Caller, now: Timestamp) -> Outcome<Scoped> {
        let Self { common, user_id, org_id } = self;
        let scope = caller.scope();
        let foreign = org_id.is_some_and(|it| scope.is_some_and(|own| own != it));
        let org_id = if foreign { Some(NOBODY) } else { scope.or(org_id) };
        let filter = UsageFilter { user_id, org_id, ..common.checked(now)? };
        Ok(Scoped { asks: caller.user.id, org: scope, filter })
    }
}

impl OwnFilter {
    /// Narrows the filter to the caller's own usage, in whichever organisation.
    ///
    /// # Errors
    /// 422 if parameters contradict each other.
    pub(crate) fn owned_by(self, caller: &Caller, now: Timestamp) -> Outcome<Scoped> {
        let user = &caller.user;
        let filter = UsageFilter { user_id: Some(user.id), ..self.checked(now)? };
        Ok(Scoped { asks: user.id, org: Some(user.org_id), filter })
    }

    fn checked(self, now: Timestamp) -> Outcome<UsageFilter> {
        let Self { hours, from, to, model, no_model: Switch(no_model), task, key_id, status, outcome } = self;
        // Rows carry the millisecond in which their request came, so the end is the next one.
        let to = to.unwrap_or(Timestamp(now.0 + 1));
        let from = from.unwrap_or_else(|| to.minus(Duration::from_secs(3600 * hours.0.unsigned_abs())));
        if from >= to {
            return Err(Problem::invalid("from", "`from` must be before `to`"));
        }
        if no_model && model.is_some() {
            return Err(Problem::invalid("no_model", "send either `model` or `no_model`"));
        }
        // Any text may be a model's name, so no text of `model` can mean "no model".
        let model = if no_model { Some(String::new()) } else { model };
        Ok(UsageFilter { from, to, model, task, key_id, status, outcome, user_id: None, org_id: None })
    }
}

impl QueryValue for StatusFilter {
    fn allowed() -> Cow<'static, str> {
        "a status such as 404, or a class such as 4xx".into()
    }

    fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("xx") {
            Some(class) => class.parse().ok().filter(|it| (1..=5).contains(it)).map(Self::Class),
            None => text.parse().ok().filter(|it| (100..=599).contains(it)).map(Self::Exact),
        }
    }

    fn schema(_: &mut Components) -> Value {
        schema::word("^([1-5][0-9][0-9]|[1-5]xx)$")
    }
}
