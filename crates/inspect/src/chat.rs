//! Reads what a chat page needs to know about a model that does not run: how long a conversation may be, whether its
//! template takes a system prompt, and whether it sees pictures.
//!
//! Templates are in `chat_template.jinja` since transformers 5, before that in `chat_template` of
//! `tokenizer_config.json` (`src/transformers/tokenization_utils_base.py`), and in GGUF files in
//! `tokenizer.chat_template` (llama.cpp `src/llama-arch.cpp`).

use std::{fmt, io::Read, path::Path, sync::Arc};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::{
    Cache,
    base::{Base, InspectError},
    folder::gguf_header,
    gguf::{GgufHeader, Value},
    hf,
    json::{self, Limits},
};

/// Longest template that is read, in bytes. The largest known ones have some 20 KB.
const MAX_TEMPLATE: u64 = 256 << 10;

/// The facts in the files of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatFacts {
    /// Context length in tokens, as trained.
    pub context_length: Option<u64>,
    /// The template's Jinja source.
    pub template: Option<String>,
    /// Whether a checkpoint takes images. `None` if its files do not tell; those of a GGUF model are another file's matter.
    pub sees: Option<bool>,
}

/// Reads the model at `rel` below `base`: a checkpoint's folder or a `.gguf` file. This is cheap, because no weight
/// headers of checkpoints are read. What can't be read is absent.
///
/// # Errors
/// Only a wrong path is an error.
pub fn facts(base: &Path, rel: &str, cache: &Arc<Cache>) -> Result<ChatFacts, InspectError> {
    let base = Base::open(base)?.with_cache(cache);
    let path = base.resolve(rel)?;
    if path.is_file() {
        return Ok(gguf_header(&base, &path).map_or_else(
            |_| ChatFacts::default(),
            |it| ChatFacts {
                context_length: it.context_length(),
                template: it.text("tokenizer.chat_template").map(str::to_owned),
                sees: None,
            },
        ));
    }
    let config = base.file_in(&path, "config.json").and_then(|it| hf::read_config(it.file).ok());
    let template = base
        .file_in(&path, "chat_template.jinja")
        .and_then(|it| text(it.file))
        .or_else(|| of_tokenizer(base.file_in(&path, "tokenizer_config.json")?.file));
    let config = config.map(|it| it.0);
    // A model without one of the known keys may have its eyes in code of its own; it then comes with a preprocessor, as
    // models for sound do.
    let may_see = || base.file_in(&path, "preprocessor_config.json").is_some();
    let sees =
        config.as_ref().and_then(|it| if it.sees { Some(true) } else { (!may_see()).then_some(false) });
    Ok(ChatFacts { context_length: config.and_then(|it| it.context_length), template, sees })
}

/// Whether the projector at `rel` below `base` takes images, and not sound alone; `None` if it can't be read. Keys:
/// llama.cpp `tools/mtmd/clip-impl.h`.
///
/// # Errors
/// Only a wrong path is an error.
pub fn projector_sees(base: &Path, rel: &str, cache: &Arc<Cache>) -> Result<Option<bool>, InspectError> {
    let base = Base::open(base)?.with_cache(cache);
    let header = gguf_header(&base, &base.resolve(rel)?).ok();
    let has = |header: &GgufHeader, key: &str| header.get(key).and_then(Value::as_bool);
    // Old projectors are for images and say nothing.
    Ok(header.map(|it| {
        has(&it, "clip.has_vision_encoder")
            .unwrap_or_else(|| has(&it, "clip.has_audio_encoder") != Some(true))
    }))
}

/// Reads the template file at `rel` below `base`; `None` if it can't be read.
///
/// # Errors
/// Only a wrong path is an error.
pub fn template_file(base: &Path, rel: &str) -> Result<Option<String>, InspectError> {
    let base = Base::open(base)?;
    let path = base.resolve(rel)?;
    Ok(base.open_file(&path).ok().and_then(|it| text(it.file)))
}

