//! The bodies of requests that make and change keys.

use std::borrow::Cow;

use gantry_domain::{
    OrgId, Timestamp, UserId,
    key::{KeySettings, Scope, Scopes},
    limit::{LimitMode, Limits},
    net::IpList,
    schema::{self, Components},
};
use serde_json::{Value, json};

use crate::{
    error::{Outcome, Problem},
    limits::LimitChange,
    operation::{Change, Field, Future, form, read},
};

/// Most served names of a key that users make for themselves, and most bytes that the names may have together.
const MAX_OWN_MODELS: usize = 200;
const MAX_OWN_MODELS_BYTES: usize = 16 << 10;
/// A list of scopes with commas between, blanks around them ignored.
const SCOPE_WORDS: &str =
    r"^[ ,]*(chat|completions|embeddings) *(,[ ,]*((chat|completions|embeddings) *)?)*$";

form! {
    /// What all requests may set in the same way.
    pub(crate) struct KeyBasics {
        /// IP addresses and CIDR ranges that the key may be used from. `null` or `[]`: from everywhere.
        ip_allowlist: change IpRanges,
        /// A time in the future.
        expires_at: change Future,
        limits: part LimitChange,
        /// `null` is `enforce`.
        limit_mode: change LimitMode,
    }
}

form! {
    /// A key that an administrator makes.
    pub(crate) struct NewKeyForm {
        pub(super) org_id: optional OrgId,
        pub(super) user_id: optional UserId,
        name: change KeyName,
        /// What the key may call. Without it a new key may call everything.
        scopes: optional KeyScopes,
        /// Served names that the key may call; `null` is all.
        models: change ServedNames,
        basics: part KeyBasics,
    }
}

form! {
    /// A key that users make for themselves.
    pub(crate) struct OwnKeyForm {
        name: change KeyName,
        /// What the key may call. Without it a new key may call everything.
        scopes: optional KeyScopes,
        /// Served names that the key may call; `null` is all.
        models: change OwnServedNames,
        basics: part KeyBasics,
    }
}

form! {
    /// A change of a key. Its scopes can be changed, but not taken away.
    pub(crate) struct ChangedKey {
        name: change KeyName,
        /// What the key may call.
        scopes: given KeyScopes,
        /// Served names that the key may call; `null` is all.
        models: change ServedNames,
        basics: part KeyBasics,
    }
}

impl NewKeyForm {
    /// Returns the settings of the new key.
    pub(super) fn settings(self) -> KeySettings {
        changed(KeySettings::default(), self.name, self.scopes, self.models, self.basics)
    }
}

impl ChangedKey {
    /// Returns the settings with the change.
    pub(super) fn of(self, settings: KeySettings) -> KeySettings {
        changed(settings, self.name, self.scopes, self.models, self.basics)
    }
}

impl OwnKeyForm {
    /// Returns the settings of the new key: none of its limits may be milder than the gateway's default.
    pub(crate) fn settings(self, defaults: Limits) -> Outcome<KeySettings> {
        let mut settings = changed(KeySettings::default(), self.name, self.scopes, self.models, self.basics);
        let mut capped = settings.limits.capped_by(defaults);
        let given = settings.limits.fields_mut();
        for ((name, _, given), (_, _, cap)) in given.into_iter().zip(capped.fields_mut()) {
            if let (Some(given), Some(cap)) = (given, cap)
                && given > cap
            {
                return Err(Problem::invalid(name, format!("`{name}` of your own key may be at most {cap}")));
            }
        }
        if settings.limit_mode != LimitMode::Enforce {
            return Err(Problem::invalid("limit_mode", "`limit_mode` is the administrator's; leave it out"));
        }
        Ok(settings)
    }
}

fn changed(
    mut key: KeySettings,
    name: Change<String>,
    scopes: Option<Scopes>,
    models: Change<Vec<String>>,
    basics: KeyBasics,
) -> KeySettings {
    let KeyBasics { ip_allowlist, expires_at, limits, limit_mode } = basics;
    if let Some(name) = name {
        key.name = name.unwrap_or_default();
    }
    key.scopes = scopes.unwrap_or(key.scopes);
    if let Some(models) = models {
        key.models = models;
    }
    if let Some(list) = ip_allowlist {
        key.ip_allowlist = list.unwrap_or_default();
    }
    if let Some(at) = expires_at {
        key.expires_at = at;
    }
    if let Some(mode) = limit_mode {
        key.limit_mode = mode.unwrap_or_default();
    }
    key.limits = limits.apply(key.limits);
    key
}

