//! The same with images: exports that save them from a container runtime, and imports that load them into one.

use gantry_testkit::{Daemon, Options, sim_llamacpp};
use serde_json::json;

use super::{exports_are_cut_off, imports_are_cut_off, kills};
use crate::{deployment::site_with, support::GANTRY};

/// Each round saves, verifies and loads an image.
fn rounds() -> u64 {
    kills().div_ceil(4)
}

fn on(daemon: &Daemon) -> Options {
    Options::containers().env("CONTAINER_HOST", &daemon.host())
}

#[tokio::test]
async fn an_export_of_images_that_is_killed_leaves_no_half_package() {
    const TEST: &str = "deployment: exports of images that are killed";
    let Some(daemon) = Daemon::start(GANTRY, TEST, false).await else { return };
    let (gateway, owner) = site_with(on(&daemon)).await;
    let last = exports_are_cut_off(gateway, owner, rounds()).await;
    assert_eq!(last["artifacts"]["images"], json!([sim_llamacpp()]), "{last}");
}

#[tokio::test]
async fn an_import_of_images_that_is_killed_leaves_whole_images_only() {
    const TEST: &str = "deployment: imports of images that are killed";
    let Some(daemon) = Daemon::start(GANTRY, TEST, false).await else { return };
    let (here, there) = (site_with(on(&daemon)).await, site_with(on(&daemon)).await);
    imports_are_cut_off(here, there, Some(&daemon), rounds()).await;
}
