//! Generates the German of the gateway's own texts. Pages show it in place of the English that the API gives.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::bail;
use gantry_domain::{diagnosis::reference, model::fields};
use gantry_settings::Settings;
use serde_json::Value;

const HEAD: &str = "// Written by `cargo xtask gen` from the tables in the code. Do not edit.

/** The gateway's own texts in German. */
export interface GatewayTexts {
  /** The help of the gateway's settings, by their names. */
  settings: Record<string, string>;
  /** The groups of these settings, by their English names. */
  groups: Record<string, string>;
  /** What a setting may be, by the English text. */
  allowed: Record<string, string>;
  /** The help of a model's fields, by their names. */
  fields: Record<string, string>;
  /** Why a field has a tuned value, by the field's name. */
  tuned: Record<string, string>;
  /**
   * Titles, messages and fixes of diagnoses by their `error_type`, each in English and in German. `{name}` stands for a
   * variable part, and brackets for a part that may be left out.
   */
  diagnoses: Record<string, [english: string, german: string][]>;
}

export const de: GatewayTexts = {
";

/// German texts by what the API gives with the English ones.
type Table = BTreeMap<String, &'static str>;

pub(super) fn page() -> anyhow::Result<String> {
    let (mut settings, mut groups, mut allowed) = (Table::new(), Table::new(), Table::new());
    for it in Settings::german() {
        put(&mut settings, &it.name, it.doc.1)?;
        put(&mut groups, it.group.0, it.group.1)?;
        put(&mut allowed, it.allowed.0, it.allowed.1)?;
    }
    let (mut help, mut tuned) = (Table::new(), Table::new());
    for it in fields::all() {
        put(&mut help, it.name, it.help_de)?;
        if let Some(value) = it.tuned {
            put(&mut tuned, it.name, value.why_de)?;
        }
    }
    let mut out = HEAD.to_owned();
    let tables = [
        ("settings", settings),
        ("groups", groups),
        ("allowed", allowed),
        ("fields", help),
        ("tuned", tuned),
    ];
    for (name, table) in tables {
        writeln!(out, "  {name}: {{")?;
        for (key, text) in table {
            writeln!(out, "    {}: {},", quoted(&key), quoted(text))?;
        }
        out.push_str("  },\n");
    }
    out.push_str("  diagnoses: {\n");
    for it in reference::texts() {
        writeln!(out, "    {}: [", quoted(it.error_type))?;
        for (n, (english, german)) in it.texts.iter().enumerate() {
            // Two fixes may say the same of two fields.
            if !it.texts.iter().take(n).any(|earlier| earlier.0 == *english) {
                writeln!(out, "      [{}, {}],", quoted(english), quoted(german))?;
            }
        }
        out.push_str("    ],\n");
    }
    out.push_str("  },\n};\n");
    Ok(out)
}

/// Adds a text; fails if the key has another one already.
fn put(table: &mut Table, key: &str, text: &'static str) -> anyhow::Result<()> {
    match table.insert(key.to_owned(), text) {
        Some(other) if other != text => bail!("`{key}` has two German texts: `{other}` and `{text}`"),
        _ => Ok(()),
    }
}

/// Writes a text as JSON does, which TypeScript reads alike.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
