//! Verbs that take several names: each name is handled, even if others fail.

use crate::{
    cx::Cx,
    exit::{Failure, Outcome},
};

/// Runs the same action for each name, in order. If there are several names, programs get one list of the answers.
///
/// # Errors
/// Returns the first failure. If there are several names, every failure was reported by then.
pub(crate) async fn each(
    cx: &Cx,
    names: &[&str],
    mut act: impl AsyncFnMut(&str) -> Outcome<()>,
) -> Outcome<()> {
    if let [only] = names {
        return act(only).await;
    }
    cx.out.hold();
    let mut first = None;
    for name in names {
        match act(name).await {
            Ok(()) => {}
            Err(failure) if failure.ends_all() => {
                cx.out.release()?;
                return Err(failure);
            }
            Err(failure) => {
                cx.out.complain(&failure);
                first.get_or_insert(failure.exit());
            }
        }
    }
    cx.out.release()?;
    first.map_or(Ok(()), |exit| Err(Failure::Told(exit)))
}
