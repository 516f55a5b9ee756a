//! Jobs: work that may take minutes, with a record that outlives the gateway which does it.

use std::time::Duration;

use serde_json::Value;

use crate::{JobId, Timestamp, words};

/// Most lines of a job's log that are kept; the oldest go first.
pub const MAX_LOG_LINES: usize = 200;
/// The id of a deployment job, for people and programs, is this and its number.
pub const DEPLOYMENT_PREFIX: &str = "deploy-";

words! {
    /// What a job does.
    pub enum JobKind {
        /// Loads container images from an archive.
        ImageLoad = "image_load",
        /// Writes a deployment package of the whole installation.
        Export = "export",
        /// Writes a deployment package of one model.
        ModelExport = "model_export",
        /// Takes images, weights and models from a deployment package.
        Import = "import",
        /// Puts the content of a database dump in place of the database's.
        DbRestore = "db_restore",
    }
}

impl JobKind {
    /// Whether it is work on packages or on the whole database, of which there is one at a time.
    pub fn is_deployment(self) -> bool {
        match self {
            Self::ImageLoad => false,
            Self::Export | Self::ModelExport | Self::Import | Self::DbRestore => true,
        }
    }
}

words! {
    /// How far a job is.
    pub enum JobState {
        /// It is being done.
        Running = "running",
        /// It did everything that it was to do.
        Completed = "completed",
        /// It ended with an error, or with the gateway that did it.
        Failed = "failed",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
    }
}

impl JobState {
    /// Whether nothing more happens to the job.
    pub fn is_final(self) -> bool {
        self != Self::Running
    }
}

/// How much of a job is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobProgress {
    /// What it does just now, for people.
    pub step: String,
    pub done_bytes: u64,
    /// `None` if it is not known.
    pub total_bytes: Option<u64>,
}

impl JobProgress {
    /// Returns the part that is done, from 0 to 1; 0 while the whole is not known.
    pub fn fraction(&self) -> f64 {
        match self.total_bytes {
            None | Some(0) => 0.0,
            Some(total) => (self.done_bytes as f64 / total as f64).min(1.0),
        }
    }

    /// Returns the time that is left, if the rest goes as fast as what was done in `took`. `None` while nothing is done
    /// or the whole is not known.
    pub fn eta(&self, took: Duration) -> Option<Duration> {
        let left = self.total_bytes?.saturating_sub(self.done_bytes);
        if self.done_bytes == 0 {
            return None;
        }
        Some(took.mul_f64(left as f64 / self.done_bytes as f64))
    }
}

/// The record of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub kind: JobKind,
    /// What it works on, such as the path of a file.
    pub object: String,
    /// The gateway that does it, by the name under which it supervises.
    pub gateway: String,
    pub state: JobState,
    pub progress: JobProgress,
    pub started_at: Timestamp,
    /// `None` while it runs.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// What it did, oldest line first; at most [`MAX_LOG_LINES`].
    pub log: Vec<String>,
    /// What it made, as its kind says it; `None` until it has ended well.
    pub artifacts: Option<Value>,
    /// When the record was written last.
    pub updated_at: Timestamp,
}

impl Job {
    /// Returns the record of the job as it is when it ends at `now`. What it made counts only if it completed.
    #[must_use]
    pub fn ended(self, state: JobState, error: Option<String>, now: Timestamp) -> Self {
        let artifacts = self.artifacts.filter(|_| state == JobState::Completed);
        Self { state, error, artifacts, finished_at: Some(now), updated_at: now, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_much_and_how_long_as_far_as_that_is_known() {
        let of = |done_bytes, total_bytes| JobProgress { step: String::new(), done_bytes, total_bytes };
        let ten = Duration::from_secs(10);
        assert_eq!((of(0, None).fraction(), of(0, None).eta(ten)), (0.0, None));
        assert_eq!((of(5, None).fraction(), of(5, None).eta(ten)), (0.0, None));
        assert_eq!((of(0, Some(100)).fraction(), of(0, Some(100)).eta(ten)), (0.0, None));
        assert_eq!((of(25, Some(100)).fraction(), of(25, Some(100)).eta(ten)), (0.25, Some(3 * ten)));
        assert_eq!((of(100, Some(100)).fraction(), of(100, Some(100)).eta(ten)), (1.0, Some(Duration::ZERO)));
        // A file that grew meanwhile.
        assert_eq!((of(120, Some(100)).fraction(), of(120, Some(100)).eta(ten)), (1.0, Some(Duration::ZERO)));
        assert_eq!((of(0, Some(0)).fraction(), of(0, Some(0)).eta(ten)), (0.0, None));
    }
}
