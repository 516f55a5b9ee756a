//! The same with images: exports that save them from a container runtime, and imports that load them into one.

use gantry_testkit::{Daemon, Options, sim_llamacpp};
use serde_json::json;

use super::moments::{cancels, exports_are_cancelled, imports_are_cancelled};
use crate::{deployment::site_with, support::GANTRY};

fn on(daemon: &Daemon) -> Options {
    Options::containers().env("CONTAINER_HOST", &daemon.host())
}

#[tokio::test]
async fn an_export_of_images_that_is_cancelled_leaves_no_half_package() {
    const TEST: &str = "deployment: exports of images that are cancelled";
    let Some(daemon) = Daemon::start(GANTRY, TEST, false).await else { return };
    let (gateway, owner) = site_with(on(&daemon)).await;
    let last = exports_are_cancelled(&gateway, owner, cancels()).await;
    assert_eq!(last["artifacts"]["images"], json!([sim_llamacpp()]), "{last}");
}

#[tokio::test]
async fn an_import_of_images_that_is_cancelled_can_be_done_again() {
    const TEST: &str = "deployment: imports of images that are cancelled";
    let Some(daemon) = Daemon::start(GANTRY, TEST, false).await else { return };
    let (here, there) = (site_with(on(&daemon)).await, site_with(on(&daemon)).await);
    imports_are_cancelled(here, there, Some(&daemon), cancels()).await;
}
