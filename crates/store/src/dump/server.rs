//! Dumps a Postgres database whose schema may be of an older program, for the backup before an upgrade.

use std::{io, str::FromStr, sync::Arc};

use gantry_domain::Timestamp;
use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::{
    Proof, Seal, StoreError, StoreResult,
    dump::{header::DumpSecrets, source::Reading, write::write},
    store::{BEGIN_READ, LOCK_READ},
};

/// Writes the database at `postgres://…` like [`crate::Store::dump`], without changing it. Its schema may be older than
/// this program's.
///
/// # Errors
/// Those of [`crate::Store::dump`]; [`StoreError::Schema`] also for a database of a newer program.
pub async fn dump_server(
    url: &str,
    secrets: DumpSecrets,
    seal: Seal,
    now: Timestamp,
    to: &mut (dyn io::Write + Send),
) -> StoreResult<Proof> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Address("it is not a valid `postgres://` address".to_owned()))?;
    let mut conn = options.application_name("gantry").connect().await?;
    sqlx::raw_sql(BEGIN_READ).execute(&mut conn).await?;
    sqlx::raw_sql(LOCK_READ).execute(&mut conn).await?;
    write(Reading::Postgres(conn), secrets, Arc::new(seal), now, to).await
}
