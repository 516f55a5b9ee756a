//! Server-sent events: a type for the events of a stream, with the form of each one's data.

use gantry_domain::schema::{event, json_text, one_of, text};
use serde_json::{Value, json};

/// Declares the events of a stream: a type, its name in the documentation, and each event with the type of its data and the
/// word of its `event:` line.
macro_rules! messages {
    ($type:ident: $component:literal; $($(#[doc = $doc:literal])+ $name:ident($data:ty) = $word:literal;)+) => {
        /// One event.
        #[derive(Debug)]
        pub(crate) enum $type {
            $($(#[doc = $doc])+ $name($data),)+
        }

        impl $type {
            /// Returns the word of its `event:` line.
            pub(crate) fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $word,)+ }
            }

            fn data(&self) -> String {
                let json = match self { $(Self::$name(data) => serde_json::to_string(data),)+ };
                json.unwrap_or_default()
            }

            /// Returns the event as it is sent. JSON has no line breaks of its own.
            pub(crate) fn text(&self, id: Option<&str>) -> String {
                let id = id.map(|it| format!("id: {it}\n")).unwrap_or_default();
                format!("{id}event: {}\ndata: {}\n\n", self.kind(), self.data())
            }
        }

        impl gantry_domain::schema::Shape for $type {
            fn schema(all: &mut gantry_domain::schema::Components) -> serde_json::Value {
                gantry_domain::schema::component(all, $component, |all| {
                    $crate::server_events::one_event(&[$(($word, <$data>::schema(all))),+])
                })
            }
        }
    };
}
pub(crate) use messages;

/// Returns the schema of an event that is of one of these kinds, with the data that goes with each.
pub(crate) fn one_event(kinds: &[(&'static str, Value)]) -> Value {
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
