//! The contract of the store: every public method, on both databases.
//!
//! SQLite runs always. Postgres runs when `TEST_POSTGRES_URL` names a server, in a schema of its own for each test;
//! otherwise its half is reported as skipped.

#[cfg(test)]
mod accounts;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod chats;
#[cfg(test)]
mod concurrency;
#[cfg(test)]
mod dump_hostile;
#[cfg(test)]
mod dump_page;
#[cfg(test)]
mod dumps;
#[cfg(test)]
mod filled;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile_dumps;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod models;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod password_links;
#[cfg(test)]
mod restores;
#[cfg(test)]
mod seal;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod supervision;
#[cfg(test)]
mod swaps;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod usage_groups;
#[cfg(test)]
mod usage_sums;
