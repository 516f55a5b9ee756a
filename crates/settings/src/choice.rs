//! Types of settings that are one of a few words.

use std::time::Duration;

use gantry_domain::{limit::LimitMode, words};

use crate::value::Value;

/// Makes a type of [`words!`] a type of settings; the other arguments are its [`Value::ALLOWED`] and
/// [`Value::ALLOWED_DE`].
macro_rules! value_of_words {
    ($type:ty, $allowed:literal, $allowed_de:literal) => {
        impl Value for $type {
            const ALLOWED: &'static str = $allowed;
            const ALLOWED_DE: &'static str = $allowed_de;

            fn parse(text: &str) -> Option<Self> {
                Self::parse(text)
            }

            fn show(&self) -> String {
                self.as_str().to_owned()
            }
        }
    };
}
pub(crate) use value_of_words;

value_of_words!(LimitMode, "enforce or shadow", "enforce oder shadow");

words! {
    /// Which container runtime to use.
    pub enum ContainerRuntime {
        /// The one that models were started with; else Docker if it answers, else processes.
        Auto = "auto",
        /// Engines run as containers of Docker.
        Docker = "docker",
        /// Engines run as processes of this machine.
        Process = "process",
    }
}
value_of_words!(ContainerRuntime, "auto, docker or process", "auto, docker oder process");

words! {
    /// How often the newest backup is restored for a trial.
    pub enum RestoreDrill {
        /// Never.
        Off = "off",
        /// Each day.
        Daily = "daily",
        /// Each week.
        Weekly = "weekly",
    }
}
value_of_words!(RestoreDrill, "off, daily or weekly", "off, daily oder weekly");

impl RestoreDrill {
    /// Returns the time between two drills; `None` for never.
    pub fn period(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Daily => Some(Duration::from_hours(24)),
            Self::Weekly => Some(Duration::from_hours(24 * 7)),
        }
    }
}

words! {
    /// The form of the log's lines.
    pub enum LogFormat {
        /// A line of text for people.
        Text = "text",
        /// A JSON object for programs.
        Json = "json",
    }
}
value_of_words!(LogFormat, "text or json", "text oder json");
