//! Verbs that take several names: each is done, whatever becomes of the others.

use crate::{
    Cx, complain,
    exit::{Failure, Outcome},
};

/// Does the same with each name, in order. Programs get one list of the answers if there are several names.
///
/// # Errors
/// The first failure; all of them have been said by then if there are several names.
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
                complain(&failure, &cx.out);
                first.get_or_insert(failure.exit());
            }
        }
    }
    cx.out.release()?;
    first.map_or(Ok(()), |exit| Err(Failure::Told(exit)))
}
