//! `/admin`, `/auth`, `/readyz` and the chat page's part of `/v1`: what people and their tools call. This crate writes
//! what is wanted to the database, wakes the reconciler and answers; it never touches containers.
//!
//! A feature's file is found by its URL: `POST /admin/models/{id}/start` is `models/command.rs` below `models/`. The
//! route table in [`routes`] names every path, and who may call it.

mod admission;
pub mod app;
mod assets;
pub mod audit;
mod auth;
mod body_room;
pub mod bootstrap;
mod caller;
pub mod changes;
mod chat;
mod cookies;
mod deployment;
mod disk;
pub mod doc;
mod duplicate;
mod engines;
mod error;
mod event_stream;
pub mod events;
pub mod feed;
mod guard;
mod guesses;
mod health;
mod held;
mod keys;
mod limits;
mod local_user;
mod long_reads;
mod models;
mod operation;
mod orgs;
mod pages;
pub mod password;
mod playground;
pub mod policy;
pub mod ports;
pub mod recovery;
mod router;
pub mod routes;
pub mod seats;
mod server_events;
mod session;
pub mod session_uses;
mod system;
mod throttle;
pub mod tokens;
mod turns;
mod upstreams;
mod usage;
mod users;

pub use app::{App, Refresh};
pub use assets::{Asset, Keep};
pub use body_room::BodyRoom;
pub use chat::Answers;
pub use cookies::Cookies;
pub use disk::Disk;
pub use error::Problem;
pub use event_stream::HasEnd;
pub use guard::{Peer, error_answer};
pub use guesses::Guesses;
pub use health::Leaving;
pub use long_reads::LongReads;
pub use router::router;
pub use throttle::Throttle;
