//! User accounts, the first owner, and sign-ins.

use gantry_domain::{OrgId, Role, Timestamp, UserId, identity::User, limit::Limits, name};

use crate::{
    Decoded, Sort, StoreError, StoreResult, Tx,
    limits::{LimitsRow, bind_limits, set_limits},
    names::NamedTable,
    page::{clean, containing, fold, sort_columns},
    tx::{AdvisoryLock, Both, on_db, row},
};

/// A user to be made.
#[derive(Clone)]
pub struct NewUser {
    pub org_id: OrgId,
    pub username: String,
    /// argon2id in PHC string format, or [`gantry_domain::identity::NO_PASSWORD`].
    pub password_hash: String,
    pub role: Role,
    pub enabled: bool,
}

/// What to change; a field that is `None` stays as it is.
#[derive(Clone, Default)]
pub struct UserChange {
    pub username: Option<String>,
    pub password_hash: Option<String>,
    pub role: Option<Role>,
    pub enabled: Option<bool>,
    /// The user's new organisation. The user's keys move along.
    pub org_id: Option<OrgId>,
    /// All limits are replaced.
    pub limits: Option<Limits>,
    /// `Some(None)` allows all models.
    pub models: Option<Option<Vec<String>>>,
}

/// Conditions on users. A user must meet all that are set.
#[derive(Debug, Clone, Default)]
pub struct UserFilter {
    pub org_id: Option<OrgId>,
    /// Part of the username, without regard to case.
    pub q: Option<String>,
    pub role: Option<Role>,
}

row! {
    struct UserColumns {
        id: i64,
        org_id: i64,
        username: String,
        password_hash: String,
        role: String,
        enabled: bool,
        created_at: i64,
        last_login_at: Option<i64>,
        models: Option<String>,
    }
}

pub(crate) type UserRow = Both<UserColumns, LimitsRow>;

row! {
    struct OrgName {
        org_name: String,
    }
}

impl TryFrom<UserRow> for User {
    type Error = StoreError;

    fn try_from(Both(row, limits): UserRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "users", id: row.id.to_string(), what };
        let role = Role::parse(&row.role).ok_or_else(|| corrupt("role"))?;
        let models = row.models.as_deref().map(serde_json::from_str).transpose();
        Ok(Self {
            limits: limits.into(),
            models: models.map_err(|_| corrupt("models"))?,
            id: UserId(row.id),
            org_id: OrgId(row.org_id),
            username: row.username,
            password_hash: row.password_hash,
            role,
            enabled: row.enabled,
            created_at: Timestamp(row.created_at),
            last_login_at: row.last_login_at.map(Timestamp),
        })
    }
}

/// The columns of [`UserRow`].
macro_rules! columns {
    () => {
        "id, org_id, username, password_hash, role, enabled, created_at, last_login_at, models, rpm_limit, tpm_limit, \
         max_concurrency, max_streams, budget_tokens_day, budget_tokens_month"
    };
}

/// The columns of [`UserRow`], of the table `u` in a join.
macro_rules! joined_user {
    () => {
        "u.id, u.org_id, u.username, u.password_hash, u.role, u.enabled, u.created_at, u.last_login_at, u.models, \
         u.rpm_limit, u.tpm_limit, u.max_concurrency, u.max_streams, u.budget_tokens_day, u.budget_tokens_month"
    };
}
pub(crate) use joined_user;

