//! A scratch database: what a dump made, before it takes the place of the live database or is thrown away.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use sqlx::{Connection, PgConnection, SqliteConnection};

use crate::{
    DatabaseKind, DumpHeader, Proof, Store, StoreError, StoreResult,
    dump::reader::Reader,
    restore::{
        files::ScratchFile,
        load::{load_postgres, load_sqlite},
        postgres::{self, LOCK_WAIT, Schemas},
        sqlite,
    },
    store::Pools,
};

/// Begins the name of each scratch file.
const PREFIX: &str = "gantry_restore_";
const EXTENSION: &str = ".db";

/// Where a scratch database is.
pub(super) enum Base {
    File { conn: SqliteConnection, file: ScratchFile },
    Schema { conn: PgConnection, schemas: Schemas },
}

impl Base {
    async fn file(path: &Path) -> StoreResult<Self> {
        let file = ScratchFile::create(path)
            .map_err(|error| StoreError::Address(format!("{}: {error}", path.display())))?;
        let conn = sqlite::connect(path).await?;
        Ok(Self::File { conn, file })
    }

    /// Removes the database. After a mere drop the server of Postgres does so some time later.
    async fn discard(self) {
        // The connection may be broken. Then its end removes the database.
        let _ = match self {
            Self::File { conn, file: _file } => conn.close().await,
            Self::Schema { conn, .. } => conn.close().await,
        };
    }
}

/// A database that was made from a dump and proven, of the newest version of the schema. Dropping it removes it.
///
/// On Postgres its transaction is open until the swap, so nothing is left if the gateway dies.
pub struct Scratch {
    pub(super) base: Base,
    proof: Proof,
    header: Option<DumpHeader>,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("header", &self.header).finish_non_exhaustive()
    }
}

impl Scratch {
    /// Loads a dump into a new SQLite file and proves it, as [`Store::load`] does.
    ///
    /// # Errors
    /// Those of [`Store::load`]; [`StoreError::Address`] if the file is there already.
    pub async fn in_file(from: impl Read, path: &Path, expected: Option<&Proof>) -> StoreResult<Self> {
        let reader = Reader::new(from)?;
        Self::load(Base::file(path).await?, reader, expected).await
    }

    async fn load(mut base: Base, reader: Reader<impl Read>, expected: Option<&Proof>) -> StoreResult<Self> {
        let header = reader.header().cloned();
        let loaded = match &mut base {
            Base::File { conn, .. } => load_sqlite(conn, reader, expected).await,
            Base::Schema { conn, schemas } => load_postgres(conn, schemas, reader, expected).await,
        };
        match loaded {
            Ok(proof) => Ok(Self { base, proof, header }),
            Err(error) => {
                base.discard().await;
                Err(error)
            }
        }
    }

    /// Removes the database and waits until that is done.
    pub async fn remove(self) {
        self.base.discard().await;
    }

    /// Returns what the dump holds, and the scratch database too.
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Returns the first line of the dump, if Gantry wrote it.
    pub fn header(&self) -> Option<&DumpHeader> {
        self.header.as_ref()
    }
}

impl Store {
    /// Loads a dump into a scratch database of the same kind: a file in `dir`, or a schema beside the live one. `name`
    /// (1 to 32 small letters and digits) is part of its name. The scratch database is then compared with what was
    /// counted while reading, with the last line of the dump, and with `expected`: numbers of rows, sums, a digest of
    /// each table, references, the audit log. The live database is only read from. `from` may block, so call this on a
    /// thread of its own.
    ///
    /// # Errors
    /// [`StoreError::Dump`] for a dump that is not accepted; [`StoreError::Unproven`] for one that can't be used;
    /// [`StoreError::RestoreRuns`] on Postgres.
    pub async fn load(
        &self,
        from: impl Read,
        dir: &Path,
        name: &str,
        expected: Option<&Proof>,
    ) -> StoreResult<Scratch> {
        let reader = Reader::new(from)?;
        let base = match self.pools() {
            Pools::Sqlite { .. } => Base::file(&dir.join(format!("{PREFIX}{name}{EXTENSION}"))).await?,
            Pools::Postgres { pool, .. } => {
                let (conn, schemas) = postgres::connect(pool, name, LOCK_WAIT).await?;
                Base::Schema { conn, schemas }
            }
        };
        Scratch::load(base, reader, expected).await
    }

    /// Removes what a restore left whose process was killed: files in `dir`, and schemas. A gateway calls this when it
    /// starts, before it restores anything, and after it dropped a [`Store::swap`].
    pub async fn remove_scratch(&self, dir: &Path) -> StoreResult<()> {
        if self.kind() == DatabaseKind::Sqlite {
            return remove_files(dir)
                .map_err(|error| StoreError::Address(format!("{}: {error}", dir.display())));
        }
        let Pools::Postgres { pool, .. } = self.pools() else { return Ok(()) };
        postgres::remove_leftovers(pool).await
    }
}

fn remove_files(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours =
            name.to_str().and_then(|it| it.strip_prefix(PREFIX)).is_some_and(|it| it.contains(EXTENSION));
        if ours && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
