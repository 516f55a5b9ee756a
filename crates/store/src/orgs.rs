//! Organisations.

use gantry_domain::{OrgId, Timestamp, identity::Org, limit::Limits, name};

use crate::{
    Sort, StoreResult, Tx,
    limits::{LimitsRow, bind_limits, set_limits},
    names::NamedTable,
    page::{containing, fold, sort_columns},
    tx::{AdvisoryLock, Both, on_db, row},
};

/// Conditions on organisations. An organisation must meet all that are set.
#[derive(Debug, Clone, Default)]
pub struct OrgFilter {
    /// The one organisation that the caller may see.
    pub only: Option<OrgId>,
    /// Part of the name, without regard to case.
    pub q: Option<String>,
}

/// What to change; a field that is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct OrgChange {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    /// The new values of all limits.
    pub limits: Option<Limits>,
}

/// An organisation in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrgSummary {
    pub org: Org,
    /// Number of users, disabled ones included.
    pub n_users: i64,
    /// Number of keys, revoked and expired ones included.
    pub n_keys: i64,
}

row! {
    struct OrgRow {
        id: i64,
        name: String,
        enabled: bool,
        created_at: i64,
    }
}

row! {
    struct Counts {
        n_users: i64,
        n_keys: i64,
    }
}

type WholeOrg = Both<OrgRow, LimitsRow>;

/// The columns of [`WholeOrg`].
macro_rules! columns {
    () => {
        "id, name, enabled, created_at, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, \
         budget_tokens_month"
    };
}

impl From<WholeOrg> for Org {
    fn from(Both(row, limits): WholeOrg) -> Self {
        Self {
            id: OrgId(row.id),
            name: row.name,
            enabled: row.enabled,
            created_at: Timestamp(row.created_at),
            limits: limits.into(),
        }
    }
}

macro_rules! matching {
    () => {
        r" FROM orgs WHERE (CAST($1 AS TEXT) IS NULL OR name_lower LIKE CAST($1 AS TEXT) ESCAPE '\')
              AND (CAST($2 AS BIGINT) IS NULL OR id = $2)"
    };
}

macro_rules! listing {
    ($order:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            ", (SELECT COUNT(*) FROM users u WHERE u.org_id = orgs.id) AS n_users, \
             (SELECT COUNT(*) FROM api_keys k WHERE k.org_id = orgs.id) AS n_keys",
            matching!(),
            " ORDER BY ",
            $order,
            " LIMIT $3 OFFSET $4"
        )
    };
}

sort_columns! {
    /// What organisations can be sorted by.
    OrgColumn in listing {
        /// The order in which they were made.
        #[default]
        Id = "id", "id", "id DESC";
        /// The name, without regard to case.
        Name = "name", "name_lower, id", "name_lower DESC, id DESC";
        /// When it was made.
        CreatedAt = "created_at", "created_at, id", "created_at DESC, id DESC";
    }
}

impl Tx {
    /// Adds a new, enabled organisation.
    ///
    /// # Errors
    /// [`crate::Constraint::OrgName`] if the name is taken.
    pub async fn insert_org(&mut self, name: &str, now: Timestamp) -> StoreResult<Org> {
        const SQL: &str = concat!(
            "INSERT INTO orgs (name, name_lower, enabled, created_at) VALUES ($1, $2, TRUE, $3) RETURNING ",
            columns!()
        );
        self.check_spelling(NamedTable::Orgs, name, None).await?;
        let row: WholeOrg = on_db!(self, |conn| {
            let query = sqlx::query_as(SQL).bind(name::composed(name));
            query.bind(fold(name)).bind(now.0).fetch_one(conn).await
        })?;
        Ok(row.into())
    }

    /// Returns the organisation.
    pub async fn org(&mut self, id: OrgId) -> StoreResult<Option<Org>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM orgs WHERE id = $1");
        let row: Option<WholeOrg> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        Ok(row.map(Org::from))
    }

    /// Returns one page of organisations, and how many there are on all pages.
    pub async fn orgs(
        &mut self,
        filter: &OrgFilter,
        sort: Sort<OrgColumn>,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<OrgSummary>, i64)> {
        const COUNT: &str = concat!("SELECT COUNT(*)", matching!());
        let q = filter.q.as_deref().map(containing);
        let only = filter.only.map(|it| it.0);
        let total = on_db!(self, |conn| {
            sqlx::query_scalar(COUNT).bind(q.as_deref()).bind(only).fetch_one(conn).await
        })?;
        let rows: Vec<Both<WholeOrg, Counts>> = on_db!(self, |conn| {
            let query = sqlx::query_as(listing(sort)).bind(q.as_deref()).bind(only);
            query.bind(limit).bind(offset).fetch_all(conn).await
        })?;
        let summary = |Both(row, counts): Both<WholeOrg, Counts>| OrgSummary {
            org: row.into(),
            n_users: counts.n_users,
            n_keys: counts.n_keys,
        };
        Ok((rows.into_iter().map(summary).collect(), total))
    }

    /// # Errors
    /// [`crate::Constraint::OrgName`] if the new name is taken.
    pub async fn update_org(&mut self, id: OrgId, change: &OrgChange) -> StoreResult<Option<Org>> {
        const SQL: &str = concat!(
            "UPDATE orgs SET name = COALESCE($2, name), name_lower = COALESCE($3, name_lower), \
             enabled = COALESCE($4, enabled), ",
            set_limits!("$5": "$6", "$7", "$8", "$9", "$10", "$11"),
            " WHERE id = $1 RETURNING ",
            columns!()
        );
        self.changes_catalog = true;
        let folded = change.name.as_deref().map(fold);
        let limits = change.limits.unwrap_or_default();
        let row: Option<WholeOrg> = on_db!(self, |conn| {
            let query =
                sqlx::query_as(SQL).bind(id.0).bind(change.name.as_deref().map(name::composed)).bind(folded);
            let query = query.bind(change.enabled).bind(change.limits.is_some());
            bind_limits!(query, &limits).fetch_optional(conn).await
        })?;
        if let (Some(_), Some(name)) = (&row, &change.name) {
            self.check_spelling(NamedTable::Orgs, name, Some(id.0)).await?;
        }
        Ok(row.map(Org::from))
    }

    /// Deletes the organisation with its users, sessions and keys. Its usage rows stay, and the names for reports of usage.
    pub async fn delete_org(&mut self, id: OrgId) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM orgs WHERE id = $1";
        // The delete also removes keys and sessions, in an order that the database chooses.
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        self.keep_names_of_org(id).await?;
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Returns the names of all organisations, or of the one in `scope`, that contain `q`, by name.
    pub async fn org_lookup(
        &mut self,
        scope: Option<OrgId>,
        q: Option<&str>,
    ) -> StoreResult<Vec<(OrgId, String)>> {
        const SQL: &str = r"SELECT id, name FROM orgs
            WHERE (CAST($1 AS BIGINT) IS NULL OR id = $1)
              AND (CAST($2 AS TEXT) IS NULL OR name_lower LIKE CAST($2 AS TEXT) ESCAPE '\')
            ORDER BY name_lower";
        let (scope, q) = (scope.map(|it| it.0), q.map(containing));
        let rows: Vec<(i64, String)> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(scope).bind(q).fetch_all(conn).await)?;
        Ok(rows.into_iter().map(|(id, name)| (OrgId(id), name)).collect())
    }
}
