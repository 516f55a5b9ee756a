//! What may be beyond the bars of [`super::structure`]. An entry that nothing needs any more has to go.

/// Functions over 60 lines that are a table or a list: `file function`, and what it lists.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("crates/admin-api/src/doc/inference.rs operations", "the list of inference endpoints"),
    ("crates/admin-api/src/routes.rs routes", "the table of routes"),
    ("crates/cli/src/egress.rs facts", "a list of facts in words"),
    ("crates/cli/src/keys.rs command", "the list of verbs with their options"),
    ("crates/cli/src/models/mod.rs command", "the list of verbs with their options"),
    ("crates/domain/src/engine/llamacpp.rs launch", "a list of flags in the order in which they are written"),
    ("crates/domain/src/engine/vllm.rs launch", "a list of flags in the order in which they are written"),
    ("crates/domain/src/model/check.rs check", "a list of checks that have nothing in common"),
    ("crates/sim/src/api/metrics.rs vllm", "the list of vLLM's metrics"),
];
