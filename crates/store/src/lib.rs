//! Persistence of Gantry on SQLite and Postgres. SQL lives here and only here.
//!
//! [`Store`] opens and migrates the database, [`Tx`] is one unit of work with a method for each query. There is one
//! constant SQL text per query, valid in both dialects; `tests/contract` runs every method on both databases.

mod audit;
mod backup;
mod change_counter;
mod chat;
mod decoded;
mod dump;
mod error;
mod events;
mod inspect;
mod jobs;
mod keys;
mod kind;
mod limits;
mod meta;
mod migrate;
mod models;
mod names;
mod orgs;
mod page;
mod password_links;
mod pg_transaction;
mod registry;
mod reseal;
mod restore;
mod seal;
mod sessions;
mod size;
mod store;
mod supervision;
mod tokens;
mod turns;
mod tx;
mod usage;
mod users;

pub use audit::AuditFilter;
pub use backup::back_up;
pub use chat::ChatSize;
pub use decoded::{Decoded, left_out};
pub use dump::{
    check::{DumpReport, check_dump},
    header::{DumpHeader, DumpKind, DumpSecrets},
    lexer::DumpError,
    proof::{AuditProof, Proof, UsageProof},
    server::dump_server,
    write::dump_file,
};
pub use error::{Constraint, StoreError, StoreResult};
pub use inspect::{DatabaseAddress, Inspection, database_address, inspect};
pub use jobs::NewJob;
pub use keys::{KeyColumn, KeyFilter, NewKey};
pub use kind::DatabaseKind;
pub use meta::LastRestore;
pub use migrate::versions as migration_versions;
pub use models::ModelToReconcile;
pub use orgs::{OrgChange, OrgColumn, OrgFilter, OrgSummary};
pub use page::{Order, Sort};
pub use registry::RegistryEntry;
pub use reseal::Resealed;
pub use restore::{
    offline::{RestoredFile, open_dump, restore_file},
    pending::finish_pending,
    record::SwapRecord,
    scratch::Scratch,
};
pub use seal::{InvalidKey, Seal};
pub use store::{Store, in_time};
pub use supervision::{Candidate, Claim, Supervisor};
pub use tokens::{NewToken, TokenFilter, TokenHolder};
pub use tx::Tx;
pub use usage::{
    Bucket, GroupBy, GroupColumn, StatusFilter, TimeKind, TokensSpent, UsageCheck, UsageFilter, UsageGroup,
    UsageRef, UsageSpan, UsageSums, UsageTimes,
};
pub use users::{NewUser, UserChange, UserColumn, UserFilter};
