//! Seals secrets that are in clear or sealed with an older key, and forgets those that no key opens.

use crate::{
    Store, StoreResult, Tx,
    seal::{Opened, SecretPlace, key_of},
    tx::on_db,
};

/// What [`Store::reseal`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resealed {
    /// Secrets that were in clear, or sealed with an older key, and are sealed with the first one now.
    pub sealed: usize,
    /// Descriptions of the secrets that can't be opened, each with the id of the key that it needs.
    pub unreadable: Vec<String>,
}

impl Store {
    /// Seals with the first key every secret that is in clear or sealed with another key. What can't be opened stays as
    /// it is.
    pub async fn reseal(&self) -> StoreResult<Resealed> {
        let mut tx = self.write().await?;
        tx.exclusive().await?;
        let done = tx.reseal_rows().await?;
        if done.sealed == 0 {
            tx.rollback().await?;
        } else {
            tx.commit().await?;
        }
        Ok(done)
    }
}

impl Tx {
    async fn reseal_rows(&mut self) -> StoreResult<Resealed> {
        let mut done = Resealed::default();
        for (place, name, stored) in self.sealed_rows().await? {
            if self.seal.is_current(&stored) {
                continue;
            }
            match self.seal.open(place, stored) {
                Opened::Clear(secret) => {
                    let sealed = self.seal.close(place, &secret)?;
                    self.put_sealed(place, &name, Some(&sealed)).await?;
                    done.sealed += 1;
                }
                Opened::Sealed(stored) => done.unreadable.push(in_words(place, &name, &stored)),
            }
        }
        Ok(done)
    }

    /// Deletes the secrets that can't be opened with the keys of this gateway, and returns descriptions of them.
    pub async fn forget_unreadable(&mut self) -> StoreResult<Vec<String>> {
        let mut gone = Vec::new();
        for (place, name, stored) in self.sealed_rows().await? {
            if let Opened::Sealed(stored) = self.seal.open(place, stored) {
                self.put_sealed(place, &name, None).await?;
                gone.push(in_words(place, &name, &stored));
            }
        }
        Ok(gone)
    }

    /// Returns every secret: where it is stored, the id or name of its row, and the stored text.
    async fn sealed_rows(&mut self) -> StoreResult<Vec<(SecretPlace, String, String)>> {
        const MODELS: &str =
            "SELECT CAST(id AS TEXT), hub_token FROM models WHERE hub_token IS NOT NULL ORDER BY id";
        const REGISTRY: &str =
            "SELECT served_name, api_key FROM registry WHERE api_key IS NOT NULL ORDER BY served_name";
        const META: &str = "SELECT key, value FROM meta WHERE key LIKE 'secret/%' ORDER BY key";
        let mut all = Vec::new();
        for (place, sql) in
            [(SecretPlace::HubToken, MODELS), (SecretPlace::ApiKey, REGISTRY), (SecretPlace::Shared, META)]
        {
            let rows: Vec<(String, String)> = on_db!(self, |conn| sqlx::query_as(sql).fetch_all(conn).await)?;
            all.extend(rows.into_iter().map(|(name, stored)| (place, name, stored)));
        }
        Ok(all)
    }

    async fn put_sealed(&mut self, place: SecretPlace, name: &str, sealed: Option<&str>) -> StoreResult<()> {
        const MODEL: &str = "UPDATE models SET hub_token = $2 WHERE CAST(id AS TEXT) = $1";
        const REGISTRY: &str = "UPDATE registry SET api_key = $2 WHERE served_name = $1";
        const META: &str = "UPDATE meta SET value = $2 WHERE key = $1";
        const NO_META: &str = "DELETE FROM meta WHERE key = $1 AND $2 IS NULL";
        self.changes_catalog = true;
        let sql = match (place, sealed) {
            (SecretPlace::HubToken, _) => MODEL,
            (SecretPlace::ApiKey, _) => REGISTRY,
            (SecretPlace::Shared, Some(_)) => META,
            (SecretPlace::Shared, None) => NO_META,
        };
        on_db!(self, |conn| sqlx::query(sql).bind(name).bind(sealed).execute(conn).await.map(drop))?;
        Ok(())
    }
}

fn in_words(place: SecretPlace, name: &str, stored: &str) -> String {
    let what = match place {
        SecretPlace::HubToken => format!("the hub token of model {name}"),
        SecretPlace::ApiKey => format!("the api_key of the registry entry `{name}`"),
        SecretPlace::Shared => format!("`{name}`, which all gateways share"),
    };
    format!("{what} (key {})", key_of(stored).unwrap_or("unknown"))
}
