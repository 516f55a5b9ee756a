//! `context`: names for gateways, so that users need not type addresses.

use clap::{ArgMatches, Command};
use serde_json::{Value, json};

use crate::{
    complete,
    exit::{Failure, Outcome},
    gateway_options::connected,
    http::GatewayUrl,
    options::{aliased, flag, has, positional, positionals, text, texts},
    output::{Out, Table, Tone},
    session::Sessions,
    target::{Contexts, Target, contexts},
    text::clean,
};

/// Longest name of a context, which appears in commands and files.
const LONGEST: usize = 100;

pub(crate) fn command() -> Command {
    let context = |it| complete::contexts(it);
    let list = aliased(Command::new("list"), "ls").about("Lists the contexts; `*` marks the one in use");
    let using = Command::new("use")
        .about("Sets the context that the verbs use")
        .arg(context(positional("NAME", "Name of the context").required(false)))
        .arg(
            flag("none", "Uses no context: the gateway on this machine, or the one in GANTRY_URL")
                .conflicts_with("NAME"),
        );
    let add = Command::new("add")
        .about("Gives a gateway a name")
        .arg(positional("NAME", "Name of the context"))
        .arg(positional("URL", "Address of the gateway, such as https://llm.example.org"))
        .arg(flag("use", "Also makes it the context that the verbs use"));
    let remove = aliased(Command::new("remove"), "rm")
        .about("Forgets contexts, with their sessions and tokens")
        .arg(context(positionals("NAME", "Name of the context")));
    connected(Command::new("context").about("Names for gateways: list, use, add, remove"))
        .subcommand_required(true)
        .subcommands([list, using, add, remove])
        .after_help(
            "gantry context add prod https://llm.example.org --use\n\
             gantry login\n\
             gantry models list --context other\n\
             \n\
             Each context has a session or token of its own. GANTRY_CONTEXT names one for a shell; --url and GANTRY_URL take an\n\
             address instead. The names are in ~/.config/gantry/contexts.json.",
        )
}

pub(crate) fn run(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    match matches.subcommand() {
        Some(("add", sub)) => add(sub, out),
        Some(("use", sub)) => choose(sub, out),
        Some(("remove", sub)) => remove(&texts(sub, "NAME"), out),
        _ => list(out),
    }
}

fn list(out: &Out) -> Outcome<()> {
    let Contexts { current, contexts } = contexts()?.read()?;
    let in_use = |name: &String| current.as_ref() == Some(name);
    let rows = contexts.iter().map(|(name, url)| json!({ "name": name, "url": url, "in_use": in_use(name) }));
    out.either(&Value::Array(rows.collect()), || {
        let mut table = Table::new(&["", "NAME", "URL"]);
        for (name, url) in &contexts {
            let mark = if in_use(name) { "*" } else { "" };
            table.toned(
                [(mark, Tone::Good), (name, Tone::Plain), (url, Tone::Plain)]
                    .map(|(it, tone)| (it.to_owned(), tone)),
            );
        }
        if contexts.is_empty() {
            out.note("no context yet: gantry context add NAME URL");
            return Ok(());
        }
        out.table(&table)
    })
}

fn add(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let name = text(matches, "NAME").unwrap_or_default();
    let is_fine = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_fine) {
        return Err(Failure::Usage(format!(
            "`{}` can't be the name of a context: use letters, digits, `-`, `_` and `.`",
            clean(name)
        )));
    }
    let url = GatewayUrl::parse(text(matches, "URL").unwrap_or_default())?.url();
    let uses = has(matches, "use");
    contexts()?.change(|it| {
        it.contexts.insert(name.to_owned(), url.clone());
        if uses {
            it.current = Some(name.to_owned());
        }
    })?;
    out.either(&json!({ "name": name, "url": url, "in_use": uses }), || {
        out.line(&format!("context {name}: {url}"))?;
        let next = if uses { "gantry login".to_owned() } else { format!("gantry context use {name}") };
        out.note(&format!("next: {next}"));
        Ok(())
    })
}

fn choose(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    let name = text(matches, "NAME").map(str::to_owned);
    if name.is_none() && !has(matches, "none") {
        return Err(Failure::Usage("name a context: `gantry context use NAME`, or --none".to_owned()));
    }
    let known = contexts()?.change(|it| {
        let known = name.as_ref().is_none_or(|name| it.contexts.contains_key(name));
        if known {
            it.current.clone_from(&name);
        }
        known
    })?;
    if !known {
        let name = clean(&name.unwrap_or_default());
        return Err(Failure::NotFound(format!(
            "there is no context `{name}`; `gantry context list` shows them"
        )));
    }
    out.either(&json!({ "current": name }), || match &name {
        Some(name) => out.line(&format!("the verbs now use the context {name}")),
        None => out.line("the verbs now use no context"),
    })
}

fn remove(names: &[&str], out: &Out) -> Outcome<()> {
    let (file, sessions) = (contexts()?, Sessions::of_user()?);
    let mut unknown = Vec::new();
    for name in names {
        let url = file.change(|it| {
            it.current.take_if(|it| it == name);
            it.contexts.remove(*name)
        })?;
        match url {
            Some(url) => {
                let target = Target { gateway: GatewayUrl::parse(&url)?, context: Some((*name).to_owned()) };
                sessions.drop(&target.key())?;
                out.note(&format!("context {} is removed", clean(name)));
            }
            None => unknown.push(clean(name)),
        }
    }
    if unknown.is_empty() {
        return out.either(&json!({ "removed": names }), || Ok(()));
    }
    Err(Failure::NotFound(format!("there is no context `{}`", unknown.join("`, `"))))
}
