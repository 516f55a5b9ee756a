//! What may be beyond the bars of [`super::structure`]. The first table is meant to last; the others hold what was there
//! when the bars were drawn, with its figure. An entry that nothing needs any more has to go.

/// Functions over 60 lines that are a table or a list: `file function`, and what it lists.
pub(crate) const TABLES: &[(&str, &str)] = &[
    ("crates/admin-api/src/doc/inference.rs operations", "the list of inference endpoints"),
    ("crates/admin-api/src/routes.rs routes", "the table of routes"),
    ("crates/domain/src/engine/llamacpp.rs launch", "a list of flags in the order in which they are written"),
    ("crates/domain/src/engine/vllm.rs launch", "a list of flags in the order in which they are written"),
    ("crates/domain/src/model/check.rs check", "a list of checks that have nothing in common"),
    ("crates/sim/src/api/metrics.rs vllm", "the list of vLLM's metrics"),
];

/// Files over 450 lines, with their lines.
pub(crate) const LONG_FILES: &[(&str, usize)] = &[
    ("crates/admin-api/src/doc/models.rs", 543),
    ("crates/admin-api/src/extract.rs", 516),
    ("crates/control/src/reconcile/worker.rs", 508),
    ("crates/dataplane/src/meter.rs", 506),
];

/// Functions over 60 lines, with their lines.
pub(crate) const LONG_FUNCTIONS: &[(&str, usize)] = &[
    ("crates/admin-api/src/doc/system.rs folders", 130),
    ("crates/admin-api/src/users/mod.rs change", 75),
    ("crates/cli/src/doctor/gateway.rs gateway", 66),
    ("crates/cli/src/models/mod.rs command", 92),
    ("crates/cli/src/top.rs watch", 69),
    ("crates/control/src/publish.rs swap", 77),
    ("crates/control/src/publish/callers.rs enter", 78),
    ("crates/control/src/reconcile/start.rs launch", 67),
    ("crates/control/src/reconcile/worker.rs pass", 63),
    ("crates/dataplane/src/inference.rs answered", 71),
    ("crates/dataplane/src/inference.rs prepare", 65),
    ("crates/dataplane/src/worker.rs serve", 66),
    ("crates/domain/src/memory/facts.rs shape", 62),
    ("crates/domain/src/memory/vllm.rs estimate", 66),
    ("crates/server/src/audit.rs on_database", 73),
    ("crates/server/src/backup.rs run", 62),
    ("crates/server/src/base.rs open", 69),
];

/// Functions with more than 4 blocks in each other, with their depth.
pub(crate) const DEEP: &[(&str, usize)] = &[
    ("crates/admin-api/src/policy.rs enforce", 5),
    ("crates/control/src/publish.rs swap", 5),
    ("crates/control/src/reconcile/worker.rs pass", 5),
    ("crates/control/src/reconcile/worker.rs rest", 5),
    ("crates/dataplane/src/choices.rs between", 5),
    ("crates/dataplane/src/peek/mod.rs see", 5),
    ("crates/dataplane/src/spool/reader.rs read_chunk", 6),
];

/// Crates in which files use each other in a circle, with the number of files that do.
pub(crate) const CYCLES: &[(&str, usize)] = &[
    ("crates/admin-api", 57),
    ("crates/cli", 25),
    ("crates/dataplane", 25),
    ("crates/domain", 5),
    ("crates/store", 5),
];

/// Crates in which no files use each other in a circle.
pub(crate) const CLEAN: &[&str] = &[
    "crates/sim",
    "crates/testkit",
    "bench",
    "crates/connect",
    "crates/control",
    "crates/image",
    "crates/inspect",
    "crates/runtime",
    "crates/server",
    "crates/settings",
    "xtask",
];
