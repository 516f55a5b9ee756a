//! The commands of `docs/air-gap.md`, run in the order of the page, on two machines that never run at the same time.

use std::fs;

use crate::page::{MACHINE, blocks, run};

const PAGE: &str = include_str!("../../../../docs/air-gap.md");

/// Both machines, the disk that is carried, and a person who answers what they are asked at a terminal.
const BOTH: &str = r#"
gantry() {
    case "$1 ${2-}" in
        "package key") command gantry "$@" --no-password ;;
        "package import") command gantry "$@" --yes ;;
        "package restore") command gantry "$@" --yes; command gantry login owner ;;
        *) command gantry "$@" ;;
    esac
}
here() {
    systemctl stop
    export DATA_DIR="$HOME/here" MODELS_DIR="$HOME/here-models"
    unset EXPORT_DIRS OFFLINE_MODE PACKAGE_TRUSTED_KEY
    systemctl start
    command gantry login owner
}
there() {
    systemctl stop
    export DATA_DIR="$HOME/there" MODELS_DIR="$HOME/there-models" EXPORT_DIRS="$HOME/disk" OFFLINE_MODE=true
    PACKAGE_TRUSTED_KEY=$(tail -n 1 package.key.pub)
    export PACKAGE_TRUSTED_KEY
    systemctl start
    command gantry login owner
}
carry() { cp -r "$HOME/here/exports/$1" "$HOME/disk/"; }
mkdir -p here-models there-models disk bin-there
export SECONDARY_ENGINE_COMMAND="gantry engine-sim --flavour llamacpp"
head -c 300000 /dev/zero >here-models/llama.gguf
"#;

#[test]
fn the_commands_of_the_page_work() {
    let home = tempfile::tempdir().unwrap();
    let mut script = format!(
        "{MACHINE}{BOTH}here\n\
         gantry models create --path llama.gguf --served-name llama --engine llamacpp --force -s device=cpu\n"
    );
    let mut n = 0;
    for (heading, block) in blocks(PAGE) {
        script += match (heading.split_once(' ').map_or(heading, |it| it.0), n) {
            ("2.", _) => "carry 2026-11-23\ncp keys/package.key.pub .\nPATH=$HOME/bin-there:$PATH\n",
            ("3.", 3) => "there\n",
            ("Later:", 5) => {
                "gantry package show disk/2026-11-23 >shown\nhere\ngantry models set llama -s context_size=256\n"
            }
            ("Later:", _) => {
                "gantry package sign here/exports/2026-12-01 --key keys/package.key\ncarry 2026-12-01\nthere\n"
            }
            _ => "",
        };
        script += block;
        script += "echo 'done: ";
        script += heading;
        script += "'\n";
        n += 1;
    }
    assert_eq!(n, 7, "blocks of commands");
    for (there, here) in
        [("/var/lib/gantry", "here"), ("/media/disk", "disk"), ("/usr/local/bin", "bin-there")]
    {
        script = script.replace(there, home.path().join(here).to_str().unwrap());
    }
    run(&script, home.path(), None);
    assert_eq!(fs::read(home.path().join("there-models/llama.gguf")).unwrap().len(), 300_000);
    assert!(fs::read_to_string(home.path().join("shown")).unwrap().contains("llama"));
}
