//! What `/admin/events` sends: each event with its word and the form of its data.

use std::fmt::Write as _;

use gantry_domain::{
    ModelId,
    deployment::Drill,
    job::{self, DEPLOYMENT_PREFIX, Job, JobKind},
    model::State,
    schema::{Components, Rfc3339, Shape, component, event, json_text, one_of, text},
    view,
};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

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

/// Declares the events, each with the type of its data and the word of its `event:` line.
macro_rules! messages {
    ($($(#[doc = $doc:literal])+ $name:ident($data:ty) = $word:literal;)+) => {
        /// One event.
        #[derive(Debug)]
        pub(crate) enum Message {
            $($(#[doc = $doc])+ $name($data),)+
        }

        impl Message {
            /// Returns the word of its `event:` line.
            pub(crate) fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $word,)+ }
            }

            fn data(&self) -> String {
                let json = match self { $(Self::$name(data) => serde_json::to_string(data),)+ };
                json.unwrap_or_default()
            }
        }

        impl Shape for Message {
            fn schema(all: &mut Components) -> Value {
                component(all, "Event", |all| one_event(&[$(($word, <$data>::schema(all))),+]))
            }
        }
    };
}

messages! {
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

impl Message {
    /// Returns the event as it is sent. JSON has no line breaks of its own.
    pub(crate) fn text(&self, id: Option<&str>) -> String {
        let mut text = String::new();
        if let Some(id) = id {
            let _ = writeln!(text, "id: {id}");
        }
        let _ = write!(text, "event: {}\ndata: {}\n\n", self.kind(), self.data());
        text
    }
}

/// Returns the schema of an event that is of one of these kinds, with the data that goes with each.
fn one_event(kinds: &[(&'static str, Value)]) -> Value {
    let words: Vec<&str> = kinds.iter().map(|it| it.0).collect();
    let of_kind = |(kind, data): &(&str, Value)| {
        json!({
            "if": { "properties": { "event": { "const": kind } } },
            "then": { "properties": { "data": json_text(data.clone()) } },
        })
    };
    let mut any = event(text());
    any["properties"]["event"] = one_of(&words);
    any["allOf"] = kinds.iter().map(of_kind).collect();
    any
}
