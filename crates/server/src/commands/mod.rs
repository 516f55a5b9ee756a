//! Verbs that need the gateway's own parts, above all its database, but no running gateway.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod egress;
pub(crate) mod locked;
pub(crate) mod owner;
pub(crate) mod restore;
pub(crate) mod supervisor;
pub(crate) mod upgrade;
