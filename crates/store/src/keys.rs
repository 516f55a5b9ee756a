//! API keys.

use std::{collections::BTreeMap, fmt::Write as _, sync::LazyLock, time::Duration};

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    key::{ApiKey, KeySettings, KeyStatus, Scopes},
    limit::{LimitMode, Limits},
    net::IpList,
};

use crate::{
    Decoded, Sort, StoreError, StoreResult, Tx,
    limits::{LimitsRow, OrgLimitsRow, UserLimitsRow, bind_limits},
    page::{containing, fold, sort_columns},
    tx::{AdvisoryLock, Both, on_db, row},
};

/// Time after its end for which an expired key is still distinguished from an unknown one; see [`Tx::usable_keys`].
const REMEMBER_EXPIRED: Duration = Duration::from_hours(30 * 24);

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    pub settings: KeySettings,
    /// First characters of the token, by which people know it.
    pub prefix: String,
    pub token_hash: [u8; 32],
    pub org_id: OrgId,
    /// `None` for a key of the organisation itself; otherwise a user of that organisation.
    pub user_id: Option<UserId>,
}

/// Conditions on keys. A key must meet all that are set.
#[derive(Debug, Clone, Default)]
pub struct KeyFilter {
    pub org_id: Option<OrgId>,
    pub user_id: Option<UserId>,
    /// Its status at that time.
    pub status: Option<(KeyStatus, Timestamp)>,
    /// Part of the prefix or the name, without regard to case.
    pub q: Option<String>,
    /// The user to whom the caller is restricted, whatever `user_id` says.
    pub scope_user: Option<UserId>,
}

impl KeyFilter {
    const fn is_empty(&self) -> bool {
        matches!(self, Self { org_id: None, user_id: None, status: None, q: None, scope_user: None })
    }
}

row! {
    struct KeyRow {
        id: i64,
        prefix: String,
        token_hash: Vec<u8>,
        org_id: i64,
        org_name: String,
        user_id: Option<i64>,
        username: Option<String>,
        user_models: Option<String>,
        holder_enabled: bool,
        name: String,
        scopes: String,
        models: Option<String>,
        ip_allowlist: String,
        limit_mode: String,
        created_at: i64,
        expires_at: Option<i64>,
        last_used_at: Option<i64>,
        revoked_at: Option<i64>,
    }
}

type WholeKey = Both<KeyRow, Both<LimitsRow, Both<OrgLimitsRow, UserLimitsRow>>>;

impl TryFrom<WholeKey> for ApiKey {
    type Error = StoreError;

    fn try_from(Both(row, Both(limits, Both(org_limits, user_limits))): WholeKey) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "api_keys", id: row.id.to_string(), what };
        let models = row.models.as_deref().map(serde_json::from_str).transpose();
        let user_models = row.user_models.as_deref().map(serde_json::from_str).transpose();
        let user_models = user_models.map_err(|_| corrupt("models of its user"))?;
        let settings = KeySettings {
            scopes: Scopes::parse(&row.scopes).map_err(|_| corrupt("scopes"))?,
            models: models.map_err(|_| corrupt("models"))?,
            ip_allowlist: IpList::parse(row.ip_allowlist.split(',')).map_err(|_| corrupt("ip_allowlist"))?,
            name: row.name,
            expires_at: row.expires_at.map(Timestamp),
            limits: limits.into(),
            limit_mode: LimitMode::parse(&row.limit_mode).ok_or_else(|| corrupt("limit_mode"))?,
        };
        Ok(Self {
            id: KeyId(row.id),
            token_hash: row.token_hash.try_into().map_err(|_| StoreError::Corrupt {
                table: "api_keys",
                id: row.id.to_string(),
                what: "token_hash",
            })?,
            prefix: row.prefix,
            settings,
            org_id: OrgId(row.org_id),
            org_name: row.org_name,
            org_limits: Limits::from(org_limits),
            user_id: row.user_id.map(UserId),
            username: row.username,
            user_limits: Limits::from(user_limits),
            user_models,
            holder_enabled: row.holder_enabled,
            created_at: Timestamp(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp),
            revoked_at: row.revoked_at.map(Timestamp),
        })
    }
}

/// [`KeySettings`] as columns.
struct Columns {
    name_lower: String,
    scopes: String,
    models: Option<String>,
    ip_allowlist: String,
    expires_at: Option<i64>,
}

impl From<&KeySettings> for Columns {
    fn from(settings: &KeySettings) -> Self {
        let models = settings.models.as_deref();
        Self {
            name_lower: fold(&settings.name),
            scopes: settings.scopes.to_string(),
            // A served name may contain any separator, so the list is stored as JSON.
            models: models.map(|it| serde_json::Value::from(it).to_string()),
            ip_allowlist: settings.ip_allowlist.to_string(),
            expires_at: settings.expires_at.map(|it| it.0),
        }
    }
}

