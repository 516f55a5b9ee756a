//! How rows are written and read again in API answers and exported files: one JSON object each. The data that the hash
//! covers passes through unchanged.

use serde_json::{Value, json};

use super::{ActorType, AuditRow, ObjectType};
use crate::schema::{Components, Member, Shape, closed, describe, id, nullable, text, time, whole, word};

impl Shape for AuditRow {
    // By hand: the row is read again, too, and its texts pass through unchanged, which `view!` has no words for.
    fn schema(all: &mut Components) -> Value {
        let hash = || word("^[0-9a-f]{64}$");
        let side = || json!({ "type": ["object", "null"] });
        let fields = [
            ("seq", whole(1, i64::MAX), "It counts up without gaps."),
            ("at", time(), ""),
            ("actor_type", ActorType::schema(all), ""),
            ("actor_id", nullable(id()), ""),
            ("actor", nullable(text()), "The actor's name at the time of the action."),
            ("action", text(), "Rows of an older version may have words that this version does not know."),
            ("object_type", ObjectType::schema(all), ""),
            ("object_id", text(), ""),
            ("before", side(), "The fields that changed, as they were."),
            ("after", side(), "The fields that changed, as they were afterwards."),
            ("ip", nullable(text()), ""),
            ("request_id", nullable(text()), ""),
            ("user_agent", nullable(text()), ""),
            ("prev_hash", hash(), "The hash of the row before this one."),
            ("hash", hash(), "SHA-256."),
        ];
        let member =
            |(name, schema, about)| Member { name, schema: describe(schema, &[about]), optional: false };
        closed(fields.into_iter().map(member).collect())
    }
}

// serde demands functions that take the field by reference.

/// Timestamps as RFC 3339 text.
pub(super) mod time {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&at.rfc3339())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(from)?;
        Timestamp::parse_rfc3339(&text).ok_or_else(|| D::Error::custom("the time can't be read"))
    }
}

/// Hashes as hexadecimal text.
pub(super) mod hash {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::hex::{hex, unhex};

    pub(crate) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex(hash))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        unhex(&String::deserialize(from)?).ok_or_else(|| D::Error::custom("a hash can't be read"))
    }
}

/// Texts that are JSON. They are part of the hash, so they are passed on unchanged; a text that is not JSON is left
/// out.
pub(super) mod json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::value::RawValue;

    #[expect(clippy::ref_option, reason = "serde's form")]
    pub(crate) fn serialize<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        let raw = text.as_deref().and_then(|it| serde_json::from_str::<&RawValue>(it).ok());
        raw.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        let raw = Option::<Box<RawValue>>::deserialize(from)?;
        Ok(raw.map(|it| it.get().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_fields_of_a_row() {
        let line = include_str!("golden.jsonl").lines().next().unwrap();
        let row: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        let schema = AuditRow::schema(&mut Components::new());
        let fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(fields, row.keys().collect::<Vec<_>>());
    }
}
