//! `cargo xtask image PROGRAM FILE`: the gateway's container image, as an archive for `docker load` and every tool that
//! reads OCI layouts. Made by our own writer: no build tool and no base image is needed.

use std::{
    env,
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use anyhow::Context;
use gantry_domain::Timestamp;
use gantry_image::Image;
use serde_json::json;

/// User and group that the gateway runs as in its container, as in deploy/README.md.
const ID: u32 = 10001;
/// Where rustls and OpenSSL look for the authorities they trust.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

pub(crate) fn write(program: &Path, archive: &Path) -> anyhow::Result<()> {
    let authorities = Path::new("/").join(AUTHORITIES);
    let authorities = fs::read(&authorities)
        .with_context(|| format!("can't read {}: install ca-certificates", authorities.display()))?;
    let version = env!("CARGO_PKG_VERSION");
    let reference = format!("gantry:{version}");
    let image = Image {
        reference: &reference,
        program: program.to_owned(),
        place: "usr/bin/gantry",
        created: created(),
        links: Vec::new(),
        folders: vec![("tmp".to_owned(), 0o1777)],
        files: vec![
            (AUTHORITIES.to_owned(), authorities),
            ("etc/group".to_owned(), format!("root:x:0:\ngantry:x:{ID}:\n").into_bytes()),
            ("etc/passwd".to_owned(), format!("root:x:0:0::/:\ngantry:x:{ID}:{ID}::/:\n").into_bytes()),
        ],
        config: json!({
            "User": format!("{ID}:{ID}"),
            "Entrypoint": ["/usr/bin/gantry"],
            "Cmd": ["serve"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "Gantry",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        }),
    };
    let file = File::create(archive).with_context(|| format!("can't write {}", archive.display()))?;
    let mut out = BufWriter::new(file);
    gantry_image::write(&image, &mut out)?;
    out.flush().with_context(|| format!("can't write {}", archive.display()))
}

/// Returns the time of the source, so that two builds of one commit make the same image: `SOURCE_DATE_EPOCH`
/// (reproducible-builds.org) in seconds since 1970, else the time of the commit. `None` if neither is known.
fn created() -> Option<String> {
    let given = env::var_os("SOURCE_DATE_EPOCH").and_then(|it| it.into_string().ok());
    let seconds = given.or_else(|| {
        let said = Command::new("git").args(["show", "--no-patch", "--format=%ct", "HEAD"]).output().ok()?;
        String::from_utf8(said.stdout).ok()
    })?;
    let seconds: i64 = seconds.trim().parse().ok()?;
    Some(Timestamp(seconds.checked_mul(1000)?).rfc3339())
}