macro_rules! source {
    () => {
        " FROM api_keys k JOIN orgs o ON o.id = k.org_id LEFT JOIN users u ON u.id = k.user_id WHERE "
    };
}

macro_rules! select {
    ($condition:expr) => {
        concat!(
            "SELECT k.id, k.prefix, k.token_hash, k.org_id, o.name AS org_name, k.user_id, u.username, u.models AS user_models, \
             (o.enabled AND COALESCE(u.enabled, TRUE)) AS holder_enabled, k.name, k.scopes, k.models, \
             k.ip_allowlist, k.rpm_limit, k.tpm_limit, k.max_concurrency, k.max_streams, k.budget_tokens_day, \
             k.budget_tokens_month, k.limit_mode, o.rpm_limit AS org_rpm_limit, o.tpm_limit AS org_tpm_limit, \
             o.max_concurrency AS org_max_concurrency, o.max_streams AS org_max_streams, \
             o.budget_tokens_day AS org_budget_tokens_day, o.budget_tokens_month AS org_budget_tokens_month, \
             u.rpm_limit AS user_rpm_limit, u.tpm_limit AS user_tpm_limit, \
             u.max_concurrency AS user_max_concurrency, u.max_streams AS user_max_streams, \
             u.budget_tokens_day AS user_budget_tokens_day, u.budget_tokens_month AS user_budget_tokens_month, \
             k.created_at, k.expires_at, k.last_used_at, k.revoked_at",
            source!(),
            $condition
        )
    };
}

macro_rules! matching_itself {
    () => {
        r"(CAST($1 AS BIGINT) IS NULL OR k.org_id = $1)
            AND (CAST($2 AS BIGINT) IS NULL OR k.user_id = $2)
            AND (CAST($3 AS BIGINT) IS NULL OR k.user_id = $3)
            AND (CAST($4 AS TEXT) IS NULL OR LOWER(k.prefix) LIKE CAST($4 AS TEXT) ESCAPE '\'
                 OR k.name_lower LIKE CAST($4 AS TEXT) ESCAPE '\')"
    };
}

macro_rules! matching {
    () => {
        concat!(
            matching_itself!(),
            " AND (CAST($5 AS TEXT) IS NULL OR $5 = CASE \
             WHEN k.revoked_at IS NOT NULL THEN 'revoked' \
             WHEN k.expires_at <= CAST($6 AS BIGINT) THEN 'expired' \
             WHEN o.enabled AND COALESCE(u.enabled, TRUE) THEN 'active' \
             ELSE 'holder_disabled' END)"
        )
    };
}

/// Returns the statement that counts the keys of a filter: nothing is bound for an empty one, the first four values of
/// [`matching!`] for one without a status, all six otherwise.
const fn counting(filter: &KeyFilter) -> &'static str {
    if filter.is_empty() {
        "SELECT COUNT(*) FROM api_keys"
    } else if filter.status.is_none() {
        concat!("SELECT COUNT(*) FROM api_keys k WHERE ", matching_itself!())
    } else {
        concat!("SELECT COUNT(*)", source!(), matching!())
    }
}

macro_rules! listing {
    ($order:literal) => {
        concat!(select!(""), matching!(), " ORDER BY ", $order, " LIMIT $7 OFFSET $8")
    };
}

sort_columns! {
    /// What keys can be sorted by.
    KeyColumn in listing {
        /// The order in which they were made.
        #[default]
        Id = "id", "k.id", "k.id DESC";
        /// The key's name, without regard to case.
        Name = "name", "k.name_lower, k.id", "k.name_lower DESC, k.id DESC";
        /// When the key was made.
        CreatedAt = "created_at", "k.created_at, k.id", "k.created_at DESC, k.id DESC";
        /// When it was last used. Keys that were never used count as the earliest.
        LastUsedAt = "last_used_at", "k.last_used_at NULLS FIRST, k.id", "k.last_used_at DESC NULLS LAST, k.id DESC";
    }
}

/// Number of rows in one statement of [`Tx::touch_keys`].
const TOUCHES: usize = 64;

static TOUCH: LazyLock<String> = LazyLock::new(|| {
    let mut sql = String::from("WITH seen (id, at) AS (VALUES ");
    for row in 0..TOUCHES {
        let comma = if row == 0 { "" } else { ", " };
        // Postgres takes the types from the first row.
        let _ = write!(sql, "{comma}(CAST(${} AS BIGINT), CAST(${} AS BIGINT))", 2 * row + 1, 2 * row + 2);
    }
    let now = 2 * TOUCHES + 1;
    let _ = write!(
        sql,
        ") UPDATE api_keys SET last_used_at = seen.at FROM seen WHERE api_keys.id = seen.id \
         AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < seen.at OR api_keys.last_used_at > ${now})"
    );
    sql
});

