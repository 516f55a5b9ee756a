//! Queues in front of the pools of connections. A caller who wants a connection waits for a turn first, so a connection that
//! can't be had with a turn in hand means that the database can't be reached, and not that many ask at once.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{StoreError, StoreResult};

/// Longest wait for a turn.
const TURN: Duration = Duration::from_secs(20);
/// Callers that may wait for a turn in one queue; each has a request or a task in memory meanwhile.
const WAITING: usize = 1000;

/// A turn in a queue. The connection that it is for must be dropped first.
pub(crate) type Turn = OwnedSemaphorePermit;

/// The queue in front of one pool: first come, first served.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    connections: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Queue {
    /// Makes the queue of a pool that has this many connections.
    pub(crate) fn before(connections: u32) -> Self {
        let connections = Arc::new(Semaphore::new(connections as usize));
        Self { connections, waiting: Arc::new(Semaphore::new(WAITING)) }
    }

    /// Waits for a turn, for up to 20 s.
    ///
    /// # Errors
    /// [`StoreError::Busy`] after that time, or at once if 1,000 others wait.
    pub(crate) async fn turn(&self) -> StoreResult<Turn> {
        if let Ok(turn) = Arc::clone(&self.connections).try_acquire_owned() {
            return Ok(turn);
        }
        let _waits = self.waiting.try_acquire().map_err(|_| StoreError::Busy)?;
        let turn = timeout(TURN, Arc::clone(&self.connections).acquire_owned()).await;
        // The semaphore is never closed.
        turn.map_err(|_| StoreError::Busy)?.map_err(|_| StoreError::Busy)
    }
}

/// The queues of a store's pools.
#[derive(Debug, Clone)]
pub(crate) struct Queues {
    pub(crate) writers: Queue,
    pub(crate) readers: Queue,
    pub(crate) quick: Queue,
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_up_to_twenty_seconds() {
        let queue = Queue::before(1);
        let first = queue.turn().await.unwrap();
        let begun = Instant::now();
        assert!(matches!(queue.turn().await, Err(StoreError::Busy)));
        assert_eq!(begun.elapsed(), TURN);
        drop(first);
        drop(queue.turn().await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn those_beyond_the_bound_are_refused_at_once() {
        let queue = Queue::before(1);
        let first = queue.turn().await.unwrap();
        let mut waiting: Vec<_> = (0..WAITING).map(|_| Box::pin(queue.turn())).collect();
        for it in &mut waiting {
            assert!(futures_util::poll!(it).is_pending());
        }
        let begun = Instant::now();
        assert!(matches!(queue.turn().await, Err(StoreError::Busy)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        // The one who came first is next.
        drop(first);
        assert!(futures_util::poll!(&mut waiting[1]).is_pending());
        assert!(futures_util::poll!(&mut waiting[0]).is_ready());
    }
}
