//! One-time links with which users set their own password. [`Tx::update_user`] ends the link of a user whose password,
//! role or organisation it sets, or whom it disables.

use gantry_domain::{Timestamp, UserId};

use crate::{StoreResult, Tx, tx::on_db};

impl Tx {
    /// Stores the link of a user, in place of an earlier one.
    ///
    /// # Errors
    /// [`crate::StoreError::Reference`] if the user is gone.
    pub async fn put_password_link(
        &mut self,
        user: UserId,
        token_hash: &[u8; 32],
        expires_at: Timestamp,
    ) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO password_links (user_id, token_hash, expires_at) VALUES ($1, $2, $3) \
                           ON CONFLICT (user_id) DO UPDATE \
                           SET token_hash = excluded.token_hash, expires_at = excluded.expires_at";
        on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(user.0).bind(&token_hash[..]).bind(expires_at.0);
            query.execute(conn).await.map(drop)
        })?;
        Ok(())
    }

    /// Returns whose link has this hash and is valid at `now`. The user may be disabled by their organisation.
    pub async fn password_link_user(
        &mut self,
        token_hash: &[u8; 32],
        now: Timestamp,
    ) -> StoreResult<Option<UserId>> {
        const SQL: &str = "SELECT user_id FROM password_links WHERE token_hash = $1 AND expires_at > $2";
        let user: Option<i64> = on_db!(self, |conn| {
            sqlx::query_scalar(SQL).bind(&token_hash[..]).bind(now.0).fetch_optional(conn).await
        })?;
        Ok(user.map(UserId))
    }

    /// Ends the link of a user, if there is one.
    pub(crate) async fn delete_password_link(&mut self, user: UserId) -> StoreResult<()> {
        const SQL: &str = "DELETE FROM password_links WHERE user_id = $1";
        on_db!(self, |conn| sqlx::query(SQL).bind(user.0).execute(conn).await.map(drop))?;
        Ok(())
    }
}