macro_rules! matching {
    () => {
        r" FROM users u JOIN orgs o ON o.id = u.org_id
            WHERE (CAST($1 AS BIGINT) IS NULL OR u.org_id = $1)
              AND (CAST($2 AS TEXT) IS NULL OR u.username_lower LIKE CAST($2 AS TEXT) ESCAPE '\')
              AND (CAST($3 AS TEXT) IS NULL OR u.role = $3)"
    };
}

macro_rules! listing {
    ($order:literal) => {
        concat!(
            "SELECT ",
            joined_user!(),
            ", o.name AS org_name",
            matching!(),
            " ORDER BY ",
            $order,
            " LIMIT $4 OFFSET $5"
        )
    };
}

sort_columns! {
    /// What users can be sorted by.
    UserColumn in listing {
        /// The order in which they were made.
        #[default]
        Id = "id", "u.id", "u.id DESC";
        /// The user name, without regard to case.
        Username = "username", "u.username_lower, u.id", "u.username_lower DESC, u.id DESC";
        /// When the user was made.
        CreatedAt = "created_at", "u.created_at, u.id", "u.created_at DESC, u.id DESC";
        /// The last sign-in. Users who never signed in count as the earliest.
        LastLoginAt = "last_login_at", "u.last_login_at NULLS FIRST, u.id", "u.last_login_at DESC NULLS LAST, u.id DESC";
    }
}

impl Tx {
    /// # Errors
    /// [`crate::Constraint::Username`] if the name is taken, [`StoreError::Reference`] if there is no such
    /// organisation.
    pub async fn insert_user(&mut self, user: &NewUser, now: Timestamp) -> StoreResult<User> {
        const SQL: &str = concat!(
            "INSERT INTO users (org_id, username, username_lower, password_hash, role, enabled, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING ",
            columns!()
        );
        self.check_spelling(NamedTable::Users, &user.username, None).await?;
        let row: UserRow = on_db!(self, |conn| {
            sqlx::query_as(SQL)
                .bind(user.org_id.0)
                .bind(name::composed(&user.username))
                .bind(fold(&user.username))
                .bind(user.password_hash.as_str())
                .bind(user.role.as_str())
                .bind(user.enabled)
                .bind(now.0)
                .fetch_one(conn)
                .await
        })?;
        row.try_into()
    }

    /// Returns the user.
    pub async fn user(&mut self, id: UserId) -> StoreResult<Option<User>> {
        const SQL: &str = concat!("SELECT ", columns!(), " FROM users WHERE id = $1");
        let row: Option<UserRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(User::try_from).transpose()
    }

    /// Returns the user if they belong to `scope`; `None` is any organisation.
    pub async fn user_in(&mut self, id: UserId, scope: Option<OrgId>) -> StoreResult<Option<User>> {
        const SQL: &str = concat!(
            "SELECT ",
            columns!(),
            " FROM users WHERE id = $1 AND (CAST($2 AS BIGINT) IS NULL OR org_id = $2)"
        );
        let row: Option<UserRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(id.0).bind(scope.map(|it| it.0)).fetch_optional(conn).await
        })?;
        row.map(User::try_from).transpose()
    }

    /// Returns the user who signs in with this name, in any case and however its accents are written. Older versions
    /// allowed several users whose names differ only in how accents are written; then the exact spelling wins.
    pub async fn user_by_name(&mut self, username: &str) -> StoreResult<Option<User>> {
        const SQL: &str = concat!(
            "SELECT ",
            columns!(),
            " FROM users WHERE username_lower IN ($1, $2, $3) \
             ORDER BY CASE username_lower WHEN $1 THEN 1 WHEN $2 THEN 2 ELSE 3 END LIMIT 1"
        );
        let [written, apart] = name::older_folded(&clean(username));
        let row: Option<UserRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(written).bind(fold(username)).bind(apart).fetch_optional(conn).await
        })?;
        row.map(User::try_from).transpose()
    }

    /// Returns how many users an organisation has.
    pub async fn org_user_count(&mut self, org: OrgId) -> StoreResult<i64> {
        const SQL: &str = "SELECT COUNT(*) FROM users WHERE org_id = $1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(org.0).fetch_one(conn).await)?)
    }

    /// Returns one page of users with the names of their organisations, and how many there are on all pages. Leaves out
    /// users that can't be read ([`Decoded::shown`]).
    pub async fn users(
        &mut self,
        filter: &UserFilter,
        sort: Sort<UserColumn>,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<(User, String)>, i64)> {
        const COUNT: &str = concat!("SELECT COUNT(*)", matching!());
        let (org, role) = (filter.org_id.map(|it| it.0), filter.role.map(Role::as_str));
        let q = filter.q.as_deref().map(containing);
        let total = on_db!(self, |conn| {
            sqlx::query_scalar(COUNT).bind(org).bind(q.as_deref()).bind(role).fetch_one(conn).await
        })?;
        let rows: Vec<Both<UserRow, OrgName>> = on_db!(self, |conn| {
            let query = sqlx::query_as(listing(sort)).bind(org).bind(q.as_deref()).bind(role);
            query.bind(limit).bind(offset).fetch_all(conn).await
        })?;
        let read = |Both(user, org): Both<UserRow, OrgName>| Ok((user.try_into()?, org.org_name));
        Ok((Decoded::of(rows, read)?.shown(), total))
    }

    /// A new password, role or organisation, or disabling ends the user's password link: it was not made for what
    /// the user is then.
    ///
    /// # Errors
    /// [`crate::Constraint::Username`] if the new name is taken, [`StoreError::Reference`] if there is no such
    /// organisation.
    pub async fn update_user(&mut self, id: UserId, change: &UserChange) -> StoreResult<Option<User>> {
        const SQL: &str = concat!(
            "UPDATE users SET username = COALESCE($2, username), \
             username_lower = COALESCE($3, username_lower), password_hash = COALESCE($4, password_hash), \
             role = COALESCE($5, role), enabled = COALESCE($6, enabled), org_id = COALESCE($7, org_id), \
             models = CASE WHEN $8 THEN $9 ELSE models END, ",
            set_limits!("$10": "$11", "$12", "$13", "$14", "$15", "$16"),
            " WHERE id = $1 RETURNING ",
            columns!()
        );
        if change.org_id.is_some() {
            // The user's keys move along.
            self.take_lock(AdvisoryLock::Upkeep).await?;
        }
        self.changes_catalog = true;
        let models =
            change.models.as_ref().map(|it| it.as_deref().map(|it| serde_json::Value::from(it).to_string()));
        let limits = change.limits.unwrap_or_default();
        let row: Option<UserRow> = on_db!(self, |conn| {
            let query = sqlx::query_as(SQL)
                .bind(id.0)
                .bind(change.username.as_deref().map(name::composed))
                .bind(change.username.as_deref().map(fold))
                .bind(change.password_hash.as_deref())
                .bind(change.role.map(Role::as_str))
                .bind(change.enabled)
                .bind(change.org_id.map(|it| it.0))
                .bind(models.is_some())
                .bind(models.flatten())
                .bind(change.limits.is_some());
            bind_limits!(query, &limits).fetch_optional(conn).await
        })?;
        if let (Some(_), Some(username)) = (&row, &change.username) {
            self.check_spelling(NamedTable::Users, username, Some(id.0)).await?;
        }
        let other = change.password_hash.is_some() || change.role.is_some() || change.org_id.is_some();
        if other || change.enabled == Some(false) {
            self.delete_password_link(id).await?;
        }
        row.map(User::try_from).transpose()
    }

    /// Deletes the user with their sessions and keys. Their usage rows stay, and their names for reports of usage.
    pub async fn delete_user(&mut self, id: UserId) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM users WHERE id = $1";
        // The delete also removes keys and sessions, in an order that the database chooses.
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        self.keep_names_of_user(id).await?;
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Returns the names of all users, or of those of one organisation, that contain `q`, by name.
    pub async fn user_lookup(
        &mut self,
        org: Option<OrgId>,
        q: Option<&str>,
    ) -> StoreResult<Vec<(UserId, String, OrgId)>> {
        const SQL: &str = r"SELECT id, username, org_id FROM users
            WHERE (CAST($1 AS BIGINT) IS NULL OR org_id = $1)
              AND (CAST($2 AS TEXT) IS NULL OR username_lower LIKE CAST($2 AS TEXT) ESCAPE '\')
            ORDER BY username_lower";
        let (org, q) = (org.map(|it| it.0), q.map(containing));
        let rows: Vec<(i64, String, i64)> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(org).bind(q).fetch_all(conn).await)?;
        Ok(rows.into_iter().map(|(id, name, org)| (UserId(id), name, OrgId(org))).collect())
    }

    /// Returns how many owners can sign in: enabled, in an enabled organisation, with a password.
    pub async fn owner_count_enabled(&mut self) -> StoreResult<i64> {
        const SQL: &str = "SELECT COUNT(*) FROM users u JOIN orgs o ON o.id = u.org_id \
                           WHERE u.role = 'owner' AND u.enabled AND o.enabled AND u.password_hash <> ''";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?)
    }

    /// Returns whether there is an owner at all, disabled ones included.
    pub async fn any_owner(&mut self) -> StoreResult<bool> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM users WHERE role = 'owner')";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?)
    }

    /// Makes transactions that call this run one after the other, over all gateways, until they end. For transactions
    /// that read rows, decide, and then write (is there an owner left, what were the settings before). Call it before
    /// reading. It is the first lock of all; see [`Tx`] for the order.
    pub async fn exclusive(&mut self) -> StoreResult<()> {
        self.take_lock(AdvisoryLock::Decision).await
    }

    /// Locks the user's row until the transaction ends. Transactions that count things of a user and then add to them
    /// so run one after the other, over all gateways. Returns `false` if the user is gone.
    pub async fn lock_user(&mut self, id: UserId) -> StoreResult<bool> {
        const SQL: &str = "UPDATE users SET enabled = enabled WHERE id = $1";
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Notes a sign-in. Returns `false` if the user is gone.
    pub async fn record_login(&mut self, id: UserId, now: Timestamp) -> StoreResult<bool> {
        const SQL: &str = "UPDATE users SET last_login_at = $2 WHERE id = $1";
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).bind(now.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }
}
