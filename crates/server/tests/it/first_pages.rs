//! The commands of the README and of the pages that somebody reads first, run one page after the other on one machine.

use std::fmt::Write as _;
use std::{fs, path::Path};

use crate::page::{MACHINE, commands, run};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gguf/tiny-llama-F16.gguf");

/// A machine that has the package, an engine and the file of a model, and no owner yet.
const BEFORE: &str = r#"
apt() { systemctl start; }
unset ADMIN_BOOTSTRAP_USERNAME ADMIN_BOOTSTRAP_PASSWORD
export GANTRY_NEW_PASSWORD="$GANTRY_PASSWORD" MODELS_DIR="$HOME/models"
export SECONDARY_ENGINE_COMMAND="gantry engine-sim --flavour llamacpp" STOP_MODELS_ON_SHUTDOWN=true
"#;

/// What has to be there before the commands of a page, and the page.
const PAGES: [(&str, &str); 8] = [
    ("", include_str!("../../../../README.md")),
    ("gantry orgs create Acme\n", include_str!("../../../../docs/limits.md")),
    ("", include_str!("../../../../docs/diagnosis.md")),
    ("", include_str!("../../../../docs/usage.md")),
    ("", include_str!("../../../../docs/audit.md")),
    ("", include_str!("../../../../docs/egress.md")),
    ("", include_str!("../../../../docs/restarts.md")),
    (
        "gantry models stop qwen --wait\ngantry models delete qwen --yes\n",
        include_str!("../../../../docs/models.md"),
    ),
];

/// Words of the blocks that need something else: the sources, the model hub, GPUs, a password that is typed, other settings.
const ELSEWHERE: [&str; 5] = ["make run", "--repo", "selected_gpus", "curl", "OFFLINE_MODE"];

#[test]
fn the_commands_of_the_first_pages_work() {
    let home = tempfile::tempdir().unwrap();
    let models = home.path().join("models");
    fs::create_dir(&models).unwrap();
    fs::copy(Path::new(MODEL), models.join("qwen3-8b-q4_k_m.gguf")).unwrap();
    let mut script = format!("{MACHINE}{BEFORE}");
    let mut n = 0;
    for (before, page) in PAGES {
        let title = page.lines().find_map(|it| it.strip_prefix("# ")).unwrap();
        script += before;
        for block in commands(page) {
            if !ELSEWHERE.iter().any(|it| block.contains(it)) {
                n += 1;
                writeln!(script, "{block}echo 'done: block {n}, {title}'").unwrap();
            }
        }
    }
    script += "gantry models stop qwen3 --wait\n";
    assert_eq!(n, 13, "blocks of commands");
    run(&script, home.path(), None);
}
