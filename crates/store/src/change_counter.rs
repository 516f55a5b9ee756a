//! Lets one gateway notice what another one changed in the database that they share.

use crate::{StoreResult, Tx, tx::on_db};

impl Tx {
    /// Returns a number that grows with every transaction that changed what gateways keep in memory: keys, sessions,
    /// users, organisations, models and the registry. Such a transaction counts it up in its last statement, so that a
    /// reader that sees a number also sees every change that it counts.
    pub async fn change_counter(&mut self) -> StoreResult<i64> {
        const SQL: &str = "SELECT n FROM changes WHERE id = 1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?)
    }

    pub(crate) async fn count_change(&mut self) -> StoreResult<()> {
        const SQL: &str = "UPDATE changes SET n = n + 1 WHERE id = 1";
        on_db!(self, |conn| sqlx::query(SQL).execute(conn).await.map(drop))?;
        Ok(())
    }
}
