//! Runs costly work one at a time for each caller, so that nobody takes all capacity by asking often, and callers wait
//! for their own work only.

use std::{collections::HashMap, sync::Arc};

use gantry_domain::UserId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Callers with a turn, or in line for theirs. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    lines: Arc<Mutex<HashMap<UserId, Line>>>,
    /// Most turns of one caller at once, those in line included.
    max: usize,
}

#[derive(Debug)]
struct Line {
    first: Arc<Semaphore>,
    n: usize,
}

/// The turn of a caller. Dropping it gives the turn to the next request in line.
#[derive(Debug)]
pub(crate) struct Turn {
    _first: OwnedSemaphorePermit,
    _place: Place,
}

/// A place in line.
#[derive(Debug)]
struct Place {
    turns: Turns,
    caller: UserId,
}

impl Turns {
    pub(crate) fn new(max: usize) -> Self {
        Self { lines: Arc::default(), max }
    }

    /// Waits until it is the turn of this request of the caller; `None` if the line is too long.
    pub(crate) async fn turn(&self, caller: UserId) -> Option<Turn> {
        let (place, first) = self.line_up(caller)?;
        // The semaphore is never closed.
        let first = first.acquire_owned().await.ok()?;
        Some(Turn { _first: first, _place: place })
    }

    fn line_up(&self, caller: UserId) -> Option<(Place, Arc<Semaphore>)> {
        let mut lines = self.lock();
        let line = lines.entry(caller).or_insert_with(|| Line { first: Arc::new(Semaphore::new(1)), n: 0 });
        if line.n >= self.max {
            return None;
        }
        line.n += 1;
        Some((Place { turns: self.clone(), caller }, Arc::clone(&line.first)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, Line>> {
        self.lines.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.turns.lock();
        if let Some(line) = lines.get_mut(&self.caller) {
            line.n -= 1;
            if line.n == 0 {
                lines.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn callers_wait_for_themselves_only() {
        let turns = Turns::new(2);
        let (ada, bob) = (UserId(1), UserId(2));
        let first = turns.turn(ada).await.unwrap();
        let mut second = Box::pin(turns.turn(ada));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.turn(ada).await.is_none(), "the line is full");
        let bobs = turns.turn(bob).await.unwrap();
        drop(first);
        let second = second.await.unwrap();
        // One that is given up leaves the line.
        let mut third = Box::pin(turns.turn(ada));
        assert!(third.as_mut().now_or_never().is_none());
        drop((third, bobs, second));
        assert!(turns.lock().is_empty());
    }
}
