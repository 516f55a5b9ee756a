//! How much of each limit is used at one moment.

use crate::view;

view! {
    /// One limit and what is left of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Used {
        pub limit: u64,
        pub used: u64,
        pub remaining: u64,
        /// Seconds, rounded up, until nothing of it is used any more: for a rate as time passes, for a budget at the end of
        /// its period. `null` for limits on concurrent requests.
        pub reset_sec: Option<u64>,
    }
}

impl Used {
    /// Makes the value; what is left follows from the other two.
    pub fn new(limit: u64, used: u64, reset_sec: Option<u64>) -> Self {
        Self { limit, used, remaining: limit.saturating_sub(used), reset_sec }
    }
}

view! {
    /// What a key, a user or an organisation has used of each of its limits; `None` means no limit. The names are those of
    /// [`super::Limits`].
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Standing: "Standing" {
        pub rpm_limit: Option<Used>,
        pub tpm_limit: Option<Used>,
        pub max_concurrency: Option<Used>,
        pub max_streams: Option<Used>,
        pub budget_tokens_day: Option<Used>,
        pub budget_tokens_month: Option<Used>,
    }
}
