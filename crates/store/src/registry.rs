//! Engines that the gateway does not run itself. An operator enters them by hand.

use gantry_domain::{Timestamp, model::Task};
use secrecy::SecretString;

use crate::{
    Decoded, Seal, StoreError, StoreResult, Tx,
    page::clean,
    seal::SecretPlace,
    tx::{on_db, row},
};

/// An external engine.
#[derive(Debug, Clone)]
pub struct RegistryEntry {
    /// Unique in the registry. The caller checks whether a managed model has the same name.
    pub served_name: String,
    /// Base addresses, without the endpoint's path; at least one. Each request goes to one of them.
    pub urls: Vec<String>,
    pub task: Task,
    /// Name of the model at the engine, if it is not the served name.
    pub upstream_model: Option<String>,
    /// Sent to the engine as a bearer token.
    pub api_key: Option<SecretString>,
    /// The key as it is stored, if the database key that decrypts it is not on this gateway.
    pub sealed_api_key: Option<String>,
    pub created_at: Timestamp,
}

row! {
    struct RegistryRow {
        served_name: String,
        urls: String,
        task: String,
        upstream_model: Option<String>,
        api_key: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<RegistryRow> for RegistryEntry {
    type Error = StoreError;

    fn try_from(row: RegistryRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "registry", id: row.served_name.clone(), what };
        let task = Task::parse(&row.task).ok_or_else(|| corrupt("task"))?;
        let urls: Vec<String> = serde_json::from_str(&row.urls).map_err(|_| corrupt("urls"))?;
        if urls.is_empty() {
            return Err(corrupt("urls"));
        }
        Ok(Self {
            served_name: row.served_name,
            urls,
            task,
            upstream_model: row.upstream_model,
            // The row holds the key as it is stored; [`decoded`] decrypts it.
            api_key: None,
            sealed_api_key: row.api_key,
            created_at: Timestamp(row.created_at),
        })
    }
}

/// Returns the entry of a row, with its secret decrypted if this gateway has the key.
fn decoded(row: RegistryRow, seal: &Seal) -> StoreResult<RegistryEntry> {
    let mut entry = RegistryEntry::try_from(row)?;
    if let Some(stored) = entry.sealed_api_key.take() {
        (entry.api_key, entry.sealed_api_key) = seal.open(SecretPlace::ApiKey, stored).parts();
    }
    Ok(entry)
}

impl Tx {
    /// Returns all entries that can be read ([`Decoded::shown`]), oldest first.
    pub async fn registry(&mut self) -> StoreResult<Vec<RegistryEntry>> {
        let rows = self.registry_rows().await?;
        Ok(Decoded::of(rows, |it| decoded(it, &self.seal))?.shown())
    }

    /// Returns all entries that can be read, with their keys, and what is wrong with the others. An entry whose key
    /// can't be decrypted counts as unreadable: its engine can't be called without the key.
    pub async fn readable_registry(&mut self) -> StoreResult<Decoded<RegistryEntry>> {
        let rows = self.registry_rows().await?;
        Decoded::of(rows, |row| {
            let entry = decoded(row, &self.seal)?;
            if entry.sealed_api_key.is_none() {
                return Ok(entry);
            }
            let what = "api_key, which is encrypted with a key that this gateway does not have";
            Err(StoreError::Corrupt { table: "registry", id: entry.served_name, what })
        })
    }

    async fn registry_rows(&mut self) -> StoreResult<Vec<RegistryRow>> {
        const SQL: &str = "SELECT served_name, urls, task, upstream_model, api_key, created_at FROM registry \
                           ORDER BY created_at, served_name";
        Ok(on_db!(self, |conn| sqlx::query_as(SQL).fetch_all(conn).await)?)
    }

    /// Adds an entry or replaces the one of the same name, whose `created_at` stays.
    pub async fn upsert_registry(&mut self, entry: &RegistryEntry) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO registry (served_name, urls, task, upstream_model, api_key, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (served_name) DO UPDATE SET urls = excluded.urls, \
             task = excluded.task, upstream_model = excluded.upstream_model, api_key = excluded.api_key";
        self.changes_catalog = true;
        // A key that can't be decrypted stays as it is.
        let api_key = match &entry.api_key {
            Some(key) => Some(self.seal.close(SecretPlace::ApiKey, key)?),
            None => entry.sealed_api_key.clone(),
        };
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(entry.served_name.as_str())
                .bind(serde_json::Value::from(entry.urls.as_slice()).to_string())
                .bind(entry.task.as_str())
                .bind(entry.upstream_model.as_deref())
                .bind(api_key)
                .bind(entry.created_at.0)
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Removes an engine from the registry. Returns `false` if there is none of this name.
    pub async fn delete_registry(&mut self, served_name: &str) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM registry WHERE served_name = $1";
        self.changes_catalog = true;
        let rows = on_db!(self, |conn| {
            sqlx::query(SQL).bind(clean(served_name)).execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }
}
