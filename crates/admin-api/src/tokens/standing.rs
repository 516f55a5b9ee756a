//! Whether a token that opened a stream still stands in for its user.

use std::{sync::Arc, time::Duration};

use gantry_domain::{OrgId, Role, Timestamp, identity::User, key::KeyStatus};
use gantry_store::{StoreResult, TokenHolder};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::App;

/// Shortest time between two questions of a stream to the database. Every stream asks for itself, so it does not ask
/// with each check.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Longest time that a stream goes on while the database can't be asked: a database that does not answer says nothing
/// about the token.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Role and organisation of a token's user when the request was admitted. They decide what a stream shows, so the
/// stream ends if one of them changes.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    role: Role,
    org_id: OrgId,
    asked: Arc<Mutex<Asked>>,
}

#[derive(Debug)]
struct Asked {
    last: Instant,
    /// When the database last answered that the token holds.
    held: Instant,
}

impl Asked {
    /// Whether it is time to ask again.
    fn due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(self.last) >= ASK_EVERY;
        if due {
            self.last = now;
        }
        due
    }

    /// Returns whether the token counts as valid after an answer; `None` means that there was no answer.
    fn heard(&mut self, holds: Option<bool>, now: Instant) -> bool {
        if holds == Some(true) {
            self.held = now;
        }
        holds.unwrap_or_else(|| now.duration_since(self.held) < UNANSWERED)
    }
}

impl Standing {
    /// Makes the standing of a user whose token was looked up just now.
    pub(crate) fn of(user: &User) -> Self {
        let now = Instant::now();
        let asked = Arc::new(Mutex::new(Asked { last: now, held: now }));
        Self { role: user.role, org_id: user.org_id, asked }
    }

    /// Whether the token with this hash still stands in for the same user. An answer counts for [`ASK_EVERY`].
    pub(crate) async fn holds(&self, app: &App, hash: &[u8; 32]) -> bool {
        if !self.asked(|it| it.due(Instant::now())) {
            return true;
        }
        let known = look(app, hash).await.ok();
        let holds = known.map(|it| it.is_some_and(|holder| self.is_still(app, &holder)));
        self.asked(|it| it.heard(holds, Instant::now()))
    }

    fn is_still(&self, app: &App, holder: &TokenHolder) -> bool {
        let same = holder.user.role == self.role && holder.user.org_id == self.org_id;
        same && status(holder, app.clock.now()) == KeyStatus::Active
    }

    fn asked<T>(&self, work: impl FnOnce(&mut Asked) -> T) -> T {
        work(&mut self.asked.lock())
    }
}

/// Returns the status of a token at `now`. A revoked token is gone.
pub(super) fn status(holder: &TokenHolder, now: Timestamp) -> KeyStatus {
    if holder.token.expires_at <= now {
        KeyStatus::Expired
    } else if holder.user.enabled && holder.org_enabled {
        KeyStatus::Active
    } else {
        KeyStatus::HolderDisabled
    }
}

async fn look(app: &App, hash: &[u8; 32]) -> StoreResult<Option<TokenHolder>> {
    app.store.read_quick().await?.token(hash).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_does_not_answer_ends_a_stream_only_after_a_while() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let mut asked = Asked { last: begun, held: begun };
        assert!(!asked.due(after(1)) && asked.due(after(2)) && !asked.due(after(3)) && asked.due(after(4)));
        assert!(asked.heard(None, after(29)) && asked.heard(Some(true), after(29)));
        assert!(asked.heard(None, after(58)));
        assert!(!asked.heard(None, after(59)), "after 30 s without an answer, nobody knows");
        assert!(!asked.heard(Some(false), after(30)), "an answer counts at once");
    }
}