impl Tx {
    /// # Errors
    /// [`StoreError::Reference`] if the user or the organisation is gone, or the user belongs to another organisation;
    /// [`crate::Constraint::KeyHash`] if the token is known.
    pub async fn insert_key(&mut self, key: &NewKey, now: Timestamp) -> StoreResult<ApiKey> {
        const SQL: &str = "INSERT INTO api_keys (prefix, token_hash, org_id, user_id, name, name_lower, scopes, \
             models, ip_allowlist, created_at, expires_at, limit_mode, rpm_limit, tpm_limit, max_concurrency, \
             max_streams, budget_tokens_day, budget_tokens_month) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) \
             RETURNING id";
        self.changes_catalog = true;
        let columns = Columns::from(&key.settings);
        let id: i64 = on_db!(self, |conn| {
            let query = sqlx::query_scalar(SQL)
                .bind(key.prefix.as_str())
                .bind(&key.token_hash[..])
                .bind(key.org_id.0)
                .bind(key.user_id.map(|it| it.0))
                .bind(key.settings.name.as_str())
                .bind(columns.name_lower)
                .bind(columns.scopes)
                .bind(columns.models)
                .bind(columns.ip_allowlist)
                .bind(now.0)
                .bind(columns.expires_at)
                .bind(key.settings.limit_mode.as_str());
            bind_limits!(query, &key.settings.limits).fetch_one(conn).await
        })?;
        self.key(KeyId(id)).await?.ok_or(StoreError::Database(sqlx::Error::RowNotFound))
    }

