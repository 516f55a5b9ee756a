//! `models fields`: what `--set` takes, from the field table. Needs no gateway.

use clap::{Arg, ArgMatches, Command};
use gantry_domain::model::{
    EngineKind,
    fields::{self, Field, SetBy},
};
use serde_json::{Value, json};

use crate::{
    exit::{Failure, Outcome},
    options::{one_of, text},
    output::{Out, Table},
};

pub(super) fn command() -> Command {
    Command::new("fields")
        .about("Lists the fields that `--set` takes, with type, bounds, default and meaning")
        .args([
            Arg::new("WORD")
                .help("Only fields with this in their name, in the engine's option, or in their meaning"),
            one_of("engine", ["vllm", "llamacpp"], "Only fields of this engine"),
        ])
        .after_help(
            "gantry models fields context              which field is the context length?\n\
             gantry models fields ctx-size             what is llama.cpp's --ctx-size called here?\n\
             gantry models fields --engine vllm",
        )
}

pub(super) fn run(out: &Out, matches: &ArgMatches) -> Outcome<()> {
    let engine = text(matches, "engine").and_then(EngineKind::parse);
    let word = text(matches, "WORD").unwrap_or_default();
    let of_engine = fields::all().filter(|it| engine.is_none_or(|engine| it.applies_to(engine)));
    let found: Vec<&Field> = of_engine.filter(|it| has(it, word)).collect();
    if found.is_empty() {
        return Err(Failure::NotFound(format!(
            "no field has `{}` in its name or meaning; `gantry models fields` lists them all",
            crate::text::clean(word)
        )));
    }
    out.either(&Value::Array(found.iter().map(|it| record(it)).collect()), || {
        // All matches are one field, of one engine or of several.
        if found.windows(2).all(|pair| pair[0].name == pair[1].name) {
            return details(out, &found);
        }
        let mut table = Table::new(&["FIELD", "ENGINE", "DEFAULT", "TYPE", "MEANING"]);
        for field in &found {
            table.row([
                field.name.to_owned(),
                engine_of(field).to_owned(),
                field.default.text().unwrap_or_else(|| "-".to_owned()),
                plain(&field.kind.words()),
                plain(field.help),
            ]);
        }
        out.table(&table)
    })
}

/// Returns whether a search word matches the field. Options of engines are found with and without dashes.
fn has(field: &Field, word: &str) -> bool {
    let plain = |text: &str| text.trim_start_matches('-').to_ascii_lowercase().replace('_', "-");
    let wanted = plain(word);
    let named = std::iter::once(field.name).chain(field.options());
    named.map(plain).any(|it| it.contains(&wanted))
        || field.help.to_ascii_lowercase().contains(&word.to_ascii_lowercase())
}

fn details(out: &Out, found: &[&Field]) -> Outcome<()> {
    for (n, field) in found.iter().enumerate() {
        if n > 0 {
            out.line("")?;
        }
        let mut pairs = vec![
            ("field", field.name.to_owned()),
            ("engine", engine_of(field).to_owned()),
            ("type", plain(&field.kind.words())),
            ("default", field.default.text().unwrap_or_else(|| "left to the engine".to_owned())),
        ];
        if let Some(unit) = field.unit {
            pairs.push(("unit", unit.to_owned()));
        }
        if !field.examples.is_empty() {
            pairs.push(("such as", field.examples.join("  ")));
        }
        if !field.options().is_empty() {
            pairs.push(("engine's option", field.options().join(", ")));
        }
        if field.set_by == SetBy::Owner {
            pairs.push(("set by", "owners only".to_owned()));
        }
        pairs.push(("meaning", plain(field.help)));
        out.pairs(&pairs)?;
    }
    Ok(())
}

fn record(field: &Field) -> Value {
    json!({
        "name": field.name,
        "engine": field.engine.map(EngineKind::as_str),
        "group": field.group,
        "type": plain(&field.kind.words()),
        "default": field.default.text(),
        "unit": field.unit,
        "options": field.options(),
        "examples": field.examples,
        "owners_only": field.set_by == SetBy::Owner,
        "help": plain(field.help),
    })
}

fn engine_of(field: &Field) -> &'static str {
    field.engine.map_or("both", EngineKind::as_str)
}

/// Removes backticks: the texts of the table are written for Markdown pages, with values in backticks.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
