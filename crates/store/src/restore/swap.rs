//! Puts a scratch database in the place of the live one.

use crate::{
    Store, StoreError, StoreResult,
    restore::{
        record::SwapRecord,
        scratch::{Base, Scratch},
        sqlite,
        swap_postgres::{self, Outcome},
        swap_sqlite,
    },
    store::Pools,
    tx::on_db,
};

impl Store {
    /// Refuses a database in which somebody works already, for a restore without `drop_existing`.
    ///
    /// # Errors
    /// [`StoreError::Exists`] if it has any user.
    pub async fn check_unused(&self) -> StoreResult<()> {
        const SQL: &str = "SELECT EXISTS (SELECT 1 FROM users)";
        let mut tx = self.read().await?;
        let used: bool = on_db!(tx, |conn| sqlx::query_scalar(SQL).fetch_one(conn).await)?;
        if used { Err(StoreError::Exists) } else { Ok(()) }
    }

    /// Makes the scratch database's rows those of the live database, in one transaction: everybody sees all of the old
    /// or all of the new ones. Other connections and gateways go on working, and this store too. Kept are the rows of
    /// the gateways that run: who supervises, jobs that run, the installation's id and shared secrets. Sessions end.
    /// No number that was given to a row is given again.
    ///
    /// On Postgres this waits up to five minutes for transactions that read the old tables. Rights on tables that were
    /// given to other roles have to be given again.
    ///
    /// # Errors
    /// [`StoreError::KindDiffers`] if the scratch database is not of this kind; [`StoreError::Exists`] without
    /// `drop_existing` if there is any user; [`StoreError::Unproven`] if the tables of the live database were changed by
    /// hand; [`StoreError::JobEnded`] if the job of `record` was cancelled. After an error nothing was changed, with one exception: if the connection
    /// to Postgres broke at the commit and can't be made again, the rows are the old or the new ones.
    pub async fn swap(
        &self,
        scratch: Scratch,
        drop_existing: bool,
        record: Option<&SwapRecord<'_>>,
    ) -> StoreResult<()> {
        match (self.pools(), scratch.base) {
            (Pools::Sqlite { writer, .. }, Base::File { conn, file }) => {
                sqlite::close(conn, file.path()).await?;
                swap_sqlite::swap(writer, file.path(), drop_existing, record).await?;
            }
            (Pools::Postgres { pool, .. }, Base::Schema { conn, schemas }) => {
                let outcome = swap_postgres::swap(conn, &schemas, drop_existing, record).await?;
                if let Outcome::Unanswered(error) = outcome
                    && !swap_postgres::is_committed(pool, &schemas).await?
                {
                    return Err(error);
                }
            }
            _ => return Err(StoreError::KindDiffers),
        }
        // A dump of the first version has days that were never added up. The swap is done, whatever comes of this; the
        // next start adds up what is left.
        if let Err(error) = self.roll_up_old_usage().await {
            tracing::error!(error = %error, "usage rows of a restored dump could not be added up");
        }
        Ok(())
    }
}
