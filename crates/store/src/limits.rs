//! Limits as columns of keys and organisations, and what counts against their budgets.

use gantry_domain::{KeyId, OrgId, Timestamp, limit::Limits, usage::first_id_at};

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
    /// Those of the organisation in a row of a key.
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

/// Tokens that count against budgets, of one key (or of all sessions, without one) in one organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensSpent {
    pub key_id: Option<KeyId>,
    pub org_id: Option<OrgId>,
    /// Of the requests since the later of both times.
    pub day: i64,
    /// Of all of them.
    pub month: i64,
}

row! {
    struct IdRow {
        id: i64,
    }
}

row! {
    struct SpentRow {
        key_id: Option<i64>,
        org_id: Option<i64>,
        day: i64,
        month: i64,
    }
}

/// Endpoints that only count tokens, and so are free: the SQL form of `!Endpoint::runs_model`.
macro_rules! free_endpoints {
    () => {
        "('/v1/messages/count_tokens', '/tokenize', '/detokenize')"
    };
}

impl Tx {
    /// The limits of the organisations that have any.
    pub async fn limited_orgs(&mut self) -> StoreResult<Vec<(OrgId, Limits)>> {
        const SQL: &str = "SELECT id, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, \
                           budget_tokens_month FROM orgs \
                           WHERE COALESCE(rpm_limit, tpm_limit, max_concurrency, max_streams, \
                           budget_tokens_day, budget_tokens_month) IS NOT NULL";
        let rows: Vec<Both<IdRow, LimitsRow>> =
            on_db!(self, |conn| sqlx::query_as(SQL).fetch_all(conn).await)?;
        Ok(rows.into_iter().map(|Both(row, limits)| (OrgId(row.id), limits.into())).collect())
    }

    /// What was spent by requests that began at `month` or later, and since `day`, which must not be earlier.
    pub async fn tokens_since(&mut self, month: Timestamp, day: Timestamp) -> StoreResult<Vec<TokensSpent>> {
        const SQL: &str = concat!(
            "SELECT key_id, org_id, \
             CAST(SUM(CASE WHEN id >= $2 THEN prompt_tokens + completion_tokens ELSE 0 END) AS BIGINT) AS day, \
             CAST(SUM(prompt_tokens + completion_tokens) AS BIGINT) AS month \
             FROM usage WHERE id >= $1 AND endpoint NOT IN ",
            free_endpoints!(),
            " GROUP BY key_id, org_id"
        );
        let rows: Vec<SpentRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(first_id_at(month)).bind(first_id_at(day)).fetch_all(conn).await
        })?;
        let spent = |row: SpentRow| TokensSpent {
            key_id: row.key_id.map(KeyId),
            org_id: row.org_id.map(OrgId),
            day: row.day,
            month: row.month,
        };
        Ok(rows.into_iter().map(spent).collect())
    }
}

#[cfg(test)]
mod tests {
    use gantry_domain::endpoint::Endpoint;

    #[test]
    fn free_endpoints_are_those_that_run_no_model() {
        let free = Endpoint::ALL.into_iter().filter(|it| !it.runs_model());
        let list: Vec<_> = free.map(|it| format!("'{}'", it.path())).collect();
        assert_eq!(free_endpoints!(), format!("({})", list.join(", ")));
    }
}
