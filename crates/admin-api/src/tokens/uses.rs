//! When tokens were used: noted in memory with each request. [`super::keep`] writes it in batches.

use std::collections::HashMap;

use gantry_domain::{Timestamp, TokenId};
use parking_lot::Mutex;

/// Uses that are not in the database yet.
#[derive(Debug, Default)]
pub struct TokenUses(Mutex<HashMap<TokenId, Timestamp>>);

impl TokenUses {
    pub(crate) fn note(&self, id: TokenId, at: Timestamp) {
        self.0.lock().insert(id, at);
    }

    pub(super) fn take(&self) -> Vec<(TokenId, Timestamp)> {
        self.0.lock().drain().collect()
    }

    /// Puts back what could not be written, unless there is something later.
    pub(super) fn put_back(&self, uses: Vec<(TokenId, Timestamp)>) {
        let mut all = self.0.lock();
        for (id, at) in uses {
            all.entry(id).or_insert(at);
        }
    }
}
