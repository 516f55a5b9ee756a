//! `openapi`, `completions` and `man`: descriptions of the API and of the command line itself.

use std::{fs, io, path::Path};

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use clap_mangen::Man;

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
    let Some(dir) = text(matches, "dir") else {
        let mut page = Vec::new();
        Man::new(root).render(&mut page)?;
        return out.raw(&page);
    };
    let wrong = |error: io::Error| Failure::Failed(format!("can't write into {dir}: {error}"));
    fs::create_dir_all(dir).map_err(wrong)?;
    root.build();
    write_pages(&root, "gantry", Path::new(dir)).map_err(wrong)?;
    out.line(&format!("the pages are in {dir}"))
}

fn write_pages(command: &Command, name: &str, dir: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    Man::new(command.clone().name(name.to_owned())).render(&mut page)?;
    fs::write(dir.join(format!("{name}.1")), page)?;
    for sub in command.get_subcommands().filter(|it| it.get_name() != "help") {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}
