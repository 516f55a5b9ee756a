//! How one gateway notices what another one changed in the database that they share.

use crate::{StoreResult, Tx, tx::on_db};

impl Tx {
    /// Grows with every transaction that changed what gateways keep in memory: keys, sessions, users, organisations,
    /// models and the registry. It is counted as the last statement of such a transaction, so that who sees a number
    /// sees all that it counts.
    pub async fn changes(&mut self) -> StoreResult<i64> {
        const SQL: &str = "SELECT n FROM changes WHERE id = 1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?)
    }

    pub(crate) async fn count_change(&mut self) -> StoreResult<()> {
        const SQL: &str = "UPDATE changes SET n = n + 1 WHERE id = 1";
        on_db!(self, |conn| sqlx::query(SQL).execute(conn).await.map(drop))?;
        Ok(())
    }
}
