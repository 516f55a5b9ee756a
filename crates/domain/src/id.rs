//! Row ids. Newtypes, so that a key's id can't be passed where a user's is wanted.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

ids! {
    /// Id of a model record; the number in `primary-model-<id>`.
    ModelId,
    /// Id of an organisation.
    OrgId,
    /// Id of a user account.
    UserId,
    /// Id of an API key.
    KeyId,
    /// Id of a person's token for the admin API.
    TokenId,
    /// Id of a job.
    JobId,
}
