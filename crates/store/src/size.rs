//! How large the database is.

use crate::{Store, StoreResult, store::Pools};

impl Store {
    /// Returns the bytes that the tables and indexes take on the database's disk: about what a dump of them takes, or more.
    pub async fn size_bytes(&self) -> StoreResult<u64> {
        const SQLITE: &str = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        const POSTGRES: &str = "SELECT CAST(COALESCE(SUM(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c \
                                WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)";
        let size: i64 = match self.pools() {
            Pools::Sqlite { readers, .. } => sqlx::query_scalar(SQLITE).fetch_one(readers).await?,
            Pools::Postgres { pool, .. } => sqlx::query_scalar(POSTGRES).fetch_one(pool).await?,
        };
        Ok(size.unsigned_abs())
    }
}
