//! The real `gantry` binary with real databases (and real containers), through its public door.

#[cfg(test)]
mod air_gap_page;
#[cfg(test)]
mod at_once;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod backup_page;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod base_dir;
#[cfg(test)]
mod browser_rules;
#[cfg(test)]
mod chat_answers;
mod chat_sessions;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod creating;
#[cfg(test)]
mod database_faults;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod deployment;
#[cfg(test)]
mod docker_daemon;
#[cfg(test)]
mod docker_images;
#[cfg(test)]
mod docker_inference;
#[cfg(test)]
mod docker_lifecycle;
#[cfg(test)]
mod docker_pulls;
#[cfg(test)]
mod drills;
#[cfg(test)]
mod dry_run;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod events;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod first_pages;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod hub_config;
#[cfg(test)]
mod image_registry;
#[cfg(test)]
mod kept_out;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod late_bodies;
mod left_reads;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod log_reader;
#[cfg(test)]
mod matrix;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model_files;
#[cfg(test)]
mod model_metrics;
#[cfg(test)]
mod model_places;
mod models;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod names;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod orgs;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod own;
#[cfg(test)]
mod own_sessions;
#[cfg(test)]
mod page;
#[cfg(test)]
mod password_links;
#[cfg(test)]
mod playground;
#[cfg(test)]
mod process_lifecycle;
#[cfg(test)]
mod prometheus;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod raw_requests;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod readiness;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod reliability_page;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod revisions;
#[cfg(test)]
mod saved_dry_run;
#[cfg(test)]
mod sealed;
#[cfg(test)]
mod settings_cli;
#[cfg(test)]
mod settings_files;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod spool_removed;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod supervision;
#[cfg(test)]
mod support;
#[cfg(test)]
mod system;
#[cfg(test)]
mod team;
#[cfg(test)]
mod tenancy;
#[cfg(test)]
mod tenants;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod traces;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod users;
