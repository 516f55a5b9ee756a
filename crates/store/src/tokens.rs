//! Tokens of people for the admin API.

use gantry_domain::{
    OrgId, Timestamp, TokenId, UserId,
    account_token::{AccountToken, TokenScopes},
    identity::User,
};

use crate::{
    Decoded, StoreError, StoreResult, Tx,
    sessions::OrgEnabled,
    tx::{AdvisoryLock, Both, on_db, row},
    users::{UserRow, joined_user},
};

/// A token to be made.
#[derive(Debug, Clone)]
pub struct NewToken {
    pub user_id: UserId,
    pub name: String,
    /// First characters of the token, by which people know it.
    pub prefix: String,
    pub token_hash: [u8; 32],
    pub scopes: TokenScopes,
    pub expires_at: Timestamp,
}

/// Conditions on tokens. A token must meet all that are set.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokenFilter {
    pub id: Option<TokenId>,
    /// Organisation of the token's user.
    pub org_id: Option<OrgId>,
    pub user_id: Option<UserId>,
}

/// A token with the user that it acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    pub token: AccountToken,
    pub user: User,
    /// Whether the user's organisation is enabled.
    pub org_enabled: bool,
}

row! {
    struct TokenRow {
        token_id: i64,
        name: String,
        prefix: String,
        scopes: String,
        token_created_at: i64,
        expires_at: i64,
        last_used_at: Option<i64>,
    }
}

type WholeToken = Both<TokenRow, Both<UserRow, OrgEnabled>>;

impl TryFrom<WholeToken> for TokenHolder {
    type Error = StoreError;

    fn try_from(Both(row, Both(user, org)): WholeToken) -> StoreResult<Self> {
        let user = User::try_from(user)?;
        let token = AccountToken {
            id: TokenId(row.token_id),
            user_id: user.id,
            name: row.name,
            prefix: row.prefix,
            scopes: TokenScopes::from_stored(&row.scopes),
            created_at: Timestamp(row.token_created_at),
            expires_at: Timestamp(row.expires_at),
            last_used_at: row.last_used_at.map(Timestamp),
        };
        Ok(Self { token, user, org_enabled: org.org_enabled })
    }
}

macro_rules! source {
    () => {
        " FROM account_tokens t JOIN users u ON u.id = t.user_id JOIN orgs o ON o.id = u.org_id WHERE "
    };
}

macro_rules! select {
    ($condition:expr) => {
        concat!(
            "SELECT t.id AS token_id, t.name, t.prefix, t.scopes, t.created_at AS token_created_at, t.expires_at, \
             t.last_used_at, ",
            joined_user!(),
            ", o.enabled AS org_enabled",
            source!(),
            $condition
        )
    };
}

macro_rules! matching {
    () => {
        "(CAST($1 AS BIGINT) IS NULL OR t.id = $1) AND (CAST($2 AS BIGINT) IS NULL OR u.org_id = $2) \
         AND (CAST($3 AS BIGINT) IS NULL OR t.user_id = $3)"
    };
}

impl Tx {
    /// # Errors
    /// [`StoreError::Reference`] if the user is gone.
    pub async fn insert_token(&mut self, token: &NewToken, now: Timestamp) -> StoreResult<AccountToken> {
        const SQL: &str = "INSERT INTO account_tokens (user_id, name, prefix, token_hash, scopes, created_at, expires_at) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id";
        let id: i64 = on_db!(self, |conn| {
            sqlx::query_scalar(SQL)
                .bind(token.user_id.0)
                .bind(token.name.as_str())
                .bind(token.prefix.as_str())
                .bind(&token.token_hash[..])
                .bind(token.scopes.to_string())
                .bind(now.0)
                .bind(token.expires_at.0)
                .fetch_one(conn)
                .await
        })?;
        let NewToken { user_id, name, prefix, token_hash: _, scopes, expires_at } = token.clone();
        let id = TokenId(id);
        Ok(AccountToken {
            id,
            user_id,
            name,
            prefix,
            scopes,
            created_at: now,
            expires_at,
            last_used_at: None,
        })
    }

    /// Returns the token with this hash. It may have expired, and its user or organisation may be disabled.
    pub async fn token(&mut self, token_hash: &[u8; 32]) -> StoreResult<Option<TokenHolder>> {
        const SQL: &str = select!("t.token_hash = $1");
        let row: Option<WholeToken> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(&token_hash[..]).fetch_optional(conn).await)?;
        row.map(TokenHolder::try_from).transpose()
    }

    /// Returns one page of tokens by id, and how many there are on all pages.
    pub async fn tokens(
        &mut self,
        filter: &TokenFilter,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<TokenHolder>, i64)> {
        const COUNT: &str = concat!("SELECT COUNT(*)", source!(), matching!());
        const SQL: &str = concat!(select!(""), matching!(), " ORDER BY t.id LIMIT $4 OFFSET $5");
        let (id, org, user) =
            (filter.id.map(|it| it.0), filter.org_id.map(|it| it.0), filter.user_id.map(|it| it.0));
        let total = on_db!(self, |conn| {
            sqlx::query_scalar(COUNT).bind(id).bind(org).bind(user).fetch_one(conn).await
        })?;
        let rows: Vec<WholeToken> = on_db!(self, |conn| {
            let query = sqlx::query_as(SQL).bind(id).bind(org).bind(user);
            query.bind(limit).bind(offset).fetch_all(conn).await
        })?;
        Ok((Decoded::of(rows, TokenHolder::try_from)?.shown(), total))
    }

    /// Returns how many tokens of a user have not expired at `now`.
    pub async fn count_live_tokens(&mut self, user: UserId, now: Timestamp) -> StoreResult<i64> {
        const SQL: &str = "SELECT COUNT(*) FROM account_tokens WHERE user_id = $1 AND expires_at > $2";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(user.0).bind(now.0).fetch_one(conn).await)?)
    }

    /// Deletes the token for ever. Returns `false` if there is none with this id.
    pub async fn delete_token(&mut self, id: TokenId) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM account_tokens WHERE id = $1";
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(id.0).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Deletes all tokens of a user and returns how many there were.
    pub async fn delete_user_tokens(&mut self, user: UserId) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM account_tokens WHERE user_id = $1";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(user.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Deletes all tokens of the users of an organisation and returns how many there were.
    pub async fn delete_org_tokens(&mut self, org: OrgId) -> StoreResult<u64> {
        const SQL: &str =
            "DELETE FROM account_tokens WHERE user_id IN (SELECT id FROM users WHERE org_id = $1)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(org.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Deletes the tokens that expired at or before `end` and returns how many.
    pub async fn purge_tokens(&mut self, end: Timestamp) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM account_tokens WHERE expires_at <= $1";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(end.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Notes when tokens were last used. A time never goes backwards. Skips tokens that are gone.
    pub async fn touch_tokens(&mut self, uses: &[(TokenId, Timestamp)]) -> StoreResult<()> {
        const SQL: &str = "UPDATE account_tokens SET last_used_at = $2 \
                           WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        for (id, at) in uses {
            on_db!(self, |conn| sqlx::query(SQL).bind(id.0).bind(at.0).execute(conn).await.map(drop))?;
        }
        Ok(())
    }
}
