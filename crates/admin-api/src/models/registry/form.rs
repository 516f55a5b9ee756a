//! The bodies of requests that make and change entries of the registry.

use std::{borrow::Cow, collections::HashSet};

use gantry_connect::HttpUrl;
use gantry_domain::{
    Timestamp,
    model::Task,
    net::MAX_ENGINE_URLS,
    schema::{self, Components, Member},
};
use secrecy::SecretString;
use serde_json::Value;

use crate::operation::{Field, Fields, Form, Name, form};

/// What an address is, for messages.
const ADDRESS: &str =
    "an address such as http://10.0.0.5:8000 or https://models.example.com/v1, without user and query";

form! {
    /// An entry that an owner makes.
    pub(crate) struct NewEntry {
        pub(super) served_name: required Name<200>,
        pub(super) addresses: part NewAddresses,
        pub(super) settings: part EntrySettings,
    }
}

form! {
    /// A change of an entry.
    pub(crate) struct ChangedEntry {
        pub(super) addresses: part Addresses,
        pub(super) settings: part EntrySettings,
    }
}

form! {
    pub(crate) struct EntrySettings {
        pub(super) task: optional Task,
        /// What the model is called there, if not by the served name. Requests name it so; answers pass as they are.
        pub(super) upstream_model: change Name<200>,
        /// The engine's own key. It is never shown.
        pub(super) api_key: change ApiKey,
    }
}

form! {
    struct AddressFields {
        /// `http[s]://host[:port][/base]`, without user or query.
        url: given EngineUrl,
        /// Several addresses of the same model, instead of `url`. Each request goes to one of them.
        urls: given EngineUrls,
    }
}

/// The addresses that a body gives: by `url` or by `urls`, but not by both.
pub(crate) struct Addresses(pub(super) Option<Vec<String>>);

impl Form for Addresses {
    fn read(fields: &mut Fields) -> Option<Self> {
        let AddressFields { url, urls } = AddressFields::read(fields)?;
        if url.is_some() && urls.is_some() {
            fields.problem("urls", "send `url` or `urls`, not both");
        }
        Some(Self(urls.or_else(|| url.map(|it| vec![it]))))
    }

    fn members(all: &mut Components, out: &mut Vec<Member>) {
        AddressFields::members(all, out);
    }
}

/// The same for a new entry, which needs an address.
pub(crate) struct NewAddresses(pub(super) Vec<String>);

impl Form for NewAddresses {
    fn read(fields: &mut Fields) -> Option<Self> {
        let anywhere = fields.has("url") || fields.has("urls");
        let Addresses(urls) = Addresses::read(fields)?;
        if !anywhere {
            let message = format!("`url` is required: {ADDRESS}; or `urls`, a list of such addresses");
            fields.problem("url", message);
        }
        urls.map(Self)
    }

    fn members(all: &mut Components, out: &mut Vec<Member>) {
        Addresses::members(all, out);
    }
}

/// The address of an engine. Its value has no slash at the end.
struct EngineUrl;

impl Field for EngineUrl {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        ADDRESS.into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        engine_url(value.as_str()?)
    }

    fn schema(_: &mut Components) -> Value {
        schema::formatted("engine-url")
    }
}

/// 1 to [`MAX_ENGINE_URLS`] addresses, none of them twice.
struct EngineUrls;

impl Field for EngineUrls {
    type Value = Vec<String>;

    fn allowed() -> Cow<'static, str> {
        format!("a list of 1 to {MAX_ENGINE_URLS} different addresses, each {ADDRESS}").into()
    }

    fn read(value: &Value, now: Timestamp) -> Option<Vec<String>> {
        let list = value.as_array().filter(|it| (1..=MAX_ENGINE_URLS).contains(&it.len()))?;
        let urls: Vec<String> = list.iter().map(|it| EngineUrl::read(it, now)).collect::<Option<_>>()?;
        let distinct: HashSet<&String> = urls.iter().collect();
        (distinct.len() == urls.len()).then_some(urls)
    }

    fn schema(all: &mut Components) -> Value {
        let mut urls = schema::list(EngineUrl::schema(all));
        urls["minItems"] = 1.into();
        urls["maxItems"] = MAX_ENGINE_URLS.into();
        urls["uniqueItems"] = true.into();
        urls
    }
}

/// A key of 1 to 500 printable characters that an engine asks for.
pub(crate) struct ApiKey;

impl Field for ApiKey {
    type Value = SecretString;

    fn allowed() -> Cow<'static, str> {
        "a text of 1 to 500 printable characters".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<SecretString> {
        let text = value.as_str()?;
        let legal = (1..=500).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic());
        legal.then(|| SecretString::from(text.to_owned()))
    }

    fn schema(_: &mut Components) -> Value {
        schema::secret(schema::word("^[!-~]{1,500}$"))
    }
}

/// An [`HttpUrl`] whose base has only plain segments; returns it as it was written, but for a slash at the end.
fn engine_url(text: &str) -> Option<String> {
    let url = HttpUrl::parse(text).filter(|_| text.len() <= 500 && !text.ends_with("//"))?;
    let plain = |it: &str| {
        let legal = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
        !matches!(it, "" | "." | "..") && it.bytes().all(legal)
    };
    let legal = url.base().split('/').skip(1).all(plain);
    legal.then(|| format!("{}://{}{}", url.scheme(), url.authority(), url.base()))
}
