//! Readiness of the parts of the gateway.

use futures_util::future::BoxFuture;
use gantry_domain::Timestamp;

/// Whether the parts of the gateway work, for readiness.
pub trait Checks: Send + Sync + 'static {
    /// Returns whether the container runtime answers. The error is one line that anybody may read. Returns soon,
    /// however many callers ask and whatever the runtime does.
    fn runtime_ok(&self) -> BoxFuture<'static, Result<(), &'static str>>;
    /// Whether a gateway supervises the models; the error is one line that names nobody.
    fn supervision_ok(&self) -> Result<(), String>;
    /// Returns whether the data by which requests are decided is read from the database. The error says in one line
    /// what is wrong.
    fn catalog_ok(&self) -> Result<(), String>;
    /// Returns whether the newest backup was proven lately; `None` if there are no restore drills. The error is one line
    /// that anybody may read.
    fn drill_ok(&self) -> Option<Result<(), String>>;
    /// When a restore drill succeeded last.
    fn last_proven(&self) -> Option<Timestamp>;
    /// Returns whether usage can be recorded now. The error is one line that anybody may read.
    fn spool_ok(&self) -> BoxFuture<'static, Result<(), &'static str>>;
}
