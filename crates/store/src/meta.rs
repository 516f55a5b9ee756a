//! Facts about this installation: key and value.

use std::path::PathBuf;

use uuid::Uuid;

use crate::{StoreError, StoreResult, Tx, tx::on_db};

const INSTANCE_ID: &str = "instance_id";
const MODELS_DIR: &str = "models_base_dir";

impl Tx {
    /// The id of this installation, made at the first call; needs a transaction that may write.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the stored value is no UUID.
    pub async fn instance_id(&mut self) -> StoreResult<Uuid> {
        // Two gateways may start on one Postgres: the first one's id stands, and both read it back.
        const SQL: &str = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
        let fresh = Uuid::now_v7().to_string();
        on_db!(self, |conn| sqlx::query(SQL).bind(INSTANCE_ID).bind(fresh).execute(conn).await.map(drop))?;
        let stored = self.meta_get(INSTANCE_ID).await?;
        stored.and_then(|text| text.parse().ok()).ok_or_else(|| StoreError::Corrupt {
            table: "meta",
            id: INSTANCE_ID.to_owned(),
            what: "value",
        })
    }

    pub async fn meta_get(&mut self, key: &str) -> StoreResult<Option<String>> {
        const SQL: &str = "SELECT value FROM meta WHERE key = $1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(key).fetch_optional(conn).await)?)
    }

    /// The models base directory that an owner chose over `MODELS_DIR`.
    pub async fn models_dir(&mut self) -> StoreResult<Option<PathBuf>> {
        Ok(self.meta_get(MODELS_DIR).await?.map(PathBuf::from))
    }

    /// Notes the choice, or takes it back.
    pub async fn set_models_dir(&mut self, dir: Option<&str>) -> StoreResult<()> {
        const SQL: &str = "DELETE FROM meta WHERE key = $1";
        if let Some(dir) = dir {
            return self.meta_set(MODELS_DIR, dir).await;
        }
        on_db!(self, |conn| sqlx::query(SQL).bind(MODELS_DIR).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Adds or replaces a value.
    pub async fn meta_set(&mut self, key: &str, value: &str) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO meta (key, value) VALUES ($1, $2) \
                           ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        on_db!(self, |conn| sqlx::query(SQL).bind(key).bind(value).execute(conn).await.map(drop))?;
        Ok(())
    }
}
