//! What a restore leaves in the database that it put in place.

use gantry_domain::{Timestamp, audit::AuditEntry, job::Job};

use crate::{StoreError, StoreResult, audit, jobs, tx::Conn};

/// What the transaction of a swap writes into the new database, too, so that there is neither a restore without its record
/// nor a record without its restore, whenever the gateway dies.
#[derive(Debug, Clone, Copy)]
pub struct SwapRecord<'a> {
    /// The job that restores, as its record is to be.
    pub job: &'a Job,
    /// The row of the audit log.
    pub did: &'a AuditEntry,
    pub now: Timestamp,
}

impl SwapRecord<'_> {
    /// Writes the record with a connection that has the swap's transaction.
    ///
    /// # Errors
    /// [`StoreError::JobEnded`] if the job no longer runs by its record.
    pub(super) async fn write(&self, mut conn: Conn<'_>) -> StoreResult<()> {
        if !jobs::end_with(&mut conn, self.job).await? {
            return Err(StoreError::JobEnded);
        }
        audit::append(&mut conn, self.did, self.now).await.map(drop)
    }
}
