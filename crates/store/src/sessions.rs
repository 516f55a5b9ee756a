//! Sessions of signed-in browsers.

use gantry_domain::{
    OrgId, Timestamp, UserId,
    identity::{Session, User},
};
use sqlx::{FromRow, Row};

use crate::{
    Decoded, StoreError, StoreResult, Tx,
    tx::{AdvisoryLock, Both, on_db, row},
    users::{UserRow, joined_user},
};

row! {
    struct SessionRow {
        id_hash: Vec<u8>,
        session_created_at: i64,
        expires_at: i64,
    }
}

row! {
    struct OrgEnabled {
        org_enabled: bool,
    }
}

impl SessionRow {
    fn of(self, user: UserId) -> StoreResult<Session> {
        let id_hash = self.id_hash.try_into().map_err(|_| StoreError::Corrupt {
            table: "sessions",
            id: format!("of user {user}"),
            what: "id_hash",
        })?;
        Ok(Session {
            id_hash,
            user_id: user,
            created_at: Timestamp(self.session_created_at),
            expires_at: Timestamp(self.expires_at),
        })
    }
}

/// A session, its user, and whether the user's organisation is enabled.
struct Joined {
    session: SessionRow,
    user: UserRow,
    org: OrgEnabled,
}

impl<'r, R: Row> FromRow<'r, R> for Joined
where
    Both<SessionRow, Both<UserRow, OrgEnabled>>: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        let Both(session, Both(user, org)) = FromRow::from_row(row)?;
        Ok(Self { session, user, org })
    }
}

impl TryFrom<Joined> for (Session, User, bool) {
    type Error = StoreError;

    fn try_from(row: Joined) -> StoreResult<Self> {
        let user = User::try_from(row.user)?;
        let session = row.session.of(user.id)?;
        Ok((session, user, row.org.org_enabled))
    }
}

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT s.id_hash, s.created_at AS session_created_at, s.expires_at, ",
            joined_user!(),
            ", o.enabled AS org_enabled \
             FROM sessions s JOIN users u ON u.id = s.user_id JOIN orgs o ON o.id = u.org_id WHERE ",
            $condition
        )
    };
}

impl Tx {
    /// # Errors
    /// [`StoreError::Reference`] if the user is gone.
    pub async fn insert_session(&mut self, session: &Session) -> StoreResult<()> {
        const SQL: &str =
            "INSERT INTO sessions (id_hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)";
        self.changes_catalog = true;
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(&session.id_hash[..])
                .bind(session.user_id.0)
                .bind(session.created_at.0)
                .bind(session.expires_at.0)
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Returns the session with its user, and whether the user's organisation is enabled. The session may have expired,
    /// and the user may be disabled.
    pub async fn session(&mut self, id_hash: &[u8; 32]) -> StoreResult<Option<(Session, User, bool)>> {
        const SQL: &str = select!("s.id_hash = $1");
        let row: Option<Joined> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(&id_hash[..]).fetch_optional(conn).await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// Returns the sessions of a user that end after `now`, the newest first.
    pub async fn user_sessions(&mut self, user: UserId, now: Timestamp) -> StoreResult<Vec<Session>> {
        const SQL: &str = "SELECT id_hash, created_at AS session_created_at, expires_at FROM sessions \
                           WHERE user_id = $1 AND expires_at > $2 ORDER BY created_at DESC, id_hash";
        let rows: Vec<SessionRow> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(user.0).bind(now.0).fetch_all(conn).await)?;
        rows.into_iter().map(|row| row.of(user)).collect()
    }

    /// Moves the end of a session. Returns `false` if the session was ended meanwhile.
    pub async fn touch_session(&mut self, id_hash: &[u8; 32], expires_at: Timestamp) -> StoreResult<bool> {
        const SQL: &str = "UPDATE sessions SET expires_at = $2 WHERE id_hash = $1";
        self.changes_catalog = true;
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(&id_hash[..]).bind(expires_at.0);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Ends a session. Returns `false` if there is none with this hash.
    pub async fn delete_session(&mut self, id_hash: &[u8; 32]) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM sessions WHERE id_hash = $1";
        self.changes_catalog = true;
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(&id_hash[..]);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Ends all sessions of a user but `except` and returns how many.
    pub async fn delete_user_sessions(&mut self, user: UserId, except: Option<[u8; 32]>) -> StoreResult<u64> {
        // No session has an empty hash, so an empty hash stands for "no exception".
        const SQL: &str = "DELETE FROM sessions WHERE user_id = $1 AND id_hash <> $2";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        let except = except.as_ref().map_or(&[][..], |it| &it[..]);
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(user.0).bind(except);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Ends the sessions of a user but the `keep` that end last, which are those used last. Returns how many it ended.
    pub async fn trim_user_sessions(&mut self, user: UserId, keep: i64) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM sessions WHERE user_id = $1 AND id_hash NOT IN (SELECT id_hash FROM sessions \
             WHERE user_id = $1 ORDER BY expires_at DESC, created_at DESC, id_hash LIMIT $2)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(user.0).bind(keep);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Returns how many sessions the users of an organisation have.
    pub async fn org_session_count(&mut self, org: OrgId) -> StoreResult<i64> {
        const SQL: &str =
            "SELECT COUNT(*) FROM sessions s JOIN users u ON u.id = s.user_id WHERE u.org_id = $1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(org.0).fetch_one(conn).await)?)
    }

    /// Ends the sessions of all users of an organisation but the `keep` that end last, counted over all of these users.
    /// Returns how many it ended.
    pub async fn trim_org_sessions(&mut self, org: OrgId, keep: i64) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM sessions WHERE id_hash IN (SELECT s.id_hash FROM sessions s \
             JOIN users u ON u.id = s.user_id WHERE u.org_id = $1 \
             ORDER BY s.expires_at DESC, s.created_at DESC, s.id_hash LIMIT 1000000000 OFFSET $2)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        Ok(on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(org.0).bind(keep);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Ends the sessions of all users of an organisation and returns how many there were.
    pub async fn delete_org_sessions(&mut self, org: OrgId) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM sessions WHERE user_id IN (SELECT id FROM users WHERE org_id = $1)";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        self.changes_catalog = true;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(org.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Deletes the sessions that ended at or before `now` and returns how many.
    pub async fn purge_sessions(&mut self, now: Timestamp) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM sessions WHERE expires_at <= $1";
        self.take_lock(AdvisoryLock::Upkeep).await?;
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(now.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }

    /// Returns all sessions that are good at `now`: current ([`Session::is_current`]), user and organisation enabled.
    pub async fn live_sessions(&mut self, now: Timestamp) -> StoreResult<Decoded<(Session, User)>> {
        const SQL: &str = select!(
            "s.expires_at > $1 AND s.created_at <= $2 AND u.enabled AND o.enabled ORDER BY s.id_hash"
        );
        let latest = now.plus(Session::CLOCK_SLACK);
        let rows: Vec<Joined> =
            on_db!(self, |conn| sqlx::query_as(SQL).bind(now.0).bind(latest.0).fetch_all(conn).await)?;
        let pair =
            |row: Joined| <(Session, User, bool)>::try_from(row).map(|(session, user, _)| (session, user));
        Decoded::of(rows, pair)
    }
}
