//! Pages of the documentation whose commands are run in the order of the page.

use std::{fs, path::Path, process::Command};

use gantry_testkit::free_port;

use crate::support::GANTRY;

/// Stand-ins for what belongs to an installed machine. The gateway is started and stopped as a service would do it.
pub(crate) const MACHINE: &str = r#"
set -euo pipefail
sudo() { "$@"; }
chown() { :; }
install() { mkdir -p "${@: -1}"; }
systemctl() {
    if [ "$1" = enable ]; then return; fi
    if [ "$1" = stop ]; then
        if [ -f "$HOME/pid" ]; then
            kill "$(cat "$HOME/pid")"
            while kill -0 "$(cat "$HOME/pid")" 2>/dev/null; do sleep 0.05; done
            rm "$HOME/pid"
        fi
    else
        env gantry serve >>"$HOME/log" 2>&1 &
        echo $! >"$HOME/pid"
        for _ in $(seq 600); do
            if gantry status >"$HOME/status" 2>/dev/null; then return; fi
            if grep -q "degraded" "$HOME/status"; then return; fi
            sleep 0.1
        done
        echo "the gateway does not become ready" >&2
        exit 1
    fi
}
trap 'systemctl stop' EXIT
"#;

/// Every block of commands, with the heading that it is below.
pub(crate) fn blocks(page: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').unwrap();
        found.extend(commands(text).into_iter().map(|it| (heading, it)));
    }
    found
}

/// Every block of commands of a text.
pub(crate) fn commands(text: &'static str) -> Vec<&'static str> {
    text.split("```sh\n").skip(1).map(|it| it.split("```").next().unwrap()).collect()
}

/// Runs a script as a user of a machine with the program on its path. The program's settings are those of a gateway whose
/// engines are programs, with its data in `data`.
pub(crate) fn run(script: &str, home: &Path, database: Option<&str>) {
    let (port, metrics) = (free_port(), free_port());
    let bin = home.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(GANTRY, bin.join("gantry")).unwrap();
    fs::write(home.join("script"), script).unwrap();
    let mut bash = Command::new("bash");
    bash.arg(home.join("script")).current_dir(home).env_clear();
    bash.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    bash.env("HOME", home).env("GANTRY_SETTINGS_FILE", "").env("TZ", "UTC");
    bash.env("DATA_DIR", home.join("data")).env("CONTAINER_RUNTIME", "process");
    bash.env("GATEWAY_LISTEN", format!("127.0.0.1:{port}"))
        .env("METRICS_LISTEN", format!("127.0.0.1:{metrics}"));
    bash.env("GANTRY_URL", format!("http://127.0.0.1:{port}")).env("GANTRY_PASSWORD", "owner-password");
    bash.env("ADMIN_BOOTSTRAP_USERNAME", "owner").env("ADMIN_BOOTSTRAP_PASSWORD", "owner-password");
    bash.envs(database.map(|it| ("DATABASE_URL", it)));
    let ran = bash.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let log = fs::read_to_string(home.join("log")).unwrap_or_default();
    assert!(ran.status.success(), "{}\n{}\n--- log\n{log}", text(&ran.stdout), text(&ran.stderr));
}
