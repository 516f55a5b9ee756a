//! Limits as columns of keys and organisations.

use gantry_domain::{OrgId, limit::Limits};

use crate::{
    StoreResult, Tx,
    tx::{Both, on_db, row},
};

row! {
    struct LimitsRow {
        rpm_limit: Option<i64>,
        tpm_limit: Option<i64>,
        max_concurrency: Option<i64>,
        max_streams: Option<i64>,
        budget_tokens_day: Option<i64>,
        budget_tokens_month: Option<i64>,
    }
}

row! {
    /// Limits of the organisation in a row of a key.
    #[expect(clippy::struct_field_names, reason = "they are names of columns")]
    struct OrgLimitsRow {
        org_rpm_limit: Option<i64>,
        org_tpm_limit: Option<i64>,
        org_max_concurrency: Option<i64>,
        org_max_streams: Option<i64>,
        org_budget_tokens_day: Option<i64>,
        org_budget_tokens_month: Option<i64>,
    }
}

row! {
    /// Limits of the user in a row of a key.
    #[expect(clippy::struct_field_names, reason = "they are names of columns")]
    struct UserLimitsRow {
        user_rpm_limit: Option<i64>,
        user_tpm_limit: Option<i64>,
        user_max_concurrency: Option<i64>,
        user_max_streams: Option<i64>,
        user_budget_tokens_day: Option<i64>,
        user_budget_tokens_month: Option<i64>,
    }
}

impl From<UserLimitsRow> for Limits {
    fn from(row: UserLimitsRow) -> Self {
        Self {
            rpm_limit: row.user_rpm_limit,
            tpm_limit: row.user_tpm_limit,
            max_concurrency: row.user_max_concurrency,
            max_streams: row.user_max_streams,
            budget_tokens_day: row.user_budget_tokens_day,
            budget_tokens_month: row.user_budget_tokens_month,
        }
    }
}

impl From<LimitsRow> for Limits {
    fn from(row: LimitsRow) -> Self {
        Self {
            rpm_limit: row.rpm_limit,
            tpm_limit: row.tpm_limit,
            max_concurrency: row.max_concurrency,
            max_streams: row.max_streams,
            budget_tokens_day: row.budget_tokens_day,
            budget_tokens_month: row.budget_tokens_month,
        }
    }
}

impl From<OrgLimitsRow> for Limits {
    fn from(row: OrgLimitsRow) -> Self {
        Self {
            rpm_limit: row.org_rpm_limit,
            tpm_limit: row.org_tpm_limit,
            max_concurrency: row.org_max_concurrency,
            max_streams: row.org_max_streams,
            budget_tokens_day: row.org_budget_tokens_day,
            budget_tokens_month: row.org_budget_tokens_month,
        }
    }
}

/// Binds the limits of a [`Limits`] in the order of its fields.
macro_rules! bind_limits {
    ($query:expr, $limits:expr) => {{
        let limits: &gantry_domain::limit::Limits = $limits;
        $query
            .bind(limits.rpm_limit)
            .bind(limits.tpm_limit)
            .bind(limits.max_concurrency)
            .bind(limits.max_streams)
            .bind(limits.budget_tokens_day)
            .bind(limits.budget_tokens_month)
    }};
}
pub(crate) use bind_limits;

/// Assignments for an `UPDATE` that set all limits if `$given` is true, and leave them as they are otherwise. The
/// parameters after `:` are those of [`bind_limits!`].
macro_rules! set_limits {
    ($given:literal: $rpm:literal, $tpm:literal, $concurrency:literal, $streams:literal, $day:literal, $month:literal) => {
        concat!(
            "rpm_limit = CASE WHEN ",
            $given,
            " THEN ",
            $rpm,
            " ELSE rpm_limit END, ",
            "tpm_limit = CASE WHEN ",
            $given,
            " THEN ",
            $tpm,
            " ELSE tpm_limit END, ",
            "max_concurrency = CASE WHEN ",
            $given,
            " THEN ",
            $concurrency,
            " ELSE max_concurrency END, ",
            "max_streams = CASE WHEN ",
            $given,
            " THEN ",
            $streams,
            " ELSE max_streams END, ",
            "budget_tokens_day = CASE WHEN ",
            $given,
            " THEN ",
            $day,
            " ELSE budget_tokens_day END, ",
            "budget_tokens_month = CASE WHEN ",
            $given,
            " THEN ",
            $month,
            " ELSE budget_tokens_month END"
        )
    };
}
pub(crate) use set_limits;

row! {
    struct IdRow {
        id: i64,
    }
}

impl Tx {
    /// Returns the limits of the organisations that have any.
    pub async fn limited_orgs(&mut self) -> StoreResult<Vec<(OrgId, Limits)>> {
        const SQL: &str = "SELECT id, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, \
                           budget_tokens_month FROM orgs \
                           WHERE COALESCE(rpm_limit, tpm_limit, max_concurrency, max_streams, \
                           budget_tokens_day, budget_tokens_month) IS NOT NULL";
        let rows: Vec<Both<IdRow, LimitsRow>> =
            on_db!(self, |conn| sqlx::query_as(SQL).fetch_all(conn).await)?;
        Ok(rows.into_iter().map(|Both(row, limits)| (OrgId(row.id), limits.into())).collect())
    }
}
