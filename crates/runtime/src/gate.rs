//! Decides whether this gateway may change containers now.

use std::fmt::Debug;

use futures_util::{FutureExt, future::BoxFuture};

use crate::{RuntimeError, RuntimeResult};

/// Asked by a runtime right before every change: of several gateways that share containers, only one may change them.
pub trait Gate: Debug + Send + Sync + 'static {
    /// Whether it is open, as far as is known without a query.
    fn is_open(&self) -> bool;

    /// Asks whether it is open, and waits for the answer.
    fn ask(&self) -> BoxFuture<'_, bool>;
}

/// The gate of a gateway that shares its containers with no other. It is always open.
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
