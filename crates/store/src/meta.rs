//! Facts about this installation: key and value.

use std::path::PathBuf;

use secrecy::SecretString;
use uuid::Uuid;

use crate::{
    StoreError, StoreResult, Tx,
    seal::{self, Opened, SecretPlace},
    tx::{Conn, on_conn, on_db},
};

const SET: &str =
    "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

const INSTANCE_ID: &str = "instance_id";
/// Id of the data directory that a SQLite file belongs to.
const HOME: &str = "home";
const MODELS_DIR: &str = "models_base_dir";
/// What each restore changes, see [`crate::ModelToReconcile::restored`].
const RESTORED: &str = "restored";

/// Which restore a database comes from: another one after each restore, the default before the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastRestore(pub(crate) Option<String>);

impl Tx {
    /// Returns the id of this installation, which the first call makes. Needs a transaction that may write.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if the stored value is no UUID.
    pub async fn instance_id(&mut self) -> StoreResult<Uuid> {
        // Two gateways may start on one Postgres at once. The first one's id is kept, and both read it back.
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

    /// Binds the database to the data directory with the id `home`, if it is not bound yet. Returns the id of the
    /// installation, and whether it is a new one. A database that is bound to another directory is a copy, and so is
    /// one that is not bound though it had an id that is not `known` there. A copy gets an id of its own, so that it
    /// has nothing to do with the containers of the original.
    pub async fn claim_home(&mut self, home: &str, known: Option<&str>) -> StoreResult<(Uuid, bool)> {
        let id = self.meta_get(INSTANCE_ID).await?;
        let is_copy = match self.meta_get(HOME).await? {
            Some(bound) => bound != home,
            None => id.is_some_and(|id| known != Some(&id)),
        };
        self.meta_set(HOME, home).await?;
        let id = if is_copy { self.renew_instance_id().await? } else { self.instance_id().await? };
        Ok((id, is_copy))
    }

    /// Gives the database a new installation id, so that it has nothing to do with the containers of the old one.
    pub async fn renew_instance_id(&mut self) -> StoreResult<Uuid> {
        const SQL: &str = "DELETE FROM meta WHERE key = $1";
        on_db!(self, |conn| sqlx::query(SQL).bind(INSTANCE_ID).execute(conn).await.map(drop))?;
        self.instance_id().await
    }

    /// Returns the secret that all gateways on this database use for `name`. If there was none yet, stores `own`.
    ///
    /// # Errors
    /// [`StoreError::Sealed`] if another gateway stored it with a key that this one does not have.
    pub async fn shared_secret(&mut self, name: &str, own: &SecretString) -> StoreResult<SecretString> {
        const SQL: &str = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
        let key = format!("secret/{name}");
        let sealed = self.seal.close(SecretPlace::Shared, own)?;
        on_db!(self, |conn| sqlx::query(SQL).bind(&key).bind(sealed).execute(conn).await.map(drop))?;
        let Some(stored) = self.meta_get(&key).await? else { return Ok(own.clone()) };
        match self.seal.open(SecretPlace::Shared, stored) {
            Opened::Clear(secret) => Ok(secret),
            Opened::Sealed(stored) => {
                let needed = seal::key_of(&stored).unwrap_or_default().to_owned();
                Err(StoreError::Sealed { what: key, key: needed })
            }
        }
    }

    /// Returns a value that [`Tx::meta_set`] stored.
    pub async fn meta_get(&mut self, key: &str) -> StoreResult<Option<String>> {
        const SQL: &str = "SELECT value FROM meta WHERE key = $1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(key).fetch_optional(conn).await)?)
    }

    /// Returns which restore the database comes from.
    pub async fn last_restore(&mut self) -> StoreResult<LastRestore> {
        self.meta_get(RESTORED).await.map(LastRestore)
    }

    /// Returns the models base directory that an owner set, which overrides `MODELS_DIR`.
    pub async fn models_dir(&mut self) -> StoreResult<Option<PathBuf>> {
        Ok(self.meta_get(MODELS_DIR).await?.map(PathBuf::from))
    }

    /// Stores the models base directory, or removes it (`None`). Other gateways on the database notice the change.
    pub async fn set_models_dir(&mut self, dir: Option<&str>) -> StoreResult<()> {
        const SQL: &str = "DELETE FROM meta WHERE key = $1";
        self.changes_catalog = true;
        if let Some(dir) = dir {
            return self.meta_set(MODELS_DIR, dir).await;
        }
        on_db!(self, |conn| sqlx::query(SQL).bind(MODELS_DIR).execute(conn).await.map(drop))?;
        Ok(())
    }

    /// Adds or replaces a value.
    pub async fn meta_set(&mut self, key: &str, value: &str) -> StoreResult<()> {
        on_db!(self, |conn| sqlx::query(SET).bind(key).bind(value).execute(conn).await.map(drop))?;
        Ok(())
    }
}

/// Notes that the rows are those of a restore from here on, with a connection that has the swap's transaction.
pub(crate) async fn note_restore(conn: &mut Conn<'_>) -> StoreResult<()> {
    let new = Uuid::now_v7().to_string();
    on_conn!(conn, |conn| sqlx::query(SET).bind(RESTORED).bind(new).execute(conn).await.map(drop))?;
    Ok(())
}