    /// Returns the key, revoked or not.
    pub async fn key(&mut self, id: KeyId) -> StoreResult<Option<ApiKey>> {
        const SQL: &str = select!("k.id = $1");
        let row: Option<WholeKey> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(id.0).fetch_optional(conn).await)?;
        row.map(ApiKey::try_from).transpose()
    }

    /// Returns the key if it belongs to this organisation and to this user; `None` is any.
    pub async fn key_in(
        &mut self,
        id: KeyId,
        org: Option<OrgId>,
        user: Option<UserId>,
    ) -> StoreResult<Option<ApiKey>> {
        const SQL: &str = select!(
            "k.id = $1 AND (CAST($2 AS BIGINT) IS NULL OR k.org_id = $2) \
             AND (CAST($3 AS BIGINT) IS NULL OR k.user_id = $3)"
        );
        let (org, user) = (org.map(|it| it.0), user.map(|it| it.0));
        let row: Option<WholeKey> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(id.0).bind(org).bind(user).fetch_optional(conn).await
        })?;
        row.map(ApiKey::try_from).transpose()
    }

    /// Returns one page of keys without those that can't be read ([`Decoded::shown`]), and how many there are on all
    /// pages.
    pub async fn keys(
        &mut self,
        filter: &KeyFilter,
        sort: Sort<KeyColumn>,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<ApiKey>, i64)> {
        let (org, user) = (filter.org_id.map(|it| it.0), filter.user_id.map(|it| it.0));
        let scope = filter.scope_user.map(|it| it.0);
        let q = filter.q.as_deref().map(containing);
        let (status, now) = filter.status.map(|(status, at)| (status.as_str(), at.0)).unzip();
        let total = on_db!(self, |conn| {
            // Hundreds of thousands of keys are counted for each page, so only what the filter asks for is looked at.
            let query = sqlx::query_scalar(counting(filter));
            let query = if filter.is_empty() {
                query
            } else {
                query.bind(org).bind(user).bind(scope).bind(q.as_deref())
            };
            let query = if status.is_some() { query.bind(status).bind(now) } else { query };
            query.fetch_one(conn).await
        })?;
        let rows: Vec<WholeKey> = on_db!(self, |conn| {
            let query = sqlx::query_as(listing(sort)).bind(org).bind(user).bind(scope).bind(q.as_deref());
            query.bind(status).bind(now).bind(limit).bind(offset).fetch_all(conn).await
        })?;
        Ok((Decoded::of(rows, ApiKey::try_from)?.shown(), total))
    }

    /// Replaces all settings of a key.
    pub async fn update_key(&mut self, id: KeyId, settings: &KeySettings) -> StoreResult<Option<ApiKey>> {
        const SQL: &str = "UPDATE api_keys SET name = $2, name_lower = $3, scopes = $4, models = $5, \
                           ip_allowlist = $6, expires_at = $7, limit_mode = $8, rpm_limit = $9, tpm_limit = $10, \
                           max_concurrency = $11, max_streams = $12, budget_tokens_day = $13, \
                           budget_tokens_month = $14 WHERE id = $1";
        self.changes_catalog = true;
        let columns = Columns::from(settings);
        on_db!(self, |conn| {
            let query = sqlx::query(SQL)
                .bind(id.0)
                .bind(settings.name.as_str())
                .bind(columns.name_lower)
                .bind(columns.scopes)
                .bind(columns.models)
                .bind(columns.ip_allowlist)
                .bind(columns.expires_at)
                .bind(settings.limit_mode.as_str());
            bind_limits!(query, &settings.limits).execute(conn).await.map(drop)
        })?;
        self.key(id).await
    }

    /// Revokes a key for ever. A key that is already revoked keeps its time of revocation.
    pub async fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> StoreResult<Option<ApiKey>> {
        const SQL: &str = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        self.changes_catalog = true;
        on_db!(self, |conn| sqlx::query(SQL).bind(id.0).bind(now.0).execute(conn).await.map(drop))?;
        self.key(id).await
    }

    /// Returns all keys that may be presented: not revoked, holder enabled. Includes keys that expired within the last
    /// 30 days, so that the caller can refuse them with a message that says so.
    pub async fn usable_keys(&mut self, now: Timestamp) -> StoreResult<Decoded<ApiKey>> {
        const SQL: &str = select!(
            "k.revoked_at IS NULL AND o.enabled AND COALESCE(u.enabled, TRUE) \
             AND (k.expires_at IS NULL OR k.expires_at > $1) ORDER BY k.id"
        );
        let since = now.minus(REMEMBER_EXPIRED).0;
        let rows: Vec<WholeKey> = on_db!(self, |conn| sqlx::query_as(SQL).bind(since).fetch_all(conn).await)?;
        Decoded::of(rows, ApiKey::try_from)
    }

    /// Returns how many of the [`Tx::usable_keys`] belong to this organisation, and to this user; `None` is any.
    pub async fn count_usable_keys(
        &mut self,
        org: Option<OrgId>,
        user: Option<UserId>,
        now: Timestamp,
    ) -> StoreResult<i64> {
        const SQL: &str = "SELECT COUNT(*) FROM api_keys WHERE revoked_at IS NULL \
             AND (expires_at IS NULL OR expires_at > $1) AND (CAST($2 AS BIGINT) IS NULL OR org_id = $2) \
             AND (CAST($3 AS BIGINT) IS NULL OR user_id = $3)";
        let (since, org, user) = (now.minus(REMEMBER_EXPIRED).0, org.map(|it| it.0), user.map(|it| it.0));
        Ok(on_db!(self, |conn| {
            sqlx::query_scalar(SQL).bind(since).bind(org).bind(user).fetch_one(conn).await
        })?)
    }

    /// Returns how many keys of a user were made after `since`, up to `now`, revoked or not.
    pub async fn count_keys_made(
        &mut self,
        user: UserId,
        since: Timestamp,
        now: Timestamp,
    ) -> StoreResult<i64> {
        const SQL: &str =
            "SELECT COUNT(*) FROM api_keys WHERE user_id = $1 AND created_at > $2 AND created_at <= $3";
        Ok(on_db!(self, |conn| {
            sqlx::query_scalar(SQL).bind(user.0).bind(since.0).bind(now.0).fetch_one(conn).await
        })?)
    }

    /// Notes when keys were last used. A time never goes backwards, unless the stored one is after `now` (written by a
    /// clock that was ahead). Skips keys that are gone.
    pub async fn touch_keys(&mut self, uses: &[(KeyId, Timestamp)], now: Timestamp) -> StoreResult<()> {
        self.take_lock(AdvisoryLock::Upkeep).await?;
        let mut latest = BTreeMap::new();
        for (key, at) in uses {
            let seen = latest.entry(key.0).or_insert(at.0);
            *seen = at.0.max(*seen);
        }
        let latest: Vec<(i64, i64)> = latest.into_iter().collect();
        for chunk in latest.chunks(TOUCHES) {
            // One SQL text serves all chunks: the last chunk repeats its last row to fill it up.
            let padded = chunk.iter().chain(chunk.last().into_iter().cycle()).take(TOUCHES);
            on_db!(self, |conn| {
                let mut query = sqlx::query(TOUCH.as_str());
                for (key, at) in padded {
                    query = query.bind(*key).bind(*at);
                }
                query.bind(now.0).execute(conn).await.map(drop)
            })?;
        }
        Ok(())
    }
}
