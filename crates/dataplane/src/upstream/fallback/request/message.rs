//! One message of a chat, read without keeping anything but its texts.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    pub role: Option<Cow<'a, str>>,
    #[serde(default)]
    pub content: Content,
}

/// The text of a content, which is given whole or in parts; empty if there is none, as beside a tool call. What is no text
/// can't be read.
#[derive(Debug, Default)]
pub(super) struct Content(pub String);

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Texts).map(Self)
    }
}

struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or parts that are texts")
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<String, A::Error> {
        let mut all = String::new();
        while let Some(Part(text)) = parts.next_element()? {
            all.push_str(&text);
        }
        Ok(all)
    }
}

/// The text of one part.
struct Part<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Part<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, or an object with `type` and `text`")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Part<'de>, E> {
        Ok(Part(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part<'de>, E> {
        Ok(Part(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Part<'de>, A::Error> {
        let (mut is_text, mut text) = (false, None);
        while let Some(Part(name)) = members.next_key()? {
            match &*name {
                "type" => {
                    let Part(kind) = members.next_value()?;
                    is_text = matches!(&*kind, "text" | "input_text" | "output_text");
                }
                "text" => text = Some(members.next_value::<Part<'de>>()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        text.filter(|_| is_text).ok_or_else(|| Error::custom("the part is no text"))
    }
}
