//! Engines that the gateway does not run itself, entered by hand.

use gantry_domain::{Timestamp, model::Task};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    Readable, StoreError, StoreResult, Tx,
    page::clean,
    tx::{Touched, on_db, row},
};

/// An external engine.
#[derive(Debug, Clone)]
pub struct RegistryEntry {
    /// Unique in the registry; whether a managed model has the same one is the caller's to check.
    pub served_name: String,
    /// Base address, without the endpoint's path.
    pub url: String,
    pub task: Task,
    /// Sent to the engine as a bearer token.
    pub api_key: Option<SecretString>,
    pub created_at: Timestamp,
}

row! {
    struct RegistryRow {
        served_name: String,
        url: String,
        task: String,
        api_key: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<RegistryRow> for RegistryEntry {
    type Error = StoreError;

    fn try_from(row: RegistryRow) -> StoreResult<Self> {
        let Some(task) = Task::parse(&row.task) else {
            return Err(StoreError::Corrupt { table: "registry", id: row.served_name, what: "task" });
        };
        Ok(Self {
            served_name: row.served_name,
            url: row.url,
            task,
            api_key: row.api_key.map(SecretString::from),
            created_at: Timestamp(row.created_at),
        })
    }
}

impl Tx {
    /// All entries, oldest first.
    pub async fn registry(&mut self) -> StoreResult<Vec<RegistryEntry>> {
        self.registry_rows().await?.into_iter().map(RegistryEntry::try_from).collect()
    }

    /// The same, as far as they can be read.
    pub async fn readable_registry(&mut self) -> StoreResult<Readable<RegistryEntry>> {
        Readable::of(self.registry_rows().await?, RegistryEntry::try_from)
    }

    async fn registry_rows(&mut self) -> StoreResult<Vec<RegistryRow>> {
        const SQL: &str = "SELECT served_name, url, task, api_key, created_at FROM registry \
                           ORDER BY created_at, served_name";
        Ok(on_db!(self, |conn| sqlx::query_as(SQL).fetch_all(conn).await)?)
    }

    /// Adds an entry or replaces the one of the same name, whose `created_at` stays.
    pub async fn upsert_registry(&mut self, entry: &RegistryEntry) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO registry (served_name, url, task, api_key, created_at) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (served_name) \
             DO UPDATE SET url = excluded.url, task = excluded.task, api_key = excluded.api_key";
        self.1 = Touched::Catalog;
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(entry.served_name.as_str())
                .bind(entry.url.as_str())
                .bind(entry.task.as_str())
                .bind(entry.api_key.as_ref().map(ExposeSecret::expose_secret))
                .bind(entry.created_at.0)
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    pub async fn delete_registry(&mut self, served_name: &str) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM registry WHERE served_name = $1";
        self.1 = Touched::Catalog;
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(clean(served_name)).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }
}
