//! What `/admin/events` sends: each event with its word and the form of its data.

use std::fmt::Write as _;

use gantry_domain::{
    ModelId,
    model::State,
    schema::{Components, Shape, component, event, json_text, one_of, text},
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

/// The only kind of job so far.
pub(crate) const IMAGE_LOAD: &str = "image_load";

view! {
    /// Something that takes long and that somebody waits for.
    #[derive(Debug)]
    pub(crate) struct JobNow {
        pub(crate) job: &'static str as one_of(&[IMAGE_LOAD]),
        /// The file, as the request named it.
        pub(crate) path: String,
        pub(crate) state: JobState,
        pub(crate) done_bytes: u64,
        pub(crate) total_bytes: u64,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    Done,
    Failed,
}

impl JobState {
    const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
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
