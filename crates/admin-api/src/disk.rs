//! Runs file system work on paths that users chose, off the async runtime. A network file system whose server is gone
//! blocks every thread that touches it, for ever. To lose only a few threads and not all of them (sign-in and the usage
//! shipper need them too), few pieces of work run at a time, and each is waited for only up to a time limit.

use std::{sync::Arc, time::Duration};

use gantry_domain::{ApiError, ErrorCode};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::error::{Outcome, Problem};

/// Most pieces of work at a time: a small part of the threads for blocking work (512).
const AT_ONCE: usize = 8;
/// Longest wait for a turn, and longest wait for the work itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs blocking file system work, a few pieces at a time. Clones share the turns.
#[derive(Debug, Clone)]
pub struct Disk {
    turns: Arc<Semaphore>,
    /// The turn of inspections, each of which may take 64 MiB.
    inspection: Arc<Semaphore>,
    patience: Duration,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            inspection: Arc::new(Semaphore::new(1)),
            patience: PATIENCE,
        }
    }
}

impl Disk {
    /// Runs `work`, which may block.
    ///
    /// # Errors
    /// 503 `host_unavailable` if a file system does not answer.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let turn = self.turn(&self.turns).await?;
        self.run(turn, work).await
    }

    /// Runs `work`, which may block, as an inspection: one at a time.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let turn = self.turn(&self.inspection).await?;
        self.run(turn, work).await
    }

    async fn turn(&self, of: &Arc<Semaphore>) -> Outcome<OwnedSemaphorePermit> {
        let turn = timeout(self.patience, Arc::clone(of).acquire_owned()).await.map_err(|_| hangs())?;
        turn.map_err(|_| ApiError::internal().into())
    }

    /// Runs `work` and holds the turn until the work ends, also if nobody waits for it any more.
    async fn run<T: Send + 'static>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Outcome<T> {
        let work = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        let done = timeout(self.patience, work).await.map_err(|_| hangs())?;
        done.map_err(|_| ApiError::internal().into())
    }
}

fn hangs() -> Problem {
    tracing::warn!("a file system does not answer");
    Problem::new(
        ErrorCode::HostUnavailable,
        "the files can't be looked at: their file system does not answer",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    };

    use super::*;

    #[tokio::test]
    async fn a_file_system_that_hangs_holds_a_few_threads_and_nobody_for_long() {
        let disk = Disk { patience: Duration::from_millis(20), ..Disk::default() };
        let (release, released) = mpsc::channel::<()>();
        let (gate, begun) = (Arc::new(std::sync::Mutex::new(released)), Arc::new(AtomicUsize::new(0)));
        let asked = (0..5 * AT_ONCE).map(|_| {
            let (disk, gate, begun) = (disk.clone(), Arc::clone(&gate), Arc::clone(&begun));
            async move {
                let look = move || {
                    begun.fetch_add(1, SeqCst);
                    // Until the other end is gone.
                    let _ = gate.lock().map(|it| it.recv());
                };
                disk.look(look).await.unwrap_err().0.code
            }
        });
        let codes = futures_util::future::join_all(asked).await;
        assert!(codes.iter().all(|it| *it == ErrorCode::HostUnavailable), "{codes:?}");
        assert_eq!(begun.load(SeqCst), AT_ONCE);
        // When it is back, so are the turns.
        drop(release);
        let (done, seen) = mpsc::channel();
        for _ in 0..AT_ONCE {
            let done = done.clone();
            let patient = Disk { patience: Duration::from_mins(1), ..disk.clone() };
            patient.look(move || done.send(()).unwrap()).await.unwrap();
        }
        assert_eq!(seen.try_iter().count(), AT_ONCE);
    }
}
