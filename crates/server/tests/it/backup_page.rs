//! The commands of `docs/backup.md`, run in the order of the page.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use gantry_testkit::{Database, Options, free_port};
use sqlx::{Connection, PgConnection};

use crate::support::{GANTRY, start};

const PAGE: &str = include_str!("../../../../docs/backup.md");

/// Stand-ins for what belongs to an installed machine. The gateway is started and stopped as a service would do it.
const MACHINE: &str = r#"
set -euo pipefail
sudo() { shift 2; "$@"; }
systemctl() {
    if [ "$1" = stop ]; then
        if [ -f "$HOME/pid" ]; then
            kill "$(cat "$HOME/pid")"
            while kill -0 "$(cat "$HOME/pid")" 2>/dev/null; do sleep 0.05; done
            rm "$HOME/pid"
        fi
    else
        gantry serve >>"$HOME/log" 2>&1 &
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
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for section in PAGE.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').unwrap();
        let blocks = text.split("```sh\n").skip(1).map(|it| it.split("```").next().unwrap());
        found.extend(blocks.map(|it| (heading, it)));
    }
    found
}

fn run(script: &str, home: &Path, database: Option<&str>) {
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

/// An empty schema of Postgres, and the gateway that made it, which is stopped.
async fn empty_postgres() -> (gantry_testkit::Gateway, String) {
    let mut gateway = start(Options { owner: false, ..Options::default().on(Database::Postgres) }).await;
    assert!(gateway.terminate());
    let url = gateway.database_url().unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    sqlx::query("DELETE FROM meta").execute(&mut conn).await.unwrap();
    (gateway, url)
}

#[tokio::test]
async fn the_commands_of_the_page_work() {
    for database in Database::all("docs/backup.md") {
        let home = tempfile::tempdir().unwrap();
        let own = if database == Database::Postgres { Some(empty_postgres().await) } else { None };
        let other = if Database::all("docs/backup.md: db promote").len() > 1 {
            Some(empty_postgres().await)
        } else {
            None
        };
        let mut script = format!("{MACHINE}\nsystemctl start\nmkdir -p /srv/backup\ngantry login owner\n");
        let mut n = 0;
        for (heading, block) in blocks() {
            match (heading, &other) {
                ("Move to Postgres, or back", None) => continue,
                ("Move to Postgres, or back", Some((_, url))) => {
                    script += &block.replace("postgres://gantry@db.example/gantry", &format!("'{url}'"));
                    script += "systemctl start\n";
                }
                ("Upgrades", _) if block.contains("before-upgrade") => {
                    // What an upgrade would have made.
                    script += "mkdir -p /var/lib/gantry/backups\n";
                    script += "cp /srv/backup/monday/gantry.db /var/lib/gantry/backups/before-upgrade-12-13-x.db 2>/dev/null \
                               || cp /srv/backup/monday/db/dump.sql /var/lib/gantry/backups/before-upgrade-12-13-x.sql\n";
                    script += block;
                }
                ("Restore a gateway that runs", _) => {
                    script += "gantry login owner\n";
                    script += block;
                }
                _ => script += block,
            }
            script.push_str("echo 'done: ");
            script.push_str(heading);
            script.push_str("'\n");
            n += 1;
        }
        assert!(n >= 8, "{n} blocks");
        for (there, here) in [("/var/lib/gantry", "data"), ("/srv/backup", "backup")] {
            script = script.replace(there, home.path().join(here).to_str().unwrap());
        }
        run(&script, home.path(), own.as_ref().map(|it| it.1.as_str()));
        let backups = fs::read_dir(home.path().join("data/backups")).unwrap().count();
        assert!(backups >= 2, "the backup of the upgrade, and that of the drill");
        let mode = fs::metadata(home.path().join("backup/monday")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
