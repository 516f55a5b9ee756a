//! How rows are written and read again in API answers and exported files: one JSON object each. The data that the hash
//! covers passes through unchanged.

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
