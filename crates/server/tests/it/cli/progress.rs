//! How far an export, an import and a restore are, at a terminal: a line with a bar that is drawn anew. Ctrl-C leaves the job
//! to the gateway.

use std::fs;

use gantry_testkit::{Gateway, Options};

use super::{Shell, terminal::at_terminal_of};
use crate::{deployment::kills::add_usage, support::start};

/// Bytes of sparse weights, whose copy takes seconds.
const LARGE: u64 = 4 << 30;
/// Rows whose restore takes seconds.
const ROWS: i64 = 40_000;

/// A bar in the middle of the work, and the time that is left behind it.
fn has_bar(shown: &str) -> bool {
    let is_bar = |it: &str| it.get(..24).is_some_and(|it| it.bytes().all(|it| b"#-".contains(&it)));
    shown.split('[').any(|it| is_bar(it) && it[24..].starts_with("] ") && it.contains(" s left"))
}

/// Runs a command at a terminal until it shows `text`, leaves it with Ctrl-C, and returns what was shown.
async fn left_to_the_gateway(shell: &Shell, args: &str, text: &str) -> Option<String> {
    let keys = [(text, "\u{3}"), ("[y/N] ", "n\n")];
    let (shown, well) = at_terminal_of(80, shell, args, &keys, &[]).await?;
    assert!(!well && shown.contains("goes on: `gantry jobs follow deploy-"), "{args}: {shown}");
    Some(shown)
}

async fn with_large() -> (Gateway, Shell) {
    let gateway = start(Options::processes()).await;
    let shell = Shell::of_owner(&gateway);
    (gateway, shell)
}

#[tokio::test]
async fn export_import_and_restore_show_a_bar_at_a_terminal() {
    let (here, shell) = with_large().await;
    let large = here.models_dir().join("large.gguf");
    fs::File::create(&large).unwrap().set_len(LARGE).unwrap();
    let Some(shown) = left_to_the_gateway(&shell, "package export p --models", " s left").await else {
        return;
    };
    assert!(has_bar(&shown), "{shown}");
    shell.run(&["jobs", "follow", "1"]).ends(0);

    let (there, of_there) = with_large().await;
    fs::create_dir_all(there.data_dir().join("exports")).unwrap();
    fs::rename(here.data_dir().join("exports/p"), there.data_dir().join("exports/p")).unwrap();
    let shown = left_to_the_gateway(&of_there, "package import p --yes", " s left").await.unwrap();
    assert!(has_bar(&shown), "{shown}");
    of_there.run(&["jobs", "follow", "1"]).ends(0);
    assert_eq!(fs::metadata(there.models_dir().join("large.gguf")).unwrap().len(), LARGE);

    fs::remove_file(&large).unwrap();
    for first in (0..ROWS).step_by(1000) {
        add_usage(&here, first..first + 1000).await;
    }
    shell.run(&["package", "export", "q"]).ends(0);
    // It may be loaded before it can be said how long that takes.
    left_to_the_gateway(&shell, "package restore q --drop-existing --yes", "loading the dump").await.unwrap();
}
