//! `package export`: begins an export on the gateway and follows it.

use clap::{ArgMatches, Command};
use serde_json::{Map, Value, json};

use crate::{
    complete,
    cx::Cx,
    exit::{Exit, Failure, Outcome},
    gateway_options::connected,
    jobs, models,
    options::{flag, has, option, text},
    output::{Table, Tone},
    text::{bytes, cell, clean},
};

pub(super) fn command() -> Command {
    connected(Command::new("export").about("Exports the gateway's installation, or one model, into a package"))
        .args([
            super::gateway_dir(),
            complete::models(option("model", "NAME", "Only this model, with its image and its weights; no database and no settings")),
            flag("models", "With the weights in the models base directory").conflicts_with("model"),
            flag("hub-cache", "With the hub cache").conflicts_with("model"),
            flag("no-images", "Without container images"),
            flag("no-database", "Without the database").conflicts_with("model"),
            flag("no-configs", "Without the settings").conflicts_with("model"),
            flag("no-manifests", "Without the manifests of the models").conflicts_with("model"),
            flag("no-weights", "With --model: without its weights").requires("model"),
            flag("env", "With the values of models' environment variables (extra_env), except those that look like secrets"),
            flag("no-pull", "Fails if an image is not on the gateway's machine, and pulls none"),
            option("part-size", "SIZE", "In equal parts of this size, such as 4G, for disks that hold no large files")
                .value_parser(size),
            option("since", "DIR", "Only what this package lacks, or the package of this manifest.json"),
            flag("estimate", "Says how large it would be and whether there is room, and writes nothing"),
        ])
        .after_help(format!(
            "An export into the folder of a package writes what changed, and one that was interrupted goes on where it \
             stopped. `gantry package verify` checks the result. {}",
            jobs::ENDS
        ))
}

/// Reads a size such as `4G`, `650M` or a number of bytes. The result is less than 4 GiB for `4G`, because that is what a
/// FAT32 disk holds.
fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = text.split_at(text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|it| it.checked_mul(unit)).filter(|it| *it > 0);
    let bytes = bytes.ok_or("use a size such as 4G, 650M, or a number of bytes")?;
    // The largest file of FAT32 is one byte short of 4 GiB.
    Ok(if bytes == 4 << 30 { bytes - 1 } else { bytes })
}

pub(super) async fn run(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    if has(matches, "estimate") {
        return estimate(cx, matches).await;
    }
    let mut body = Map::new();
    body.insert("output_dir".to_owned(), json!(text(matches, "DIR")));
    for (option, field) in [("no-images", "include_images"), ("no-pull", "allow_pull_images")] {
        if has(matches, option) {
            body.insert(field.to_owned(), json!(false));
        }
    }
    if has(matches, "env") {
        body.insert("include_env".to_owned(), json!(true));
    }
    if let Some(size) = matches.get_one::<u64>("part-size") {
        body.insert("part_size".to_owned(), json!(size));
    }
    if let Some(since) = text(matches, "since") {
        body.insert("since".to_owned(), json!(since));
    }
    let path = if let Some(name) = text(matches, "model") {
        if has(matches, "no-weights") {
            body.insert("tar_models".to_owned(), json!(false));
            body.insert("tar_hub_cache".to_owned(), json!(false));
        }
        let id = models::id(&models::find(cx, name).await?);
        format!("/admin/deployment/export-model/{id}")
    } else {
        for (option, field) in [
            ("no-database", "include_db"),
            ("no-configs", "include_configs"),
            ("no-manifests", "include_models_manifest"),
        ] {
            body.insert(field.to_owned(), json!(!has(matches, option)));
        }
        body.insert("tar_models".to_owned(), json!(has(matches, "models")));
        body.insert("tar_hub_cache".to_owned(), json!(has(matches, "hub-cache")));
        "/admin/deployment/export".to_owned()
    };
    let job = cx.client.post(&path, Some(&Value::Object(body))).await?.json;
    jobs::follow(cx, job).await
}

async fn estimate(cx: &Cx, matches: &ArgMatches) -> Outcome<()> {
    if text(matches, "model").is_some() {
        return Err(Failure::Usage("--estimate is for the whole installation: leave --model out".to_owned()));
    }
    let body = json!({
        "output_dir": text(matches, "DIR"),
        "include_images": !has(matches, "no-images"),
        "include_db": !has(matches, "no-database"),
        "tar_models": has(matches, "models"),
        "tar_hub_cache": has(matches, "hub-cache"),
    });
    let answer = cx.client.post("/admin/deployment/estimate-size", Some(&body)).await?.json;
    let disk = &answer["disk_space"];
    let enough = disk["sufficient"] == true;
    cx.out.either(&answer, || {
        let size = |value: &Value| value.as_u64().map_or_else(|| "-".to_owned(), bytes);
        let mut table = Table::new(&["PART", "SIZE>"]);
        for (name, n) in answer["breakdown_bytes"].as_object().into_iter().flatten() {
            table.row([name.replace('_', " "), size(n)]);
        }
        table.row(["together".to_owned(), size(&answer["estimated_bytes"])]);
        table.row([
            format!("needed, {} times that", cell(&disk["safety_margin"])),
            size(&disk["required_bytes"]),
        ]);
        table.toned([
            ("free".to_owned(), Tone::Plain),
            (size(&disk["available_bytes"]), if enough { Tone::Good } else { Tone::Bad }),
        ]);
        cx.out.table(&table)?;
        for image in answer["missing_images"].as_array().into_iter().flatten() {
            cx.out.note(&format!("{} is not on the machine: its size is not counted", cell(image)));
        }
        Ok(())
    })?;
    if enough {
        return Ok(());
    }
    cx.out.note(&format!(
        "gantry: there is not enough room at {}",
        clean(text(matches, "DIR").unwrap_or_default())
    ));
    Err(Failure::Told(Exit::Failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_four_gib_fit_on_a_disk_with_fat32() {
        for (text, bytes) in
            [("1048576", 1 << 20), ("650M", 650 << 20), ("2GiB", 2 << 30), ("4G", (4 << 30) - 1)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "0", "4T", "4 G", "-1", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
