//! Takes secrets out of the rows of a dump.

use std::sync::Arc;

use gantry_domain::model::redact_env;
use secrecy::SecretString;
use serde_json::Value as Json;

use crate::{
    Seal, StoreResult,
    dump::{
        header::DumpSecrets,
        row::{Row, Value},
        schema::{Schema, Table},
    },
    seal::{self, SecretPlace},
};

/// Stands for a text that can't be read.
const HIDDEN: &str = "***";
/// The field of a model's settings with environment variables: operators put tokens there.
const ENV: &str = "extra_env";
/// The key of the models base directory in `meta`.
const MODELS_DIR: &str = "models_base_dir";
/// Begins the key of a secret in `meta`.
const SHARED: &str = "secret/";

/// What was done to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing, or its secret was encrypted.
    Kept,
    /// A secret was taken out of it.
    Redacted,
    /// The row is a secret as a whole, and must be left out.
    LeftOut,
    /// The row says something of this machine, which is of no use on another one.
    OfMachine,
}

/// The columns of one table that may hold secrets.
#[derive(Debug, Default)]
struct Columns {
    secret: Option<(usize, SecretPlace)>,
    /// Settings of a model, in JSON.
    settings: Vec<usize>,
    /// The key of `meta`.
    key: Option<usize>,
}

/// Redacts the rows of a schema.
#[derive(Debug)]
pub(crate) struct Redactor {
    secrets: DumpSecrets,
    seal: Arc<Seal>,
    tables: Vec<Columns>,
}

impl Redactor {
    pub(crate) fn new(schema: &Schema, secrets: DumpSecrets, seal: Arc<Seal>) -> Self {
        let columns = |table: &Table| {
            let secret = |name, place| table.column(name).map(|at| (at, place));
            match table.name.as_str() {
                "models" => Columns {
                    secret: secret("hub_token", SecretPlace::HubToken),
                    settings: ["config", "launched", "last_good", "apply"]
                        .iter()
                        .filter_map(|it| table.column(it))
                        .collect(),
                    key: None,
                },
                "registry" => {
                    Columns { secret: secret("api_key", SecretPlace::ApiKey), ..Columns::default() }
                }
                "meta" => Columns {
                    secret: secret("value", SecretPlace::Shared),
                    key: table.column("key"),
                    ..Columns::default()
                },
                _ => Columns::default(),
            }
        };
        Self { secrets, seal, tables: schema.tables.iter().map(columns).collect() }
    }

    /// Takes the secrets out of a row of the table with this index.
    pub(crate) fn redact(&self, table: usize, row: &mut Row) -> StoreResult<Done> {
        let Some(Columns { secret, settings, key }) = self.tables.get(table) else { return Ok(Done::Kept) };
        let of_machine = |it: usize| self.is_for_others() && row.text(it) == MODELS_DIR;
        if key.is_some_and(of_machine) {
            return Ok(Done::OfMachine);
        }
        if self.secrets == DumpSecrets::AsStored || key.is_some_and(|it| !row.text(it).starts_with(SHARED)) {
            return Ok(Done::Kept);
        }
        let mut done = Done::Kept;
        if let Some((column, place)) = *secret
            && let Value::Text(stored) = row.get(column)
        {
            match self.sealed(place, stored)? {
                Some(sealed) => row.set_text(column, &sealed),
                None if key.is_some() => return Ok(Done::LeftOut),
                None => {
                    row.set_null(column);
                    done = Done::Redacted;
                }
            }
        }
        if self.is_for_others() {
            for column in settings.iter().copied() {
                if let Some(hidden) = without_secrets(row.text(column), self.secrets == DumpSecrets::Redacted)
                {
                    row.set_text(column, &hidden);
                    done = Done::Redacted;
                }
            }
        }
        Ok(done)
    }

    /// Whether the dump leaves the installation.
    fn is_for_others(&self) -> bool {
        matches!(self.secrets, DumpSecrets::Redacted | DumpSecrets::WithoutEnv)
    }

    /// Returns a secret as the dump may have it.
    fn sealed(&self, place: SecretPlace, stored: &str) -> StoreResult<Option<String>> {
        if self.is_for_others() {
            return Ok(None);
        }
        if seal::key_of(stored).is_some() {
            return Ok(Some(stored.to_owned()));
        }
        // It was stored before there was encryption.
        let clear = SecretString::from(stored.to_owned());
        self.seal.id().map(|_| self.seal.close(place, &clear)).transpose()
    }
}

/// Returns the text of a model's settings without environment variables, or without the secret ones if it is to `keep` the others;
/// `None` if there are none. A text that can't be read may hold anything, and none of it is kept.
fn without_secrets(text: &str, keep: bool) -> Option<String> {
    if !text.contains(ENV) {
        return None;
    }
    let Ok(mut json) = serde_json::from_str::<Json>(text) else { return Some(HIDDEN.to_owned()) };
    redact(&mut json, keep).then(|| json.to_string())
}

/// Removes the variables of each object with the name [`ENV`], wherever it is. Returns whether there were any.
fn redact(json: &mut Json, keep: bool) -> bool {
    match json {
        Json::Object(map) => {
            map.iter_mut().fold(false, |found, (name, value)| found | redact_member(name, value, keep))
        }
        Json::Array(items) => items.iter_mut().fold(false, |found, item| found | redact(item, keep)),
        _ => false,
    }
}

fn redact_member(name: &str, value: &mut Json, keep: bool) -> bool {
    match value {
        Json::Object(env) if name == ENV => !redact_env(env, keep).is_empty(),
        other => redact(other, keep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_left_out_wherever_they_are_and_others_stay() {
        let text =
            r#"{"rolled_back":{"replaced":{"config":{"a":1.50,"extra_env":{"A_TOKEN":"s","U":"t"}}}}}"#;
        let left = r#"{"rolled_back":{"replaced":{"config":{"a":1.5,"extra_env":{"U":"t"}}}}}"#;
        assert_eq!(without_secrets(text, true).as_deref(), Some(left));
        assert_eq!(without_secrets(r#"{"extra_env":{"U":"t"}}"#, true), None);
        assert_eq!(
            without_secrets(r#"{"extra_env":{"U":"t"}}"#, false).as_deref(),
            Some(r#"{"extra_env":{}}"#)
        );
        assert_eq!(without_secrets(r#"{"a":1.50}"#, true), None);
        assert_eq!(without_secrets(r#"{"extra_env":{"T":"s""#, true).as_deref(), Some("***"));
    }
}
