//! What `/admin/events` sends: each event with its word and the form of its data.

use gantry_domain::{
    ModelId,
    deployment::Drill,
    job::{self, DEPLOYMENT_PREFIX, Job, JobKind},
    model::State,
    schema::{Components, Rfc3339, Shape, one_of},
    view,
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::server_events::messages;

view! {
    /// A model in short.
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct ModelNow {
        pub(crate) id: ModelId,
        pub(crate) served_name: String,
        pub(crate) state: State,
        pub(crate) state_reason: Option<String>,
        /// The running engine differs from what a start would make now.
        pub(crate) needs_apply: bool,
        pub(crate) archived: bool,
        /// Why the last start failed, in one line.
        pub(crate) diagnosis: Option<String>,
    }
}

view! {
    /// The progress of the pull of an image, in bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Pull {
        pub(crate) done: u64,
        /// The size, as far as it is known yet.
        pub(crate) known: u64,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct PulledModel {
        pub(crate) model: ModelNow => part,
        pub(crate) pull: Option<Pull>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct OfModel {
        pub(crate) id: ModelId,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct PullNow {
        pub(crate) id: ModelId,
        /// `null` when it ended.
        pub(crate) pull: Option<Pull>,
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct LogLine {
        pub(crate) id: ModelId,
        pub(crate) line: String,
    }
}

view! {
    /// A job: work that takes long.
    #[derive(Debug)]
    pub(crate) struct JobNow {
        /// The id of a deployment job, such as `deploy-3`.
        pub(crate) id: Option<String>,
        pub(crate) job: JobKind as one_of(&JobKind::WORDS),
        /// The file, as the request named it.
        pub(crate) path: String,
        pub(crate) state: JobState,
        /// What it does just now, for people.
        pub(crate) step: String,
        pub(crate) done_bytes: u64,
        pub(crate) total_bytes: u64,
    }
}

impl From<&Job> for JobNow {
    fn from(job: &Job) -> Self {
        Self {
            id: job.kind.is_deployment().then(|| format!("{DEPLOYMENT_PREFIX}{}", job.id)),
            job: job.kind,
            path: job.object.clone(),
            state: match job.state {
                job::JobState::Running => JobState::Running,
                job::JobState::Completed => JobState::Done,
                job::JobState::Failed => JobState::Failed,
                job::JobState::Cancelled => JobState::Cancelled,
            },
            step: job.progress.step.clone(),
            done_bytes: job.progress.done_bytes,
            total_bytes: job.progress.total_bytes.unwrap_or(0),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    const ALL: [Self; 4] = [Self::Running, Self::Done, Self::Failed, Self::Cancelled];

    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Serialize for JobState {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl Shape for JobState {
    fn schema(_: &mut Components) -> Value {
        one_of(&Self::ALL.map(Self::as_str))
    }
}

view! {
    /// A restore drill: the newest backup was restored into a scratch file and proven, or that failed.
    #[derive(Debug)]
    pub(crate) struct DrillNow {
        pub(crate) ok: bool,
        pub(crate) at: Rfc3339,
        /// The backup, package or dump; `null` if there was none.
        pub(crate) backup: Option<String>,
        /// Why it failed.
        pub(crate) error: Option<String>,
    }
}

impl From<&Drill> for DrillNow {
    fn from(drill: &Drill) -> Self {
        let Drill { at, backup, error, .. } = drill.clone();
        Self { ok: error.is_none(), at: at.into(), backup, error }
    }
}

view! {
    #[derive(Debug)]
    pub(crate) struct Lag {
        /// The number of events that the reader missed.
        pub(crate) missed: u64,
    }
}

messages! {
    Message: "Event";
    /// All models, for a reader that is new.
    Snapshot(Vec<PulledModel>) = "snapshot";
    /// All models, for a reader that was away for too long, or whose last event is of another process.
    Reset(Vec<PulledModel>) = "reset";
    /// A model is new, or one of its fields that are shown here changed.
    Model(ModelNow) = "model";
    /// A model was deleted.
    ModelDeleted(OfModel) = "model_deleted";
    /// The progress of the pull of a model's image.
    Pull(PullNow) = "pull";
    /// A line of the log that the reader asked for.
    Log(LogLine) = "log";
    /// The log is over.
    LogEnd(OfModel) = "log_end";
    /// The progress of a job.
    Job(JobNow) = "job";
    /// A restore drill has ended.
    RestoreDrill(DrillNow) = "restore_drill";
    /// The reader is too slow and has to connect again.
    Lag(Lag) = "lag";
}
