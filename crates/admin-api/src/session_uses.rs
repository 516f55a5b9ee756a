//! Uses of sessions that are only in memory.

use std::collections::HashMap;

use gantry_domain::{OrgId, Timestamp, UserId};
use parking_lot::Mutex;

/// Uses of sessions that are not in the database, because each moves the end of its session by little. Where sessions have to
/// make room for others, they decide which were unused longest.
#[derive(Debug, Default)]
pub struct SessionUses(Mutex<HashMap<[u8; 32], Use>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) user: UserId,
    pub(crate) org: OrgId,
    /// Where it moves the end of the session.
    pub(crate) until: Timestamp,
}

impl SessionUses {
    pub(crate) fn note(&self, session: [u8; 32], it: Use) {
        self.0.lock().insert(session, it);
    }

    /// Returns where the uses of a session move its end, if any is noted.
    pub(crate) fn until(&self, session: &[u8; 32]) -> Option<Timestamp> {
        self.0.lock().get(session).map(|it| it.until)
    }

    /// Takes those of a user, and forgets those of sessions that have ended.
    pub(crate) fn of_user(&self, user: UserId, now: Timestamp) -> Vec<([u8; 32], Timestamp)> {
        let mut all = self.0.lock();
        all.retain(|_, it| it.until > now);
        all.extract_if(|_, it| it.user == user).map(|(session, it)| (session, it.until)).collect()
    }

    /// Takes those of an organisation.
    pub(crate) fn of_org(&self, org: OrgId) -> Vec<([u8; 32], Timestamp)> {
        self.0.lock().extract_if(|_, it| it.org == org).map(|(session, it)| (session, it.until)).collect()
    }
}