/// A name, or an empty text for a key without one.
pub(crate) struct KeyName;

impl Field for KeyName {
    type Value = String;

    fn allowed() -> Cow<'static, str> {
        format!("empty, or {}", read::named(100)).into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<String> {
        value.as_str().filter(|it| it.is_empty()).map(str::to_owned).or_else(|| read::name(100)(value))
    }

    fn schema(_: &mut Components) -> Value {
        schema::name_or_nothing(100)
    }
}

/// Scopes, as an array or as one text with commas.
pub(crate) struct KeyScopes;

impl Field for KeyScopes {
    type Value = Scopes;

    fn allowed() -> Cow<'static, str> {
        "a text such as chat,embeddings".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Scopes> {
        Scopes::parse(&words(value)?.join(",")).ok()
    }

    fn complaint(name: &str, value: &Value) -> String {
        match words(value).map(|it| Scopes::parse(&it.join(","))) {
            Some(Err(error)) => error.to_string(),
            _ => format!("`{name}` must be {}", Self::allowed()),
        }
    }

    fn schema(_: &mut Components) -> Value {
        let scopes = schema::one_of(&Scope::ALL.map(Scope::as_str));
        json!({ "anyOf": [
            schema::word(SCOPE_WORDS),
            { "type": "array", "minItems": 1, "maxItems": 1000, "items": scopes },
        ] })
    }
}

/// 1 to 1000 names of models that may be called.
pub(crate) struct ServedNames;

impl Field for ServedNames {
    type Value = Vec<String>;

    fn allowed() -> Cow<'static, str> {
        "null, or an array of served names".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<Vec<String>> {
        let names: Vec<String> = value.as_array()?.iter().map(read::line(200)).collect::<Option<_>>()?;
        (1..=1000).contains(&names.len()).then_some(names)
    }

    fn schema(_: &mut Components) -> Value {
        served_names(1000)
    }
}

/// Names of models that may be called by a key that users make for themselves.
pub(crate) struct OwnServedNames;

impl Field for OwnServedNames {
    type Value = Vec<String>;

    fn allowed() -> Cow<'static, str> {
        ServedNames::allowed()
    }

    fn read(value: &Value, now: Timestamp) -> Option<Vec<String>> {
        let bytes = |names: &Vec<String>| names.iter().map(String::len).sum::<usize>();
        ServedNames::read(value, now)
            .filter(|it| it.len() <= MAX_OWN_MODELS && bytes(it) <= MAX_OWN_MODELS_BYTES)
    }

    fn complaint(name: &str, value: &Value) -> String {
        if ServedNames::read(value, Timestamp::default()).is_none() {
            return ServedNames::complaint(name, value);
        }
        let most = MAX_OWN_MODELS_BYTES >> 10;
        format!("`{name}` of your own key may have at most {MAX_OWN_MODELS} names of {most} KiB together")
    }

    fn schema(_: &mut Components) -> Value {
        served_names(MAX_OWN_MODELS)
    }
}

fn served_names(most: usize) -> Value {
    json!({ "type": "array", "minItems": 1, "maxItems": most, "items": schema::line(200) })
}

/// IP addresses and CIDR ranges, as an array or as one text with commas.
pub(crate) struct IpRanges;

impl Field for IpRanges {
    type Value = IpList;

    fn allowed() -> Cow<'static, str> {
        "an array of IPs or CIDR ranges".into()
    }

    fn read(value: &Value, _: Timestamp) -> Option<IpList> {
        ranges(&words(value)?).ok()
    }

    fn complaint(name: &str, value: &Value) -> String {
        match words(value).map(|it| ranges(&it)) {
            Some(Err(why)) => why,
            _ => format!("`{name}` must be {}", Self::allowed()),
        }
    }

    fn schema(_: &mut Components) -> Value {
        json!({ "anyOf": [
            schema::formatted("ip-ranges"),
            { "type": "array", "maxItems": 1000, "items": schema::formatted("ip-range") },
        ] })
    }
}

/// Reads the ranges of an allowlist. An empty list means "from everywhere", so an empty entry must not lead to one.
fn ranges(words: &[String]) -> Result<IpList, String> {
    if words.iter().any(|it| it.trim().is_empty()) {
        return Err("`ip_allowlist` has an empty entry; null or [] allows every address".to_owned());
    }
    IpList::parse(words.iter().map(String::as_str)).map_err(|error| error.to_string())
}

/// An array of texts, or one text with commas.
pub(crate) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(text.split(',').map(str::to_owned).collect()),
        Value::Array(items) if items.len() <= 1000 => {
            items.iter().map(|it| it.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}
