//! Copies a SQLite database consistently at any moment, even while a gateway writes to it.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path, time::Duration};

use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};

use crate::{StoreError, StoreResult};

/// Longest wait for a lock of another process.
const BUSY: Duration = Duration::from_mins(1);

/// Writes the database of `sqlite://<path>` into `to`, a new file of mode 0600, with the content of its write-ahead
/// log. The schema may have any version. Changes nothing in the source. Returns the schema version, as read from the
/// copy.
///
/// # Errors
/// [`StoreError::Address`] if `to` is there already or can't be made, or there is no database; [`StoreError::Schema`]
/// if it has no tables of ours; [`StoreError::Database`] for a damaged one and a full disk.
pub async fn back_up(url: &str, to: &Path) -> StoreResult<i64> {
    // Reads under a lock that no writer waits for (https://sqlite.org/lang_vacuum.html#vacuuminto).
    const SQL: &str = "VACUUM INTO $1";
    let address = |why: String| StoreError::Address(why);
    let Some(path) = url.strip_prefix("sqlite://") else {
        return Err(address("only a `sqlite://` database is a file".to_owned()));
    };
    if crate::inspect(url).await?.version.is_none() {
        return Err(StoreError::Schema("it has no tables of Gantry".to_owned()));
    }
    let text = to.to_str().ok_or_else(|| address(format!("{} is not UTF-8 text", to.display())))?;
    let wrong = |error: io::Error| address(format!("{}: {error}", to.display()));
    // SQLite accepts an empty file as a new database and leaves its mode.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(wrong)?;
    let copied = async {
        let mut conn = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).connect().await?;
        sqlx::query(SQL).bind(text).execute(&mut conn).await?;
        conn.close().await?;
        fs::File::open(to).and_then(|it| it.sync_all()).map_err(wrong)?;
        let copy = crate::inspect(&format!("sqlite://{text}")).await?;
        copy.version.ok_or_else(|| StoreError::Schema("the copy has no tables of Gantry".to_owned()))
    };
    let copied = copied.await;
    if copied.is_err() {
        // We made this file, and it is of no use after a failure.
        let _ = fs::remove_file(to);
    }
    copied
}
