//! `images`: lists engine images, and loads them from a file.

use std::cell::Cell;

use clap::{ArgMatches, Command};
use serde_json::{Value, json};

use crate::{
    cx::Cx,
    events::Events,
    exit::Outcome,
    gateway_options::connected,
    options::{aliased, positional, text},
    output::{Table, Tone},
    output_form::Form,
    progress::Progress,
    text::{cell, clean},
};

pub(crate) fn command() -> Command {
    let images = Command::new("images").about("Shows which engine images are on the machine");
    let load = Command::new("load")
        .about("Loads images from an archive that `docker save` wrote")
        .arg(positional("PATH", "The archive, below one of the gateway's EXPORT_DIRS (`exports` in its data directory unless set)"));
    let list =
        aliased(Command::new("list"), "ls").about("Lists the engine images, like `gantry images` alone");
    connected(aliased(images, "image")).subcommands([list, load])
}

pub(crate) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    match matches.subcommand() {
        Some(("load", sub)) => load(cx, text(sub, "PATH").unwrap_or_default()).await,
        _ => status(cx).await,
    }
}

async fn load(cx: &Cx, path: &str) -> Outcome<()> {
    let begin = tokio::time::Instant::now();
    let mut progress = Progress::new(&cx.out);
    let body = json!({ "path": path });
    let call = cx.client.patient_call(http::Method::POST, "/admin/system/container-images/load", Some(&body));
    // Part of the file that is loaded so far, from the gateway's events; unknown if the gateway has no such events.
    let part = Cell::new(None);
    let mut events = Events::default();
    let listening = async {
        let heard = |bytes: &[u8]| {
            for event in events.take(bytes) {
                if event["job"] == "image_load" && event["path"] == path {
                    let size = |name: &str| event[name].as_f64().filter(|it| *it > 0.0);
                    part.set(size("total_bytes").map(|all| size("done_bytes").unwrap_or(0.0) / all));
                }
            }
            Ok(())
        };
        let _ = cx.client.stream("/admin/events", heard).await;
        std::future::pending::<()>().await;
    };
    tokio::pin!(call, listening);
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(250));
    let answer = loop {
        tokio::select! {
            answer = &mut call => break answer,
            () = &mut listening => {}
            _ = tick.tick() => {
                let verb = if part.get().is_some_and(|it| it >= 1.0) { "unpacking" } else { "loading" };
                let what = format!("{verb} {}", clean(path));
                progress.show(&what, &format!("{} s", begin.elapsed().as_secs()), part.get());
            }
        }
    };
    drop(progress);
    let answer = answer?;
    cx.out.either(&answer.json, || {
        for image in answer.json["loaded"].as_array().into_iter().flatten() {
            cx.out.line(&format!("loaded {}", cell(image)))?;
        }
        Ok(())
    })
}

async fn status(cx: &Cx) -> Outcome<()> {
    let answer = cx.client.get("/admin/system/container-images").await?;
    if cx.out.form() == Form::Name {
        let engines = answer.json["engines"].as_object().into_iter().flatten().map(|(_, image)| image);
        let models = answer.json["models"].as_array().into_iter().flatten();
        return cx.out.names(&engines.chain(models).cloned().collect());
    }
    cx.out.either(&answer.json, || {
        let mut table = Table::new(&["IMAGE", "FOR", "CACHED", "MiB>", "CREATED"]);
        let mut row = |image: &Value, whom: String| {
            let cached = image["cached"] == true;
            let tone = if cached { Tone::Good } else { Tone::Busy };
            table.toned([
                (cell(&image["image"]), Tone::Plain),
                (whom, Tone::Plain),
                (cell(&image["cached"]), tone),
                (cell(&image["size_mb"]), Tone::Plain),
                (cx.out.time(&image["created"]), Tone::Plain),
            ]);
        };
        for (engine, image) in answer.json["engines"].as_object().into_iter().flatten() {
            row(image, format!("default of {engine}"));
        }
        for image in answer.json["models"].as_array().into_iter().flatten() {
            row(image, format!("models {}", cell(&image["models"])));
        }
        cx.out.table(&table)?;
        let ready = answer.json["offline_ready"] == true;
        let text = if ready {
            "all images that models need are on this machine"
        } else {
            "images that models need are missing"
        };
        cx.out.line(&cx.out.paint(if ready { Tone::Good } else { Tone::Busy }, text))?;
        for advice in answer.json["recommendations"].as_array().into_iter().flatten() {
            cx.out.line(&cell(advice))?;
        }
        Ok(())
    })
}
