//! `openapi`, `completions` and `man`: descriptions of the API and of the command line itself.

use std::{fs, io, path::Path};

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    complete,
    cx::Cx,
    exit::{Failure, Outcome},
    gateway_options::connected,
    options::{option, text},
    output::Out,
};

pub(crate) fn openapi_command() -> Command {
    connected(
        Command::new("openapi")
            .about("Prints the API's description (OpenAPI, JSON) as the gateway serves it"),
    )
}

pub(crate) fn completions_command() -> Command {
    Command::new("completions")
        .about("Prints a script that completes verbs, options, and names of models, keys, organisations and users")
        .arg(
            Arg::new("SHELL")
                .required(true)
                .value_parser(PossibleValuesParser::new(complete::SHELLS))
                .help("Name of the shell"),
        )
        .after_help(
            "bash: gantry completions bash > ~/.local/share/bash-completion/completions/gantry\n\
             zsh:  gantry completions zsh > \"${fpath[1]}/_gantry\"\n\
             fish: gantry completions fish > ~/.config/fish/completions/gantry.fish",
        )
}

pub(crate) fn man_command() -> Command {
    Command::new("man")
        .about("Prints the manual page")
        .arg(option("dir", "DIR", "Writes a page for each verb into this folder instead"))
        .after_help("To read it: gantry man | man -l -")
}

pub(crate) async fn openapi(cx: &Cx) -> Outcome<()> {
    match cx.client.get("/openapi.json").await {
        Ok(answer) if answer.json.is_object() => cx.out.value(&answer.json),
        Ok(_) => {
            Err(Failure::Failed("what the gateway serves at /openapi.json is not a JSON object".to_owned()))
        }
        Err(Failure::Refused(it)) if it.status == 404 => {
            let url = cx.client.gateway.url();
            Err(Failure::NotFound(format!(
                "the gateway at {url} does not serve /openapi.json: its version is too old"
            )))
        }
        Err(other) => Err(other),
    }
}

pub(crate) fn completions(matches: &ArgMatches, out: &Out) -> Outcome<()> {
    out.raw(&complete::script(text(matches, "SHELL").unwrap_or_default())?)
}

pub(crate) fn man(mut root: Command, matches: &ArgMatches, out: &Out) -> Outcome<()> {
    root.build();
    let Some(dir) = text(matches, "dir") else {
        return out.raw(&page(root)?);
    };
    let wrong = |error: io::Error| Failure::Failed(format!("can't write into {dir}: {error}"));
    fs::create_dir_all(dir).map_err(wrong)?;
    write_pages(&root, "gantry", Path::new(dir)).map_err(wrong)?;
    out.line(&format!("the pages are in {dir}"))
}

fn write_pages(command: &Command, name: &str, dir: &Path) -> io::Result<()> {
    fs::write(dir.join(format!("{name}.1")), page(command.clone().name(name.to_owned()))?)?;
    for sub in command.get_subcommands().filter(|it| it.get_name() != "help") {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

/// Returns the manual page of a command that was built, in the order of its help. `Man::render` would put all options
/// into the synopsis, arguments behind the options, and everything that follows the help into one paragraph.
fn page(mut command: Command) -> io::Result<Vec<u8>> {
    let usage = command.render_usage().to_string();
    let usage = usage.split_once(' ').map_or("", |it| it.1).to_owned();
    let command = command.override_usage(usage);
    let only = |positional: bool| {
        let shown = command.clone().mut_args(|arg| {
            let hidden = arg.is_hide_set() || arg.is_positional() != positional;
            let arg = arg.hide(hidden);
            if positional { arg.help_heading("Arguments") } else { arg }
        });
        let has_any = shown.get_arguments().any(|it| !it.is_hide_set());
        has_any.then(|| Man::new(shown))
    };
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    for args in [only(true), only(false)].into_iter().flatten() {
        args.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|it| !it.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        after_help(&after.to_string()).to_writer(&mut page)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Returns the text behind a command's help as a section, with each command line on a line of its own.
fn after_help(text: &str) -> Roff {
    let named = |line: &str| line.split_once(": ").is_some_and(|it| it.1.trim_start().starts_with("gantry "));
    let stands_alone = |line: &str| line.starts_with(' ') || line.starts_with("gantry ") || named(line);
    let shows_commands = text.lines().any(|it| stands_alone(it) && it.contains("gantry "));
    let mut roff = Roff::default();
    roff.control("SH", [if shows_commands { "EXAMPLES" } else { "NOTES" }]);
    for line in text.lines() {
        let words = line.trim();
        if words.is_empty() {
            roff.control("PP", []);
        } else if stands_alone(line) {
            roff.control("RS", ["4"]);
            roff.control("nf", []);
            roff.text([roman(words)]);
            roff.control("fi", []);
            roff.control("RE", []);
        } else {
            roff.text([roman(words)]);
        }
    }
    roff
}