fn text(file: impl Read) -> Option<String> {
    let mut text = String::new();
    file.take(MAX_TEMPLATE + 1).read_to_string(&mut text).ok()?;
    (!text.is_empty() && text.len() as u64 <= MAX_TEMPLATE).then_some(text)
}

fn of_tokenizer(file: impl Read) -> Option<String> {
    json::read_with(file, Limits::STREAMED, Tokenizer).ok().flatten()
}

/// Whether a template takes a message of the role `system`. Templates are programs and are never run here. Instead this
/// looks for the two ways in which known ones refuse such a message (Gemma's raises an error; Mistral's first ones know
/// two roles only).
pub fn takes_system_prompt(template: &str) -> bool {
    let dense: String = template.chars().filter(|it| !it.is_whitespace()).collect::<String>().to_lowercase();
    let refuses = |it: &str| it.contains("system") && it.contains("notsupport");
    if dense.split("raise_exception(").skip(1).any(|it| it.split(')').next().is_some_and(refuses)) {
        return false;
    }
    if dense.contains("system") {
        return true;
    }
    // A template such as `'<|' + message['role'] + '|>'` writes any role as it is. A comparison with the role does not.
    ["['role']", "[\"role\"]", ".role"].iter().any(|role| {
        dense.match_indices(role).any(|(at, _)| {
            let after = dense.get(at.saturating_add(role.len())..).unwrap_or_default();
            !["==", "!=", "in", "not", ")==", ")!="].iter().any(|it| after.starts_with(it))
        })
    })
}

/// Reads `chat_template` of `tokenizer_config.json`: a text, or a list of `{name, template}` in which `default` counts.
struct Tokenizer;

impl<'de> DeserializeSeed<'de> for Tokenizer {
    type Value = Option<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tokenizer {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "chat_template" && found.is_none() {
                found = map.next_value_seed(Template)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct Template;

impl<'de> DeserializeSeed<'de> for Template {
    type Value = Option<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Template {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a template, or a list of named ones")
    }

    fn visit_str<E>(self, it: &str) -> Result<Self::Value, E> {
        Ok((!it.is_empty() && it.len() as u64 <= MAX_TEMPLATE).then(|| it.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(named) = seq.next_element_seed(Named)? {
            found = found.or(named);
        }
        Ok(found)
    }
}

/// Reads one entry of the list; `Some` if it is the default.
struct Named;

impl<'de> DeserializeSeed<'de> for Named {
    type Value = Option<String>;

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Named {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `name` and `template`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut default, mut template) = (false, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => default = map.next_value::<String>()? == "default",
                "template" => template = map.next_value_seed(Template)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(template.filter(|_| default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_that_refuse_a_system_prompt_are_told_from_those_that_take_it() {
        // Templates of Gemma 2 and Mistral 7B 0.1, as published; then of ChatML, Llama 2 and Zephyr.
        for refusing in [
            "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}\
             {% endif %}{% for message in messages %}{{ '<start_of_turn>' + message['role'] + '\\n' }}{% endfor %}",
            "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) \
             %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif \
             %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif \
             message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% else %}{{ raise_exception('Only \
             user and assistant roles are supported!') }}{% endif %}{% endfor %}",
        ] {
            assert!(!takes_system_prompt(refusing), "{refusing}");
        }
        for taking in [
            "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']}}{% endfor %}",
            "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}",
            "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}",
            "{% if message['role'] == 'system' %}{{ x }}{% else %}{{ raise_exception('Unknown role') }}{% endif %}",
        ] {
            assert!(takes_system_prompt(taking), "{taking}");
        }
    }

    #[test]
    fn the_default_of_named_templates_counts() {
        let of = |json: &str| of_tokenizer(json.as_bytes());
        assert_eq!(of(r#"{"a":[1,{"chat_template":"no"}],"chat_template":"x"}"#).as_deref(), Some("x"));
        let named =
            r#"{"chat_template":[{"name":"tools","template":"t"},{"template":"d","name":"default"}]}"#;
        assert_eq!(of(named).as_deref(), Some("d"));
        assert_eq!(of(r#"{"chat_template":null}"#), None);
        assert_eq!(of("{"), None);
    }
}
