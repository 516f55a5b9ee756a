//! Types and pure decisions of Gantry: no I/O and no SQL. HTTP is here only as headers ([`web`]).
//!
//! Everything that the other crates must agree on is here: ids, roles, keys, the model record with its field table, the
//! decision about the reconciler's next step, the engines' command lines, error codes and usage records.

pub mod account_token;
pub mod audit;
pub mod chat;
mod clock;
pub mod deployment;
pub mod diagnosis;
pub mod endpoint;
pub mod engine;
pub mod engine_metrics;
pub mod error;
pub mod hex;
pub mod host;
pub mod id;
pub mod identity;
pub mod image;
pub mod job;
pub mod key;
pub mod limit;
pub mod listeners;
pub mod log_linear;
mod log_window;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod models_dir;
pub mod name;
pub mod net;
pub mod role;
pub mod runtime;
pub mod schema;
pub mod setting;
pub mod spelling;
pub mod usage;
pub mod web;
pub mod words;

pub use clock::{Clock, Timestamp};
pub use error::{ApiError, ErrorCode, FieldProblem};
pub use id::{JobId, KeyId, ModelId, OrgId, TokenId, UserId};
pub use log_window::LogWindow;
pub use models_dir::ModelsDir;
pub use role::Role;
