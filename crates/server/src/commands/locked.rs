//! What a gateway locks while it runs, for verbs that need it stopped.

use std::path::Path;

use anyhow::Context;
use gantry_settings::Settings;

use crate::data_dir::{self, Lock};

/// The locks on the data directory and, for SQLite, on the database. Dropping this lets go of them.
pub(crate) struct Locks {
    _data_dir: Lock,
    _database: Option<Lock>,
}

impl Locks {
    /// Takes them. The data directory is made if it is not there.
    ///
    /// # Errors
    /// A gateway runs.
    pub(crate) fn take(settings: &Settings) -> anyhow::Result<Self> {
        let dir = std::path::absolute(&settings.data.data_dir).context("DATA_DIR can't be resolved")?;
        let data_dir = data_dir::lock(&dir)?;
        let database = settings.database();
        let file = database.expose().strip_prefix("sqlite://");
        let database = file.map(|it| data_dir::lock_database(Path::new(it))).transpose()?;
        Ok(Self { _data_dir: data_dir, _database: database })
    }
}
