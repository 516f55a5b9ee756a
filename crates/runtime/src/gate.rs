//! Whether this gateway may change anything of the containers now.

use std::fmt::Debug;

use futures_util::{FutureExt, future::BoxFuture};

use crate::{RuntimeError, RuntimeResult};

/// Asked by a runtime right before every change: of several gateways that share containers one may.
pub trait Gate: Debug + Send + Sync + 'static {
    /// As far as is known without asking anybody.
    fn is_open(&self) -> bool;

    /// Makes sure of it.
    fn ask(&self) -> BoxFuture<'_, bool>;
}

/// For whoever shares with nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Gate for Open {
    fn is_open(&self) -> bool {
        true
    }

    fn ask(&self) -> BoxFuture<'_, bool> {
        std::future::ready(true).boxed()
    }
}

/// # Errors
/// [`RuntimeError::NotSupervisor`]: it is not open.
pub(crate) async fn pass(gate: &dyn Gate) -> RuntimeResult<()> {
    if gate.ask().await { Ok(()) } else { Err(RuntimeError::NotSupervisor) }
}
